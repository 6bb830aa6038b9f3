"""Edits as JSON and back: the `edit` of an entry.

An object has the fields of its class; a field with its default is left out, so that an edit says
only what it does. A segment's file beside its log is written as "" (`tables`). Members that this
release does not know are refused: they may change what the rest means.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from sparklog.errors import UnsupportedFeatureError
from sparklog.metadata.edit import (
    Edit,
    EpochStart,
    FoldEdit,
    Lease,
    OpenTransaction,
    PartitionState,
    Receipt,
    ReceiptKey,
    RunFile,
    TopicEdit,
)
from sparklog.metadata.tables import SEGMENT_SCHEMA, segment_entry, segment_row
from sparklog.model import OffsetRange, SegmentEntry, SegmentKey, TopicDescription

Json = dict[str, Any]

_PARTITION_FIELDS: Final = tuple(field.name for field in fields(PartitionState))
_SEGMENT_NAMES: Final = frozenset(SEGMENT_SCHEMA.names)
_TOPIC_NAMES: Final = frozenset(field.name for field in fields(TopicEdit))
_EDIT_NAMES: Final = frozenset(field.name for field in fields(Edit)) - {"parameters"}
_DESCRIPTION_NAMES: Final = frozenset(field.name for field in fields(TopicDescription))


def edit_json(edit: Edit) -> Json:
    """Return an edit as an object of JSON's types."""
    found: Json = {"operation": edit.operation}
    if edit.topics:
        found["topics"] = {key: _topic_json(one) for key, one in edit.topics.items()}
    if edit.leases:
        found["leases"] = {
            name: lease and [lease.owner, lease.expires_ms] for name, lease in edit.leases.items()
        }
    for name in ("horizon_ms", "level"):
        if getattr(edit, name) is not None:
            found[name] = getattr(edit, name)
    for name in ("forget_topics", "forget_shared"):
        if getattr(edit, name):
            found[name] = list(getattr(edit, name))
    if edit.fold is not None:
        found["fold"] = {
            "cover": edit.fold.cover,
            "based_on": edit.fold.based_on,
            "runs": [list(run) for run in edit.fold.runs],
            "history": [list(run) for run in edit.fold.history],
        }
    return found


def edit_of(found: Mapping[str, Any], parameters: Mapping[str, str]) -> Edit:
    """Return the edit of such an object; `parameters` are those of its entry.

    Raises UnsupportedFeatureError for a member that this release does not know.
    """
    _check_names("edit", found, _EDIT_NAMES)
    fold = found.get("fold")
    return Edit(
        operation=found["operation"],
        parameters=parameters,
        topics={key: _topic_edit(one) for key, one in found.get("topics", {}).items()},
        leases={
            name: one and Lease(name, one[0], one[1])
            for name, one in found.get("leases", {}).items()
        },
        horizon_ms=found.get("horizon_ms"),
        forget_topics=tuple(found.get("forget_topics", ())),
        forget_shared=tuple(found.get("forget_shared", ())),
        level=found.get("level"),
        fold=fold
        and FoldEdit(
            fold["cover"],
            fold["based_on"],
            tuple(RunFile(*run) for run in fold["runs"]),
            tuple(RunFile(*run) for run in fold["history"]),
        ),
    )


def _topic_json(edit: TopicEdit) -> Json:
    found: Json = {}
    if edit.description is not None:
        found["description"] = _without_none(
            {name: getattr(edit.description, name) for name in sorted(_DESCRIPTION_NAMES)}
        )
    if edit.segments:
        found["segments"] = [_segment_json(entry) for entry in edit.segments]
    if edit.replace:
        found["replace"] = [_segment_json(entry) for entry in edit.replace]
    if edit.partitions:
        found["partitions"] = {
            str(number): [getattr(state, name) for name in _PARTITION_FIELDS]
            for number, state in edit.partitions.items()
        }
    for name in ("transactions", "epochs"):
        if getattr(edit, name):
            found[name] = {
                str(number): [list(one) for one in of_partition]
                for number, of_partition in getattr(edit, name).items()
            }
    for name in ("remove", "forget"):
        if getattr(edit, name):
            found[name] = [list(key) for key in getattr(edit, name)]
    for name in ("removed_ms", "forget_receipts_before_ms", "vacuum_horizon_ms"):
        if getattr(edit, name) is not None:
            found[name] = getattr(edit, name)
    if edit.leader_epochs:
        found["leader_epochs"] = {str(key): one for key, one in edit.leader_epochs.items()}
    if edit.allow_gaps:
        found["allow_gaps"] = True
    if edit.receipts:
        found["receipts"] = [[*key, _receipt_json(one)] for key, one in edit.receipts.items()]
    return found


def _topic_edit(found: Mapping[str, Any]) -> TopicEdit:
    _check_names("edit of a topic", found, _TOPIC_NAMES)
    description = found.get("description")
    if description is not None:
        _check_names("description", description, _DESCRIPTION_NAMES)
    return TopicEdit(
        description=description and TopicDescription(**description),
        segments=_segments(found.get("segments", ())),
        partitions=_by_number(found.get("partitions"), lambda one: PartitionState(*one)),
        transactions=_by_number(
            found.get("transactions"), lambda one: tuple(OpenTransaction(*each) for each in one)
        ),
        epochs=_by_number(
            found.get("epochs"), lambda one: tuple(EpochStart(*each) for each in one)
        ),
        replace=_segments(found.get("replace", ())),
        remove=tuple(SegmentKey(*key) for key in found.get("remove", ())),
        removed_ms=found.get("removed_ms"),
        forget=tuple(SegmentKey(*key) for key in found.get("forget", ())),
        forget_receipts_before_ms=found.get("forget_receipts_before_ms"),
        vacuum_horizon_ms=found.get("vacuum_horizon_ms"),
        leader_epochs=_by_number(found.get("leader_epochs"), int),
        allow_gaps=found.get("allow_gaps", False),
        receipts={
            ReceiptKey(app_id, is_versioned): _receipt(one)
            for app_id, is_versioned, one in found.get("receipts", ())
        },
    )


def _by_number(found: Mapping[str, Any] | None, value: Callable[[Any], Any]) -> dict[int, Any]:
    return {int(key): value(one) for key, one in found.items()} if found else {}


def _segment_json(entry: SegmentEntry) -> Json:
    found = segment_row(entry)
    return {
        name: value
        for name, value in found.items()
        if value is not None and _DEFAULTS.get(name) != value
    }


_DEFAULTS: Final = {
    "log_position": 0,
    "max_timestamp": -1,
    "max_timestamp_delta": 0,
    "transactional": False,
}


def _segments(found: Iterable[Mapping[str, Any]]) -> tuple[SegmentEntry, ...]:
    for one in found:
        _check_names("segment", one, _SEGMENT_NAMES)
    return tuple(segment_entry(one) for one in found)


def _receipt_json(receipt: Receipt) -> Json:
    found = receipt._asdict()
    found["ranges"] = [list(one) for one in receipt.ranges]
    del found["used_ms"]
    return _without_none(found)


def _receipt(found: Mapping[str, Any]) -> Receipt:
    ranges = tuple(OffsetRange(*one) for one in found["ranges"])
    return Receipt(**{**found, "ranges": ranges})


def _without_none(found: Json) -> Json:
    return {name: value for name, value in found.items() if value is not None}


def _check_names(what: str, found: Iterable[str], known: frozenset[str]) -> None:
    unknown = sorted(set(found) - known)
    if unknown:
        raise UnsupportedFeatureError(
            f"an {what} has members that this release does not know: {', '.join(unknown)}"
        )
