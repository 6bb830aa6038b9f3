"""Settings of the gateway: options of `sparklog gateway`, or variables of the environment."""

from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode

from sparklog.log.names import PARTITIONS_MAX
from sparklog.service.settings import CONFIG, Texts, split

Positive = Annotated[int, Field(gt=0)]
Partitions = Annotated[int, Field(gt=0, le=PARTITIONS_MAX)]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
"""One of `sparklog.wire.security.sasl.MECHANISMS`."""
INT_MAX = 2**31 - 1
MIB = 1024 * 1024


class Listener(NamedTuple):
    """An address that the gateway listens at, and the address that clients get.

    Listeners of the same name on all instances belong together: a client of one gets the addresses
    of the others (as Kafka's listener.name).
    """

    host: str
    port: int
    advertised_host: str
    advertised_port: int
    name: str
    is_tls: bool
    has_sasl: bool
    """Whether its clients authenticate; those of a listener without it may do everything."""


class Settings(BaseSettings):
    """The settings of an operator. sparklog.storage reads its own (`AWS_…`) itself."""

    model_config = CONFIG

    log_dir: str
    """The log dir: a path, file://, s3://, gs://, az:// or abfss://."""
    listen: Annotated[Texts, Field(min_length=1)] = ("127.0.0.1:9092",)
    """Where to listen, [PROTOCOL://]HOST:PORT; port 0 takes a free one. PLAINTEXT and SSL are
    without authentication, on loopback alone; SASL_PLAINTEXT and SASL_SSL need `tokens_file`. By
    default it is SASL_PLAINTEXT with `tokens_file`, else PLAINTEXT.
    """
    advertise: Texts = ()
    """The address that clients get instead, HOST:PORT, one for each `listen`; needed if `listen`
    has 0.0.0.0 or [::].
    """
    node_id: Annotated[int, Field(ge=0, le=INT_MAX)] | None = None
    """The broker's node.id; by default the smallest free one, or, after a crash, the one that
    had these addresses.
    """
    rack: str | None = None
    """The broker.rack of this instance."""
    processes: Positive = 1
    """How many instances to start, on consecutive ports and with consecutive node ids."""
    bootstrap: str | None = None
    """An address at which all processes listen, HOST:PORT, for clients' bootstrap.servers."""
    metrics_listen: str | None = None
    """HOST:PORT of GET /metrics, /metrics/kafka and /ready; by default these are not served."""

    tokens_file: Path | None = None
    """Tokens and grants (sparklog.tokens) of the clients that authenticate (SASL); all others may
    do everything.
    """
    sasl_enabled_mechanisms: Annotated[
        tuple[Mechanism, ...], NoDecode, BeforeValidator(split), Field(min_length=1)
    ] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    """The mechanisms that clients may choose (sasl.enabled.mechanisms)."""
    ssl_certificate_file: Path | None = None
    """The certificate of SSL:// and SASL_SSL:// listeners, with its chain (PEM)."""
    ssl_key_file: Path | None = None
    """The key of the certificate (PEM)."""

    auto_create_topics_enable: bool = False
    """Whether a topic is created when a client asks for it (auto.create.topics.enable)."""
    num_partitions: Partitions = 1
    """Partitions of a topic that is created without a number (num.partitions)."""

    offsets_topic_num_partitions: Partitions = 50
    """Partitions of __consumer_offsets when it is created (offsets.topic.num.partitions)."""
    offsets_retention_minutes: Positive = 7 * 24 * 60
    """How long committed offsets of an empty group are kept (offsets.retention.minutes)."""
    offsets_retention_check_interval_ms: Positive = 600_000
    """How often the gateway looks for expired offsets (offsets.retention.check.interval.ms)."""
    offset_metadata_max_bytes: Positive = 4_096
    """The most characters of metadata of a committed offset (offset.metadata.max.bytes); a record
    holds at most 32,767 bytes of it.
    """
    group_initial_rebalance_delay_ms: Annotated[int, Field(ge=0)] = 3_000
    """How long an empty group waits for members, 5 at least (group.initial.rebalance.delay.ms)."""
    group_min_session_timeout_ms: Positive = 6_000
    """The least session timeout of a member (group.min.session.timeout.ms)."""
    group_max_session_timeout_ms: Positive = 1_800_000
    """The largest session timeout of a member (group.max.session.timeout.ms)."""
    group_max_size: Positive = INT_MAX
    """The most members of a group (group.max.size)."""
    group_consumer_session_timeout_ms: Positive = 45_000
    """How long a member of a consumer group may be silent (group.consumer.session.timeout.ms)."""
    group_consumer_heartbeat_interval_ms: Positive = 5_000
    """How often a member sends a heartbeat (group.consumer.heartbeat.interval.ms)."""
    group_consumer_max_size: Positive = INT_MAX
    """The most members of a consumer group (group.consumer.max.size)."""

    transaction_max_timeout_ms: Positive = 900_000
    """The largest timeout a transaction may have (transaction.max.timeout.ms)."""
    transaction_abort_timed_out_transaction_cleanup_interval_ms: Positive = 10_000
    """How often the gateway aborts transactions that have timed out
    (transaction.abort.timed.out.transaction.cleanup.interval.ms).
    """
    transactional_id_expiration_ms: Positive = 7 * 24 * 3600 * 1000
    """How long an unused transactional id is kept (transactional.id.expiration.ms)."""

    socket_send_buffer_bytes: Annotated[int, Field(ge=-1, le=INT_MAX)] = 100 * 1024
    """The SO_SNDBUF of each connection; -1: the system's default (socket.send.buffer.bytes)."""
    socket_request_max_bytes: Positive = 100 * MIB
    """The most bytes of one request; a larger one closes the connection
    (socket.request.max.bytes).
    """
    sasl_server_max_receive_size: Positive = 512 * 1024
    """The most bytes of a request of a client that is not authenticated yet
    (sasl.server.max.receive.size).
    """
    queued_max_request_bytes: Annotated[int, Field(ge=-1)] = -1
    """The most bytes of all requests in progress; above it no further request is read, -1 is no
    limit (queued.max.request.bytes).
    """
    max_pending_bytes: Positive = 256 * MIB
    """The most bytes of records that wait for their commit; above it no further produce request
    begins, and nothing more is read from its client.
    """
    flush: Literal["fsync", "none"] = "fsync"
    """fsync: what is acknowledged is durable; none: the operating system writes it out later."""
    max_connections: Annotated[int, Field(ge=0)] = INT_MAX
    """The most connections; those of TLS count when they have shaken hands (max.connections)."""
    max_connections_per_ip: Annotated[int, Field(ge=0)] = INT_MAX
    """The most connections of one address (max.connections.per.ip)."""
    connections_max_idle_ms: Positive = 600_000
    """How long a connection may stay without a request (connections.max.idle.ms)."""
    connection_failed_authentication_delay_ms: Annotated[int, Field(ge=0)] = 100
    """The delay before a failed authentication is answered
    (connection.failed.authentication.delay.ms).
    """
    authentication_timeout_ms: Positive = 10_000
    """How long a connection may be open before it is authenticated, TLS included."""
    receive_timeout_ms: Positive = 60_000
    """How long a client may take to send a request."""
    send_timeout_ms: Positive = 60_000
    """How long a client may read nothing of an answer."""
    shutdown_timeout_ms: Positive = 30_000
    """How long requests in progress may take after SIGTERM."""
    poll_interval_ms: Positive = 10
    """How often waiting fetches look for commits, and how old an object store's metadata may be."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least level that is logged."""

    @property
    def syncs(self) -> bool:
        """Whether a commit is synced before it is acknowledged."""
        return self.flush == "fsync"
