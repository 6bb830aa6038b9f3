"""Edits that only append, as JSON: a gateway writes little else, and each has many segments.

The encoder checks the type of every value of such an edit. So a reader of the JSON decodes an equal
edit, and the JSON need not be read back before it is committed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from itertools import chain
from operator import attrgetter
from typing import Any

from sparklog.metadata.codec_segments import plain_segment_json
from sparklog.metadata.codec_types import INT64, Json
from sparklog.metadata.edit import Edit, TopicEdit
from sparklog.metadata.producers import ProducerState


def appends_json(edit: Edit) -> Json | None:
    """Return the object of `codec.edit_json`, for an edit that only appends; None for any other.

    `codec.edit_of` returns an edit that is equal to this one, except for the `used_ms` of
    producers' states, which an image sets. None also for a value that cannot be read back.
    """
    is_told = type(edit.operation) is str and edit.operation and edit.topics
    if not is_told or _rest_of_edit(edit) != _REST_OF_EDIT:
        return None
    topics: Json = {}
    for topic_id, of_topic in edit.topics.items():
        found = _topic_json(of_topic)
        if found is None:
            return None
        topics[topic_id] = found
    return {"operation": edit.operation, "topics": topics}


def _others(
    kind: type[Edit | TopicEdit], *names: str
) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[Any, ...]]:
    """Return a getter of all fields of a dataclass but `names`, and their defaults."""
    found = [one for one in fields(kind) if one.name not in names]
    return attrgetter(*(one.name for one in found)), tuple(one.default for one in found)


_rest_of_edit, _REST_OF_EDIT = _others(Edit, "operation", "parameters", "topics")
_rest_of_topic, _REST_OF_TOPIC = _others(TopicEdit, "segments", "leader_epochs", "producers")


def _topic_json(edit: TopicEdit) -> Json | None:
    if type(edit.segments) is not tuple or _rest_of_topic(edit) != _REST_OF_TOPIC:
        return None
    found: Json = {}
    if edit.segments:
        found["segments"] = segments = list(map(plain_segment_json, edit.segments))
        if None in segments:
            return None
    epochs = edit.leader_epochs
    if epochs:
        if not (_are_numbers(epochs) and _are_numbers(epochs.values())):
            return None
        found["leader_epochs"] = {str(number): epoch for number, epoch in epochs.items()}
    if edit.producers:
        found["producers"] = producers = _producers_json(edit.producers)
        if producers is None:
            return None
    return found


def _producers_json(producers: Mapping[int, tuple[ProducerState, ...]]) -> Json | None:
    if not _are_numbers(producers):
        return None
    found: Json = {}
    for partition, states in producers.items():
        numbers = [
            [state.producer_id, state.epoch, *chain.from_iterable(state.batches)]
            for state in states
        ]
        if type(states) is not tuple or not all(map(_are_numbers, numbers)):
            return None
        found[str(partition)] = numbers
    return found


def _are_numbers(values: Collection[Any]) -> bool:
    """Whether all are integers that fit 64 bits; False if there is none."""
    return set(map(type, values)) == {int} and max(values) < INT64 and min(values) >= -INT64
