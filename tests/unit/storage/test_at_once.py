"""Work on several threads: all of it is done, and the first error is told."""

import threading
from multiprocessing import get_context

import pytest

from sparklog.storage.at_once import THREADS, WAITING_MAX, begin, each_at_once, in_background


class TestEachAtOnce:
    @pytest.mark.parametrize("count", [0, 1, 2, 100])
    def test_does_everything(self, count: int) -> None:
        paths = [str(number) for number in range(count)]
        done: list[str] = []
        each_at_once(done.append, paths)

        assert sorted(done) == sorted(paths)

    def test_does_several_things_at_a_time(self) -> None:
        both = threading.Barrier(2, timeout=60)

        def meet(_: str) -> None:
            both.wait()

        each_at_once(meet, ["a", "b"])

        assert not both.broken

    @pytest.mark.parametrize("paths", [["a"], ["a", "b"], ["b", "a", "c"]])
    def test_does_everything_and_raises_the_first_error(self, paths: list[str]) -> None:
        done: list[str] = []

        def fail(path: str) -> None:
            done.append(path)
            if path != "b":
                raise ValueError(path)

        with pytest.raises(ValueError, match="a"):
            each_at_once(fail, paths)

        assert sorted(done) == sorted(paths)

    def test_works_after_a_fork(self) -> None:
        each_at_once(lambda _: None, ["a", "b"])
        work = (len, ["c", "d"])
        child = get_context("fork").Process(target=each_at_once, args=work, daemon=True)
        child.start()
        child.join(60)

        assert child.exitcode == 0


class TestBegin:
    def test_tells_the_error_of_the_work(self) -> None:
        def fail() -> None:
            raise ValueError("a")

        with pytest.raises(ValueError, match="a"):
            begin(fail).result()

    def test_lets_only_so_many_wait(self) -> None:
        """Goal: a caller that begins too many waits. Method: work that waits for a
        signal, one more than there is room for, begun in a thread of its own.
        """
        signal, begun = threading.Event(), threading.Event()

        def one_more() -> None:
            begin(lambda: None).result()
            begun.set()

        def held_up() -> None:
            signal.wait(60)

        calls = [begin(held_up) for _ in range(WAITING_MAX)]
        thread = threading.Thread(target=one_more)
        thread.start()
        was_waiting = not begun.wait(0.05)
        signal.set()
        thread.join(60)

        assert was_waiting
        assert begun.is_set()
        assert [call.result() for call in calls] == [None] * WAITING_MAX


class TestInBackground:
    def test_nobody_else_waits(self) -> None:
        """Goal: a merge's syncs hold up no commit. Method: as many calls as there are threads wait
        for a signal that comes only when calls of the foreground are done.
        """
        signal = threading.Event()

        def held_up() -> None:
            signal.wait(60)

        with in_background():
            calls = [begin(held_up) for _ in range(THREADS)]
        begin(lambda: None).result(60)
        each_at_once(lambda _: None, ["a", "b"])
        are_waiting = not any(call.done() for call in calls)
        signal.set()

        assert are_waiting
        assert [call.result(60) for call in calls] == [None] * THREADS
