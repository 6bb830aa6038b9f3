"""The topics that members of a consumer group read: by name, and by regular expression.

A regular expression has RE2's syntax (KIP-848), and must match a whole name. It is matched again
when topics are created or deleted. Only a request tells which topics the member may read. So a
subscription that was loaded from a record is matched against all topics until the member sends a
request.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from sparklog.coordinator.consumer.consumer_member import ConsumerMember
from sparklog.model import TopicDescription

Topics = Mapping[str, TopicDescription]

EXPRESSION_MAX: Final = 30_000
"""The most characters of a regular expression."""
EXPRESSION_BYTES_MAX: Final = 2**20
"""The most bytes that a compiled one may take."""
EXPRESSIONS: Final = 100
"""The most compiled expressions that are cached."""


class _Matches(NamedTuple):
    """The names that a regular expression matches among some topics."""

    regex: str
    topics: Topics
    names: frozenset[str]


class Subscriptions:
    """The subscriptions of one group, by member id."""

    def __init__(self) -> None:
        self._matches: dict[str, _Matches] = {}

    def take(
        self, member: ConsumerMember, topics: Topics, may_read: Callable[[str], bool]
    ) -> frozenset[str] | None:
        """Match a member's regular expression against the topics that it may read.

        Other members with this expression get the names that this one has gained, until they are
        matched themselves: so a new topic is divided among all of them at once.

        Returns the names that the member has gained; None if it was not matched again. The first
        match of a member gains none.
        """
        regex, known = member.topic_regex, self._matches.get(member.member_id)
        if not regex:
            is_dropped = self._matches.pop(member.member_id, None) is not None
            return frozenset() if is_dropped else None
        if known is not None and known.regex == regex and known.topics is topics:
            return None
        names = frozenset(name for name in matching(regex, topics) if may_read(name))
        self._matches[member.member_id] = _Matches(regex, topics, names)
        gained = frozenset[str]() if known is None else names - known.names
        if gained:
            for member_id, one in self._matches.items():
                if one.regex == regex and one.topics is not topics:
                    self._matches[member_id] = one._replace(names=one.names | gained)
        return gained

    def has_matched(self, members: Iterable[ConsumerMember]) -> bool:
        """Return True if all regular expressions of members were matched."""
        return all(one.member_id in self._matches for one in members if one.topic_regex)

    def move(self, member_id: str, new_id: str) -> None:
        """Keep the matches of a static member that has a new member id."""
        known = self._matches.pop(member_id, None)
        if known is not None:
            self._matches[new_id] = known

    def forget(self, member_id: str) -> None:
        """Forget the matches of a member, if there are any."""
        self._matches.pop(member_id, None)

    def names(self, member: ConsumerMember, topics: Iterable[str]) -> frozenset[str]:
        """Return the names of a member's topics. Topics in its list of names need not exist.

        `topics` is for a regular expression that was not matched yet.
        """
        known = self._matches.get(member.member_id)
        matched: frozenset[str] = frozenset()
        if known is not None:
            matched = known.names
        elif member.topic_regex:
            matched = matching(member.topic_regex, topics)
        return matched.union(member.topic_names)

    def topic_ids(self, member: ConsumerMember, topics: Topics) -> frozenset[str]:
        """Return the ids of the existing topics that a member reads."""
        names = self.names(member, topics)
        return frozenset(topics[name].topic_id for name in names if name in topics)

    def of(self, members: Iterable[ConsumerMember], topics: Collection[str]) -> frozenset[str]:
        """Return the names of the topics of all members; `topics` are those of `names`."""
        return frozenset[str]().union(*(self.names(one, topics) for one in members))

    def hash_of(self, members: Iterable[ConsumerMember], topics: Topics) -> int:
        """Return a number that changes when the members read other topics or partitions."""
        found = blake2b(digest_size=8)
        for name in sorted(self.of(members, topics)):
            if name in topics:
                topic = topics[name]
                found.update(f"{name} {topic.topic_id} {topic.num_partitions}\n".encode())
        return int.from_bytes(found.digest(), "big", signed=True)


def matching(regex: str, topics: Iterable[str]) -> frozenset[str]:
    """Return the names that a regular expression matches.

    Returns none if it cannot be compiled: a broker may have taken it (`compiled`).
    """
    try:
        pattern = compiled(regex)
    except ValueError:
        return frozenset()
    return frozenset(name for name in topics if pattern.fullmatch(name))


@lru_cache(EXPRESSIONS)
def compiled(regex: str) -> Any:
    """Return a compiled regular expression of RE2 (linear time).

    Raises ValueError if it is invalid, or larger than EXPRESSION_MAX and EXPRESSION_BYTES_MAX
    allow.
    """
    import re2

    if len(regex) > EXPRESSION_MAX:
        raise ValueError(f"{len(regex)} characters: allowed are {EXPRESSION_MAX}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = EXPRESSION_BYTES_MAX
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode()) from None
