"""The edit of a group: the edits of its topics, without those that the image does not allow.

Groups of records (`writer`) and groups of batches (`append_writer`) are committed by the same
rules.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final, Protocol

from sparklog.errors import FencedLeaderEpochError, LateWriterError, SparklogError
from sparklog.log_writer import PRODUCE
from sparklog.metadata.batch import CheckedEdit
from sparklog.metadata.catalog import parameters_of
from sparklog.metadata.log import Plan
from sparklog.metadata.state.check import check_topic
from sparklog.metadata.state.edit import NOTHING, Done, Edit, TopicEdit, with_fields
from sparklog.metadata.state.image import Image
from sparklog.metadata.state.transactions import Added, TransactionalId

PLANS_MAX: Final = 3
"""How often a topic's part is written at most, if imports or vacuums are committed meanwhile."""


class Part(Protocol):
    """The part of a group that is written to one topic."""

    name: str
    topic_id: str


class Conflicts(Protocol):
    """Counts the plans that failed because another commit was first."""

    conflicts: int


def topic_edit(image: Image, topic_id: str, fields: dict[str, Any]) -> TopicEdit:
    """Return the edit of a topic that has these fields. Raises the errors of `check_topic`."""
    edit = with_fields(TopicEdit, fields)
    edit.check()
    check_topic(image, topic_id, edit)
    return edit


def group_edit(
    placed: Sequence[tuple[Part, TopicEdit | None]],
    ids: Mapping[str, TransactionalId] = NOTHING,
    added: Mapping[str, Added] = NOTHING,
    parameters: Mapping[str, str] = NOTHING,
) -> CheckedEdit | Done:
    """Return the edit of a group; Done if no part of it has an edit.

    `placed` are the parts and their edits (`topic_edit`). `ids` are transactional ids that change,
    and `added` joins open transactions. `parameters` tell more about the group.
    """
    topics = {part.topic_id: edit for part, edit in placed if edit is not None}
    if not topics:
        return Done()
    names = [part.name for part, _ in placed if part.topic_id in topics]
    return CheckedEdit(
        Edit(
            operation=PRODUCE,
            parameters={**parameters_of(names, topics.values()), **parameters},
            topics=topics,
            transactional_ids=ids,
            added_to_transactions=added,
        )
    )


def counting(plan: Plan, counts: Conflicts) -> Plan:
    """Return the plan; each call after the first one counts as a conflict."""
    calls = count()

    def counted(image: Image) -> Edit | CheckedEdit | Done:
        counts.conflicts += next(calls) > 0
        return plan(image)

    return counted


def is_passing(error: SparklogError) -> bool:
    """Return True if the same records may land in a second write."""
    return isinstance(error, LateWriterError | FencedLeaderEpochError)
