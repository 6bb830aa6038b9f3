"""Long polls: one look for all who wait, and nobody waits for what will not come."""

import asyncio
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from sparklog.errors import UnknownTopicError
from sparklog.log_reader import TopicReader
from sparklog.log_reader.poll import Poll, _wake
from tests.logs import append, catalog


class Readers:
    """Readers of a topic that may go."""

    def __init__(self, log_dir: str) -> None:
        self.log_dir = log_dir
        self.is_gone = False
        self.looks = 0

    async def reader(self, topic: str) -> TopicReader:
        self.looks += 1
        if self.is_gone:
            raise UnknownTopicError(topic)
        return TopicReader.open(catalog(self.log_dir), topic)


@pytest.fixture
def readers(log_dir: str) -> Readers:
    return Readers(log_dir)


async def wait(poll: Poll, readers: Readers, timeout_s: float = 60) -> TopicReader:
    return await poll.wait_for_more(await readers.reader("t"), 0, 0, timeout_s)


class TestPoll:
    def test_ends_when_the_topic_goes(self, readers: Readers) -> None:
        async def main() -> Any:
            poll = Poll(readers, 0.001)
            waiting = asyncio.create_task(wait(poll, readers))
            await asyncio.sleep(0.01)
            readers.is_gone = True
            return await asyncio.gather(waiting, return_exceptions=True)

        assert [type(one) for one in asyncio.run(main())] == [UnknownTopicError]

    def test_ends_when_the_topic_is_gone_at_the_next_look(self, readers: Readers) -> None:
        async def main() -> Any:
            reader = await readers.reader("t")
            readers.is_gone = True
            await Poll(readers, 0.001).wait_for_more(reader, 0, 0, 60)

        with pytest.raises(UnknownTopicError):
            asyncio.run(main())
        assert readers.looks == 3  # that of the watch, and that of who waits

    def test_ends_at_once_when_the_service_does(self, readers: Readers) -> None:
        async def main() -> Any:
            poll = Poll(readers, 0.001)
            waiting = [asyncio.create_task(wait(poll, readers)) for _ in range(3)]
            await asyncio.sleep(0.01)
            poll.close()
            return await asyncio.gather(*waiting, wait(poll, readers))

        assert [one.partition(0).log_end_offset for one in asyncio.run(main())] == [0] * 4

    def test_looks_once_for_all(self, readers: Readers) -> None:
        async def main() -> Any:
            poll = Poll(readers, 0.2)
            waiting = [asyncio.create_task(wait(poll, readers)) for _ in range(20)]
            await asyncio.sleep(0.05)
            append(readers.log_dir, 0, "a")
            return await asyncio.gather(*waiting)

        found = asyncio.run(main())
        assert [one.partition(0).log_end_offset for one in found] == [1] * 20

    def test_knows_what_others_were_told_before(self, readers: Readers) -> None:
        async def main() -> TopicReader:
            old = await readers.reader("t")
            append(readers.log_dir, 0, "a")
            new = await readers.reader("t")
            readers.reader = AsyncMock(return_value=new)  # type: ignore[method-assign] # no change
            poll = Poll(readers, 0.001)
            other = asyncio.create_task(poll.wait_for_more(new, 0, 5, 60))
            await asyncio.sleep(0.01)
            found = await poll.wait_for_more(old, 0, 0, 60)
            poll.close()
            await other
            return found

        assert asyncio.run(main()).partition(0).log_end_offset == 1

    def test_never_goes_back(self, readers: Readers) -> None:
        async def main() -> TopicReader:
            old = await readers.reader("t")
            append(readers.log_dir, 0, "a")
            new = await readers.reader("t")
            readers.reader = AsyncMock(return_value=old)  # type: ignore[method-assign] # a late look
            poll = Poll(readers, 60)
            other = asyncio.create_task(poll.wait_for_more(old, 0, 5, 60))
            await asyncio.sleep(0.01)
            found = await asyncio.create_task(poll.wait_for_more(new, 0, 1, 0.01))
            poll.close()
            await other
            return found

        assert asyncio.run(main()).partition(0).log_end_offset == 1

    def test_keeps_nothing_of_a_topic_that_nobody_waits_for(self, readers: Readers) -> None:
        async def main() -> Any:
            poll = Poll(readers, 0.001)
            await asyncio.create_task(wait(poll, readers, timeout_s=0.01))
            await asyncio.gather(*poll._tasks.values())
            return poll._waiting, poll._known

        assert asyncio.run(main()) == ({}, {})

    def test_wakes_nobody_twice(self) -> None:
        async def main() -> Any:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            for _ in range(2):
                _wake({future})
            return future

        assert cast("asyncio.Future[None]", asyncio.run(main())).done()
