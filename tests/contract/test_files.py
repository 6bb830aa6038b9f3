"""Files that are there, by every implementation: read, listed, deleted, synced, linked."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparklog.errors import (
    ExistingFileError,
    LogDirError,
    MissingFileError,
    SparklogError,
    StorageError,
    UsageError,
)
from sparklog.storage import Files
from tests.implementations import IMPLEMENTATIONS, empty_log_dir, paths

OUTSIDE = ("", "/a", "../a", "a/../../b", "a/..", "a/./b", ".", "a//b", "a/", "a\\b", "a\0b")


@pytest.fixture(params=IMPLEMENTATIONS)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return empty_log_dir(request, tmp_path)


class TestRead:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
    @given(
        data=st.binary(max_size=50),
        start=st.integers(0, 60) | st.just(2**40),
        length=st.none() | st.integers(0, 60) | st.just(2**40),
    )
    def test_reads_what_a_slice_gives(
        self, files: Files, data: bytes, start: int, length: int | None
    ) -> None:
        """Goal: all ways to read agree with slicing, for ranges inside, across and past the end.

        Method: any content, any range, against Python's own slice.
        """
        files.delete("a")
        files.write_new("a", data)
        expected = data[start:] if length is None else data[start : start + length]

        assert bytes(files.read("a", start, length)) == expected
        assert bytes(files.view("a", length, start)) == expected
        assert bytes(files.keep("a")(start, 2**40 if length is None else length)) == expected
        ahead = files.read_ahead("a", 40)
        assert bytes(ahead(start, len(data) if length is None else length)) == expected

    def test_views_a_range_far_into_the_file(self, files: Files) -> None:
        data = np.random.default_rng(7).integers(0, 256, 17_000_000, dtype=np.uint8).tobytes()
        files.write_new("a", data)

        assert files.view("a") == data
        assert files.view("a", 10, 16_777_213) == data[16_777_213:16_777_223]
        assert files.read("a", 5_000) == data[5_000:]

    @pytest.mark.parametrize("data", (b"", b"abc"))
    def test_gives_flat_read_only_bytes(self, files: Files, data: bytes) -> None:
        files.write_new("a", data)

        for view in (files.read("a"), files.view("a"), files.keep("a")(0, 3)):
            assert view.readonly
            assert (view.format, view.ndim) == ("B", 1)

    def test_says_which_file_is_missing(self, files: Files) -> None:
        def kept(path: str) -> object:
            return files.keep(path)(0, 1)

        def ahead(path: str) -> object:
            return files.read_ahead(path, 10)(0, 1)

        for read in (files.read, files.view, kept, ahead):
            with pytest.raises(MissingFileError, match="d/a in ") as caught:
                read("d/a")

            assert caught.value.__dict__["path"] == "d/a"

    @pytest.mark.parametrize(("start", "length"), ((-1, None), (0, -1)))
    def test_refuses_a_negative_range(self, files: Files, start: int, length: int | None) -> None:
        files.write_new("a", b"abc")

        with pytest.raises(UsageError, match="neither may be negative"):
            files.read("a", start, length)
        with pytest.raises(UsageError, match="neither may be negative"):
            files.view("a", length, start)
        with pytest.raises(UsageError, match="neither may be negative"):
            files.keep("a")(start, length or 0)
        with pytest.raises(UsageError, match="neither may be negative"):
            files.read_ahead("a", 3)(start, length or 0)


class TestReadAhead:
    def test_reads_windows_that_overlap_and_grow(self, files: Files) -> None:
        data = np.random.default_rng(3).integers(0, 256, 400_000, dtype=np.uint8).tobytes()
        files.write_new("a", data)
        read = files.read_ahead("a", len(data))
        windows = ((0, 50_000), (49_000, 50_000), (98_000, 100_000), (198_000, 300_000))

        for start, length in windows:
            assert read(start, length) == data[start : start + length]

    def test_goes_back_and_beyond_its_end(self, files: Files) -> None:
        files.write_new("a", bytes(range(100)))
        read = files.read_ahead("a", 20)

        assert [read(start, 10)[0] for start in (0, 50, 5, 90)] == [0, 50, 5, 90]
        assert bytes(read(100, 10)) == b""


class TestStat:
    def test_tells_size_and_time(self, files: Files) -> None:
        files.write_new("d/a", b"abc")
        found = files.stat("d/a")

        assert found is not None
        assert (found.path, found.bytes) == ("d/a", 3)
        assert found.modified_ms > 1_600_000_000_000

    @pytest.mark.parametrize("path", ("b", "d", "d/b", "d/a/b", "e/a"))
    def test_is_none_for_what_is_no_file(self, files: Files, path: str) -> None:
        files.write_new("d/a", b"abc")

        assert files.stat(path) is None


class TestList:
    @pytest.fixture(autouse=True)
    def four_files(self, files: Files) -> None:
        for path in ("d/b", "d/a", "d/e/f/c", "z"):
            files.write_new(path, path.encode())

    @pytest.mark.parametrize(
        ("directory", "recursive", "expected"),
        (
            ("", False, ["z"]),
            ("", True, ["d/a", "d/b", "d/e/f/c", "z"]),
            ("d", False, ["d/a", "d/b"]),
            ("d", True, ["d/a", "d/b", "d/e/f/c"]),
            ("d/e", False, []),
            ("absent", True, []),
            ("absent/too", False, []),
        ),
    )
    def test_lists_files_only_sorted_by_path(
        self, files: Files, directory: str, recursive: bool, expected: list[str]
    ) -> None:
        assert paths(files, directory, recursive=recursive) == expected

    def test_tells_what_stat_tells(self, files: Files) -> None:
        found = list(files.list("", True))

        assert found == [files.stat(stat.path) for stat in found]


class TestDelete:
    def test_unlinks_one_file(self, files: Files) -> None:
        files.write_new("d/a", b"1")
        files.write_new("d/b", b"2")

        files.delete("d/a")

        assert paths(files, "d") == ["d/b"]

    def test_does_nothing_when_there_is_no_file(self, files: Files) -> None:
        files.delete("d/a")

        assert paths(files, recursive=True) == []

    def test_unlinks_many_and_minds_none_that_is_gone(self, files: Files) -> None:
        for path in ("a", "d/b", "d/c", "e"):
            files.write_new(path, b"x")

        files.delete_many(iter(["d/gone", "a", "d/b", "gone", "d/c"]))
        files.delete_many([])

        assert paths(files, recursive=True) == ["e"]

    def test_a_view_outlives_its_file(self, files: Files) -> None:
        files.write_new("a", b"abc")
        view = files.view("a")

        files.delete("a")

        assert bytes(view) == b"abc"

    def test_a_tree_goes_with_all_below_it(self, files: Files) -> None:
        for path in ("d/a", "d/e/b", "da"):
            files.write_new(path, b"x")

        files.delete_tree("d")
        files.delete_tree("absent")

        assert paths(files, recursive=True) == ["da"]


class TestSync:
    def test_takes_files_of_several_directories_more_than_once(self, files: Files) -> None:
        for path in ("a", "d/b", "d/e/c"):
            files.write_new(path, b"x")

        files.sync(iter(["d/e/c", "a", "d/b", "a"]))
        files.sync([])

        assert paths(files, recursive=True) == ["a", "d/b", "d/e/c"]

    def test_takes_a_directory(self, files: Files) -> None:
        files.write_new("d/a", b"x")

        files.sync_directory("d")
        files.sync_directory("")

        assert paths(files, recursive=True) == ["d/a"]


class TestLinkOrCopy:
    def test_gives_the_bytes_a_second_name(self, files: Files) -> None:
        files.write_new("d/a", b"abc")

        files.link_or_copy("d/a", "e/f/b")
        files.delete("d/a")

        assert bytes(files.read("e/f/b")) == b"abc"

    def test_refuses_a_name_that_is_taken(self, files: Files) -> None:
        files.write_new("a", b"1")
        files.write_new("b", b"2")

        with pytest.raises(ExistingFileError):
            files.link_or_copy("a", "b")

        assert bytes(files.read("b")) == b"2"

    def test_misses_its_source(self, files: Files) -> None:
        with pytest.raises(MissingFileError):
            files.link_or_copy("a", "b")

        assert files.stat("b") is None


CALLS: dict[str, Callable[[Files, str], object]] = {
    "create": lambda files, path: files.create(path),
    "write_new": lambda files, path: files.write_new(path, b""),
    "put_new": lambda files, path: files.put_new(path, b""),
    "read": lambda files, path: files.read(path),
    "view": lambda files, path: files.view(path),
    "stat": lambda files, path: files.stat(path),
    "list": lambda files, path: list(files.list(path or "/")),
    "delete": lambda files, path: files.delete(path),
    "delete_many": lambda files, path: files.delete_many([path]),
    "keep": lambda files, path: files.keep(path)(0, 1),
    "read_ahead": lambda files, path: files.read_ahead(path, 1)(0, 1),
    "sync_directory": lambda files, path: files.sync_directory(path or "/"),
    "delete_tree": lambda files, path: files.delete_tree(path),
    "sync": lambda files, path: files.sync([path]),
    "link_from": lambda files, path: files.link_or_copy(path, "b"),
    "link_to": lambda files, path: files.link_or_copy("a", path),
}


class TestPaths:
    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    def test_none_leads_out_of_the_log_dir(
        self, files: Files, call: Callable[[Files, str], object]
    ) -> None:
        files.write_new("a", b"1")

        for path in OUTSIDE:
            with pytest.raises(LogDirError, match="allowed: "):
                call(files, path)

        assert paths(files, recursive=True) == ["a"]


class TestErrors:
    def test_survive_pickling(self, files: Files) -> None:
        with pytest.raises(StorageError) as caught:
            files.read("gone")
        error: SparklogError = pickle.loads(pickle.dumps(caught.value))

        assert type(error) is MissingFileError
        assert str(error) == str(caught.value)
        assert "no such file" in str(error).lower()
        assert error.__dict__["operation"] in {"read", "view"}


class TestPickling:
    def test_the_same_files_come_back(self, files: Files) -> None:
        files.write_new("d/a", b"abc")
        copy: Files = pickle.loads(pickle.dumps(files))

        assert bytes(copy.read("d/a")) == b"abc"
        assert (copy.uri, copy.options, copy.is_local) == (
            files.uri,
            files.options,
            files.is_local,
        )
        assert "secret-key" not in repr(files) + repr(copy.options)
