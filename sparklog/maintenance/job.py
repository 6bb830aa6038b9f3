"""A job as steps: each is a plan for one topic, and a function that carries it out.

    steps(context, topics, options) -> Step, Step, …      no step if there is nothing to do
        Step.rows       the plan, a row for each action; a dry run prints it
        Step.execute    does it, in one commit a topic or partition

A job may be killed at any point and run again. A commit makes its plan again on the newest image,
or checks the plan there. So jobs, writers and administrators may work at the same time. If a part
of a step is no longer possible, it is left to the next run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sparklog.clock import Clock
from sparklog.errors import ForgottenTopicError, MissingFileError, SparklogError
from sparklog.fleet import Fleet
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.plans.backups import Pinned, pinned
from sparklog.metadata.state.image import TopicImage
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.files import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a step: counters by name, and a line for each partition that failed.

    A problem stops its own partition and no other. `notes` are lines about parts that succeeded.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The work of a job on one topic: its plan, and the function that does it.

    `topic` is the topic's name, or a directory of the log dir.
    """

    topic: str
    rows: Sequence[Mapping[str, Any]]
    execute: Callable[[], Outcome]


def failing_step(topic: str, error: SparklogError) -> Step:
    """Return a step whose `execute` raises `error`: for a topic that could not be planned."""

    def execute() -> Outcome:
        raise error

    rows = [{"partition": None, "problem": str(error)}]
    return Step(topic=topic, rows=rows, execute=execute)


def tried(topic: str, steps: Iterator[Step]) -> Iterator[Step]:
    """Yield the steps; if planning them fails, a step that fails with the error.

    So the steps of other topics follow. `topic` is as in `Step`.
    """
    try:
        yield from steps
    except SparklogError as error:
        yield failing_step(topic, error)


@dataclass(frozen=True, slots=True)
class JobContext:
    """The catalog and the fleet that every job works with."""

    catalog: Catalog
    fleet: Fleet

    @property
    def files(self) -> Files:
        """The files of the log dir."""
        return self.catalog.files

    @property
    def clock(self) -> Clock:
        """The clock."""
        return self.catalog.clock

    def topics(self, names: Sequence[str]) -> list[TopicDescription]:
        """Return these topics, or all if none is named. Raises UnknownTopicError."""
        if not names:
            return list(self.catalog.topics().values())
        return self.catalog.named(names)

    def open_together(self, topics: Iterable[TopicDescription]) -> None:
        """Open these topics: each alone would read the runs anew.

        The error of a topic that cannot be opened is raised where its image is taken.
        """
        self.catalog.log.sound_image([topic.topic_id for topic in topics])

    def to_plan(self, topic: TopicDescription) -> TopicImage:
        """Return a topic to plan on: as `open_together` found it, or as of a later commit or look.

        It makes no request for a topic that is open. So the commit must make the plan again, or
        check it. Raises ForgottenTopicError.
        """
        return self.catalog.log.known(topic.topic_id) or self.catalog.topic_image(topic)

    def image(self, topic: TopicDescription) -> TopicImage:
        """Return a topic as it is now. Raises ForgottenTopicError, also while vacuum erases it."""
        image = self.catalog.topic_image(topic)
        if image.is_erased:
            raise ForgottenTopicError(f"topic {topic.name!r} ({topic.topic_id}) is being erased")
        return image

    def to_vacuum(self, topic: TopicDescription) -> tuple[TopicImage, Pinned]:
        """Return a topic as it is now, and what backups need of it. Raises ForgottenTopicError.

        The needs are not older than the topic: a backup that began before a segment was removed
        is among them.
        """
        image = self.catalog.topic_image(topic)
        return image, pinned(self.catalog.log.last_image, self.clock.now_ms())

    def are_gone(
        self, topic: TopicDescription, entries: Iterable[SegmentEntry], error: SparklogError
    ) -> bool:
        """Return True if a task has failed because another job has removed one of its segments.

        This is no problem: the next run looks at the segments that there are then.
        """
        return isinstance(error, MissingFileError) and not self.are_live(topic, entries)

    def are_live(self, topic: TopicDescription, entries: Iterable[SegmentEntry]) -> bool:
        """Return True if the log has all of these segments, and vacuum does not erase the topic."""
        image = self.catalog.image(topic).topic(topic.topic_id)
        if image is None or image.is_erased:
            return False
        keys = {one.key for one in entries}
        return image.find(keys).keys() == keys


class Job(Protocol):
    """A job: `options` are its own command-line options, parsed."""

    def __call__(
        self, context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
    ) -> Iterator[Step]:
        """Yield the steps for these topics, or for all if none is given.

        A topic without work has no step. The caller executes or skips a step before it takes the
        next one.
        """
        ...
