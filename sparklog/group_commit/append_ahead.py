"""Batches of a long request are checked ahead: before the request joins a group.

A check takes 20 to 30 µs, and the requests of a group wait for each other. So a million damaged
batches would hold up all clients. The checks that need no log are made here, in the order in which
the group makes them: whether the topic has the partition, and whether the batch is sound under the
topic's configs. The group makes the other checks, and repeats these if the configs have changed.
"""

from collections.abc import Sequence

from sparklog.errors import SparklogError
from sparklog.group_commit.append_slots import Ahead, Slot
from sparklog.log_writer import config_of
from sparklog.metadata.catalog import check_partition
from sparklog.metadata.plans.topics import live_of_id
from sparklog.metadata.state.image import Image
from sparklog.model import TimestampType


def check_ahead(slots: Sequence[Slot], image: Image, now_ms: int) -> None:
    """Check batches: a refused one gets its error as outcome, a sound one its `ahead`.

    The image need not have opened the topics. With LogAppendTime a batch is stored with the time of
    its group, so its `ahead` stays None.
    """
    # Loaded with the first batch: the kernels load slowly; other requests do not need them.
    from sparklog.record.client_batch import check_client_batch

    for slot in slots:
        try:
            topic = live_of_id(image, slot.append.topic_id)
            check_partition(topic, slot.append.partition)
            config = config_of(topic)
            batch = check_client_batch(slot.append.batch, config, now_ms, slot.produce_version)
        except SparklogError as error:
            slot.refuse(error)
        else:
            if config.timestamp_type is not TimestampType.LOG_APPEND_TIME:
                slot.ahead = Ahead(config, batch)
