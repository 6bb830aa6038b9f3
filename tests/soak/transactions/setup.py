"""The topics of a run, and where its gateways answer."""

from pathlib import Path
from typing import Final

PARTITIONS: Final = 2
LEFT: Final = "left"
RIGHT: Final = "right"
"""Writers write to both, and copiers from each to the other: transactions read of each other."""
RECEIPTS: Final = "receipts"
"""A record of each transaction of a copier, so that its outcome shows."""
ACCOUNTS: Final = ("account-0", "account-1", "account-2", "account-3")
TOPICS: Final = (LEFT, RIGHT, RECEIPTS, *ACCOUNTS)
KEYS: Final = tuple(f"{topic}:{number}" for topic in TOPICS for number in range(PARTITIONS))
TIMEOUT_MS: Final = 6_000
"""transaction.timeout.ms: shorter than the longest pause."""
LULL_S: Final = 0.5
LULL_EVERY_S: Final = 3.0
"""How long, and how often, no transfer is begun: versions without an open transaction come."""
GATEWAYS: Final = 3
OPTIONS: Final = (
    *("--group-initial-rebalance-delay-ms", "0"),
    *("--transaction-abort-timed-out-transaction-cleanup-interval-ms", "500"),
)


def place_of(key: str) -> tuple[str, int]:
    """The topic and the partition of a key."""
    topic, _, number = key.rpartition(":")
    return topic, int(number)


def bootstrap(folder: Path) -> str:
    """The addresses of the gateways of a run."""
    return (folder / "bootstrap").read_text()
