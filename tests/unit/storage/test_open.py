import pickle
from pathlib import Path

import pytest

from sparklog.errors import InvalidOptionError, LogDirError
from sparklog.storage import open_files
from sparklog.storage.local import LocalFiles
from sparklog.storage.objects.newest import RememberingFiles
from sparklog.storage.objects.object_store import ObjectFiles
from sparklog.storage.settings import STORAGE_SETTINGS

KEYS = {"storage.AWS_ACCESS_KEY_ID": "AKIAID", "storage.AWS_SECRET_ACCESS_KEY": "s3cret"}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in STORAGE_SETTINGS:
        monkeypatch.delenv(setting.name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)


class TestLocal:
    @pytest.mark.parametrize(
        ("log_dir", "path"),
        (
            ("/data/log", "/data/log"),
            ("/data/log/", "/data/log"),
            ("/data/a b%2zc", "/data/a b%2zc"),
            ("/data/s3://x", "/data/s3:/x"),
            ("file:///data/log", "/data/log"),
            ("file:///data/a%20b", "/data/a b"),
            ("file:///data/a%3Fb%23", "/data/a?b#"),
            ("file:/data/log", "/data/log"),
            ("FILE://localhost/data/log", "/data/log"),
        ),
    )
    def test_opens_a_path_or_a_file_uri(self, log_dir: str, path: str) -> None:
        files = open_files(log_dir)

        assert isinstance(files, LocalFiles)
        assert (files.uri, files.options, files.is_local) == (path, {}, True)

    @pytest.mark.parametrize("log_dir", ("logs", "file", "s3", "a:b", "1s3://b"))
    def test_takes_what_has_no_scheme_for_a_relative_path(
        self, log_dir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)

        assert Path(open_files(log_dir).uri) == tmp_path / log_dir

    def test_tells_a_misspelt_setting_even_though_it_needs_none(self) -> None:
        with pytest.raises(InvalidOptionError, match=r"unknown storage option 'storage.AWS_REGON'"):
            open_files("/data", {"storage.AWS_REGON": "x"})

    def test_a_home_directory_is_no_directory_named_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))

        assert Path(open_files("~/log").uri) == tmp_path / "log"

    @pytest.mark.parametrize(
        ("log_dir", "reason"),
        (
            ("", "the log dir is ''"),
            ("/a\0b", "the log dir is "),
            ("file://host/data", "names the host 'host'; allowed: file:///path"),
            ("hdfs://host/data", "has the scheme 'hdfs'; allowed: a path"),
            ("adl://bucket/data", "has the scheme 'adl'"),
            ("https://user:s3cret@host/data", "has the scheme 'https'"),
            ("s3:/bucket/log", "the log dir 's3:/bucket/log' is not s3://bucket/prefix"),
            ("s3a:/bucket", "is not s3://bucket/prefix"),
            ("dbfs:/mnt/log", "the scheme 'dbfs'"),
            ("GS:/bucket", "is not gs://bucket/prefix"),
            ("/data/a%20b", "the log dir '/data/a%20b' holds '%20'; no %XX is allowed"),
            ("file:///data/a%252fb/log", "holds '%2f'"),
            ("file:///data/a#b", "holds a '\\?' or a '#'; allowed in a file URI: %3F and %23"),
            ("file:///data/a?b", "holds a '\\?' or a '#'"),
        ),
    )
    def test_refuses_what_is_no_log_dir(self, log_dir: str, reason: str) -> None:
        with pytest.raises(LogDirError, match=reason) as caught:
            open_files(log_dir)

        assert "s3cret" not in str(caught.value)


class TestS3:
    @pytest.mark.parametrize(
        ("log_dir", "uri"),
        (
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/", "s3://bucket"),
            ("s3://bucket/a/b.c=d/", "s3://bucket/a/b.c=d"),
            ("s3a://bucket/a", "s3://bucket/a"),
            ("S3://bucket/a", "s3://bucket/a"),
        ),
    )
    def test_opens_a_bucket_or_a_prefix_without_connecting(self, log_dir: str, uri: str) -> None:
        files = open_files(log_dir, KEYS)

        assert isinstance(files, ObjectFiles)
        assert (files.uri, files.is_local) == (uri, False)
        assert dict(files.options) == {
            "AWS_ACCESS_KEY_ID": "AKIAID",
            "AWS_SECRET_ACCESS_KEY": "s3cret",
        }

    def test_remembers_the_newest_segments_for_a_service(self) -> None:
        assert isinstance(open_files("s3://bucket/log", KEYS, remembers=True), RememberingFiles)
        assert type(open_files("s3://bucket/log", KEYS)) is ObjectFiles
        assert type(open_files("/data/log", remembers=True)) is LocalFiles

    def test_reads_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_REGION", "eu-west-1")

        assert open_files("s3://bucket/a").options == {"AWS_REGION": "eu-west-1"}

    def test_takes_its_settings_to_another_process_and_shows_none(self) -> None:
        files = open_files("s3://bucket/a", KEYS)
        copy = pickle.loads(pickle.dumps(files))

        assert copy.options == files.options
        assert repr(copy) == (
            "ObjectFiles('s3://bucket/a', StorageOptions("
            "{'AWS_ACCESS_KEY_ID': '***', 'AWS_SECRET_ACCESS_KEY': '***'}))"
        )

    def test_leaves_the_secrets_of_the_environment_where_they_are(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAID")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")

        assert open_files("s3://bucket/a").options == {}

    def test_refuses_credentials_in_the_address_without_showing_them(self) -> None:
        with pytest.raises(InvalidOptionError, match="give them as AWS_ACCESS_KEY_ID") as caught:
            open_files("s3://AKIAID:s3cret@bucket/a")

        assert "s3cret" not in str(caught.value)

    @pytest.mark.parametrize(
        "log_dir",
        (
            "s3://",
            "s3:///a",
            "s3://b/a",
            "s3://Bucket/a",
            "s3://bucket/a b",
            "s3://bucket/a?x=1",
            "s3://bucket/a%20b",
            "s3://bucket/../a",
            "s3://bucket//a",
        ),
    )
    def test_refuses_what_is_no_bucket_or_prefix(self, log_dir: str) -> None:
        with pytest.raises(LogDirError, match="allowed"):
            open_files(log_dir)


class TestOtherStores:
    @pytest.mark.parametrize(
        ("log_dir", "uri"),
        (
            ("gs://bucket_1/a/", "gs://bucket_1/a"),
            ("GS://bucket", "gs://bucket"),
            ("az://container/a/b", "az://container/a/b"),
            (
                "abfss://container@account1.dfs.core.windows.net/a/",
                "abfss://container@account1.dfs.core.windows.net/a",
            ),
        ),
    )
    def test_are_opened_without_connecting(self, log_dir: str, uri: str) -> None:
        files = open_files(log_dir)

        assert isinstance(files, ObjectFiles)
        assert (files.uri, files.is_local) == (uri, False)

    def test_read_their_own_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account1")
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", "/etc/gcs.json")

        assert open_files("az://container").options == {"AZURE_STORAGE_ACCOUNT_NAME": "account1"}
        assert open_files("gs://bucket").options == {"GOOGLE_SERVICE_ACCOUNT": "/etc/gcs.json"}

    @pytest.mark.parametrize(
        "log_dir",
        (
            "gs://b/a",
            "az://Container/a",
            "az://con_tainer",
            "abfss://container/a",
            "gs://bucket//a",
        ),
    )
    def test_refuse_what_is_no_address(self, log_dir: str) -> None:
        with pytest.raises(LogDirError, match="allowed"):
            open_files(log_dir)

    @pytest.mark.parametrize(
        ("log_dir", "keys"),
        (
            ("gs://user:s3cret@bucket/a", "GOOGLE_SERVICE_ACCOUNT"),
            ("az://s3cret@container/a", "AZURE_STORAGE_ACCOUNT_KEY"),
            ("abfss://c:s3cret@account1.dfs.core.windows.net/a", "AZURE_STORAGE_ACCOUNT_KEY"),
        ),
    )
    def test_refuse_credentials_in_the_address(self, log_dir: str, keys: str) -> None:
        with pytest.raises(InvalidOptionError, match=keys) as caught:
            open_files(log_dir)

        assert "s3cret" not in str(caught.value)
