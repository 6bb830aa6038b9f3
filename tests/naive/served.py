"""What every door to a log has to answer, as a list of records for each partition."""

from collections.abc import Sequence

from tests.naive.records import Record


class NaivePartition:
    """The records of one partition, in their order, and where its log starts and ends."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.start = 0
        self.end = 0

    def append(self, records: Sequence[Record]) -> int:
        """Take records at the end; return the offset of the first."""
        first = self.end
        for record in records:
            self.records.append(record._replace(offset=self.end))
            self.end += 1
        return first

    def delete_before(self, offset: int) -> None:
        """Let the log start at an offset."""
        self.start = offset
        self.records = self.behind(offset)

    def behind(self, offset: int) -> list[Record]:
        """Return the records from an offset on."""
        return [one for one in self.records if one.offset >= offset]

    def may_start_at(self, offset: int, expired_before_ms: int) -> bool:
        """Whether retention may let the log start there: everything before has expired."""
        gone = [one for one in self.records if one.offset < offset]
        is_old = all(one.timestamp < expired_before_ms for one in gone)
        return self.start <= offset <= self.end and is_old

    def compact(self, left: Sequence[Record]) -> bool:
        """Take over what a compaction has left, if it may leave that; return whether it may.

        What goes has a later record of its key.
        """
        latest = {one.key: one.offset for one in self.records}
        kept = {one.offset for one in left}
        expected = [one for one in self.records if one.offset in kept]
        is_right = list(left) == expected and kept >= set(latest.values())
        self.records = expected
        return is_right
