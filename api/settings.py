"""Settings of the service, from the environment: `SPARKLOG_` and the name in capitals."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

Positive = Annotated[int, Field(gt=0)]
MIB = 1024 * 1024


class Settings(BaseSettings):
    """What an operator decides. Storage settings (`AWS_…`) are read by sparklog.storage itself."""

    model_config = SettingsConfigDict(env_prefix="SPARKLOG_", frozen=True)

    log_dir: str
    """A path, file://, s3://, gs:// or az://."""
    host: str = "127.0.0.1"
    """Where to listen; anything but loopback needs `tokens_file`."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8082
    """Kafka REST's own; 0 takes a free one."""
    allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    """Host headers that are answered without tokens: no web page may reach a loopback service."""
    tokens_file: Path | None = None
    """Bearer tokens (api.security); none: whoever reaches the service may do everything."""

    linger_ms: Annotated[int, Field(ge=0, le=10_000)] = 5
    """How long a group waits for others: its first request, and after the group before."""
    batch_size: Positive = MIB
    """Bytes of keys and values at which a group waits no longer."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    """Of topics that leave it to the producer."""
    max_pending_bytes: Positive = 64 * MIB
    """Bytes that may wait for their commit in one topic; more is answered with 429."""

    max_body_bytes: Positive = 16 * MIB
    max_bodies_bytes: Positive = 256 * MIB
    """Of all requests that are being answered; more is answered with 429."""
    max_fetch_bytes: Positive = 64 * MIB
    max_fetch_records: Positive = 100_000
    max_poll_ms: Annotated[int, Field(ge=0)] = 60_000
    """The longest a fetch may wait for records."""
    max_header_bytes: Positive = 16 * 1024
    header_timeout_ms: Positive = 10_000
    """How long a connection may take to send the headers of a request."""
    body_timeout_ms: Positive = 30_000
    lookup_timeout_ms: Positive = 30_000
    """How long the lookups of one request may take."""
    send_timeout_ms: Positive = 60_000
    """How long a client may take to receive what is sent."""
    shutdown_timeout_ms: Positive = 30_000

    lookup_threads: Positive = 2
    bulk_threads: Positive = 4
    """For fetches and large bodies, apart from lookups so that a backfill delays none."""
    poll_interval_ms: Positive = 20
    """How often waiting fetches look for commits, and how old an object store's metadata may be."""
    access_log: bool = True
    """A line for every request."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
