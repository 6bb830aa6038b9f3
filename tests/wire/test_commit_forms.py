"""Commits of the same partitions over one connection, which are not read field by field."""

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from immutables import Map
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.errors import StorageError
from sparklog.metadata.state.image import Directory
from sparklog.tokens import EVERYBODY
from sparklog.wire.commit_forms import PARTITIONS_MAX, Asked, CommitForm
from sparklog.wire.handlers.groups.offset_commit import read_commit_request
from sparklog.wire.protocol.headers import request_header
from sparklog.wire.protocol.reading import Reader
from tests.wire.gateways import Client, RunningGateway, frame_of, gateway
from tests.wire.grouping import GroupMember, Offsets, alone

DIRECTORY = Directory(Map())
ASKED = Asked(9, DIRECTORY, EVERYBODY)
TWO: Offsets = {("flights", 0): 3, ("flights", 1): 7}
MORE: Offsets = {("flights", 0): 2**40, ("flights", 1): 0}
MANY = PARTITIONS_MAX + 1


def frame(offsets: Offsets, group: str = "readers", generation: int = -1) -> memoryview:
    member = GroupMember(None, group)  # type: ignore[arg-type] # it asks nothing
    member.generation = generation
    return memoryview(frame_of(member.commit_request(offsets)))


def read(data: memoryview) -> tuple[int, Any, Any]:
    """Where the body begins, the request with its offsets, and its topics."""
    at = request_header(data).body_at
    request, topics = read_commit_request(Reader(data, at, is_flexible=True), 9)
    offsets = {place: one for topic in topics for place, one in topic.offsets}
    return at, request._replace(offsets=offsets), topics


def form(data: memoryview) -> CommitForm:
    at, request, topics = read(data)
    numbers_at = [place - at for topic in topics for place in topic.numbers_at]
    return CommitForm(data[at:], request, numbers_at, b"answer", ASKED)


class TestAForm:
    def test_reads_other_offsets(self) -> None:
        data = frame(MORE)
        at, request, _ = read(data)
        offsets = {place: one._replace(committed_ms=5) for place, one in request.offsets.items()}
        expected = request._replace(offsets=offsets, is_dated=True)
        assert form(frame(TWO)).request_of(data, at, ASKED, 5) == expected

    @pytest.mark.parametrize(
        "data",
        [
            frame({("flights", 0): 3}),
            frame({("flights", 0): 3, ("flights", 2): 7}),
            frame({("flights", 0): 3, ("lights!", 1): 7}),
            frame(TWO, "writers"),
            frame(TWO, generation=4),
        ],
    )
    def test_does_not_read_another_request(self, data: memoryview) -> None:
        assert form(frame(TWO)).request_of(data, read(data)[0], ASKED, 5) is None

    @pytest.mark.parametrize(
        "asked",
        [
            Asked(8, DIRECTORY, EVERYBODY),
            Asked(9, Directory(Map()), EVERYBODY),
            Asked(9, DIRECTORY, EVERYBODY.model_copy()),
        ],
    )
    def test_holds_for_those_checks_alone(self, asked: Asked) -> None:
        data = frame(TWO)
        assert form(data).request_of(data, read(data)[0], asked, 5) is None

    def test_keeps_no_directory_in_memory(self) -> None:
        data, directory = frame(TWO), Directory(Map())
        at, request, topics = read(data)
        numbers_at = [place - at for topic in topics for place in topic.numbers_at]
        found = CommitForm(data[at:], request, numbers_at, b"", Asked(9, directory, EVERYBODY))
        gone = weakref.ref(directory)
        del directory
        assert gone() is None
        assert found.request_of(data, at, ASKED, 5) is None


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningGateway]:
    settings = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 4}
    with gateway(tmp_path / "log", **settings) as found:
        topics = [NewTopic("flights", 2), NewTopic("wide", MANY)]
        found.server.gateway.admin.create_topics(topics)
        yield found


def fail(*_: object) -> None:
    raise StorageError("the disk is full")


def forms(running: RunningGateway) -> list[CommitForm | None]:
    """Of all connections."""
    return [one.session.commit_form for one in running.server.gateway.connections]


class TestCommits:
    def test_of_the_same_form_are_kept(self, running: RunningGateway, client: Client) -> None:
        member = alone(client)
        member.commit(TWO)
        known = forms(running)
        for offset in range(4):
            wanted = {("flights", 0): offset, ("flights", 1): 2 * offset}
            assert member.commit(wanted) == [ErrorCode.none] * 2
            assert member.committed() == wanted
        assert None not in known
        assert forms(running) == known

    def test_to_a_topic_that_was_deleted_are_refused(
        self, running: RunningGateway, client: Client
    ) -> None:
        member = alone(client)
        member.commit(TWO)
        running.server.gateway.admin.delete_topics(["flights"])
        assert member.commit(MORE) == [ErrorCode.unknown_topic_or_partition] * 2

    def test_of_another_member_are_read_anew(self, client: Client) -> None:
        member = alone(client)
        member.commit(TWO)
        member.commit(TWO)
        with_other = GroupMember(client)
        with_other.member_id, with_other.generation = "nobody", member.generation
        assert with_other.commit(TWO) == [ErrorCode.unknown_member_id] * 2
        assert member.commit(TWO) == [ErrorCode.none] * 2

    def test_are_refused_once_the_member_has_left(self, client: Client) -> None:
        member = alone(client)
        member.commit(TWO)
        member.leave()
        assert member.commit(MORE) == [ErrorCode.unknown_member_id] * 2
        assert member.committed() == TWO

    def test_after_a_new_topic_are_checked_anew(
        self, running: RunningGateway, client: Client
    ) -> None:
        member = alone(client)
        member.commit(TWO)
        member.commit(TWO)
        (before,) = forms(running)
        running.server.gateway.admin.create_topics([NewTopic("other", 1)])
        member.commit(MORE)
        member.commit(MORE)
        assert forms(running) != [before]
        assert member.committed() == MORE

    def test_of_a_shard_that_was_given_up_are_kept(
        self, running: RunningGateway, client: Client
    ) -> None:
        member = alone(client)
        member.commit(TWO)
        member.commit(TWO)
        gateway = running.server.gateway
        gateway.coordinators._shards.clear()
        assert member.commit(MORE) == [ErrorCode.none] * 2
        assert member.committed() == MORE

    def test_that_cannot_be_appended_are_refused(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        member = alone(client)
        member.commit(TWO)
        with monkeypatch.context() as broken:
            broken.setattr("sparklog.group_commit.append_writer.AppendWriter.write", fail)
            assert member.commit(MORE) == [ErrorCode.coordinator_not_available] * 2
        assert member.commit(MORE) == [ErrorCode.none] * 2
        assert member.committed() == MORE

    def test_with_metadata_have_no_form(self, running: RunningGateway, client: Client) -> None:
        member = alone(client)
        for _ in range(2):
            member.commit(TWO)
        member.commit(TWO, metadata="note")
        assert forms(running) == [None]

    def test_of_many_partitions_have_no_form(self, running: RunningGateway, client: Client) -> None:
        member = alone(client)
        for _ in range(2):
            assert set(member.commit({("wide", one): 1 for one in range(MANY)})) == {ErrorCode.none}
        assert forms(running) == [None]

    def test_with_a_partition_that_is_not_there_do_not_change_the_form(
        self, running: RunningGateway, client: Client
    ) -> None:
        member = alone(client)
        member.commit(TWO)
        known = forms(running)
        codes = member.commit({**MORE, ("nowhere", 0): 1})
        assert codes[2] is ErrorCode.unknown_topic_or_partition
        assert forms(running) == known
        assert member.commit(TWO) == [ErrorCode.none] * 2
