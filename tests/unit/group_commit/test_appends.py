"""Requests of clients are answered in full: at the end, without room, and after failures."""

import asyncio
from collections.abc import Iterator
from threading import Event, current_thread
from typing import Any

import pytest

from sparklog.errors import InvalidRecordError, StorageFullError
from sparklog.group_commit.append_slots import Append, Appended, Slot
from sparklog.group_commit.append_writer import AppendWriter
from sparklog.metadata.state.image import Image
from tests.append_requests import A, B, World, broken, run
from tests.failing import failing
from tests.logs import catalog, image, values


class TestEnd:
    def test_all_that_waits_is_committed(self, log_dir: str) -> None:
        async def work(world: World) -> None:
            await asyncio.gather(world.send(A), world.send(A))
            world.send(B)

        run(catalog(log_dir), work, linger_ms=60_000)

        assert values(log_dir) == {0: ["a", "a", "b"]}

    def test_without_a_request(self, log_dir: str) -> None:
        async def work(world: World) -> None:
            return None

        before = image(log_dir).version
        run(catalog(log_dir), work)

        assert image(log_dir).version == before

    def test_a_group_is_committed_though_its_loop_is_closed(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def write_late(*given: Any) -> Image | None:
            is_closed.wait(30)
            return write(*given)

        async def main() -> World:
            world = World(catalog(log_dir))
            world.send(A)
            await world.begun()
            return world

        is_closed, write = Event(), AppendWriter.write
        monkeypatch.setattr(AppendWriter, "write", write_late)
        world = asyncio.run(main())
        is_closed.set()
        world.commit._thread.close()

        assert values(log_dir) == {0: ["a"]}

    def test_a_request_is_committed_when_its_client_has_gone(self, log_dir: str) -> None:
        async def work(world: World) -> None:
            world.send(A).cancel()

        run(catalog(log_dir), work)

        assert values(log_dir) == {0: ["a"]}


class TestSlots:
    def test_of_a_waiting_request_are_gone_through_and_freed_on_the_thread(
        self, log_dir: str
    ) -> None:
        """A request may have a million of them: that would hold up the event loop."""

        class Noted(list[Slot]):
            def __iter__(self) -> Iterator[Slot]:
                threads.append(current_thread().name)
                return super().__iter__()

        async def work(world: World) -> Any:
            answer = world.commit.append(Noted([Slot(Append(world.topic_id, 0, A))]))
            threads.clear()
            [waiting] = world.commit._waiting
            return await answer, waiting.slots

        threads: list[str] = []

        assert run(catalog(log_dir), work) == ([Appended(0, -1, 0)], [])
        assert threads == ["append"] * 2


class TestRoom:
    def test_is_there_again_after_a_commit(self, log_dir: str) -> None:
        async def work(world: World) -> Any:
            await world.commit.room()
            answer = world.send(A, A)
            await world.commit.room()
            return answer.done()

        assert run(catalog(log_dir), work, max_pending_bytes=len(A))

    def test_a_group_that_fills_it_waits_no_longer(self, log_dir: str) -> None:
        async def work(world: World) -> int:
            await asyncio.gather(*(world.send(A) for _ in range(9)))
            await asyncio.gather(world.send(A), world.send(A, A))
            return world.commits

        limits = {"max_pending_bytes": 3 * len(A), "linger_ms": 60_000}

        assert run(catalog(log_dir), work, **limits) == 2


class TestFailures:
    def test_of_the_storage_are_answers(
        self, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def work(world: World) -> Any:
            monkeypatch.setattr(
                "sparklog.storage.local.LocalFiles.create",
                failing(StorageFullError, "no space left"),
            )
            return await world.send(A, A[:-1])

        full_disk, damaged = run(catalog(log_dir), work)

        assert isinstance(full_disk, StorageFullError)
        assert isinstance(damaged, InvalidRecordError)

    def test_of_the_program_are_raised(self, log_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
        async def work(world: World) -> Any:
            with monkeypatch.context() as patch:
                patch.setattr(AppendWriter, "write", broken)
                with pytest.raises(ZeroDivisionError):
                    await world.send(A)
            return await world.send(A)

        assert run(catalog(log_dir), work) == [Appended(0, -1, 0)]
