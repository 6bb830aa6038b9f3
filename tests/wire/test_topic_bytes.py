"""TopicBytes: the bytes of kio's own writer, made once while nothing in them changes."""

from dataclasses import replace
from importlib import import_module
from threading import Thread
from typing import Any
from weakref import ref

import pytest
from kio.schema.errors import ErrorCode

from sparklog.metadata.state.edit import PartitionState, Stamp, TopicEdit
from sparklog.metadata.state.image import TopicImage
from sparklog.model import TopicDescription
from sparklog.wire import topic_bytes
from sparklog.wire.instances import Leaders
from sparklog.wire.protocol.topic_ids import uuid_of
from sparklog.wire.protocol.versions import ApiKey
from sparklog.wire.topic_bytes import ENTRY_BYTES, NO_EPOCH, TopicBytes
from tests.wire.requests import encoded, made, versions

LEADERS = Leaders((7, 9))
IN_RACKS = Leaders((7, 9), (8, 9))
TOPIC = TopicDescription("flights", "Wg0HrG2TTiWUQGmXU8yFzw", 3, {}, 0)


def edited(topic: TopicImage, partition: int, **state: int) -> TopicImage:
    """The topic after a commit that sets the numbers of a partition."""
    edit = TopicEdit(partitions={partition: PartitionState(**state)})
    return topic.apply(edit, Stamp(topic.version + 1, "", 0))


def by_kio(
    epochs: list[int], version: int, name: str = TOPIC.name, leaders: Leaders = LEADERS
) -> bytes:
    """The topic as kio writes it, without operations and tags behind the partitions."""
    module = import_module(f"kio.schema.metadata.v{version}.response")
    partitions = [
        made(
            module.MetadataResponsePartition,
            error_code=ErrorCode.none,
            partition_index=number,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=leaders.replicas(number),
            isr_nodes=leaders.replicas(number),
            offline_replicas=(),
        )
        for number, (epoch, leader) in enumerate(zip(epochs, (7, 9, 7, 9), strict=False))
    ]
    topic = made(
        module.MetadataResponseTopic,
        error_code=ErrorCode.none,
        name=name,
        topic_id=uuid_of(TOPIC.topic_id),
        is_internal=name.startswith("__consumer"),
        partitions=tuple(partitions),
    )
    behind = (4 if version >= 8 else 0) + (1 if version >= 9 else 0)
    found = encoded(topic)
    return found[: len(found) - behind]


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
class TestBytes:
    def test_are_those_of_kio(self, version: int) -> None:
        topic = edited(TopicImage(TOPIC, 0), 1, leader_epoch=5)
        assert TopicBytes().of(topic, LEADERS, version) == by_kio([0, 5, 0], version)

    def test_have_the_replicas_of_each_partition(self, version: int) -> None:
        found = TopicBytes().of(TopicImage(TOPIC, 0), IN_RACKS, version)
        assert found == by_kio([0, 0, 0], version, leaders=IN_RACKS)

    def test_of_a_topic_that_is_closed_to_view_have_no_epochs(self, version: int) -> None:
        closed = TopicImage(TOPIC, 0, is_open=False)
        assert TopicBytes().of(closed, LEADERS, version) == by_kio([NO_EPOCH] * 3, version)


def test_a_topic_of_a_broker_is_internal() -> None:
    name = "__consumer_offsets"
    topic = TopicImage(TopicDescription(name, TOPIC.topic_id, 1, {}, 0), 0)
    assert TopicBytes().of(topic, LEADERS, 12) == by_kio([0], 12, name)


class TestKept:
    def test_bytes_stay_while_commits_change_nothing_in_them(self) -> None:
        kept, topic = TopicBytes(), TopicImage(TOPIC, 0)
        first = kept.of(topic, LEADERS, 12)
        assert kept.of(topic, LEADERS, 12) is first
        assert kept.of(edited(topic, 0, log_end_offset=9), LEADERS, 12) is first

    def test_a_new_epoch_leader_or_count_makes_new_ones(self) -> None:
        kept, topic = TopicBytes(), TopicImage(TOPIC, 0)
        kept.of(topic, LEADERS, 12)
        assert kept.of(edited(topic, 0, leader_epoch=1), LEADERS, 12) == by_kio([1, 0, 0], 12)
        assert kept.of(topic, LEADERS, 12) == by_kio([0, 0, 0], 12)
        assert kept.of(topic, Leaders((7, 8)), 12) != by_kio([0, 0, 0], 12)
        grown = TopicImage(replace(TOPIC, num_partitions=4), 1)
        assert kept.of(grown, LEADERS, 12) == by_kio([0, 0, 0, 0], 12)

    @pytest.mark.usefixtures("no_collector")
    def test_they_keep_no_image_of_a_topic(self) -> None:
        kept, topic = TopicBytes(), TopicImage(TOPIC, 0)
        first = kept.of(topic, LEADERS, 12)
        gone, topic = ref(topic), edited(topic, 0, log_end_offset=9)
        assert gone() is None
        assert kept.of(topic, LEADERS, 12) is first

    def test_threads_make_them_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Else both would count in the size of the cache."""
        kept, topic = TopicBytes(), TopicImage(TOPIC, 0)
        found, written = list[bytes](), topic_bytes._written
        other = Thread(target=lambda: found.append(kept.of(topic, LEADERS, 12)))

        def slow(*given: Any) -> bytes:
            other.start()
            other.join(0.2)
            return written(*given)

        monkeypatch.setattr(topic_bytes, "_written", slow)
        first = kept.of(topic, LEADERS, 12)
        other.join(10)
        assert found[0] is first

    def test_too_many_are_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(topic_bytes, "KEPT_BYTES_MAX", ENTRY_BYTES + 150)
        kept, topic = TopicBytes(), TopicImage(TOPIC, 0)
        first = kept.of(topic, LEADERS, 12)
        kept.of(topic, LEADERS, 13)
        again = kept.of(topic, LEADERS, 12)
        assert again == first
        assert again is not first

    def test_those_of_an_old_epoch_do_not_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kept, topic = TopicBytes(), TopicImage(TOPIC, 0)
        other = TopicImage(replace(TOPIC, topic_id="AAAAAAAAAAAAAAAAAAAAAg"), 0)
        first = kept.of(other, LEADERS, 12)
        monkeypatch.setattr(topic_bytes, "KEPT_BYTES_MAX", 2 * (ENTRY_BYTES + len(first)))
        for epoch in range(3):
            kept.of(edited(topic, 0, leader_epoch=epoch), LEADERS, 12)
        assert kept.of(other, LEADERS, 12) is first
