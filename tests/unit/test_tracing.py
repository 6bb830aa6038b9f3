import pytest

from sparklog.errors import MissingFileError
from sparklog.storage.memory import MemoryFiles, Operation
from tests.tracing import TracingFiles


class TestTracingFiles:
    def test_keeps_the_operations_in_order(self) -> None:
        files = TracingFiles(MemoryFiles())
        with files.create("d/a") as file:
            file.write(b"ab")
            file.write(b"c")
        files.sync(["d/a", "d/a"])
        files.link_or_copy("d/a", "b")
        files.create("c").abort()

        assert files.trace == [
            Operation("create", "d/a"),
            Operation("write", "d/a", 2),
            Operation("write", "d/a", 1),
            Operation("close", "d/a", 3),
            Operation("sync", "d/a"),
            Operation("sync", "d/a"),
            Operation("link_or_copy", "b"),
            Operation("create", "c"),
            Operation("abort", "c"),
        ]

    def test_adds_to_a_trace_of_others_what_succeeds(self) -> None:
        trace = [Operation("commit", "0")]
        files = TracingFiles(MemoryFiles(), trace)
        files.write_new("a", b"abc")
        with pytest.raises(MissingFileError):
            files.read("gone")

        assert trace == [Operation("commit", "0"), Operation("write_new", "a", 3)]
