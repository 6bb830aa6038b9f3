r"""meta.properties, the file that makes a directory a log dir, as in Kafka.

    version=1\n
    cluster.id=<22 characters: base64url, without padding, of a UUID's 16 bytes>\n
    metadata.max.retention.ms=<how long the history is kept>\n      may be missing, as the next
    metadata.max.retention.bytes=<how much of it is kept>\n

The history's retention is here because any process may fold, and all must cut the history alike.
Lines that begin with # or ! are comments. A broker's own file also has its node id, and is refused:
import such a directory instead.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from sparklog.errors import LogDirError, MissingFileError, UnsupportedFeatureError
from sparklog.log.names import CLUSTER_METADATA, random_uuid
from sparklog.storage.files import Files
from sparklog.storage.local import TEMPORARY

META_PROPERTIES = "meta.properties"
LOG_DIR_VERSION = 1
"""The version that this release writes; it reads no other."""

META_BYTES_MAX = 64 * 1024
_PROBE = ".probe-"
_LEFT_BY_CREATION: Final = (TEMPORARY, _PROBE, f"{CLUSTER_METADATA}/")
"""Prefixes of the files that an interrupted `create_log_dir` leaves behind."""

BROKER_KEYS = frozenset({"broker.id", "node.id", "directory.id"})

_HOW_TO_MAKE_ONE = (
    "the first topic that is created makes one: `sparklog topic create`, or "
    "AdminClient(log_dir).create_topics([…])"
)
_HOW_TO_MEND_ONE = (
    "a log dir is made in a new or an empty directory; if this log dir has lost the file, put the "
    "same file back"
)


class Retention(NamedTuple):
    """How much of the metadata log's history is kept; -1: all. As in Kafka's MetadataLogConfig."""

    ms: int = 7 * 24 * 3600 * 1000
    bytes: int = 100 * 1024 * 1024


DEFAULT_RETENTION: Final = Retention()
KEPT: Final = "metadata.max.retention."
"""The prefix of the configs with the fields of Retention."""


@dataclass(frozen=True, slots=True)
class LogDir:
    """The content of meta.properties."""

    version: int
    cluster_id: str
    retention: Retention = DEFAULT_RETENTION


def create_log_dir(files: Files, random16: bytes) -> LogDir:
    """Return the log dir; make it, durably, if it is not there.

    `random16` are 16 random bytes for its cluster id. If several processes create a log dir at the
    same moment, all return the same id. Raises LogDirError as `open_log_dir` and
    `probe_conditional_put` do.
    """
    present = _read(files)
    if present is not None:
        return present
    probe_conditional_put(files)
    files.put_new(META_PROPERTIES, encode(LogDir(LOG_DIR_VERSION, random_uuid(random16))))
    files.sync([META_PROPERTIES])
    return open_log_dir(files)


def replace_log_dir(files: Files, random16: bytes) -> LogDir:
    """Give a log dir another cluster id, durably. Raises LogDirError as `open_log_dir` does."""
    present = open_log_dir(files)
    files.overwrite(META_PROPERTIES, encode(replace(present, cluster_id=random_uuid(random16))))
    files.sync_directory("")
    return open_log_dir(files)


def probe_conditional_put(files: Files) -> None:
    """Raise LogDirError if the storage lets a second put replace a file; leaves no file behind.

    A commit is a conditional put: a store that ignores the condition would lose commits silently.
    """
    probe = f"{_PROBE}{os.urandom(12).hex()}"
    try:
        files.put_new(probe, b"1", durable=False)
        if files.put_new(probe, b"2", durable=False) or bytes(files.read(probe)) != b"1":
            raise LogDirError(
                f"{files.uri} cannot be written to: its storage ignores the condition of a put "
                "(If-None-Match: *, x-goog-if-generation-match: 0) and replaces a file of the same "
                "name, so commits would be lost; allowed: a store with conditional put, such as "
                "S3, Google Cloud Storage, Azure, or a current MinIO"
            )
    finally:
        files.delete(probe)


def open_log_dir(files: Files) -> LogDir:
    """Return the content of the log dir's meta.properties.

    Raises LogDirError if the file is missing, a broker's, or damaged; UnsupportedFeatureError if it
    is of a newer version. For a missing or empty directory the message says how to make a log dir.
    """
    present = _read(files)
    if present is None:
        advice = _HOW_TO_MAKE_ONE if strange_file(files) is None else _HOW_TO_MEND_ONE
        raise LogDirError(f"{files.uri} is not a log dir: it has no {META_PROPERTIES}; {advice}")
    return present


def retention_of(files: Files) -> Retention:
    """Return how much history a log dir keeps; the defaults while it is being made.

    Raises LogDirError as `open_log_dir` for a wrong meta.properties.
    """
    present = _read(files)
    return DEFAULT_RETENTION if present is None else present.retention


def strange_file(files: Files) -> str | None:
    """Return the path of a file that an interrupted `create_log_dir` does not leave behind.

    None if there is no such file: then a log dir may be made here.
    """
    paths = (file.path for file in files.list(recursive=True))
    return next((path for path in paths if not path.startswith(_LEFT_BY_CREATION)), None)


def encode(log_dir: LogDir) -> bytes:
    """Return the bytes of meta.properties."""
    lines = [f"version={log_dir.version}", f"cluster.id={log_dir.cluster_id}"]
    for name, value in log_dir.retention._asdict().items():
        if value != Retention._field_defaults[name]:
            lines.append(f"{KEPT}{name}={value}")
    return "".join(f"{line}\n" for line in lines).encode()


def decode(data: bytes, log_dir: str) -> LogDir:
    """Return the content of a meta.properties.

    `log_dir` is its log dir's address, for messages. Raises as `open_log_dir`.
    """
    entries = _parse(data)
    where = f"{META_PROPERTIES} in {log_dir}"
    if BROKER_KEYS & entries.keys():
        raise LogDirError(
            f"{where} is a Kafka broker's (it has {', '.join(sorted(BROKER_KEYS & entries.keys()))}"
            "); allowed: a directory of sparklog's own"
        )
    version = entries.get("version", "")
    if not re.fullmatch("[1-9][0-9]{0,8}", version):
        raise LogDirError(f"{where} has the version {version!r}; allowed: {LOG_DIR_VERSION}")
    if int(version) > LOG_DIR_VERSION:
        raise UnsupportedFeatureError(
            f"{where} has version {version}, and this release reads version {LOG_DIR_VERSION} "
            "only: upgrade sparklog"
        )
    if not entries.get("cluster.id"):
        raise LogDirError(f"{where} has no cluster.id; allowed: 22 characters")
    return LogDir(int(version), entries["cluster.id"], _retention(entries, where))


def _retention(entries: Mapping[str, str], where: str) -> Retention:
    found = {name: entries.get(f"{KEPT}{name}") for name in Retention._fields}
    for name, value in found.items():
        if value is not None and not re.fullmatch("-1|[0-9]{1,18}", value):
            raise LogDirError(
                f"{where} has {KEPT}{name}={value!r}; allowed: 0 or more, -1: no limit"
            )
    return Retention(**{name: int(value) for name, value in found.items() if value is not None})


def _read(files: Files) -> LogDir | None:
    try:
        data = files.read(META_PROPERTIES, 0, META_BYTES_MAX)
    except MissingFileError:
        return None
    return decode(bytes(data), files.uri)


def _parse(data: bytes) -> dict[str, str]:
    """Return the `key=value` lines of a properties file; without "=" a key has the value ""."""
    found = {}
    for line in data.decode("utf-8", errors="replace").splitlines():
        if line.strip() and line.lstrip()[0] not in "#!":
            key, _, value = line.partition("=")
            found[key.strip()] = value.strip()
    return found
