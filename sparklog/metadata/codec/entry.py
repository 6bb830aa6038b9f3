r"""One entry of the metadata log, byte for byte.

Version N of the log is the file `__cluster_metadata/_delta_log/<N, 20 digits>.json`, an entry of
Delta's log. It is written once, whole, and never changes. Lines end with "\n" and are JSON:

    {"commitInfo":{                       the first line
      "timestamp": …,                     ms; never below the predecessor's
      "operation": "PRODUCE",             as DESCRIBE HISTORY shows it
      "operationParameters": {…},         strings, for people
      "engineInfo": "sparklog/0.1.0",
      "sparklog":{
        "format": 2,
        "log": "…",                       the incarnation of the log dir
        "id": "…",                        of this try: random, never used twice
        "previous": "…",                  the id of entry N - 1; "" in entry 0
        "edits": [{…}, …],                `codec`; each applies to the image the one before leaves
        "edits_file": […],                instead of edits: path, bytes, CRC-32C
        "crc32c": "89abcdef"}}}
    {"protocol": …} {"metaData": …}       in entry 0
    {"add": …} {"remove": …}              where the runs change: Delta's files

`crc32c` is the last member of the first line, eight hexadecimal digits: the CRC-32C of the whole
file with eight zeros in their place. If the edits take more than 64 KiB, they are in a file below
`_edits/`, as one JSON list; that file is synced before the entry is put.

An entry is another writer's if its `commitInfo` has no member `sparklog`. If it has nothing but a
`commitInfo`, readers skip it (`is_foreign`). Any other action of another writer is refused, because
only sparklog may write this log. An entry with any sign of sparklog must match its checksum.
"""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from importlib.metadata import version
from types import TracebackType
from typing import Any, Final, NamedTuple

import google_crc32c
import orjson

from sparklog.errors import (
    CorruptMetadataError,
    LogDirError,
    UnsupportedFeatureError,
    UsageError,
)
from sparklog.metadata.codec.appends import appends_json
from sparklog.metadata.codec.edits import edit_json, edit_of
from sparklog.metadata.codec.types import Json, integer, listed, text, texts
from sparklog.metadata.names import EDITS
from sparklog.metadata.state.edit import NOTHING, Edit, Stamp, with_fields

FORMAT: Final = 2
EDITS_BYTES_MAX: Final = 64 * 1024
_TAIL: Final = b'"}}}'
_ZEROS: Final = b"00000000"
_EDITS: Final = b'"edits":'
_BEHIND_EDITS: Final = b',"crc32c":"'
_SIGNS: Final = (b'"engineInfo":"sparklog/', b'"sparklog":{', b'"crc32c":"')
_MEMBERS: Final = frozenset({"format", "log", "id", "previous", "edits", "edits_file", "crc32c"})


@dataclass(frozen=True, slots=True)
class EditsFile:
    """The file that holds an entry's edits: path below `__cluster_metadata`, size, checksum."""

    path: str
    bytes: int
    crc32c: int


@dataclass(frozen=True)
class Entry:
    """One entry. `edits` is empty until its `edits_file` is read. `actions` are Delta's."""

    version: int
    id: str
    previous: str
    log: str
    timestamp_ms: int
    operation: str
    parameters: Mapping[str, str] = NOTHING
    edits: tuple[Edit, ...] = ()
    edits_file: EditsFile | None = None
    actions: Sequence[Mapping[str, Any]] = ()
    is_foreign: bool = False
    bytes: int = field(default=0, compare=False)
    """The size of the entry and its edits as read; 0 for an entry that was not read."""
    edits_json: builtins.bytes | None = field(default=None, compare=False, repr=False)
    """The edits as they were read; None for an entry that was not read, or that was changed."""

    @property
    def stamp(self) -> Stamp:
        """The entry's place in the log."""
        return Stamp(self.version, self.id, self.timestamp_ms)


class ReadEntry(NamedTuple):
    """An entry as it was read: its edits are the JSON objects in the file `where`.

    `entry` has no edits yet. It is that of another writer if `entry.is_foreign`.
    """

    entry: Entry
    edits: Sequence[Json]
    where: str

    def decoded(self) -> Entry:
        """Return the entry with its edits. Raises as `decode`."""
        entry = self.entry
        with understood(self.where):
            edits = tuple([edit_of(one, entry.parameters) for one in self.edits])
        return with_fields(Entry, {**vars(entry), "edits": edits})


@cache
def engine() -> str:
    """Return the name and release of this software, as `engineInfo` has it."""
    return f"sparklog/{version('sparklog')}"


def encode_appends(edit: Edit) -> bytes | None:
    """Return `encode_edits` of an edit that decodes to itself (`appends_json`); else None."""
    found = appends_json(edit)
    return None if found is None else orjson.dumps([found])


def encode_edits(edits: Sequence[Edit]) -> bytes:
    """Return edits as one JSON list: a member of an entry, or the content of an edits file."""
    return orjson.dumps([edit_json(edit) for edit in edits])


def encode(entry: Entry, edits: bytes) -> bytes:
    """Return the bytes of an entry; `edits` come from `encode_edits`."""
    ours: dict[str, Any] = {
        "format": FORMAT,
        "log": entry.log,
        "id": entry.id,
        "previous": entry.previous,
    }
    if entry.edits_file is None:
        ours["edits"] = orjson.Fragment(edits)
    else:
        ours["edits_file"] = list(astuple(entry.edits_file))
    ours["crc32c"] = _ZEROS.decode()
    body = orjson.dumps(
        {
            "commitInfo": {
                "timestamp": entry.timestamp_ms,
                "operation": entry.operation,
                "operationParameters": dict(entry.parameters),
                "engineInfo": engine(),
                "sparklog": ours,
            }
        }
    )
    data = b"\n".join([body, *(orjson.dumps(action) for action in entry.actions), b""])
    at = len(body) - len(_TAIL) - len(_ZEROS)
    return data[:at] + b"%08x" % google_crc32c.value(data) + data[at + len(_ZEROS) :]


def decode(number: int, data: bytes, where: str) -> Entry:
    """Return the entry of a file's bytes, without the edits of an edits file.

    `where` names the file in errors. Raises CorruptMetadataError for damaged bytes,
    UnsupportedFeatureError for members of a newer release, and LogDirError for another format and
    for an action of another writer.
    """
    return parse(number, data, where).decoded()


def parse(number: int, data: bytes, where: str) -> ReadEntry:
    """Return `decode`'s entry before its edits are decoded. Raises as `decode`."""
    end = data.find(b"\n")
    if not _is_ours(data):
        return ReadEntry(_foreign(number, data, where), (), where)
    if end < 0:
        raise CorruptMetadataError(f"{where}: the entry is cut off after {len(data)} bytes")
    at = end - len(_TAIL) - len(_ZEROS)
    with_zeros = data[: max(at, 0)] + _ZEROS + data[at + len(_ZEROS) :]
    if data[at:end] != b"%08x" % google_crc32c.value(with_zeros) + _TAIL:
        raise CorruptMetadataError(f"{where}: the entry does not match its checksum (torn?)")
    with understood(where):
        return _own(number, data, end, where)


def _is_ours(data: bytes) -> bool:
    """Whether any sign of sparklog is there: one damaged byte must not make an entry foreign."""
    return _SIGNS[0] in data or any(sign in data for sign in _SIGNS[1:])


def _own(number: int, data: bytes, end: int, where: str) -> ReadEntry:
    info = orjson.loads(data[:end])["commitInfo"]
    ours = info["sparklog"]
    if ours["format"] != FORMAT:
        raise LogDirError(f"{where}: format {ours['format']}; this release reads format {FORMAT}")
    if not ours.keys() <= _MEMBERS:
        unknown = sorted(ours.keys() - _MEMBERS)
        raise UnsupportedFeatureError(
            f"members that this release does not know: {', '.join(unknown)}"
        )
    edits, file = listed(ours.get("edits", [])), ours.get("edits_file")
    fields: dict[str, Any] = {
        "version": number,
        "id": text(ours["id"]),
        "previous": text(ours["previous"]),
        "log": text(ours["log"]),
        "timestamp_ms": integer(info["timestamp"]),
        "operation": text(info["operation"]),
        "parameters": texts(info["operationParameters"]),
        "edits_file": None if file is None else _edits_file(*file),
        "actions": _actions(data[end + 1 :]) if len(data) > end + 1 else (),
        "bytes": len(data) + (0 if file is None else integer(file[1])),
        "edits_json": _edits_json(data, end) or orjson.dumps(edits),
    }
    return ReadEntry(with_fields(Entry, fields), edits, where)


def _actions(lines: bytes) -> list[Mapping[str, Any]]:
    return [orjson.loads(line) for line in lines.split(b"\n") if line]


def _edits_json(data: bytes, end: int) -> bytes | None:
    """Return the edits in an entry's first line, which ends at `end`; None if they are not there.

    They are the last member before the checksum. No string of JSON holds their name, because its
    quotes would be escaped, and no member before them is a list.
    """
    stop = end - len(_TAIL) - len(_ZEROS) - len(_BEHIND_EDITS)
    start = data.find(_EDITS + b"[", 0, stop) + len(_EDITS)
    is_there = data[stop - 1 : stop + len(_BEHIND_EDITS)] == b"]" + _BEHIND_EDITS
    return data[start:stop] if is_there and start >= len(_EDITS) else None


def _edits_file(path: object, size: object, checksum: object) -> EditsFile:
    folder, _, name = text(path).partition("/")
    if folder != EDITS or not name or "/" in name:
        raise ValueError(f"an edits file at {path!r}")
    return EditsFile(text(path), integer(size), integer(checksum))


def parse_edits(data: bytes, entry: Entry, where: str) -> ReadEntry:
    """Return an entry whose edits are in its edits file, `data`. Raises as `decode`."""
    file = entry.edits_file
    found = EditsFile("" if file is None else file.path, len(data), google_crc32c.value(data))
    if found != file:
        raise CorruptMetadataError(
            f"{where}: {found.bytes} bytes with CRC-32C {found.crc32c:08x}; entry {entry.version} "
            f"names {file}"
        )
    with understood(where):
        edits = listed(orjson.loads(data))
    return ReadEntry(replace(entry, edits_json=bytes(data)), edits, where)


class understood:  # noqa: N801 - used as `with understood(path):`
    """Names the file `where` in every error about its content."""

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, LogDirError):
            raise type(error)(f"{self._where}: {error}") from error
        if isinstance(error, _NOT_UNDERSTOOD):
            raise CorruptMetadataError(f"{self._where}: cannot be understood: {error!r}") from error


_NOT_UNDERSTOOD: Final = (LookupError, TypeError, ValueError, AttributeError, UsageError)


def _foreign(number: int, data: bytes, where: str) -> Entry:
    """Return an entry of another writer, to be skipped."""
    with understood(where):
        actions = _actions(data)
        named = {name for action in actions for name in dict(action)}
        (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
        operation, engine_info = info.get("operation"), info.get("engineInfo")
    named.discard("commitInfo")
    if named and not number:
        raise LogDirError(
            f"{where}: {operation} of {engine_info} made this table; a log dir of format 1 has a "
            f"Delta table for each topic, and this release reads format {FORMAT} only: "
            f"produce its topics anew"
        )
    if named:
        raise LogDirError(
            f"{where}: {operation} of {engine_info} holds {', '.join(sorted(named))}; only "
            f"sparklog may write to the metadata log: put the entry aside (sparklog verify "
            f"--repair)"
        )
    return Entry(number, "", "", "", 0, str(operation), is_foreign=True)
