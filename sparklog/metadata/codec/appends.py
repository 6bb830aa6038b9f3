"""Edits of appends and of transactions, as JSON: a gateway writes little else.

    segments, their leader epochs and producers          of each append
    open transactions, transactional ids, producer ids   of the steps of transactions
    replaced segments                                    with the spans of aborted transactions

The encoder checks the type of every value of such an edit. So a reader of the JSON decodes an equal
edit, and the JSON need not be read back before it is committed.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from sparklog.metadata.codec.edits import producer_json
from sparklog.metadata.codec.segments import plain_segment_json
from sparklog.metadata.codec.transactions import plain_added_json, plain_ids_json
from sparklog.metadata.codec.types import Json, all_are, are_integers, lists
from sparklog.metadata.state.edit import Edit, OpenTransaction, TopicEdit
from sparklog.metadata.state.producers import ProducerBatch, ProducerState

_BATCHES: Final = attrgetter("batches")

Encoder = Callable[[Any], Any]
"""Returns the JSON value of a field; None for a value that a reader might not decode as it is."""


def _encoder(
    kind: type[Edit | TopicEdit], encoders: Mapping[str, Encoder], *untold: str
) -> Callable[[Any], Json | None]:
    """Return the encoder of a dataclass: of its fields all but those of `encoders` are defaults.

    `encoders` are in the order of `edits`; `untold` are fields that its JSON does not have.
    """
    defaults = {one.name: one.default for one in fields(kind) if one.name not in untold}
    members = [(name, defaults.pop(name), encode) for name, encode in encoders.items()]
    rest, rests_defaults = attrgetter(*defaults), tuple(defaults.values())

    def encoded(value: Any) -> Json | None:
        if rest(value) != rests_defaults:
            return None
        found: Json = {}
        for name, default, encode in members:
            part = getattr(value, name)
            if part != default:
                found[name] = written = encode(part)
                if written is None:
                    return None
        return found

    return encoded


def _operation(value: str) -> str | None:
    return value if type(value) is str and value else None


def _integer(value: int) -> int | None:
    return value if are_integers([value]) else None


def _topics_json(topics: Mapping[str, TopicEdit]) -> Json | None:
    found = {topic_id: _topic_json(one) for topic_id, one in topics.items()}
    return None if None in found.values() else found


def _segments_json(entries: object) -> list[Json | None] | None:
    if type(entries) is not tuple:
        return None
    found = list(map(plain_segment_json, entries))
    return None if None in found else found


def _is_by_partition(value: object) -> bool:
    return type(value) is dict and are_integers(value)


def _epochs_json(epochs: Mapping[int, int]) -> Json | None:
    if not (_is_by_partition(epochs) and are_integers(epochs.values())):
        return None
    return {str(number): epoch for number, epoch in epochs.items()}


def _transactions_json(transactions: Mapping[int, tuple[OpenTransaction, ...]]) -> Json | None:
    if not (_is_by_partition(transactions) and all_are(tuple, transactions.values())):
        return None
    opened = list(chain.from_iterable(transactions.values()))
    if not (all_are(OpenTransaction, opened) and are_integers([*chain.from_iterable(opened)])):
        return None
    return {str(number): lists(some) for number, some in transactions.items()}


def _producers_json(producers: Mapping[int, tuple[ProducerState, ...]]) -> Json | None:
    if not (_is_by_partition(producers) and all_are(tuple, producers.values())):
        return None
    states = list(chain.from_iterable(producers.values()))
    if not (all_are(ProducerState, states) and all_are(tuple, map(_BATCHES, states))):
        return None
    found = {str(number): list(map(producer_json, some)) for number, some in producers.items()}
    batches = chain.from_iterable(map(_BATCHES, states))
    numbers = list(chain.from_iterable(chain.from_iterable(found.values())))
    return found if all_are(ProducerBatch, batches) and are_integers(numbers) else None


_topic_json: Final = _encoder(
    TopicEdit,
    {
        "segments": _segments_json,
        "replace": _segments_json,
        "transactions": _transactions_json,
        "leader_epochs": _epochs_json,
        "producers": _producers_json,
    },
)
appends_json: Final = _encoder(
    Edit,
    {
        "operation": _operation,
        "topics": _topics_json,
        "next_producer_id": _integer,
        "transactional_ids": plain_ids_json,
        "added_to_transactions": plain_added_json,
    },
    "parameters",
)
"""Returns the object of `edits.edit_json`, for an edit of appends and transactions; else None.

`edits.edit_of` returns an edit that is equal to this one, except for the times of producers' states
and of transactional ids, which an image sets. None also for a value that cannot be read back.
"""
