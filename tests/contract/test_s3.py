"""What only a real server shows: refusal, absence, and that delta-rs takes the same settings."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import deltalake
import pyarrow as pa
import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import (
    LogDirError,
    StorageError,
    StoragePermissionError,
)
from sparklog.storage import Files, open_files
from sparklog.storage.log_dir import create_log_dir, open_log_dir
from tests.command_line import CommandLine
from tests.s3 import S3LogDir, S3Server, start_s3_server

pytestmark = pytest.mark.s3


@pytest.fixture
def files(s3_log_dir: S3LogDir) -> Files:
    return open_files(s3_log_dir.uri, s3_log_dir.options)


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that knows nobody, once its bucket is made."""
    environ = {"INITIAL_NO_AUTH_ACTION_COUNT": "1"}
    server, process = start_s3_server(tmp_path_factory.mktemp("s3") / "strict.log", environ)
    yield server
    process.terminate()
    process.wait()


def other_client(log_dir: S3LogDir) -> Any:
    """Another client of the store."""
    options = log_dir.options
    return boto3.client(
        "s3",
        endpoint_url=options["AWS_ENDPOINT_URL"],
        region_name=options["AWS_REGION"],
        aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
    )


def object_of(log_dir: S3LogDir, name: str) -> dict[str, str]:
    """The bucket and the key of a file, as another client names it."""
    bucket, _, prefix = log_dir.uri.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": f"{prefix}/{name}"}


def encryption_of(log_dir: S3LogDir, name: str) -> tuple[str, str]:
    """How a file is encrypted, and with which key, as another client is told."""
    found = other_client(log_dir).head_object(**object_of(log_dir, name))
    return found["ServerSideEncryption"], found["SSEKMSKeyId"]


class TestSettings:
    def test_delta_rs_takes_them_as_they_are(self, files: Files) -> None:
        uri = f"{files.uri}/table"
        for value in (1, 2):
            deltalake.write_deltalake(
                uri,
                pa.table({"a": [value]}),
                mode="append",
                storage_options=dict(files.options),
            )
        table = deltalake.DeltaTable(uri, storage_options=dict(files.options))
        logs = [found.path for found in files.list("table/_delta_log")]

        assert table.version() == 1
        assert [path.rpartition("/")[2] for path in logs] == [
            "00000000000000000000.json",
            "00000000000000000001.json",
        ]

    def test_are_read_from_the_environment(
        self, s3_log_dir: S3LogDir, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in s3_log_dir.options.items():
            monkeypatch.setenv(name, value)
        files = open_files(s3_log_dir.uri)
        files.write_new("a", b"abc")

        assert bytes(files.read("a")) == b"abc"

    def test_say_how_the_store_encrypts(self, s3_log_dir: S3LogDir) -> None:
        own = {"AWS_SERVER_SIDE_ENCRYPTION": "aws:kms", "AWS_SSE_KMS_KEY_ID": "key-of-ours"}
        files = open_files(s3_log_dir.uri, s3_log_dir.options | own)
        files.put_new("put", b"abc")
        with files.create("written") as file:
            file.write(bytes(6 * 1024 * 1024))

        assert [encryption_of(s3_log_dir, name) for name in ("put", "written")] == [
            ("aws:kms", "key-of-ours"),
            ("aws:kms", "key-of-ours"),
        ]


class TestLogDir:
    def test_is_made_once(self, files: Files) -> None:
        created = create_log_dir(files, bytes(16))

        assert create_log_dir(files, bytes(range(16))) == created
        assert open_log_dir(files) == created
        assert [found.path for found in files.list()] == ["meta.properties"]

    @pytest.mark.parametrize("recursive", [False, True])
    def test_may_be_a_folder_of_the_console(
        self, s3_log_dir: S3LogDir, files: Files, recursive: bool
    ) -> None:
        """A folder is an object whose name ends with a slash."""
        other_client(s3_log_dir).put_object(**object_of(s3_log_dir, ""))

        assert list(files.list(recursive=recursive)) == []
        [topic] = AdminClient(files.uri, files.options).create_topics([NewTopic("t", 1)])
        assert topic.name == "t"

    def test_is_none_before(self, files: Files) -> None:
        with pytest.raises(LogDirError, match="is not a log dir: it has no meta.properties"):
            open_log_dir(files)


class TestRefusal:
    def test_every_operation_says_so_and_shows_no_secret(self, strict_server: S3Server) -> None:
        log_dir = strict_server.new_log_dir()
        files = open_files(log_dir.uri, log_dir.options)
        calls = (
            lambda: files.read("a"),
            lambda: files.stat("a"),
            lambda: files.list("d"),
            lambda: files.delete("a"),
            lambda: files.create("a").close(),
            lambda: files.write_new("a", b"x"),
            lambda: files.put_new("a", b"x"),
            lambda: files.list("d", recursive=True),
            lambda: files.delete_many(["a", "b"]),
        )

        for call in calls:
            with pytest.raises(StoragePermissionError) as caught:
                call()

            assert log_dir.uri in str(caught.value)
            assert "secret" not in str(caught.value)


class TestAbsence:
    def test_a_bucket_that_is_not_there_is_an_error_of_the_write(
        self, s3_log_dir: S3LogDir
    ) -> None:
        files = open_files("s3://no-such-bucket/log", s3_log_dir.options)

        with pytest.raises(StorageError, match="cannot write a in .*: there is no such bucket"):
            files.write_new("a", b"x")

    @pytest.mark.parametrize("prefix", ["", "/log"])
    def test_a_bucket_that_is_not_there_is_not_an_empty_one(
        self, s3_log_dir: S3LogDir, prefix: str
    ) -> None:
        files = open_files(f"s3://no-such-bucket{prefix}", s3_log_dir.options)
        calls = (
            files.list,
            lambda: files.read("a"),
            lambda: files.keep("a")(0, 1),
            lambda: files.delete("a"),
            lambda: files.delete_many(["a", "b"]),
            lambda: files.put_new("a", b""),
            lambda: open_log_dir(files),
            lambda: AdminClient(files.uri, files.options).create_topics([NewTopic("t", 1)]),
        )

        for call in calls:
            with pytest.raises(
                StorageError, match="no-such-bucket.*: there is no such bucket"
            ) as caught:
                call()

            assert type(caught.value) is StorageError

    def test_the_command_line_says_so(self, s3_log_dir: S3LogDir) -> None:
        storage = [f"-S{name}={value}" for name, value in s3_log_dir.options.items()]
        sparklog = CommandLine("s3://no-such-bucket/log")
        outcome = sparklog("topic", "list", *storage)

        assert outcome.code == 1
        assert outcome.err == (
            "sparklog: error: cannot read meta.properties in s3://no-such-bucket/log: "
            "there is no such bucket\n"
        )

    def test_a_server_that_is_not_there_is_named(self, s3_log_dir: S3LogDir) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
            files = open_files(
                s3_log_dir.uri,
                s3_log_dir.options | {"AWS_ENDPOINT_URL": endpoint, "MAX_RETRIES": "0"},
            )

            with pytest.raises(
                StorageError, match="cannot read a in .*error sending request"
            ) as caught:
                files.read("a")

        assert caught.value.retriable


class TestServer:
    def test_that_does_not_start_says_why(self, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError, match="(?s)moto_server did not start: .*nowhere"):
            start_s3_server(tmp_path / "moto.log", {"PYTHONHOME": "/nowhere"})
