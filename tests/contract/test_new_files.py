"""New files: whole or not there, by every implementation of Files; of two one has the name."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pyarrow as pa
import pytest

from sparklog.errors import ExistingFileError, UsageError
from sparklog.storage import Files
from tests.implementations import IMPLEMENTATIONS, empty_log_dir, paths


@pytest.fixture(params=IMPLEMENTATIONS)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return empty_log_dir(request, tmp_path)


class TestCreate:
    def test_is_complete_once_closed(self, files: Files) -> None:
        with files.create("topic/topic-0/a.log") as file:
            file.write(b"one")
            file.write(b"")
            file.write(b"two")

        assert bytes(files.read("topic/topic-0/a.log")) == b"onetwo"
        assert file.path == "topic/topic-0/a.log"
        assert file.bytes_written == 6

    def test_writes_an_empty_file(self, files: Files) -> None:
        files.create("a").close()

        assert bytes(files.read("a")) == b""
        assert bytes(files.view("a")) == b""

    @pytest.mark.parametrize(
        "data",
        (
            b"\0\1\2\3",
            bytearray(b"\0\1\2\3"),
            memoryview(b"\0\1\2\3"),
            np.arange(4, dtype=np.uint8),
            np.array([0x03020100], dtype="<i4"),
            pa.py_buffer(b"\0\1\2\3"),
        ),
        ids=lambda data: type(data).__name__,
    )
    def test_takes_any_buffer(self, files: Files, data: bytes) -> None:
        files.write_new("a", data)

        assert bytes(files.read("a")) == b"\0\1\2\3"

    def test_does_not_keep_the_buffer_it_was_given(self, files: Files) -> None:
        data = bytearray(b"before")
        with files.create("a") as file:
            file.write(data)
            data[:] = b"behind"

        assert bytes(files.read("a")) == b"before"

    def test_closing_again_does_nothing(self, files: Files) -> None:
        file = files.create("a")
        file.close()

        file.close()
        file.abort()

        assert paths(files) == ["a"]

    @pytest.mark.parametrize("size", (0, 3, 12_000_000))
    def test_abort_leaves_no_file(self, files: Files, size: int) -> None:
        files.write_new("d/other", b"x")
        file = files.create("d/a")
        file.write(bytes(size))

        file.abort()

        assert files.stat("d/a") is None
        assert paths(files, "d") == ["d/other"]

    def test_an_exception_in_the_block_aborts(self, files: Files) -> None:
        def interrupted() -> None:
            with files.create("a") as file:
                file.write(b"half")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()

        assert files.stat("a") is None

    def test_writing_after_close_is_refused(self, files: Files) -> None:
        file = files.create("a")
        file.close()

        with pytest.raises(UsageError, match="cannot write a: the new file is closed"):
            file.write(b"x")

    def test_closing_what_was_aborted_is_refused(self, files: Files) -> None:
        file = files.create("a")
        file.abort()

        with pytest.raises(UsageError, match="cannot close a: the new file is aborted"):
            file.close()

    def test_may_be_read_while_it_grows_on_a_local_disk_alone(self, files: Files) -> None:
        file = files.create("d/a")
        file.write(b"first")
        if files.is_local:
            file.expose()
            file.sync()
            file.abort()
            assert bytes(files.read("d/a")) == b"first"
            return
        with pytest.raises(UsageError, match="d/a: a file of this storage cannot grow"):
            file.expose()
        with pytest.raises(UsageError, match="d/a: a file of this storage cannot be synced while"):
            file.sync()

    def test_a_name_can_be_used_after_its_abort(self, files: Files) -> None:
        files.create("a").abort()
        files.write_new("a", b"second")

        assert bytes(files.read("a")) == b"second"


class TestWriteNew:
    def test_refuses_a_name_that_is_taken_and_leaves_the_file(self, files: Files) -> None:
        files.write_new("d/a", b"first")

        with pytest.raises(ExistingFileError, match="d/a in ") as caught:
            files.write_new("d/a", b"second")

        assert bytes(files.read("d/a")) == b"first"
        assert not caught.value.retriable

    def test_takes_what_will_be_synced(self, files: Files) -> None:
        files.write_new("d/a", b"first", durable=True)
        with files.create("d/b", durable=True) as file:
            file.write(b"second")
        files.sync(["d/a", "d/b"])

        assert [bytes(files.read(path)) for path in ("d/a", "d/b")] == [b"first", b"second"]


class TestPutNew:
    @pytest.mark.parametrize("durable", (True, False))
    def test_the_first_of_two_has_the_name(self, files: Files, durable: bool) -> None:
        assert files.put_new("d/e/a", b"first", durable=durable)
        assert not files.put_new("d/e/a", b"second", durable=durable)

        files.sync_directory("d/e")
        assert bytes(files.read("d/e/a")) == b"first"
        assert paths(files, recursive=True) == ["d/e/a"]

    def test_puts_an_empty_file(self, files: Files) -> None:
        assert files.put_new("a", b"")
        assert not files.put_new("a", b"")

        assert bytes(files.read("a")) == b""

    def test_has_the_name_free_again_after_a_delete(self, files: Files) -> None:
        files.put_new("a", b"first")
        files.delete("a")

        assert files.put_new("a", b"second")

    def test_sees_a_file_that_was_written(self, files: Files) -> None:
        files.write_new("a", b"first")

        assert not files.put_new("a", b"second")

    def test_has_its_name_when_others_are_ready(self, files: Files) -> None:
        seen: list[object] = []

        assert files.put_new("d/a", b"xyz", ready=lambda: seen.append(files.stat("d/a")))
        assert seen == [None]
        assert bytes(files.read("d/a")) == b"xyz"

    def test_is_not_put_if_others_are_not(self, files: Files) -> None:
        def unready() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            files.put_new("d/a", b"xyz", ready=unready)

        assert paths(files, recursive=True) == []
        assert files.put_new("d/a", b"other")

    def test_of_many_at_once_one_puts_it(self, files: Files) -> None:
        """Goal: a name goes to one writer. Method: threads, let go together; ten rounds."""
        for name in "abcdefghij":
            ready = Barrier(4)

            def put(number: int, name: str = name, ready: Barrier = ready) -> bool:
                ready.wait()
                return files.put_new(name, b"%d" % number)

            with ThreadPoolExecutor(4) as pool:
                won = list(pool.map(put, range(4)))

            assert won.count(True) == 1
            assert bytes(files.read(name)) == b"%d" % won.index(True)
