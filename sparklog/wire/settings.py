"""Settings of the gateway: options of `sparklog gateway`, or variables of the environment."""

from typing import Annotated, NamedTuple

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from sparklog.service_settings import PREFIX

Positive = Annotated[int, Field(gt=0)]
MIB = 1024 * 1024


class Listener(NamedTuple):
    """An address that the gateway listens at, and the one that clients are told."""

    host: str
    port: int
    advertised_host: str
    advertised_port: int


class Settings(BaseSettings):
    """What an operator decides. Storage settings (`AWS_…`) are read by sparklog.storage itself."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, use_attribute_docstrings=True)

    log_dir: str
    """The log dir: a path, file://, s3://, gs:// or az://."""
    listen: tuple[str, ...] = ("127.0.0.1:9092",)
    """Where to listen, HOST:PORT; port 0 takes a free one."""
    node_id: Annotated[int, Field(ge=0)] | None = None
    """The broker's node.id."""
    rack: str | None = None
    """The broker.rack of this instance."""

    auto_create_topics_enable: bool = False
    """Whether a topic that a client asks for is made (auto.create.topics.enable)."""
    num_partitions: Positive = 1
    """Partitions of a topic whose creator names no number (num.partitions)."""

    socket_request_max_bytes: Positive = 100 * MIB
    """Bytes of one request; more closes the connection (socket.request.max.bytes)."""
    max_pending_bytes: Positive = 256 * MIB
    """Bytes of records that may wait for their commit; no more are read until then."""
    poll_interval_ms: Positive = 10
    """How often waiting fetches look for commits, and how old an object store's metadata may be."""
