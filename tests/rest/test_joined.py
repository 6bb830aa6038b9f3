"""What is written at once leaves at once, in order, and long answers do not pile up."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.rest.joined import WAITING_BYTES_MAX, JoinedWrites


class Transport(asyncio.Transport):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.is_closed = False

    def writelines(self, list_of_data: object) -> None:
        assert isinstance(list_of_data, list)
        self.sent.append(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


def run(steps: Callable[[JoinedWrites], None]) -> list[bytes]:
    """What one turn of the event loop sends."""
    transport = Transport()

    async def main() -> None:
        steps(JoinedWrites(transport, asyncio.get_running_loop()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    return transport.sent


class TestWrites:
    def test_of_one_turn_are_one(self) -> None:
        def answer(transport: JoinedWrites) -> None:
            transport.write(b"head")
            transport.write(b"body")

        assert run(answer) == [b"headbody"]

    def test_of_another_turn_are_another(self) -> None:
        transport = Transport()

        async def main() -> None:
            joined = JoinedWrites(transport, asyncio.get_running_loop())
            for part in (b"head", b"body"):
                joined.write(part)
                await asyncio.sleep(0)
                await asyncio.sleep(0)

        asyncio.run(main())

        assert transport.sent == [b"head", b"body"]

    @given(st.lists(st.binary(min_size=1, max_size=5 * WAITING_BYTES_MAX // 4), max_size=5))
    @example([bytes(WAITING_BYTES_MAX), b"more", b"end"])
    def test_stay_in_order_and_few_wait(self, parts: list[bytes]) -> None:
        transport = Transport()

        async def main() -> None:
            joined = JoinedWrites(transport, asyncio.get_running_loop())
            for number, part in enumerate(parts, start=1):
                joined.write(part)
                waiting = len(b"".join(parts[:number])) - len(b"".join(transport.sent))
                assert waiting <= WAITING_BYTES_MAX
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        asyncio.run(main())

        assert b"".join(transport.sent) == b"".join(parts)

    def test_before_the_end_go_out_before_it(self) -> None:
        def answer(transport: JoinedWrites) -> None:
            transport.write(b"all")
            transport.close()
            assert transport.is_closing()

        assert run(answer) == [b"all"]

    @pytest.mark.parametrize("parts", [(), (b"late",)])
    def test_behind_the_end_go_nowhere(self, parts: tuple[bytes, ...]) -> None:
        def answer(transport: JoinedWrites) -> None:
            transport.close()
            for part in parts:
                transport.write(part)

        assert run(answer) == []
