"""The partitions of a read: `assign`, `subscribe` and `subscribePattern`."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sparklog.errors import InvalidOptionError, UnknownTopicError
from sparklog.log.names import INTERNAL_TOPICS
from sparklog.metadata.catalog import Catalog, check_partition
from sparklog.model import TopicDescription, TopicPartition
from sparklog.spark.reading.offsets import parse_assign

_SELECTORS = ("assign", "subscribe", "subscribePattern")

Selected = dict[TopicPartition, TopicDescription]
"""Partitions, each with its topic as it is now."""


def selected(catalog: Catalog, options: Mapping[str, Any], *, must_exist: bool = True) -> Selected:
    """Return the partitions that options (parsed CONSUME_OPTIONS) name, in order.

    Raises InvalidOptionError unless exactly one option names them. Topics and partitions that do
    not exist raise UnknownTopicError; with `must_exist` False they are left out.
    """
    check_selectors(options)
    for error in missing(catalog, options) if must_exist else ():
        raise error
    topics = catalog.topics()
    if options["assign"] is not None:
        return {
            key: topics[key.topic]
            for key in parse_assign(options["assign"])
            if key.topic in topics and key.partition < topics[key.topic].num_partitions
        }
    if options["subscribe"] is not None:
        found = [topics[name] for name in _subscribed(options["subscribe"]) if name in topics]
    else:
        pattern = _pattern(options["subscribePattern"])
        # As in the connector, a pattern never matches internal topics; otherwise a stream with a
        # group would read its own commits of offsets.
        names = [name for name in topics if name not in INTERNAL_TOPICS and pattern.search(name)]
        found = [topics[name] for name in names]
    return {
        TopicPartition(topic.name, partition): topic
        for topic in found
        for partition in range(topic.num_partitions)
    }


def missing(
    catalog: Catalog, options: Mapping[str, Any], known: Collection[TopicPartition] = ()
) -> Iterator[UnknownTopicError]:
    """Yield an error for each topic or partition that options name and that does not exist.

    Those in `known`, and topics with a partition there, are left out.
    """
    topics = catalog.topics()
    if options["assign"] is not None:
        keys = [key for key in parse_assign(options["assign"]) if key not in known]
    elif options["subscribe"] is not None:
        names = {key.topic for key in known} | topics.keys()
        keys = [
            TopicPartition(one, 0) for one in _subscribed(options["subscribe"]) if one not in names
        ]
    else:
        return
    for key in keys:
        try:
            check_partition(topics.get(key.topic) or catalog.topic(key.topic), key.partition)
        except UnknownTopicError as error:
            yield error


def check_selectors(options: Mapping[str, Any]) -> None:
    """Raise InvalidOptionError unless exactly one option selects partitions, validly."""
    given = [name for name in _SELECTORS if options[name] is not None]
    if len(given) != 1:
        raise InvalidOptionError(
            f"give one of the options assign, subscribe and subscribePattern, not {given or 'none'}"
        )
    parse = {"assign": parse_assign, "subscribe": _subscribed, "subscribePattern": _pattern}
    parse[given[0]](options[given[0]])


def _subscribed(text: str) -> list[str]:
    names = sorted({name.strip() for name in text.split(",")} - {""})
    if not names:
        raise InvalidOptionError("option subscribe: no topics to read", option="subscribe")
    return names


def _pattern(text: str) -> re.Pattern[str]:
    if not text.strip():
        raise InvalidOptionError("option subscribePattern is empty", option="subscribePattern")
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidOptionError(
            f"option subscribePattern: {text!r} is no regular expression: {error}",
            option="subscribePattern",
        ) from None
