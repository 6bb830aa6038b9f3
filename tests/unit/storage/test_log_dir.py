from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from sparklog.errors import LogDirError, StorageError, UnsupportedFeatureError
from sparklog.log.names import random_uuid
from sparklog.record.batches import Buffer
from sparklog.storage.local import LocalFiles
from sparklog.storage.log_dir import (
    META_PROPERTIES,
    LogDir,
    Retention,
    create_log_dir,
    decode,
    encode,
    open_log_dir,
    probe_conditional_put,
    replace_log_dir,
    retention_of,
)
from sparklog.storage.memory import MemoryFiles, Operation

RANDOM16 = bytes(range(16))
OTHER16 = bytes(range(16, 32))


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


class TestCreateLogDir:
    def test_writes_version_and_cluster_id(self, files: MemoryFiles) -> None:
        created = create_log_dir(files, RANDOM16)

        assert created == LogDir(1, "AAECAwQFRgeICQoLDA0ODw")
        assert bytes(files.read("meta.properties")) == (
            b"version=1\ncluster.id=AAECAwQFRgeICQoLDA0ODw\n"
        )
        assert [found.path for found in files.list()] == ["meta.properties"]

    def test_returns_the_one_that_is_there(self, files: MemoryFiles) -> None:
        first = create_log_dir(files, RANDOM16)
        files.trace.clear()

        assert create_log_dir(files, OTHER16) == first
        assert files.trace == [Operation("read", "meta.properties")]

    def test_keeps_its_retention_with_a_new_id(self, files: MemoryFiles) -> None:
        created = replace(create_log_dir(files, RANDOM16), retention=Retention(ms=5, bytes=-1))
        files.overwrite(META_PROPERTIES, encode(created))
        replaced = replace_log_dir(files, OTHER16)

        assert replaced.cluster_id != created.cluster_id
        assert replaced.retention == retention_of(files) == Retention(ms=5, bytes=-1)

    @pytest.mark.parametrize("value", ["", "7d", "-2", "1" * 19])
    def test_refuses_a_wrong_retention(self, files: MemoryFiles, value: str) -> None:
        line = f"metadata.max.retention.ms={value}\n".encode()
        files.overwrite(META_PROPERTIES, encode(LogDir(1, "an-id")) + line)

        with pytest.raises(LogDirError, match=r"retention\.ms=.* allowed: 0 or more, -1"):
            open_log_dir(files)

    def test_survives_a_power_cut(self, files: MemoryFiles) -> None:
        created = create_log_dir(files, RANDOM16)
        files.lose_unsynced()

        assert open_log_dir(files) == created

    @pytest.mark.parametrize(
        ("kind", "after"),
        (("put_new", 0), ("put_new", 1), ("put_new", 2), ("read", 1), ("sync", 0), ("sync", 1)),
    )
    def test_a_failure_leaves_none_or_a_whole_one(
        self, files: MemoryFiles, kind: str, after: int
    ) -> None:
        files.fail_next(kind, after=after)
        with pytest.raises(StorageError, match="was told to fail"):
            create_log_dir(files, RANDOM16)
        files.lose_unsynced()

        assert create_log_dir(files, OTHER16) == open_log_dir(files)

    def test_the_first_of_two_at_the_same_moment_wins(
        self, files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put = files.put_new

        def after_another(path: str, data: bytes, *, durable: bool = True) -> bool:
            if path == "meta.properties":
                monkeypatch.undo()
                create_log_dir(files, OTHER16)
            return put(path, data, durable=durable)

        monkeypatch.setattr(files, "put_new", after_another)
        created = create_log_dir(files, RANDOM16)

        assert created.cluster_id == random_uuid(OTHER16)
        assert open_log_dir(files) == created

    def test_many_at_the_same_moment_agree(self, tmp_path: Path) -> None:
        """Goal: a log dir has one cluster id, whoever asks. Method: threads, each with its own id,
        let go together on a log dir that does not exist; twenty rounds.
        """
        for number in range(20):
            files = LocalFiles(str(tmp_path / str(number)))
            ready = Barrier(4)

            def create(first: int, files: LocalFiles = files, ready: Barrier = ready) -> LogDir:
                ready.wait()
                return create_log_dir(files, bytes([first] * 16))

            with ThreadPoolExecutor(4) as pool:
                created = set(pool.map(create, range(4)))

            assert created == {open_log_dir(files)}
            assert [found.path for found in files.list()] == ["meta.properties"]


class Forgetful(MemoryFiles):
    """A store that ignores the condition of a put."""

    def __init__(self, told: bool) -> None:
        super().__init__()
        self.told = told

    def put_new(self, path: str, data: Buffer, **options: Any) -> bool:
        self.delete(path)
        return super().put_new(path, data, **options) and self.told


class TestProbe:
    @pytest.mark.parametrize("told", [True, False])
    def test_refuses_a_store_that_lets_the_second_put_win(self, told: bool) -> None:
        files = Forgetful(told)

        with pytest.raises(LogDirError, match="memory:// cannot be written to: .*conditional put"):
            probe_conditional_put(files)

        assert list(files.list()) == []

    def test_leaves_nothing_behind(self, files: MemoryFiles) -> None:
        probe_conditional_put(files)

        assert list(files.list()) == []

    def test_is_made_with_the_log_dir(self) -> None:
        files = Forgetful(told=True)

        with pytest.raises(LogDirError, match="conditional put"):
            create_log_dir(files, RANDOM16)

        assert list(files.list()) == []


class TestOpenLogDir:
    def test_says_how_to_make_one_when_there_is_none(self, files: MemoryFiles) -> None:
        with pytest.raises(LogDirError, match="is not a log dir.*`sparklog topic create`"):
            open_log_dir(files)

    @pytest.mark.parametrize("is_local", [False, True])
    def test_says_it_where_one_can_be_made(self, tmp_path: Path, is_local: bool) -> None:
        files = LocalFiles(str(tmp_path / "log")) if is_local else MemoryFiles()
        for path in (".probe-0", "__cluster_metadata/_delta_log/0.json"):
            files.write_new(path, b"")  # of a creation that was cut off
        with pytest.raises(LogDirError, match="`sparklog topic create`"):
            open_log_dir(files)

        files.write_new("photos/2013/a.jpg", b"")
        with pytest.raises(LogDirError, match="in a new or an empty directory"):
            open_log_dir(files)

    def test_does_not_take_a_failing_storage_for_an_empty_one(self, files: MemoryFiles) -> None:
        files.fail_next("read")

        with pytest.raises(StorageError):
            open_log_dir(files)

    def test_names_the_log_dir_that_it_cannot_read(self, files: MemoryFiles) -> None:
        files.write_new("meta.properties", b"version=2\n")

        with pytest.raises(UnsupportedFeatureError, match="properties in memory:// has version 2"):
            open_log_dir(files)


class TestDecode:
    def test_reads_what_encode_writes(self) -> None:
        log_dir = LogDir(1, "AAECAwQFRgeICQoLDA0ODw")

        assert decode(encode(log_dir), "/data") == log_dir

    def test_passes_over_comments_spaces_and_unknown_keys(self) -> None:
        data = b"# written by hand\r\n! so\n\n version = 1 \ncluster.id=a=b\nfuture.key\n"

        assert decode(data, "/data") == LogDir(1, "a=b")

    @pytest.mark.parametrize(
        ("data", "reason"),
        (
            (b"", "has the version ''; allowed: 1"),
            (b"cluster.id=a\n", "has the version ''"),
            (b"version=0\ncluster.id=a\n", "has the version '0'"),
            (b"version=-1\ncluster.id=a\n", "has the version '-1'"),
            (b"version=one\ncluster.id=a\n", "has the version 'one'"),
            (b"version=\xff\n", "has the version "),
            (b"version=2\ncluster.id=a\n", "has version 2, and .* version 1 only: upgrade"),
            (b"version=999999999\n", "upgrade sparklog"),
            (b"version=" + b"9" * 5000, "has the version '999"),
            (b"version=1\n", "has no cluster.id"),
            (b"version=1\ncluster.id=\n", "has no cluster.id"),
            (b"\0" * 100, "has the version ''"),
        ),
        ids=range(12),
    )
    def test_refuses_what_is_not_version_1(self, data: bytes, reason: str) -> None:
        with pytest.raises(LogDirError, match=reason):
            decode(data, "/data")

    @pytest.mark.parametrize("key", ("broker.id", "node.id", "directory.id"))
    def test_refuses_a_brokers_log_dir(self, key: str) -> None:
        data = f"version=1\ncluster.id=a\n{key}=1\n".encode()

        with pytest.raises(LogDirError, match=rf"is a Kafka broker's \(it has {key}\)"):
            decode(data, "/data")
