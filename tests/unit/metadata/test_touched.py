"""The keys that edits touch, from their JSON: those of the edits themselves."""

from dataclasses import fields
from random import Random
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.metadata.codec.edits import edit_json
from sparklog.metadata.runs.touched import TouchedKeys, keys_of
from sparklog.metadata.state.edit import Edit, Stamp, TopicEdit
from sparklog.metadata.state.image import Image
from tests.metadata_language import Author


def naive_of_topic(edits: list[TopicEdit]) -> Any:
    """What edits of one topic touch, said by them as objects."""
    segments: dict[Any, bool] = {}
    for edit in edits:
        segments = {one.key: True for one in edit.segments} | segments
        others = [*(one.key for one in edit.replace), *edit.remove, *edit.forget]
        segments = dict.fromkeys(others, False) | segments
    numbered = [(*e.partitions, *e.transactions, *e.epochs, *e.producers) for e in edits]
    return (
        segments,
        {number for some in numbered for number in some} | {key.partition for key in segments},
        {key for edit in edits for key in edit.receipts},
        {(n, s.producer_id) for e in edits for n, each in e.producers.items() for s in each},
        any(edit.forget_producers_before_ms is not None for edit in edits),
    )


def naive(edits: list[Edit]) -> Any:
    """What edits touch, said by them as objects."""
    of_topics: dict[str, list[TopicEdit]] = {}
    shared = {path for edit in edits for path in edit.forget_shared}
    for edit in edits:
        for topic_id in edit.forget_topics:
            of_topics.setdefault(topic_id, [])
        for topic_id, one in edit.topics.items():
            of_topics.setdefault(topic_id, []).append(one)
            keys = [*(entry.key for entry in one.segments), *one.remove]
            shared.update(key.log_path for key in keys if key.is_shared)
    return (
        {name for edit in edits for name in edit.leases},
        shared,
        {node_id for edit in edits for node_id in edit.brokers},
        {key for edit in edits for key in edit.users},
        {name for e in edits for name in (*e.transactional_ids, *e.added_to_transactions)},
        {topic_id: naive_of_topic(some) for topic_id, some in of_topics.items()},
    )


def said(keys: TouchedKeys) -> Any:
    of_log_dir = keys.log_dir
    of_topics = {
        topic_id: (
            {
                (number, *place): is_made
                for number, some in one.segments.items()
                for place, is_made in some.items()
            },
            one.partitions | one.segments.keys(),
            one.receipts,
            one.producers,
            one.all_partitions,
        )
        for topic_id, one in keys.topics.items()
    }
    return (
        of_log_dir.leases,
        of_log_dir.shared,
        of_log_dir.brokers,
        of_log_dir.users,
        of_log_dir.transactional_ids,
        of_topics,
    )


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_json_says_what_the_edits_say(random: Random) -> None:
    """Goal: A fold that decodes nothing misses no key. Method: made-up edits, and a naive twin."""
    author, image, keys = Author(random), Image(), TouchedKeys()
    edits: list[Edit] = []
    for version in range(30):
        edits.append(author.edit(image))
        image = image.apply(edits[-1:], Stamp(version, str(version), author.now_ms))
        keys.add(orjson.loads(orjson.dumps(edit_json(edits[-1]))))

    assert said(keys) == naive(edits)
    whole, touched = said(keys_of(image)), naive(edits)
    assert all(some <= others for some, others in zip(whole[:5], touched[:5], strict=True))
    assert whole[5].keys() == touched[5].keys() & image.topics.keys()


OF_THE_LOG_DIR = {
    *("leases", "brokers", "users", "topics", "forget_topics", "forget_shared"),
    *("transactional_ids", "added_to_transactions"),
}
IN_ROWS_OF_EVERY_FOLD = {"horizon_ms", "level", "next_producer_id"}
OF_THE_ENTRY = {"operation", "parameters", "fold", "replaces", "ended_log"}

OF_A_TOPIC = {
    *("segments", "replace", "remove", "forget", "receipts"),
    *("partitions", "transactions", "epochs", "producers", "forget_producers_before_ms"),
}
IN_ROWS_OF_A_TOUCHED_TOPIC = {
    *("description", "leader_epochs", "removed_ms", "vacuum_horizon_ms", "allow_gaps"),
    "forget_receipts_before_ms",
}


def test_no_member_of_an_edit_is_forgotten() -> None:
    """A new member must be read by `touched`, or stand in a list of those without keys."""
    of_log_dir = OF_THE_LOG_DIR | IN_ROWS_OF_EVERY_FOLD | OF_THE_ENTRY

    assert of_log_dir == {one.name for one in fields(Edit)}
    assert {one.name for one in fields(TopicEdit)} == OF_A_TOPIC | IN_ROWS_OF_A_TOUCHED_TOPIC
