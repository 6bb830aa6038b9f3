"""Records of consumer groups: what is written is read again, and what cannot be is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.coordinator.consumer.consumer_member import ConsumerMember, MemberState
from sparklog.coordinator.consumer.consumer_records import (
    assignment_of,
    current_record,
    epoch_record,
    member_record,
    partitions_of,
    subscription_of,
    target_record,
)
from sparklog.coordinator.records import (
    CONSUMER_CURRENT,
    GROUP_RECORDS,
    CoordinatorRecord,
    Record,
    read_record,
    write_record,
)
from sparklog.errors import CorruptRecordError
from tests.consumer_language import topic_id

texts = st.none() | st.text(max_size=200)
numbers = st.integers(-(2**31), 2**31 - 1)
places = st.frozensets(
    st.tuples(st.sampled_from("ab").map(topic_id), st.integers(0, 2**31 - 1)), max_size=200
)


def read(record: Record) -> CoordinatorRecord:
    return read_record(GROUP_RECORDS, *record)


@given(
    st.builds(
        ConsumerMember,
        member_id=st.text(max_size=9),
        instance_id=texts,
        rack_id=texts,
        client_id=st.text(max_size=9),
        client_host=st.text(max_size=9),
        topic_names=st.lists(st.text(max_size=9)).map(tuple),
        topic_regex=texts,
        rebalance_timeout_ms=numbers,
        assignor=texts,
        epoch=numbers,
        previous_epoch=numbers,
        state=st.sampled_from(MemberState),
        assigned=places,
        revoking=places,
    )
)
def test_a_member_is_read_as_it_was_written(member: ConsumerMember) -> None:
    found = ConsumerMember(member_id=member.member_id)
    for record, fields in ((member_record, subscription_of), (current_record, assignment_of)):
        value = read(record("g", member)).value
        assert value is not None
        found = replace(found, **fields(value))
    assert found == member


@given(places)
def test_so_is_a_target(target: frozenset[tuple[str, int]]) -> None:
    value = read(target_record("g", "ada", target)).value
    assert value is not None
    assert partitions_of(value["topicPartitions"]) == target


def test_the_hash_of_an_epoch_is_a_tagged_field() -> None:
    record = epoch_record("g", 7, -2)
    assert record.value == bytes.fromhex("0000 00000007 01 00 08 fffffffffffffffe")
    assert read(record).value == {"epoch": 7, "metadataHash": -2}


def test_a_long_text_has_a_size_of_two_bytes() -> None:
    record = member_record("g", ConsumerMember(member_id="ada", client_id="x" * 200))
    value = read(record).value
    assert value is not None
    assert value["clientId"] == "x" * 200


def test_a_nullable_struct_has_a_byte_before_it() -> None:
    member = ConsumerMember(member_id="ada")
    value = read(member_record("g", member)).value
    assert value is not None
    classic = {"sessionTimeoutMs": 9, "supportedProtocols": [{"name": "range", "metadata": b"m"}]}
    key = {"groupId": "g", "memberId": "ada"}
    record = write_record(5, key, 0, {**value, "classicMemberMetadata": classic})
    assert read(record).value == {**value, "classicMemberMetadata": classic}


def test_a_state_that_no_member_has_is_refused() -> None:
    value = {
        "memberEpoch": 1,
        "previousMemberEpoch": 0,
        "state": 127,
        "assignedPartitions": [],
        "partitionsPendingRevocation": [],
    }
    record = write_record(CONSUMER_CURRENT, {"groupId": "g", "memberId": "ada"}, 0, value)
    found = read(record).value
    assert found is not None
    with pytest.raises(CorruptRecordError, match="state 127 of a member: allowed are 0 to 2"):
        assignment_of(found)
