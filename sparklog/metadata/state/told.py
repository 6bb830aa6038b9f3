"""Texts of a commit's parameters, for people: offsets of partitions, and changes of topics."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from sparklog.model import TopicDescription, TopicPartition

TOLD_MAX: Final = 100
"""The most items that a parameter lists; the edit has them all."""


def listed(items: Iterable[str]) -> str:
    """Return the first items as one text, and the number of the others."""
    left = iter(items)
    found = [*islice(left, TOLD_MAX)]
    others = sum(1 for _ in left)
    return ", ".join([*found, *([f"and {others} more"] if others else [])])


def offsets(told: Iterable[tuple[TopicPartition, int]]) -> str:
    """Return offsets by partition as text."""
    return listed(f"{place}:{offset}" for place, offset in told)


def changes(
    before: Mapping[str, TopicDescription], after: Iterable[TopicDescription]
) -> dict[str, str]:
    """Return what topics have that they did not have before (by id): partitions and configs.

    No topic config is a secret.
    """
    grown, altered = [], []
    for topic in after:
        was = before.get(topic.topic_id)
        if was is None or was.num_partitions != topic.num_partitions:
            grown.append(f"{topic.name}={topic.num_partitions}")
        old = {} if was is None else was.configs
        pairs = [f"{key}={one}" for key, one in topic.configs.items() if old.get(key) != one]
        pairs += [f"{key}=(default)" for key in old if key not in topic.configs]
        if pairs:
            altered.append(f"{topic.name}: {' '.join(pairs)}")
    told = {"partitions": listed(grown), "configs": listed(altered)}
    return {name: text for name, text in told.items() if text}
