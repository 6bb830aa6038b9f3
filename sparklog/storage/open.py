"""From the address of a log dir to its files: a path, or the URI of an object store."""

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from sparklog.errors import InvalidOptionError, LogDirError
from sparklog.storage.files import Files
from sparklog.storage.local import LocalFiles
from sparklog.storage.paths import check_path
from sparklog.storage.settings import storage_options

# A file URI may have a single slash. Any other scheme with a single slash is refused: dbfs:/mnt, or
# s3:/bucket, which pathlib makes of s3://bucket. It is not a path of this machine.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[A-Za-z][A-Za-z0-9+.-]+:(?=/)")
# The characters that every client takes as they are: Delta's readers parse the address as a URL.
_PREFIX = re.compile(r"[A-Za-z0-9_.=+/-]*")
_BUCKETS = {
    "s3": re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
    "gs": re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
    "az": re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]"),
    "abfss": re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]@[a-z0-9]{3,24}\.dfs\.core\.windows\.net"),
}
_STORES = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE", "abfss": "AZURE"}
_SHAPES = {
    "s3": "s3://bucket/prefix",
    "gs": "gs://bucket/prefix",
    "az": "az://container/prefix",
    "abfss": "abfss://container@account.dfs.core.windows.net/prefix",
}
_KEYS = {
    "AWS": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "GOOGLE": "GOOGLE_SERVICE_ACCOUNT or GOOGLE_SERVICE_ACCOUNT_KEY",
    "AZURE": "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
}

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")

_ALLOWED = f"allowed: a path, file:///path, {', '.join(_SHAPES.values())}"


def open_files(
    log_dir: str, options: Mapping[str, str] | None = None, *, remembers: bool = False
) -> Files:
    """Return the files of a log dir, which need not exist yet; reads no file, connects to nothing.

    `log_dir` is a path (`~` at its beginning is the home directory, because not every shell expands
    it), a file: URI, or the URI of an object store. `options` are the storage settings
    (`settings.STORAGE_SETTINGS`), with or without `storage.`; for an object store, a setting that
    they leave out comes from the environment. With `remembers` the newest segments of an object
    store stay in memory (`newest`): it is for services. Raises LogDirError for an address that
    cannot be a log dir, and InvalidOptionError for a wrong setting or for credentials in the
    address.
    """
    scheme, rest = _split(log_dir)
    if scheme in _SHAPES:
        from sparklog.storage.objects.newest import RememberingFiles
        from sparklog.storage.objects.object_store import ObjectFiles

        uri = _store_uri(log_dir, scheme, rest)
        given = storage_options(options or {}, os.environ, _STORES[scheme])
        return RememberingFiles(uri, given) if remembers else ObjectFiles(uri, given)
    # The settings have no effect on a local log dir, but a misspelt one is an error all the same.
    storage_options(options or {}, {})
    return _local_files(_local_path(log_dir) if scheme == "file" else os.path.expanduser(log_dir))


def _split(log_dir: str) -> tuple[str, str]:
    """Return (the scheme in lower case, "" for a plain path; the rest of the address)."""
    if not log_dir or "\0" in log_dir:
        raise LogDirError(f"the log dir is {log_dir!r}; {_ALLOWED}")
    match = _SCHEME.match(log_dir)
    if match is None:
        return "", log_dir
    scheme = match[0].partition(":")[0].lower()
    scheme = "s3" if scheme == "s3a" else scheme
    if scheme != "file" and scheme not in _SHAPES:
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
        # delta-rs 1.6.6 unescapes a path once too often, and then works in two directories.
        raise LogDirError(f"the log dir {files.uri!r} holds {escape[0]!r}; no %XX is allowed")
    return files


def _store_uri(log_dir: str, scheme: str, rest: str) -> str:
    # A password may stand before an @, so the message does not show the address.
    if "@" in rest and not (scheme == "abfss" and ":" not in rest and rest.count("@") == 1):
        raise InvalidOptionError(
            f"the log dir holds credentials; give them as {_KEYS[_STORES[scheme]]}"
        )
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.rstrip("/")
    if not _BUCKETS[scheme].fullmatch(bucket) or not _PREFIX.fullmatch(prefix):
        raise LogDirError(
            f"the log dir {log_dir!r} is not {_SHAPES[scheme]}; allowed in a prefix: "
            "letters, digits and - _ . = + /"
        )
    return f"{scheme}://{bucket}/{check_path(prefix)}" if prefix else f"{scheme}://{bucket}"
