"""Instances that append clients' batches to a log dir, in one thread."""

from collections.abc import Callable
from typing import Any

from sparklog.clock import ManualClock
from sparklog.errors import SparklogError
from sparklog.group_commit.append_slots import Append, AppendCounts, Outcome, Slot
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from sparklog.storage.files import Files
from tests.client_batches import NOW_MS


class Appender:
    """An instance that appends to the topics of a log dir; something may happen while it writes."""

    def __init__(self, log_dir: str, files: Files | None = None, *, flush: bool = False) -> None:
        self.log_dir = log_dir
        self.counts = AppendCounts()
        self.catalog = Catalog(files or open_files(log_dir), ManualClock(NOW_MS))
        self.writer = AppendWriter(self.catalog, self.counts, flush=flush, grows=True)
        self.meanwhile: list[Callable[[], object]] = []
        write = self.writer._written

        def written(*arguments: Any) -> Any:
            found = write(*arguments)
            if self.meanwhile:
                self.meanwhile.pop(0)()
            return found

        self.writer._written = written  # type: ignore[assignment] # something happens there

    def topic_id(self, name: str) -> str:
        """The id of a topic, or the name where there is none."""
        found = self.catalog.topics().get(name)
        return name if found is None else found.topic_id

    def append(self, *batches: tuple[str, int, bytes]) -> list[Any]:
        """Append (topic, partition, batch); the base offset of each, or the kind of its error."""
        return [told(outcome) for outcome in self.outcomes(*batches)]

    def outcomes(self, *batches: tuple[str, int, bytes]) -> list[Outcome]:
        """As `append`, with all that the answers say."""
        slots = [
            Slot(Append(self.topic_id(name), partition, batch))
            for name, partition, batch in batches
        ]
        self.writer.write(slots)
        return [slot.outcome for slot in slots if slot.outcome is not None]


def told(outcome: Outcome) -> Any:
    """The base offset of a batch, or the kind of its error."""
    return type(outcome) if isinstance(outcome, SparklogError) else outcome.base_offset
