"""One entry of the metadata log, byte for byte.

Version N of the log is the file `__cluster_metadata/_delta_log/<N, 20 digits>.json`, an entry of
Delta's log. It is written once, whole, and never changes. Lines end with "\\n" and are JSON:

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
file with eight zeros in their place. An entry whose edits take more than 64 KiB names a file below
`_edits/` that holds them as one JSON list; it is synced before the entry is put.

A `commitInfo` without a member `sparklog` is somebody else's. If its entry has no other action than
ones that change nothing, it is passed over (`is_foreign`); any other foreign action stops the
reader: this log has one kind of writer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import google_crc32c
import orjson

from sparklog.errors import CorruptMetadataError, LogDirError, SparklogError
from sparklog.metadata.codec import edit_json, edit_of
from sparklog.metadata.edit import Edit
from sparklog.metadata.image import Stamp

FORMAT: Final = 2
EDITS_BYTES_MAX: Final = 64 * 1024
_TAIL: Final = b'"}}}'
_ZEROS: Final = b"00000000"


@dataclass(frozen=True, slots=True)
class EditsFile:
    """The file that holds an entry's edits: path below `__cluster_metadata`, size, checksum."""

    path: str
    bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `edits_file` stands in for `edits` until it is read. `actions` are Delta's."""

    version: int
    id: str
    previous: str
    log: str
    timestamp_ms: int
    operation: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    edits_file: EditsFile | None = None
    actions: Sequence[Mapping[str, Any]] = ()
    is_foreign: bool = False
    bytes: int = field(default=0, compare=False)
    """The size of the entry and its edits as they were read."""

    @property
    def stamp(self) -> Stamp:
        """The entry's place in the log."""
        return Stamp(self.version, self.id, self.timestamp_ms)


@cache
def engine() -> str:
    """Return the name and release of this software, as entries say it."""
    return f"sparklog/{version('sparklog')}"


def encode_edits(edits: Sequence[Edit]) -> bytes:
    """Return edits as one JSON list: a member of an entry, or the content of an edits file."""
    return orjson.dumps([edit_json(edit) for edit in edits])


def encode(entry: Entry, edits: bytes) -> bytes:
    """Return the bytes of an entry; `edits` are those of `encode_edits`."""
    body = orjson.dumps(
        {
            "commitInfo": {
                "timestamp": entry.timestamp_ms,
                "operation": entry.operation,
                "operationParameters": dict(entry.parameters),
                "engineInfo": engine(),
                "sparklog": {
                    "format": FORMAT,
                    "log": entry.log,
                    "id": entry.id,
                    "previous": entry.previous,
                    **(
                        {"edits": orjson.Fragment(edits)}
                        if entry.edits_file is None
                        else {
                            "edits_file": [
                                entry.edits_file.path,
                                entry.edits_file.bytes,
                                entry.edits_file.crc32c,
                            ]
                        }
                    ),
                    "crc32c": "00000000",
                },
            }
        }
    )
    lines = [body, *(orjson.dumps(action) for action in entry.actions), b""]
    data = b"\n".join(lines)
    at = len(body) - len(_TAIL) - len(_ZEROS)
    return data[:at] + b"%08x" % google_crc32c.value(data) + data[at + len(_ZEROS) :]


def decode(number: int, data: bytes, where: str) -> Entry:
    """Return the entry of a file's bytes; edits in a file of their own are not read.

    Raises CorruptMetadataError naming `where` when the bytes are not what a writer wrote, and
    LogDirError for an action or a format of somebody else.
    """
    end = data.find(b"\n")
    lines = data[end + 1 :].splitlines() if end >= 0 else []
    try:
        info = orjson.loads(data[:end])["commitInfo"] if end >= 0 else None
        actions = [orjson.loads(line) for line in lines if line]
        ours = info.get("sparklog") if info is not None else None
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise CorruptMetadataError(f"{where}: no entry of the metadata log (torn?)") from None
    if info is None:
        raise CorruptMetadataError(f"{where}: the entry is cut off after {len(data)} bytes")
    if ours is None:
        return _foreign(number, info, actions, where)
    at = end - len(_TAIL) - len(_ZEROS)
    if not data[:end].endswith(_TAIL) or data[at : at + 8] != b"%08x" % google_crc32c.value(
        data[:at] + _ZEROS + data[at + 8 :]
    ):
        raise CorruptMetadataError(f"{where}: the entry does not match its checksum")
    if ours["format"] != FORMAT:
        raise LogDirError(f"{where}: format {ours['format']}; this release reads format {FORMAT}")
    parameters = info["operationParameters"]
    file = ours.get("edits_file")
    return Entry(
        number,
        ours["id"],
        ours["previous"],
        ours["log"],
        info["timestamp"],
        info["operation"],
        parameters,
        edits_of(ours.get("edits", ()), parameters, where),
        file and EditsFile(*file),
        actions,
        bytes=len(data) + (file[1] if file else 0),
    )


def edits_of(
    found: Sequence[Mapping[str, Any]], parameters: Mapping[str, str], where: str
) -> tuple[Edit, ...]:
    """Return the edits of a JSON list. Raises CorruptMetadataError naming `where`."""
    try:
        return tuple(edit_of(one, parameters) for one in found)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CorruptMetadataError(f"{where}: an edit cannot be understood: {error!r}") from error
    except SparklogError as error:
        error.args = (f"{where}: {error}",)
        raise


def _foreign(
    number: int, info: Mapping[str, Any], actions: Sequence[Mapping[str, Any]], where: str
) -> Entry:
    named = sorted({name for action in actions for name in action})
    if named:
        raise LogDirError(
            f"{where}: {info.get('operation')} of {info.get('engineInfo')} holds {', '.join(named)}; "
            f"nobody but sparklog may write to the metadata log: put the entry aside "
            f"(sparklog verify --repair)"
        )
    timestamp_ms = int(info.get("timestamp") or 0)
    return Entry(number, "", "", "", timestamp_ms, str(info.get("operation")), is_foreign=True)
