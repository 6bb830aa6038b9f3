"""Files on a slow, wrong or forgetful store, and the peculiarities of Azure and Google."""

import time
from collections.abc import Iterator

import deltalake
import pytest

from sparklog.errors import LogDirError, StorageError, StoragePermissionError
from sparklog.storage import Files, open_files
from sparklog.storage.log_dir import create_log_dir, open_log_dir, probe_conditional_put
from tests.emulators import GcsProxy, gcs_dir
from tests.s3 import S3LogDir, S3Server
from tests.store_proxy import Fault, StoreProxy


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[StoreProxy]:
    with StoreProxy(s3_server.endpoint) as found:
        yield found


def behind(proxy: StoreProxy, place: S3LogDir, **options: str) -> Files:
    return open_files(place.uri, place.options | {"AWS_ENDPOINT_URL": proxy.endpoint, **options})


@pytest.fixture
def files(proxy: StoreProxy, s3_log_dir: S3LogDir) -> Files:
    return behind(proxy, s3_log_dir)


@pytest.mark.s3
class TestRequests:
    def asked(self, proxy: StoreProxy) -> list[tuple[str, str | None]]:
        """Method and range of all requests so far, which are forgotten."""
        found = [(one.method, one.headers.get("range")) for one in proxy.requests]
        proxy.requests.clear()
        return found

    def test_a_read_is_one(self, files: Files, proxy: StoreProxy) -> None:
        files.write_new("a", bytes(100))
        self.asked(proxy)
        files.read("a", 10, 20)
        files.view("a", 20, 10)
        files.keep("a")(10, 20)
        files.read_ahead("a", 0)(10, 20)

        assert self.asked(proxy) == [("GET", "bytes=10-29")] * 4

    def test_a_put_is_one(self, files: Files, proxy: StoreProxy) -> None:
        files.put_new("a", b"x")
        files.sync_directory("")

        assert [(one.method, one.headers["if-none-match"]) for one in proxy.requests] == [
            ("PUT", "*")
        ]

    def test_a_small_file_is_one(self, files: Files, proxy: StoreProxy) -> None:
        with files.create("a") as file:
            for _ in range(10):
                file.write(bytes(100_000))

        assert self.asked(proxy) == [("PUT", None)]

    def test_a_thousand_deletes_are_one(self, files: Files, proxy: StoreProxy) -> None:
        files.delete_many(f"d/{number}" for number in range(1500))

        assert self.asked(proxy) == [("POST", None)] * 2

    def test_a_list_is_fetched_as_it_is_asked_for(self, files: Files, proxy: StoreProxy) -> None:
        for number in range(3):
            files.write_new(f"d/{number}", b"x")
        self.asked(proxy)

        assert [found.path for found in files.list("", recursive=True)] == ["d/0", "d/1", "d/2"]
        assert self.asked(proxy) == [("GET", None)]


@pytest.mark.s3
class TestFaults:
    def test_what_was_not_done_is_done_again(self, files: Files, proxy: StoreProxy) -> None:
        proxy.add(Fault("PUT", "/a$", answer=503), Fault("PUT", "/a$", answer=500))

        assert files.put_new("a", b"x")
        assert len(proxy.requests) == 3

    def test_a_conflict_is_no_file(self, files: Files, proxy: StoreProxy) -> None:
        proxy.add(Fault("PUT", "/a$", answer=409))

        with pytest.raises(StorageError, match="cannot put a in .*RequestConflict") as caught:
            files.put_new("a", b"x")

        assert caught.value.retriable
        assert files.put_new("a", b"x")

    @pytest.mark.parametrize("answer", (412, 503))
    def test_a_put_may_find_what_it_has_put(
        self, files: Files, proxy: StoreProxy, answer: int
    ) -> None:
        proxy.add(Fault("PUT", "/a$", answer=answer, after=True))

        assert not files.put_new("a", b"mine")
        assert bytes(files.read("a")) == b"mine"

    def test_a_new_file_knows_its_own(self, files: Files, proxy: StoreProxy) -> None:
        proxy.add(Fault("PUT", "/a$", answer=503, after=True))
        files.write_new("a", b"mine")

        assert bytes(files.read("a")) == b"mine"

    @pytest.mark.parametrize("after", (True, False))
    def test_a_read_whose_connection_breaks_is_done_again(
        self, files: Files, proxy: StoreProxy, after: bool
    ) -> None:
        files.write_new("a", b"abc")
        proxy.add(Fault("GET", "/a$", drop=True, after=after, skip=1, times=2))

        assert [bytes(files.read("a")) for _ in range(3)] == [b"abc"] * 3
        assert proxy.requests[-1].method == "GET"

    def test_a_store_that_says_nothing_for_a_while_is_waited_for(
        self, files: Files, proxy: StoreProxy
    ) -> None:
        files.write_new("a", b"abc")
        proxy.add(Fault("GET", "/a$", stall_s=0.3))

        assert bytes(files.read("a")) == b"abc"

    def test_a_slow_connection_is_read_ahead_of(self, files: Files, proxy: StoreProxy) -> None:
        files.write_new("a", bytes(200_000))
        proxy.bytes_per_s = 1e6
        proxy.add(Fault("GET", "/b$", answer=500))
        begun = time.monotonic()
        read = files.read_ahead("a", 200_000)

        assert sum(len(read(start, 100_000)) for start in (0, 100_000)) == 200_000
        assert time.monotonic() - begun >= 0.05

    def test_what_does_not_end_is_told(self, s3_log_dir: S3LogDir, proxy: StoreProxy) -> None:
        files = behind(proxy, s3_log_dir, MAX_RETRIES="1")
        proxy.add(Fault("GET", "/a$", answer=500, times=2))

        with pytest.raises(StorageError, match="cannot read a in .*500 Internal") as caught:
            files.read("a")

        assert caught.value.retriable

    def test_a_timeout_ends_a_try(self, s3_log_dir: S3LogDir, proxy: StoreProxy) -> None:
        files = behind(proxy, s3_log_dir, TIMEOUT="100ms", MAX_RETRIES="0")
        proxy.add(Fault("GET", "/a$", stall_s=1))

        with pytest.raises(
            StorageError, match="cannot read a in .*error sending request"
        ) as caught:
            files.read("a")

        assert caught.value.retriable


@pytest.mark.s3
class TestProbe:
    def test_refuses_a_store_that_ignores_the_condition(
        self, s3_server: S3Server, s3_log_dir: S3LogDir
    ) -> None:
        with StoreProxy(s3_server.endpoint, without={"if-none-match"}) as forgetful:
            files = behind(forgetful, s3_log_dir)
            with pytest.raises(LogDirError, match=f"{files.uri} cannot be written to.*allowed: "):
                create_log_dir(files, bytes(16))

            assert list(files.list("", recursive=True)) == []

    def test_accepts_one_that_keeps_it(self, files: Files) -> None:
        probe_conditional_put(files)

        assert list(files.list("", recursive=True)) == []

    def test_tells_a_store_that_refuses_to_write(self, files: Files, proxy: StoreProxy) -> None:
        proxy.add(Fault("PUT", answer=403))

        with pytest.raises(StoragePermissionError):
            probe_conditional_put(files)


@pytest.mark.azure
class TestAzure:
    def test_is_a_log_dir(self, azure_log_dir: S3LogDir) -> None:
        files = open_files(azure_log_dir.uri, azure_log_dir.options)
        created = create_log_dir(files, bytes(16))

        assert create_log_dir(files, bytes(range(16))) == created
        assert open_log_dir(files) == created

    def test_is_delta_rss_too(self, azure_log_dir: S3LogDir) -> None:
        assert_delta_rs_finds_nothing(azure_log_dir)

    def test_has_containers(self, azure_log_dir: S3LogDir) -> None:
        assert_there_is_no_bucket("az://no-such-container/log", azure_log_dir)

    def test_refuses_other_keys(self, azure_log_dir: S3LogDir) -> None:
        other = {"AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0LWtleQ=="}
        files = open_files(azure_log_dir.uri, azure_log_dir.options | other)

        for call in (lambda: files.read("a"), files.list, lambda: files.put_new("a", b"")):
            with pytest.raises(StoragePermissionError) as caught:
                call()

            assert "c2VjcmV0LWtleQ" not in str(caught.value)

    def test_uploads_in_parts(self, azure_log_dir: S3LogDir) -> None:
        assert_uploads_in_parts(azure_log_dir)


@pytest.mark.gcs
class TestGoogle:
    def test_is_a_log_dir(self, gcs_log_dir: S3LogDir) -> None:
        files = open_files(gcs_log_dir.uri, gcs_log_dir.options)
        created = create_log_dir(files, bytes(16))

        assert create_log_dir(files, bytes(range(16))) == created
        assert open_log_dir(files) == created

    def test_has_buckets(self, gcs_log_dir: S3LogDir) -> None:
        assert_there_is_no_bucket("gs://no-such-bucket/log", gcs_log_dir)

    def test_that_ignores_conditions_is_refused(self, fake_gcs: str) -> None:
        with GcsProxy(fake_gcs, keeps_conditions=False) as forgetful:
            place = gcs_dir(forgetful.endpoint)
            files = open_files(place.uri, place.options)

            with pytest.raises(LogDirError, match="x-goog-if-generation-match"):
                create_log_dir(files, bytes(16))

    def test_uploads_in_parts(self, gcs_log_dir: S3LogDir) -> None:
        assert_uploads_in_parts(gcs_log_dir)


def assert_there_is_no_bucket(uri: str, place: S3LogDir) -> None:
    files = open_files(uri, place.options)
    calls = (
        lambda: files.read("a"),
        lambda: files.put_new("a", b""),
        lambda: files.list(recursive=True),
    )
    for call in calls:
        with pytest.raises(StorageError, match=f"{uri}: there is no such bucket") as caught:
            call()

        assert type(caught.value) is StorageError


def assert_uploads_in_parts(place: S3LogDir) -> None:
    files = open_files(place.uri, place.options)
    data = bytes(range(256)) * 100_000
    with files.create("a") as file:
        for start in range(0, len(data), 7_000_000):
            file.write(data[start : start + 7_000_000])

    assert files.read("a") == data


def assert_delta_rs_finds_nothing(place: S3LogDir) -> None:
    """It connects with the same settings; without a table there is none."""
    assert not deltalake.DeltaTable.is_deltatable(place.uri, dict(place.options))
