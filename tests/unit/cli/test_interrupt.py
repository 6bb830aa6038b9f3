"""Ctrl-C while reading."""

import io
import os
import select
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sparklog.cli.interrupt import Interrupts


@pytest.fixture(autouse=True)
def _foreground() -> Iterator[None]:
    """Handle SIGINT as a process in the foreground does: one in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TestInterrupts:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_the_input(self, number: signal.Signals) -> None:
        with Interrupts() as interrupts:
            first = interrupts.read(io.BytesIO(b"abc"), 2)
            os.kill(os.getpid(), number)

            assert (first, interrupts.asked) == (b"ab", True)
            assert interrupts.read(io.BytesIO(b"abc"), 2) == b""

    def test_a_signal_ends_the_waiting_for_a_pipe(self, monkeypatch: pytest.MonkeyPatch) -> None:
        wait = select.select

        def wait_interrupted(*descriptors: Any) -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            return wait(*descriptors)

        monkeypatch.setattr(select, "select", wait_interrupted)
        reading, writing = os.pipe()
        with (
            os.fdopen(reading, "rb", buffering=0) as pipe,
            os.fdopen(writing, "wb"),
            Interrupts() as interrupts,
        ):
            assert interrupts.read(pipe, 2) == b""

    def test_what_is_there_is_read_from_a_pipe(self) -> None:
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb", buffering=0) as pipe, os.fdopen(writing, "wb") as writer:
            writer.write(b"abc")
            writer.flush()
            with Interrupts() as interrupts:
                assert interrupts.read(pipe, 9) == b"abc"

    def test_a_second_signal_does_what_it_did_before(self) -> None:
        with Interrupts():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    def test_afterwards_all_is_as_before(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        with Interrupts():
            assert signal.getsignal(signal.SIGINT) != before

        assert signal.getsignal(signal.SIGINT) == before

    def test_other_threads_read_without(self) -> None:
        found: list[bytes] = []

        def read() -> None:
            with Interrupts() as interrupts:
                found.append(interrupts.read(io.BytesIO(b"abc"), 9))

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        assert found == [b"abc"]
