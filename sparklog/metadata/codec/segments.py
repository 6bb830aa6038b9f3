"""Segments as JSON and back: by far the most frequent members of an edit."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa

from sparklog.metadata.codec.types import (
    INT64,
    Json,
    all_are,
    are_integers,
    check_names,
    integers,
    mapping,
    refused,
)
from sparklog.metadata.state.segment_tables import (
    PATH_COLUMNS,
    SEGMENT_SCHEMA,
    maker_of_segments,
    segment_fields,
)
from sparklog.model import AbortedRange, SegmentEntry

_DEFAULTS: Final = {
    "log_position": 0,
    "max_timestamp": -1,
    "max_timestamp_delta": 0,
    "transactional": False,
    "aborted": (),
}
_TYPES: Final = {
    field.name: bool
    if pa.types.is_boolean(field.type)
    else str
    if pa.types.is_string(field.type)
    else list
    if pa.types.is_list(field.type)
    else int
    for field in SEGMENT_SCHEMA
}
Row = tuple[Any, ...]


def segment_json(entry: SegmentEntry) -> Json:
    """Return a segment as a JSON object, without the fields that have their default values."""
    found = plain_segment_json(entry)
    if found is not None:
        return found
    return {
        name: value
        for name, value in segment_fields(entry)
        if value is not None and _DEFAULTS.get(name) != value
    }


class _Plain(NamedTuple):
    """How plain entries are written: the names of their fields, without those that are None."""

    names: tuple[str, ...]
    values: Callable[[Row], Row]
    integers: Callable[[Row], tuple[int, ...]]


def plain_segment_json(entry: SegmentEntry) -> Json | None:
    """Return `segment_json` of a segment without index files; else None.

    Each value has the type of its column, so `segment_of` returns an equal entry. Returns None,
    too, if a value has another type.
    """
    plain = _plain(tuple(map(type, entry)))
    if plain is None or max(plain.integers(entry)) >= INT64:
        return None
    ids, spans = entry.producer_ids, entry.aborted
    if ids and not are_integers(ids):
        return None
    found = dict(zip(plain.names, plain.values(entry), strict=True))
    for name, default in _DEFAULTS.items():
        if found[name] == default:
            del found[name]
    if spans:
        if not (all_are(AbortedRange, spans) and are_integers([*chain.from_iterable(spans)])):
            return None
        found["aborted"] = [one._asdict() for one in spans]
    return found


@lru_cache(256)
def _plain(types: tuple[type, ...]) -> _Plain | None:
    """Return how entries are written whose fields have these types; None if they are not plain.

    A field is None only where that is its default.
    """
    given = dict(zip(SegmentEntry._fields, types, strict=True))
    for name, kind in given.items():
        is_absent = kind is type(None) and SegmentEntry._field_defaults.get(name, 0) is None
        is_index = name in PATH_COLUMNS and name != "log_path"
        wanted = tuple if _TYPES[name] is list else _TYPES[name]
        if not is_absent and (kind is not wanted or is_index):
            return None
    names = [name for name in _TYPES if given[name] is not type(None)]
    numbers = [name for name in names if _TYPES[name] is int]
    slots = SegmentEntry._fields.index
    return _Plain(tuple(names), itemgetter(*map(slots, names)), itemgetter(*map(slots, numbers)))


class _Shape(NamedTuple):
    """The types of a segment's fields, known by their names; few different shapes occur."""

    types: tuple[type, ...]
    integers: Callable[[Mapping[str, Any]], tuple[int, ...]]


@lru_cache(256)
def _shape(names: tuple[str, ...]) -> _Shape:
    check_names("segment", names, _TYPES)
    types = tuple(_TYPES[name] for name in names)
    integers = [name for name in names if _TYPES[name] is int]
    # With one name, itemgetter would return no tuple: the first name is given twice.
    return _Shape(types, itemgetter(*integers, *integers[:1]) if integers else lambda _: (0,))


def segment_of(value: object) -> SegmentEntry:
    """Return the segment of a JSON object.

    Raises UnsupportedFeatureError for a member that this release does not know; ValueError or
    TypeError for an object that is no segment.
    """
    found = mapping(value)
    names = tuple(found)
    shape = _shape(names)
    if tuple(map(type, found.values())) != shape.types:
        raise refused(found, "a segment's fields")
    numbers = shape.integers(found)
    if max(numbers) >= INT64 or min(numbers) < -INT64:
        raise refused(found, "a segment's numbers")
    if found.get("producer_ids"):
        integers(found["producer_ids"])
    for span in found.get("aborted", ()):
        integers(list(mapping(span).values()))
    return maker_of_segments(names)(found.values())
