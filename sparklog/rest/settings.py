"""Settings of the REST service: options of `sparklog rest`, or variables of the environment."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings

from sparklog.group_commit.queue import CommitLimits
from sparklog.service.settings import CONFIG, Texts

Positive = Annotated[int, Field(gt=0)]
MIB = 1024 * 1024


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(str.lower, names))


class Settings(BaseSettings):
    """The settings of the service.

    sparklog.storage reads those of object stores (`AWS_…`) itself.
    """

    model_config = CONFIG

    log_dir: str
    """The log dir: a path, file://, s3://, gs://, az:// or abfss://."""
    host: str = "127.0.0.1"
    """The address to listen on; any address but loopback needs tokens_file."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8082
    """The port; the default is that of Confluent's REST Proxy; 0 takes a free one."""
    allowed_hosts: Annotated[Texts, AfterValidator(_lower)] = ("localhost", "127.0.0.1", "[::1]")
    """Host headers that are allowed without tokens, so that no web page reaches the service."""
    tokens_file: Path | None = None
    """Bearer tokens (sparklog.tokens); without it every client may do everything."""

    linger_ms: Annotated[int, Field(ge=0, le=10_000)] = 5
    """How long a group commit waits for more requests after its first one, or after a commit."""
    batch_size: Positive = MIB
    """Bytes of one topic's records at which a group commit no longer waits."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    """The codec for topics with compression.type=producer."""
    max_pending_bytes: Positive = 64 * MIB
    """Bytes that may wait for their commit in one topic; more is answered with 429."""

    max_body_bytes: Positive = 16 * MIB
    """Bytes of one body; more is answered with 413."""
    max_bodies_bytes: Positive = 256 * MIB
    """Bytes of the bodies of all requests in progress; more is answered with 429."""
    max_fetch_bytes: Positive = 64 * MIB
    """The most bytes that a fetch may ask for."""
    max_fetch_records: Positive = 100_000
    """The most records that a fetch may ask for."""
    max_poll_ms: Annotated[int, Field(ge=0)] = 60_000
    """The longest a fetch may wait for records."""
    max_header_bytes: Positive = 64 * 1024
    """Bytes of the headers of one request; more closes the connection."""
    header_timeout_ms: Positive = 10_000
    """How long a connection may take to send the headers of a request."""
    body_timeout_ms: Positive = 30_000
    """How long a connection may take to send a body."""
    lookup_timeout_ms: Positive = 30_000
    """How long the lookups of one request may take."""
    storage_timeout_ms: Positive = 45_000
    """How long a request may wait for the storage; then it is answered with an error."""
    send_timeout_ms: Positive = 60_000
    """How long a client may take to receive a part of an answer."""
    shutdown_timeout_ms: Positive = 30_000
    """How long requests in progress may take after SIGTERM."""

    lookup_threads: Positive = 2
    """Threads for lookups that read files."""
    bulk_threads: Positive = 4
    """Threads for fetches and large bodies, so that these do not delay lookups."""
    poll_interval_ms: Positive = 20
    """How often waiting fetches look for commits; also how old a store's metadata may be."""
    access_log: bool = True
    """Whether every request is logged."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""

    @property
    def commit_limits(self) -> CommitLimits:
        """The settings of group commit."""
        return CommitLimits(
            linger_ms=self.linger_ms,
            batch_size=self.batch_size,
            max_pending_bytes=self.max_pending_bytes,
            compression_type=self.compression_type,
        )
