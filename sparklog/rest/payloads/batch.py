"""Body of a v3 `records:batch`: a few records, each with an id that the answer repeats.

{"entries": [{"id": "1", "partition_id", "headers", "key", "value", "timestamp"}, …]}
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import ConfigDict, FailFast, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from sparklog.group_commit.rows import Rows
from sparklog.rest.errors import INVALID_BATCH, INVALID_JSON, ApiError
from sparklog.rest.payloads.bodies import parsed
from sparklog.rest.payloads.json_parts import Text, list_parts
from sparklog.rest.payloads.records import Record3In, Sent, rows_of_objects

ENTRIES_MAX: Final = 50
"""The most records of a batch, as in Confluent's proxy; a `records` request takes more."""


EntryId = Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,80}$")]


@with_config(ConfigDict(extra="forbid"))
class Entry3In(Record3In):
    """A record of a batch."""

    id: EntryId


@with_config(ConfigDict(extra="forbid"))
class Batch3In(TypedDict):
    """The records of a batch; no two have the same id. This is the documented body."""

    entries: Annotated[list[Entry3In], FailFast(), Field(min_length=1, max_length=ENTRIES_MAX)]


@with_config(ConfigDict(extra="allow"))
class _Named(TypedDict):
    """An entry whose record is not checked yet: a malformed one is refused by itself."""

    id: EntryId


@with_config(ConfigDict(extra="forbid"))
class _Batch(TypedDict):
    entries: Annotated[list[_Named], FailFast(), Field(min_length=1, max_length=ENTRIES_MAX)]


BATCH3: Final[TypeAdapter[_Batch]] = TypeAdapter(_Batch)
ENTRIES: Final = TypeAdapter(Annotated[list[_Named], FailFast(), Field(min_length=1)])


def batch_of(body: Text) -> tuple[list[str], Rows, list[Sent]]:
    """Return the ids, the valid records, and an outcome for every entry.

    Raises ApiError (422) for a body that is no list of entries with ids. The outcome of an invalid
    record has its error.
    """
    ids: list[str] = []

    def records() -> Iterator[dict[str, Any]]:
        for entry in _entries(body):
            ids.append(entry["id"])
            yield {name: one for name, one in entry.items() if name != "id"}

    rows, sent = rows_of_objects(records())
    if len(set(ids)) < len(ids):
        raise ApiError(INVALID_BATCH, "two entries of a batch have the same id")
    return ids, rows, sent


def _entries(body: Text) -> Iterator[_Named]:
    count = 0
    try:
        for part in list_parts(body, "entries", ENTRIES_MAX):
            if count:
                entries = parsed(part, ENTRIES, ("entries", count))
            else:
                entries = parsed(part, BATCH3)["entries"]
            yield from entries
            count += len(entries)
    except ApiError as refusal:
        code = refusal.error_code if refusal.error_code == INVALID_JSON else INVALID_BATCH
        raise ApiError(code, refusal.message) from None
