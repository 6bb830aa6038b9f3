"""What plans of one batch are told: a refusal that rests on a mate shares the mate's fate."""

from collections.abc import Iterator
from dataclasses import replace
from weakref import ref

import pytest

from sparklog.errors import (
    CommitOutcomeUnknownError,
    StorageError,
    TopicExistsError,
    UsageError,
)
from sparklog.metadata.batch import Batch, Committed, NotReadyError, Plan, Request
from sparklog.metadata.state.edit import Done, Edit, Stamp, TopicEdit
from sparklog.metadata.state.image import Image
from tests.edits import segment
from tests.metadata_language import description, new_log, of_topic, producing, topic_id


def named_dup(number: int) -> Edit:
    """The edit that makes a topic of the name that others want, too."""
    made = TopicEdit(description=description(number, name="dup"))
    return of_topic(made, number, "CREATE TOPICS")


def batch_of(*plans: Plan) -> Batch:
    return Batch([Request(plan, ()) for plan in plans])


def planned(batch: Batch) -> list[Edit]:
    """Plan on an empty image, as a try does; return the edits."""
    return [*batch.plan(Image(), Stamp(0, "", 0)).edits]


def two_of_one_name() -> Batch:
    batch = batch_of(lambda _: named_dup(1), lambda _: named_dup(2))
    assert planned(batch) == [named_dup(1)]
    return batch


def test_a_refusal_stands_when_the_batch_lands() -> None:
    batch = two_of_one_name()
    batch.land(Image())

    assert batch.requests[0].answer().edit == named_dup(1)
    with pytest.raises(TopicExistsError):
        batch.requests[1].answer()


def test_a_refusal_falls_with_the_batch() -> None:
    """Goal: Nobody is told "exists" of a topic that does not.

    Method: Two make a topic of one name; their entry cannot be put.
    """
    batch = two_of_one_name()
    batch.fail(StorageError("no connection"))

    for request in batch.requests:
        with pytest.raises(StorageError, match="no connection"):
            request.answer()


def test_a_refusal_is_planned_again_when_the_slot_was_lost() -> None:
    """Goal: What a mate takes back on the next try is free for the others.

    Method: The first plan wants a topic on its first try only; the second wants its name.
    """
    wanted: Iterator[Edit | Done] = iter([named_dup(1), Done()])
    batch = batch_of(lambda _: next(wanted), lambda _: named_dup(2))

    assert [planned(batch), planned(batch)] == [[named_dup(1)], [named_dup(2)]]
    batch.land(Image())
    assert batch.requests[1].answer().edit == named_dup(2)


def test_files_that_are_not_durable_fail_their_request_alone() -> None:
    def broken() -> None:
        raise StorageError("an I/O error")

    other = named_dup(2)
    batch = Batch([Request(lambda _: named_dup(1), (), ready=broken), Request(lambda _: other, ())])
    assert planned(batch) == [named_dup(1)]
    with pytest.raises(NotReadyError):
        batch.await_files()

    assert batch.waiting == [batch.requests[1]]
    assert planned(batch) == [other]
    batch.await_files()


def test_each_is_told_what_the_whole_entry_leaves() -> None:
    batch = batch_of(lambda _: named_dup(1), lambda _: Done())
    planned(batch)
    newest = Image()
    batch.land(newest)

    assert [request.answer().newest for request in batch.requests] == [newest] * 2


def test_a_refusal_by_what_is_committed_is_final() -> None:
    batch = batch_of(lambda _: next(iter(())))
    planned(batch)
    batch.requests[0].fail(StorageError("too late"))

    assert batch.waiting == []
    with pytest.raises(StopIteration):
        batch.requests[0].answer()


def test_a_request_that_nobody_planned_has_no_outcome() -> None:
    batch = batch_of(lambda _: Done())
    batch.land(Image())

    with pytest.raises(CommitOutcomeUnknownError, match="settled without a plan"):
        batch.requests[0].answer()


def test_plans_of_one_caller_share_an_entry() -> None:
    log = new_log()

    def broken(_: Image) -> Edit:
        raise StorageError("broken")

    plans: list[Plan] = [producing(segment()), broken, lambda _: Done(), producing(segment())]
    first, failed, nothing, last = log.commit_each(plans, [topic_id(0)])

    assert isinstance(first, Committed)
    assert isinstance(last, Committed)
    assert isinstance(nothing, Committed)
    assert isinstance(failed, StorageError)
    assert nothing.edit is None
    assert first.image.version == last.image.version == log.image().version == 2


@pytest.mark.usefixtures("no_collector")
def test_a_refused_plan_is_freed_with_its_error() -> None:
    """Goal: A service that refuses a request keeps nothing of it. The collector does not run."""

    def plan(image: Image) -> Edit:
        raise UsageError(f"version {image.version}: no")

    held, log = ref(plan), new_log()
    with pytest.raises(UsageError, match="version 1: no"):
        log.commit(plan)
    del plan

    assert held() is None


class TestParameters:
    """Those of an entry that several requests share."""

    @staticmethod
    def told(*asked: tuple[str | None, dict[str, str]]) -> dict[str, str]:
        def plan(number: int, parameters: dict[str, str]) -> Plan:
            made = TopicEdit(description=description(number, name=f"t{number}"))
            return lambda _: replace(of_topic(made, number), parameters=parameters)

        requests = [
            Request(plan(number, parameters), (), principal=principal)
            for number, (principal, parameters) in enumerate(asked)
        ]
        return Batch(requests).plan(Image(), Stamp(0, "", 0)).parameters("me")

    def test_are_those_of_all_edits(self) -> None:
        first = {"topics": "a", "records": "2", "bytes": "30"}
        second = {"topics": "b", "records": "3", "why": "so"}

        assert self.told((None, first), (None, second), (None, {"topics": "b"})) == {
            "topics": "a, b",
            "records": "5",
            "bytes": "30",
            "why": "so",
            "who": "me",
        }

    def test_name_the_client_that_asked_for_all(self) -> None:
        assert self.told(("alice", {}), ("alice", {})) == {"who": "me", "principal": "alice"}

    def test_name_no_client_if_there_are_two(self) -> None:
        assert self.told(("alice", {}), ("bob", {})) == {"who": "me"}
        assert self.told(("alice", {}), (None, {})) == {"who": "me"}
