"""From the name of a log dir to its files: a path, file:// or s3://."""

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from sparklog.errors import InvalidOptionError, LogDirError
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles
from sparklog.storage.paths import check_path
from sparklog.storage.settings import storage_options

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(file):(?=/)", re.IGNORECASE)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# What pyarrow and delta-rs spell alike: one takes a key as it is, the other parses a URL.
_PREFIX = re.compile(r"[A-Za-z0-9_.=+/-]*")

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")

_ALLOWED = "allowed: a path, file:///path, s3://bucket/prefix (or s3a://)"


def open_files(log_dir: str, options: Mapping[str, str] | None = None) -> Files:
    """The files of a log dir, whether or not there is one yet; nothing is read or connected to.

    A path that begins with `~` is below the home directory, for not every shell says so itself.
    `options` are the storage settings (`settings.STORAGE_SETTINGS`), with or without `storage.`;
    for an object store the environment fills in what they leave out. LogDirError for an address
    that cannot be a log dir, InvalidOptionError for a wrong setting.
    """
    scheme, rest = _split(log_dir)
    if scheme in {"s3", "s3a"}:
        from sparklog.storage.arrow_fs import ArrowFiles

        return ArrowFiles(_s3_uri(log_dir, rest), storage_options(options or {}, os.environ))
    # Without effect here, but a misspelt setting is told all the same.
    storage_options(options or {}, {})
    return _local_files(_local_path(log_dir) if scheme == "file" else os.path.expanduser(log_dir))


def _split(log_dir: str) -> tuple[str, str]:
    """The scheme in lower case, "" for a plain path, and what follows it."""
    if not log_dir or "\0" in log_dir:
        raise LogDirError(f"the log dir is {log_dir!r}; {_ALLOWED}")
    match = _SCHEME.match(log_dir)
    if match is None:
        return "", log_dir
    scheme = match[0].partition(":")[0].lower()
    if scheme not in {"file", "s3", "s3a"}:
        raise LogDirError(f"the log dir has the scheme {scheme!r}; {_ALLOWED}")
    return scheme, log_dir[match.end() :]


def _local_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.netloc not in {"", "localhost"}:
        raise LogDirError(
            f"the log dir {uri!r} names the host {parts.netloc!r}; allowed: file:///path"
        )
    if parts.query or parts.fragment:
        raise LogDirError(
            f"the log dir {uri!r} holds a '?' or a '#'; allowed in a file URI: %3F and %23"
        )
    return unquote(parts.path)


def _local_files(path: str) -> LocalFiles:
    files = LocalFiles(path)
    escape = _ESCAPE.search(files.uri)
    if escape is not None:
        # delta-rs 1.6.6 unescapes a path once too often, and works in two directories.
        raise LogDirError(f"the log dir {files.uri!r} holds {escape[0]!r}; no %XX is allowed")
    return files


def _s3_uri(log_dir: str, rest: str) -> str:
    # A password may stand before an @, so what stands there is not shown.
    if "@" in rest:
        raise InvalidOptionError(
            "the log dir holds credentials; "
            "give them as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.rstrip("/")
    if not _BUCKET.fullmatch(bucket) or not _PREFIX.fullmatch(prefix):
        raise LogDirError(
            f"the log dir {log_dir!r} is not s3://bucket/prefix; allowed in a prefix: "
            "letters, digits and - _ . = + /"
        )
    return f"s3://{bucket}/{check_path(prefix)}" if prefix else f"s3://{bucket}"
