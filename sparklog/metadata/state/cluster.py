"""The log dir as a Kafka cluster: its brokers (gateways), its users, and its producer ids.

To clients a gateway is a broker. One incarnation of a gateway holds a node id. An edit that gives
the id to another incarnation, or removes it, has to name the holder (`Edit.replaces`). So two
gateways never share an id, and an edit that declares a gateway dead does not remove its next
incarnation.
"""

from typing import Final, NamedTuple

NODE_ID_MAX: Final = 2**31 - 1
"""Kafka's node ids are int32."""

PRODUCER_ID_BLOCK: Final = 1_000
"""How many producer ids a gateway takes at once (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE)."""

FIRST_PRODUCER_ID: Final = 2**40
"""The smallest id of a block: producer ids of imported logs are mostly below it."""

RANDOM_ID_BYTES: Final = 5
"""How many random bytes choose the first producer id of a log dir."""

PRODUCER_IDS_SKIPPED: Final = 2**32
"""How many producer ids a restored log dir skips: its original may have given them meanwhile."""

PRODUCER_IDS_END: Final = 2**62
"""No broker gives ids from here on. So the next block need not be behind such an imported id."""

SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Endpoint(NamedTuple):
    """An address for clients: the listener's name, host, and port."""

    name: str
    host: str
    port: int


class Broker(NamedTuple):
    """A gateway. Each start of it is a new `incarnation`."""

    node_id: int
    incarnation: str
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


class ScramCredential(NamedTuple):
    """The keys that a server keeps for a password (RFC 5802). The repr shows none of them."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


UserKey = tuple[str, str]
"""The name of a user, and the mechanism of its credential."""


def random_producer_id(random: bytes) -> int:
    """Return a first producer id for a log dir, chosen by RANDOM_ID_BYTES random bytes.

    It is one of 2^40 ids. So logs that are imported into one log dir seldom have ids in common.
    """
    return FIRST_PRODUCER_ID + int.from_bytes(random, "big")


def ids_after_restore(next_producer_id: int) -> int | None:
    """Return the next producer id of a restored log dir; None if its original had given none.

    The original went on after the backup, and its producers go on with their ids. If a new producer
    got one of them, its first batch could be taken for a batch that was sent twice.
    """
    if next_producer_id < FIRST_PRODUCER_ID:
        return None
    return next_producer_id + PRODUCER_IDS_SKIPPED
