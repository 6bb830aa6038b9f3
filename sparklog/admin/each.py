"""EachTopic: changes of several topics, each with its own outcome, as in Kafka's requests.

One commit makes all allowed changes. The outcome of a topic is its description after the change, or
a UsageError. Errors that concern no single topic (StorageError, CommitConflictError, …) are raised:
then no topic was changed, or, after a CommitOutcomeUnknownError, all of them or none.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from sparklog.admin.changes import (
    AlterConfigOp,
    NewTopic,
    altered,
    check_deletable,
    described,
    grown,
    start_offset,
    with_starts,
)
from sparklog.clock import Clock
from sparklog.errors import UsageError
from sparklog.metadata.catalog import Catalog, Write, check_partition
from sparklog.metadata.plans.topics import (
    NewNames,
    described_edit,
    live,
    live_of_id,
    unknown_topic,
)
from sparklog.metadata.state.edit import Done, Edit, TopicEdit
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.model import TopicDescription, TopicPartition

Outcome = TopicDescription | UsageError
Wanted = TypeVar("Wanted")
Change = Callable[[Wanted], TopicDescription]
"""Returns a topic as it is to be. Raises UsageError."""


class EachTopic:
    """Administers topics of one log dir, each with its own outcome."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[Outcome]:
        """Create topics; return an outcome for each, in the order given."""
        wall_ms = self._clock.now_ms()
        seeds = [os.urandom(16) for _ in wanted]

        def created(image: Image) -> Change[tuple[NewTopic, bytes]]:
            names, now_ms = NewNames(image), image.not_before(wall_ms)
            return lambda one: names.take(described(one[0], one[1], now_ms))

        pairs = list(zip(wanted, seeds, strict=True))
        return self._each("CREATE TOPICS", pairs, created, validate_only=validate_only)

    def delete_topics(self, topic_ids: Sequence[str]) -> list[Outcome]:
        """Delete topics by id; return an outcome for each, in the order given."""
        wall_ms = self._clock.now_ms()

        def deleted(image: Image) -> Change[str]:
            now_ms = image.not_before(wall_ms)
            return lambda topic_id: replace(live_of_id(image, topic_id), deleted_ms=now_ms)

        return self._each("DELETE TOPICS", topic_ids, deleted)

    def create_partitions(
        self, totals: Mapping[str, int], *, validate_only: bool = False
    ) -> list[Outcome]:
        """Grow topics to numbers of partitions; return an outcome for each, in the order given."""
        return self._each(
            "CREATE PARTITIONS",
            list(totals),
            lambda image: lambda name: grown(live(image, name), totals[name]),
            validate_only=validate_only,
        )

    def incremental_alter_configs(
        self, changes: Mapping[str, Iterable[AlterConfigOp]], *, validate_only: bool = False
    ) -> list[Outcome]:
        """Change configs of topics; return an outcome for each, in the order given."""
        ops = {name: list(wanted) for name, wanted in changes.items()}
        return self._each(
            "ALTER CONFIGS",
            list(ops),
            lambda image: lambda name: altered(live(image, name), ops[name]),
            validate_only=validate_only,
        )

    def replace_configs(
        self, configs: Mapping[str, Mapping[str, str]], *, validate_only: bool = False
    ) -> list[Outcome]:
        """Set configs of topics, and reset their other ones; return an outcome for each, in order.

        This is Kafka's AlterConfigs, for old clients.
        """

        def replaced(image: Image) -> Change[str]:
            def change(name: str) -> TopicDescription:
                bare = replace(live(image, name), configs={})
                ops = [AlterConfigOp(key, value) for key, value in configs[name].items()]
                return altered(bare, ops)

            return change

        return self._each("ALTER CONFIGS", list(configs), replaced, validate_only=validate_only)

    def _each(
        self,
        operation: str,
        wanted: Sequence[Wanted],
        change_on: Callable[[Image], Change[Wanted]],
        *,
        validate_only: bool = False,
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []

        def plan(image: Image) -> Edit | Done:
            outcomes[:] = _outcomes(change_on(image), wanted)
            topics = [one for one in outcomes if isinstance(one, TopicDescription)]
            found = [image.topic(one.topic_id) for one in topics]
            were = [one.description for one in found if one is not None]
            before = {one.topic_id: one for one in were}
            changed = [one for one in topics if one != before.get(one.topic_id)]
            return described_edit(operation, changed, before.values(), image) if changed else Done()

        if validate_only:
            plan(self._catalog.image())
        else:
            self._catalog.log.commit(plan)
        return outcomes

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | UsageError]:
        """Delete the records before offsets; -1 means the log end offset.

        Returns each partition's log start offset (low watermark), or its error.
        """
        outcomes: dict[TopicPartition, int | UsageError] = {}
        wanted: dict[str, dict[int, int]] = {}
        for partition, offset in before.items():
            wanted.setdefault(partition.topic, {})[partition.partition] = offset
        names = self._catalog.topics()
        for partition in before:
            if partition.topic not in names:
                outcomes[partition] = unknown_topic(partition.topic)
        writes = [
            Write(topic=names[name], plan=partial(_trimmed, offsets=offsets, outcomes=outcomes))
            for name, offsets in wanted.items()
            if name in names
        ]
        self._catalog.commit_all(writes, operation="DELETE RECORDS")
        return outcomes


def _outcomes(change: Change[Wanted], wanted: Iterable[Wanted]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for one in wanted:
        try:
            outcomes.append(change(one))
        except UsageError as error:
            outcomes.append(error)
    return outcomes


def _trimmed(
    topic: TopicImage,
    offsets: Mapping[int, int],
    outcomes: dict[TopicPartition, int | UsageError],
) -> TopicEdit | Done:
    """Return the edit that deletes the records before these offsets; note the outcomes."""
    starts: dict[int, int] = {}
    for number, wanted in offsets.items():
        partition = TopicPartition(topic.description.name, number)
        try:
            outcomes[partition] = starts[number] = _start(topic, number, wanted)
        except UsageError as error:
            outcomes[partition] = error
    return with_starts(topic, starts)


def _start(topic: TopicImage, number: int, wanted: int) -> int:
    if topic.deleted_ms is not None:
        raise unknown_topic(topic.description.name)
    check_partition(topic.description, number)
    check_deletable(topic.description)
    return start_offset(topic.partition(number), wanted)
