"""Files of an object store, through obstore: S3, Google Cloud Storage, Azure.

The differences from a file system:

- A new file appears when it is closed, all at once. A file of up to 10 MiB (PART_BYTES) is kept in
  memory and put with one request; a larger one is uploaded in parts. An upload cannot be dropped:
  `abort` completes it and then deletes the object. Nothing refers to the object in between, because
  its name has a fresh uuid.
- `put_new`, `write_new` and `link_or_copy` are conditional: the store lets one writer have a name.
  `create` is not conditional, and relies on the uuid in the name.
- The client repeats a request that got no answer. So a conditional put may find the object that its
  own first try has put. `write_new` compares the bytes, and succeeds if they are the same.
- `sync` has nothing to do: an acknowledged object is durable.
- A bucket that does not exist is a StorageError, not a MissingFileError: the first topic makes a
  log dir, but never a bucket.

obstore's threads do not survive a fork: once a process has connected, its forks cannot connect.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from sparklog.errors import (
    ExistingFileError,
    MissingFileError,
    StorageError,
    StoragePermissionError,
)
from sparklog.storage.at_once import each_at_once
from sparklog.storage.failures import failure
from sparklog.storage.files import FileStat, NewFile, Reader, flat_view, no_wait
from sparklog.storage.objects import aws_credentials
from sparklog.storage.objects.client import (
    chosen_credential,
    client_options,
    config_of,
    forget_empty,
    retry_config,
)
from sparklog.storage.objects.read_ahead import ReadAhead
from sparklog.storage.objects.store_message import plain_message
from sparklog.storage.paths import check_directory, check_path, check_range
from sparklog.storage.settings import StorageOptions

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

    from sparklog.record.batches import Buffer

PART_BYTES: Final = 10 * 1024 * 1024
"""A larger file is uploaded in parts of this size."""
DELETED_AT_ONCE: Final = 1000
"""How many objects one request deletes at most (S3's limit), and how many a page lists."""

NO_BUCKET: Final = "there is no such bucket"
_NO_BUCKET_WORDS: Final = ("NoSuchBucket", "ContainerNotFound", "specified bucket does not exist")
_DENIED_WORDS: Final = (
    "403 Forbidden",
    "401 Unauthorized",
    "AccessDenied",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
)
"""Words of a refusal for which obstore has no error class: of a list, of a part of a bulk delete,
and of S3's refusal of a token (status 400)."""
_CONFLICT: Final = "ConditionalRequestConflict"
"""S3's answer while another request writes the same name. S3 has written nothing and has not
checked whether the name is taken."""
_BEYOND_THE_END: Final = ("416 Range Not Satisfiable", "Wanted range starting at")
"""Words of an error for a range that begins behind the object's end: of a store, of obstore."""

_connected_by: int | None = None
"""The id of the process that has started obstore's threads."""


class ObjectFiles:
    """The objects below one prefix of a bucket, as `Files`.

    Each process connects at its first use. `store`, if given, replaces the store of the address:
    any of obstore's stores whose root is the log dir.
    """

    is_local = False

    def __init__(
        self, uri: str, options: StorageOptions, store: "ObjectStore | None" = None
    ) -> None:
        self.uri = uri
        self.options = options
        self._given = store
        self._opened = store

    def __repr__(self) -> str:
        return f"ObjectFiles({self.uri!r}, {self.options!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectFiles, (self.uri, self.options, self._given)

    def create(
        self,
        path: str,
        *,
        durable: bool = False,  # noqa: ARG002 - it always is
        with_name: bool = False,  # noqa: ARG002 - it always is
    ) -> NewFile:
        """See `Files.create`; never raises ExistingFileError (module docstring)."""
        return ObjectNewFile(check_path(path), self)

    def write_new(self, path: str, data: "Buffer", *, durable: bool = False) -> None:  # noqa: ARG002 - always
        view = flat_view(data)
        if not self._is_put("write", path, view) and self.read(path) != view:
            raise failure(ExistingFileError, "write", path, self.uri, "it exists already")

    def put_new(
        self,
        path: str,
        data: "Buffer",
        *,
        durable: bool = True,  # noqa: ARG002 - always
        ready: Callable[[], None] = no_wait,
    ) -> bool:
        """See `Files.put_new`: one conditional request."""
        ready()
        return self._is_put("put", path, flat_view(data))

    def overwrite(self, path: str, data: "Buffer") -> None:
        """See `Files.overwrite`: one request."""
        with self.errors("overwrite", check_path(path)):
            obstore.put(self.store, path, flat_view(data), use_multipart=False)

    def _is_put(self, operation: str, path: str, view: memoryview) -> bool:
        check_path(path)
        with self.errors(operation, path):
            try:
                obstore.put(self.store, path, view, mode="create", use_multipart=False)
            except AlreadyExistsError as error:
                if _CONFLICT in str(error):
                    raise failure(StorageError, operation, path, self.uri, _CONFLICT) from None
                return False
        return True

    def read(self, path: str, start: int = 0, length: int | None = None) -> memoryview:
        """See `Files.read`: one GET, ranged unless the whole file is asked for."""
        check_range(start, length)
        check_path(path)
        with self.errors("read", path):
            try:
                return memoryview(self._got(path, start, length))[:length]
            except BaseError as error:
                if not any(words in str(error) for words in _BEYOND_THE_END):
                    raise
                return memoryview(b"")

    def _got(self, path: str, start: int, length: int | None) -> Any:
        if length is not None:
            # The client refuses an empty range; one byte shows whether there is a file.
            return obstore.get_range(self.store, path, start=start, length=max(length, 1))
        if start:
            options: obstore.GetOptions = {"range": {"offset": start}}
            return obstore.get(self.store, path, options=options).bytes()
        return obstore.get(self.store, path).bytes()

    def view(self, path: str, length: int | None = None, start: int = 0) -> memoryview:
        """See `Files.view`: a copy, because an object cannot be mapped."""
        return self.read(path, start, length)

    def keep(self, path: str) -> Reader:
        """See `Files.keep`: no request before the first read."""
        check_path(path)
        return lambda start, length: self.read(path, start, length)

    def read_ahead(self, path: str, end: int) -> Reader:
        return ReadAhead(self.keep(path), end)

    def stat(self, path: str) -> FileStat | None:
        """See `Files.stat`: a HEAD, whose answer does not say whether the bucket exists."""
        check_path(path)
        with self.errors("look up", path):
            try:
                return _file_stat(obstore.head(self.store, path))
            except FileNotFoundError:
                return None

    def list(self, directory: str = "", recursive: bool = False) -> Iterator[FileStat]:
        prefix = check_directory(directory) or None
        if not recursive:
            with self.errors("list", directory):
                found = obstore.list_with_delimiter(self.store, prefix)["objects"]
            return iter(sorted(_stats(found, directory)))
        pages = self._pages(directory, prefix)
        # The first page is fetched now, so that this call raises its errors.
        stats = _stats(chain(next(pages, ()), chain.from_iterable(pages)), directory)
        return stats if isinstance(self.store, S3Store | GCSStore) else iter(sorted(stats))

    def _pages(self, directory: str, prefix: str | None) -> "Iterator[Sequence[ObjectMeta]]":
        with self.errors("list", directory):
            yield from obstore.list(self.store, prefix, chunk_size=DELETED_AT_ONCE)

    def delete(self, path: str) -> None:
        check_path(path)
        with self.errors("delete", path):
            try:
                obstore.delete(self.store, path)
            except FileNotFoundError as error:
                if _names_no_bucket(error):
                    raise

    def delete_many(self, paths: Iterable[str]) -> None:
        """See `Files.delete_many`: S3 gets a request for each 1,000 files, Azure for each 256."""
        rest = map(check_path, paths)
        while some := list(islice(rest, DELETED_AT_ONCE)):
            with self.errors("delete", some[0]):
                try:
                    obstore.delete(self.store, some)
                    continue
                except FileNotFoundError as error:
                    if _names_no_bucket(error):
                        raise
            # Some stores fail for a file that is gone, and may not have deleted the others.
            each_at_once(self.delete, some)

    def delete_tree(self, directory: str) -> None:
        check_path(directory)
        self.delete_many(stat.path for stat in self.list(directory, recursive=True))

    def sync(self, paths: Iterable[str]) -> None:
        """See `Files.sync`: only checks the paths."""
        for path in paths:
            check_path(path)

    def sync_directory(self, directory: str) -> None:
        """See `Files.sync_directory`: nothing to do."""
        check_directory(directory)

    def link_or_copy(self, source: str, target: str) -> None:
        """See `Files.link_or_copy`: a copy inside the store."""
        check_path(source)
        with self.errors(f"copy {source} to", check_path(target)):
            obstore.copy(self.store, source, target, overwrite=False)

    @property
    def store(self) -> "ObjectStore":
        """The store whose root is the log dir."""
        global _connected_by  # noqa: PLW0603 - obstore's threads are one per process, too
        if _connected_by not in {None, os.getpid()}:
            raise StorageError(
                f"cannot connect to {self.uri}: this process was forked from one that had "
                "connected to an object store; allowed: a process started by spawn or forkserver"
            )
        _connected_by = os.getpid()
        if self._opened is None:
            self._opened = opened_store(self.uri, self.options)
        return self._opened

    @contextmanager
    def errors(self, operation: str, path: str) -> Iterator[None]:
        """Turn obstore's errors into StorageErrors whose messages have no secrets."""
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            kind, reason = _kind(error), self.options.redact(_reason(error))
            # Not chained: the reason says all that the cause says, but with its secrets redacted.
            raise failure(kind, operation, path, self.uri, reason) from None


class ObjectNewFile(NewFile):
    """A new object: up to PART_BYTES in memory, a larger one as an upload in parts.

    One part is sent while the next one fills.
    """

    def __init__(self, path: str, files: ObjectFiles) -> None:
        super().__init__(path)
        self._files = files
        self._first_part = bytearray()
        self._upload: obstore.WritableFile | None = None

    def _append(self, view: memoryview) -> None:
        with self._files.errors("write", self.path):
            if self._upload is None and len(self._first_part) + view.nbytes <= PART_BYTES:
                self._first_part += view
                return
            if self._upload is None:
                self._upload = obstore.open_writer(
                    self._files.store, self.path, buffer_size=PART_BYTES, max_concurrency=1
                )
                self._upload.write(bytes(self._first_part))
                self._first_part.clear()
            self._upload.write(view)

    def _complete(self) -> None:
        with self._files.errors("close", self.path):
            if self._upload is None:
                obstore.put(self._files.store, self.path, self._first_part, use_multipart=False)
            else:
                self._upload.close()

    def _discard(self) -> None:
        if self._upload is None:
            return
        # No row names the object, so vacuum deletes it if this fails. The caller has to see the
        # error that made it abort, not one of these.
        for step in (self._upload.close, lambda: self._files.delete(self.path)):
            try:
                step()
            except (BaseError, OSError, StorageError):
                continue


def opened_store(uri: str, options: StorageOptions) -> "ObjectStore":
    """Return the store of an address that `open_files` has checked; sends no request."""
    scheme, _, rest = uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    store = {"s3": "AWS", "gs": "GOOGLE"}.get(scheme, "AZURE")
    forget_empty(os.environ, store)
    config: Any = config_of(options, store)
    common: dict[str, Any] = {
        "prefix": prefix or None,
        "client_options": client_options(options, store),
        "retry_config": retry_config(options),
    }
    if scheme == "s3":
        provider: Any = aws_credentials.given(options) or aws_credentials.provided(os.environ)
        config["aws_copy_if_not_exists"] = "multipart"
        return S3Store(bucket, config=config, credential_provider=provider, **common)
    if scheme == "gs":
        return GCSStore(bucket, config=config, **common)
    container, _, host = bucket.partition("@")
    config |= chosen_credential(options)
    if host:
        config["azure_storage_account_name"] = host.partition(".")[0]
    return AzureStore(container, config=config, **common)


def _file_stat(found: "ObjectMeta") -> FileStat:
    modified: datetime = found["last_modified"]
    return FileStat(found["path"], found["size"], int(modified.timestamp() * 1000))


def _stats(found: "Iterable[ObjectMeta]", directory: str) -> Iterator[FileStat]:
    """Yield the files of a directory, without the object that stands for the directory itself.

    S3's console makes such an object, "directory/", when a folder is created.
    """
    return (stat for stat in map(_file_stat, found) if stat.path != directory)


def _names_no_bucket(error: Exception) -> bool:
    return any(word in str(error) for word in _NO_BUCKET_WORDS)


def _kind(error: Exception) -> type[StorageError]:
    if _names_no_bucket(error):
        return StorageError
    if isinstance(error, FileNotFoundError):
        return MissingFileError
    if isinstance(error, AlreadyExistsError):
        return ExistingFileError
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return StoragePermissionError
    is_denied = any(word in str(error) for word in _DENIED_WORDS)
    return StoragePermissionError if is_denied else StorageError


def _reason(error: Exception) -> str:
    """Return the reason of an error, in one line."""
    if _names_no_bucket(error):
        return NO_BUCKET
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, AlreadyExistsError):
        return "it exists already"
    return plain_message(str(error))
