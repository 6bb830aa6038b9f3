"""A topic of random updates and tombstones, and the dictionary of what is newest in it."""

import random
from pathlib import Path

from tests.logs import append, new_topic

Newest = dict[tuple[int, str], tuple[int, str]]
"""Offset and value of each key of each partition."""


class NewestLog:
    """A topic of two partitions, the dictionary of what is newest in it, and where its table is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log_dir = new_topic(folder / "log", "t", 2)
        self.table = f"delta.`{folder / 'table'}`"
        self.expected: Newest = {}
        self._ends = [0, 0]

    def put(self, partition: int, *pairs: tuple[str, str | None]) -> None:
        """Append keys and values; a value of None is a tombstone."""
        append(self.log_dir, partition, [v for _, v in pairs], keys=[key for key, _ in pairs])
        for key, value in pairs:
            self.expected.pop((partition, key), None)
            if value is not None:
                self.expected[partition, key] = self._ends[partition], value
            self._ends[partition] += 1

    def put_randomly(self, chance: random.Random) -> None:
        """Append updates and tombstones."""
        for _ in range(3):
            pairs = [
                (chance.choice("abcde"), chance.choice((None, f"{chance.random()}")))
                for _ in range(chance.randint(1, 6))
            ]
            self.put(chance.randrange(2), *pairs)
