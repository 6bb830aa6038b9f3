"""Cases beyond the contract suite: obstore's errors, and uploads that break."""

import os
from datetime import timedelta
from typing import Any

import obstore
import pytest
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from sparklog.errors import (
    ExistingFileError,
    MissingFileError,
    StorageError,
    StoragePermissionError,
)
from sparklog.storage.objects import object_store
from sparklog.storage.objects.object_store import ObjectFiles, ObjectNewFile, opened_store
from sparklog.storage.settings import StorageOptions

SECRETS = StorageOptions({"AWS_ACCESS_KEY_ID": "AKIAID", "AWS_SECRET_ACCESS_KEY": "s3cret"})
PART = object_store.PART_BYTES


@pytest.fixture
def files() -> ObjectFiles:
    return ObjectFiles("s3://bucket/log", SECRETS, MemoryStore())


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "kind", "reason"),
        (
            (FileNotFoundError("Object at location a"), MissingFileError, "no such file"),
            (AlreadyExistsError("Object at a"), ExistingFileError, "it exists already"),
            (PermissionDeniedError("no"), StoragePermissionError, "no"),
            (UnauthenticatedError("no"), StoragePermissionError, "no"),
            (GenericError("400 <Code>ExpiredToken</Code>"), StoragePermissionError, None),
            (GenericError("403 Forbidden"), StoragePermissionError, None),
            (GenericError("<Code>AccessDenied</Code>"), StoragePermissionError, None),
            (GenericError("503 Slow Down"), StorageError, None),
            (GenericError("<Code>NoSuchBucket</Code>"), StorageError, "there is no such bucket"),
            (FileNotFoundError("ContainerNotFound"), StorageError, "there is no such bucket"),
            (BaseError("what?"), StorageError, None),
            (ValueError("Invalid range"), StorageError, None),
            (OSError("broken"), StorageError, None),
        ),
        ids=lambda value: str(value)[:30] if isinstance(value, Exception) else "",
    )
    def test_are_told_apart(
        self, files: ObjectFiles, error: Exception, kind: type[StorageError], reason: str | None
    ) -> None:
        with pytest.raises(StorageError) as caught, files.errors("read", "t/a.log"):
            raise error

        assert type(caught.value) is kind
        assert str(caught.value) == f"cannot read t/a.log in s3://bucket/log: {reason or error}"

    def test_show_no_secret_not_even_as_the_cause(self, files: ObjectFiles) -> None:
        with pytest.raises(StorageError) as caught, files.errors("read", "a"):
            raise GenericError("AKIAID signed with s3cret")

        assert str(caught.value).endswith(": *** signed with ***")
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_show_no_query_for_it_may_be_signed(self, files: ObjectFiles) -> None:
        with pytest.raises(StorageError) as caught, files.errors("read", "a"):
            raise GenericError("GET https://host/a/b?sv=1&sig=s1gned in 3 ms\n is  it?")

        assert str(caught.value).endswith(": GET https://host/a/b in 3 ms is it?")

    @pytest.mark.parametrize("host", ["169.254.169.254/latest", "metadata.google.internal/token"])
    def test_say_that_there_are_no_credentials(self, files: ObjectFiles, host: str) -> None:
        with pytest.raises(StorageError) as caught, files.errors("read", "a"):
            raise GenericError(f"PUT http://{host} in 2 s: timed out")

        assert ": no credentials in the storage options" in str(caught.value)
        assert str(caught.value).endswith(f": PUT http://{host} in 2 s: timed out")

    def test_are_short(self, files: ObjectFiles) -> None:
        with pytest.raises(StorageError) as caught, files.errors("read", "a"):
            raise GenericError(f"{'x' * 1000}\n\nDebug source:\n Generic")

        assert str(caught.value).endswith(f": {'x' * 500}…")

    def test_of_a_python_program_pass(self, files: ObjectFiles) -> None:
        with pytest.raises(KeyError), files.errors("read", "a"):
            raise KeyError


class TestRead:
    def test_tells_a_failure(self, files: ObjectFiles, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise GenericError("the connection broke")

        monkeypatch.setattr(obstore, "get_range", broken)

        with pytest.raises(StorageError, match="cannot read a in .*the connection broke"):
            files.read("a", 0, 1)


class TestWriteNew:
    def test_takes_the_same_bytes_for_its_own(self, files: ObjectFiles) -> None:
        """The client asks again when it got no answer, and finds the object it has put itself."""
        obstore.put(files.store, "a", b"first")
        files.write_new("a", b"first")

        with pytest.raises(ExistingFileError, match="cannot write a in .*it exists already"):
            files.write_new("a", b"second")


class TestList:
    def test_is_sorted_where_the_store_does_not_sort(self, files: ObjectFiles) -> None:
        for path in ("d/b", "d.x/a", "d/a"):
            obstore.put(files.store, path, b"x")

        assert [found.path for found in files.list("", recursive=True)] == ["d.x/a", "d/a", "d/b"]


class TestDelete:
    @pytest.mark.parametrize("error", (FileNotFoundError("NoSuchBucket"), GenericError("no")))
    def test_tells_a_failure(
        self, files: ObjectFiles, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def broken(*_: Any) -> None:
            raise error

        monkeypatch.setattr(obstore, "delete", broken)
        with pytest.raises(StorageError, match="cannot delete a in "):
            files.delete("a")
        with pytest.raises(StorageError, match="cannot delete a in "):
            files.delete_many(["a"])

    def test_of_many_goes_on_one_by_one_where_one_is_gone(
        self, files: ObjectFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Google's and Azure's answer to a file that is gone is an error."""
        for path in ("a", "b"):
            obstore.put(files.store, path, b"x")
        delete: Any = obstore.delete

        def strict(store: Any, paths: Any) -> None:
            if "gone" in ([paths] if isinstance(paths, str) else paths):
                raise FileNotFoundError("BlobNotFound")
            delete(store, paths)

        monkeypatch.setattr(obstore, "delete", strict)
        files.delete_many(["a", "gone", "b"])

        assert list(files.list()) == []


class Broken:
    """An upload whose connection is gone."""

    def write(self, _: Any) -> int:
        raise GenericError("the connection broke")

    def close(self) -> None:
        raise GenericError("the connection broke")


class TestNewFile:
    @pytest.fixture
    def file(self, files: ObjectFiles) -> ObjectNewFile:
        file = files.create("t/a.log")
        assert isinstance(file, ObjectNewFile)
        return file

    @pytest.mark.parametrize("size", (0, PART, PART + 1, 2 * PART + 1))
    def test_holds_what_was_written(
        self, file: ObjectNewFile, files: ObjectFiles, size: int
    ) -> None:
        data = os.urandom(size)
        for start in range(0, size, 3_000_000):
            file.write(data[start : start + 3_000_000])
        file.close()

        assert files.read("t/a.log") == data

    def test_appears_when_it_is_closed(self, file: ObjectNewFile, files: ObjectFiles) -> None:
        file.write(bytes(PART + 1))

        assert files.stat("t/a.log") is None
        file.close()
        assert files.stat("t/a.log") is not None

    def test_a_write_that_fails_tells_the_first_error(
        self, file: ObjectNewFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(file, "_upload", Broken())

        with pytest.raises(StorageError, match="cannot write t/a.log in .*the connection broke"):
            file.write(b"x")

        assert file.bytes_written == 0

    def test_a_close_that_fails_deletes_what_may_have_appeared(
        self, file: ObjectNewFile, files: ObjectFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(file, "_upload", Broken())
        files.write_new("t/a.log", b"half of it")

        with pytest.raises(StorageError, match="cannot close t/a.log in .*the connection broke"):
            file.close()

        assert files.stat("t/a.log") is None

    def test_asks_nobody_where_nothing_has_left(
        self, file: ObjectNewFile, files: ObjectFiles
    ) -> None:
        file.write(b"x")
        files.write_new("t/a.log", b"another's")
        file.abort()

        assert bytes(files.read("t/a.log")) == b"another's"


class TestFork:
    def test_a_child_is_told_that_it_cannot_connect(
        self, files: ObjectFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a child obstore waits for threads that are not there, for ever."""
        monkeypatch.setattr(object_store, "_connected_by", os.getppid())

        with pytest.raises(StorageError, match="was forked from one that had connected"):
            files.read("a")


class TestOpenedStore:
    @pytest.fixture(autouse=True)
    def no_home(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))

    def test_mixes_keys_that_are_given_with_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "of other keys")
        store = opened_store("s3://bucket/a/b", SECRETS)

        assert isinstance(store, S3Store)
        assert (store.prefix, store.config["bucket"]) == ("a/b", "bucket")
        assert store.credential_provider is not None
        credential: Any = store.credential_provider()
        assert credential["token"] is None

    def test_passes_over_empty_variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As Compose sets them. obstore takes them for one half of a key, or for a token."""
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"):
            monkeypatch.setenv(name, "")
        opened_store("s3://bucket", StorageOptions({"AWS_REGION": "eu-west-1"}))

        assert {"AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"}.isdisjoint(os.environ)

    def test_leaves_credentials_to_obstore(self) -> None:
        store = opened_store("s3://bucket", StorageOptions({"AWS_REGION": "eu-west-1"}))

        assert isinstance(store, S3Store)
        assert store.prefix is None
        assert store.credential_provider is None

    @pytest.mark.parametrize("uri", ("s3://bucket", "gs://bucket", "az://container"))
    def test_gives_every_store_its_timeouts_and_retries(self, uri: str) -> None:
        given = {"TIMEOUT": "2s", "CONNECT_TIMEOUT": "300ms", "MAX_RETRIES": "0"}
        account = {"AZURE_STORAGE_ACCOUNT_NAME": "account1", "AZURE_ALLOW_HTTP": "true"}
        store: Any = opened_store(uri, StorageOptions(given | {"RETRY_TIMEOUT": "7s"} | account))

        assert store.client_options["timeout"] == "2s"
        assert store.client_options["connect_timeout"] == "300ms"
        assert store.client_options["allow_http"] == str(uri.startswith("az")).lower()
        assert store.retry_config["max_retries"] == 0
        assert store.retry_config["retry_timeout"] == timedelta(seconds=7)
        assert store.retry_config["backoff"]["base"] == 10

    def test_opens_google(self) -> None:
        options = StorageOptions({"GOOGLE_BEARER_TOKEN": "t0ken", "GOOGLE_ALLOW_HTTP": "true"})
        store = opened_store("gs://bucket/a", options)

        assert isinstance(store, GCSStore)
        assert store.prefix == "a"

    @pytest.mark.parametrize(
        ("name", "kind"),
        (
            ("AZURE_STORAGE_ACCOUNT_KEY", "access_key"),
            ("AZURE_STORAGE_SAS_TOKEN", "sas_token"),
            ("AZURE_STORAGE_TOKEN", "bearer_token"),
            ("AZURE_STORAGE_CLIENT_SECRET", "client_secret"),
        ),
    )
    def test_tells_azure_which_credential_counts(self, name: str, kind: str) -> None:
        options = StorageOptions(
            {
                name: "sig=c2VjcmV0" if kind == "sas_token" else "c2VjcmV0",
                "AZURE_STORAGE_CLIENT_ID": "id",
                "AZURE_STORAGE_TENANT_ID": "tenant",
            }
        )
        uri = "abfss://container@account1.dfs.core.windows.net/a"
        store: Any = opened_store(uri, options)

        assert isinstance(store, AzureStore)
        assert store.config["container_name"] == "container"
        assert store.config["account_name"] == "account1"
        assert store.config["credential_type"] == kind

    def test_leaves_the_credential_of_azure_to_the_platform(self) -> None:
        options = StorageOptions({"AZURE_STORAGE_ACCOUNT_NAME": "account1"})
        store: Any = opened_store("az://container/a", options)

        assert "credential_type" not in store.config
        assert store.config["account_name"] == "account1"
