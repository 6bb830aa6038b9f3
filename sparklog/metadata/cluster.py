"""The log dir as a Kafka cluster: its brokers (gateways), its users, and its producer ids.

A gateway is a broker to clients. An incarnation of a gateway holds a node id. The edit that gives
the id to another incarnation, or removes it, names the present holder (`Edit.replaces`). So two
gateways never share an id, and a late "declared dead" does not remove a gateway that was restarted.
"""

from typing import Final, NamedTuple

PRODUCER_ID_BLOCK: Final = 1_000
"""So many producer ids a gateway takes at once (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE)."""

FIRST_PRODUCER_ID: Final = 2**40
"""Blocks begin above it: producer ids of imported logs are mostly smaller."""

PRODUCER_IDS_END: Final = 2**62
"""An id above it is no broker's, so blocks need not begin behind it."""

SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Endpoint(NamedTuple):
    """An address for clients: the listener's name, host, and port."""

    name: str
    host: str
    port: int


class Broker(NamedTuple):
    """A gateway: `incarnation` is new with every start of it."""

    node_id: int
    incarnation: str
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


class ScramCredential(NamedTuple):
    """The keys that a server keeps of a password (RFC 5802). Its text shows none."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


UserKey = tuple[str, str]
"""The name of a user, and the mechanism of its credential."""
