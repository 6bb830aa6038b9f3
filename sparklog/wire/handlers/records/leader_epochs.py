"""OffsetForLeaderEpoch: where a leader epoch ends, for clients that validate their position."""

from typing import Any, Final

from sparklog.metadata.state.image import Image
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.handlers.partitions import NO_EPOCH, newest_image_of, readable, step_for

NO_END: Final = -1
"""The end of an epoch that is unknown."""


async def offset_for_leader_epoch(call: Call) -> Reply:
    """Return the answer: per partition the largest epoch up to the requested one, and its end."""
    request = await call.request()
    count = sum(len(topic.partitions) for topic in request.topics)
    image = await newest_image_of(call, [one.topic for one in request.topics])

    def answered() -> Reply:
        topics = [
            {
                "topic": topic.topic,
                "partitions": [_answer(call, image, topic.topic, one) for one in topic.partitions],
            }
            for topic in request.topics
        ]
        return call.answer({"topics": topics})

    return await step_for(call, count, answered)


def _answer(call: Call, image: Image, name: str, asked: Any) -> dict[str, int]:
    answer = {"partition": asked.partition, "leader_epoch": NO_EPOCH, "end_offset": NO_END}
    log = readable(call, image, name, asked.partition, asked.current_leader_epoch)
    if isinstance(log, int):
        return {**answer, "error_code": log}
    end = log.end_of_epoch(asked.leader_epoch)
    if end is not None:
        answer.update(leader_epoch=end.epoch, end_offset=end.start_offset)
    return answer
