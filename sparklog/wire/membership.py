"""Membership: a gateway registers as a broker of its log dir, shows that it lives, and leaves.

Joining, leaving and being declared dead are edits. A sign of life is no edit: every gateway
overwrites a small file of its own. The others check whether this file changes, and measure time by
a clock that counts from the start of their machine. So the clocks of two machines are never
compared.

    node id     the given one; else that of a broker with the same addresses, which is this gateway
                before a crash; else the smallest free one. A gateway that was declared dead, and
                whose id another one has got since, takes a free one. While another gateway has its
                given id, or without a given id its addresses, it waits instead
    warming up  joining moves partitions and groups of other gateways to this one. So it first loads
                what their requests need. Alone it joins at once, and so does one whose addresses
                the others still know, after a crash
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import orjson

from sparklog.clock import Clock
from sparklog.coordinator.alive import DEAD_MS, sign_of_life, sign_path
from sparklog.errors import CommitConflictError, SparklogError
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.plans.cluster import with_broker, without_broker
from sparklog.metadata.state.cluster import Broker, Endpoint
from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.state.image import Image

HEARTBEAT_MS: Final = 3_000
"""How often a gateway shows that it lives."""
LOOK_AGAIN_MS: Final = 100
"""The shortest rest between two looks at another gateway."""
GAP_MS: Final = DEAD_MS // 2
"""The most that the time between two looks adds to the silence of a broker."""
log: Final = logging.getLogger("sparklog.gateway")


class _Seen(NamedTuple):
    """A broker's sign of life, for how long it has been the same, and the time of the last look."""

    sign: bytes
    silent_ms: int
    looked_ms: int


class Membership:
    """One gateway of its log dir. Its methods block on the storage: call none in an event loop.

    `incarnation` is a name that no other start of a gateway has.
    """

    def __init__(self, metadata_log: MetadataLog, clock: Clock, incarnation: str) -> None:
        self._log = metadata_log
        self._files = metadata_log.files
        self._clock = clock
        self._incarnation = incarnation
        self._own = Broker(-1, incarnation, ())
        self._is_given = False
        """True if the node id comes from the configuration."""
        self._count = 0
        self._seen: dict[int, _Seen] = {}
        self.rest_ms = HEARTBEAT_MS
        """How long to rest until the next beat: another gateway may be dead before HEARTBEAT_MS."""

    def join(
        self,
        endpoints: tuple[Endpoint, ...],
        rack: str | None,
        node_id: int | None = None,
        warm_up: Callable[[], object] | None = None,
    ) -> Broker:
        """Register this gateway; return it with its node id.

        Calls `warm_up` first if work of other gateways moves to this one.
        If another broker has the given id, the call waits DEAD_MS to see whether that broker is
        dead. Raises DuplicateBrokerRegistrationError when it is alive.
        """
        self._is_given = node_id is not None
        if warm_up is not None and self._takes_work(endpoints):
            warm_up()
        if node_id is not None:
            self._wait_for(node_id, endpoints)

        def plan(image: Image) -> Edit | Done:
            chosen = _node_id(image, endpoints) if node_id is None else node_id
            self._own = Broker(chosen, self._incarnation, endpoints, rack)
            held = image.brokers.get(chosen)
            is_free = held is not None and (
                held.endpoints == endpoints or self._is_dead(chosen, held.incarnation)
            )
            return with_broker(image, self._own, held.incarnation if held and is_free else None)

        self._log.commit(plan)
        self._show()
        return self._own

    @property
    def own(self) -> Broker:
        """The gateway as a broker, with its present node id."""
        return self._own

    def beat(self) -> Mapping[int, Broker]:
        """Show that this gateway lives, look for dead ones, and return the brokers.

        Raises as `MetadataLog.commit`. While another gateway has the place of this one, raises
        DuplicateBrokerRegistrationError after it has looked for dead ones: see `_join_again`.
        """
        self.rest_ms = HEARTBEAT_MS
        # First: where the log dir is gone, the sign would be the first file of another directory.
        # And a gateway that cannot read serves nobody: others take its groups over.
        brokers: Mapping[int, Broker] = self._log.image().brokers
        held = brokers.get(self._own.node_id)
        is_in = held is not None and held.incarnation == self._incarnation
        if is_in:  # else the sign of life would be another gateway's
            self._show()
        for node_id, broker in brokers.items():
            if broker.incarnation == self._incarnation:
                continue
            self._look(node_id, broker.incarnation)
            if self._is_dead(node_id, broker.incarnation):
                self._declare_dead(broker)
            else:
                left_ms = DEAD_MS - self._seen[node_id].silent_ms
                self.rest_ms = min(self.rest_ms, max(left_ms, LOOK_AGAIN_MS))
        if not is_in:  # last: the gateway that has its place may just have been declared dead
            self._join_again()
        return self._log.image().brokers

    def _join_again(self) -> None:
        """Register again; with a free node id if another gateway has got this one's.

        Raises DuplicateBrokerRegistrationError while another gateway has the given id, or without a
        given id the addresses of this one.
        """
        before = own = self._own

        def plan(image: Image) -> Edit | Done:
            nonlocal own
            found = before.node_id
            if not self._is_given:
                found = _node_id(image, before.endpoints)
                is_taken = found in image.brokers or before.node_id in image.brokers
                found = found if is_taken else before.node_id
            own = before._replace(node_id=found)
            return with_broker(image, own)

        self._log.commit(plan)
        self._own = own
        self._show()
        told = "broker %d was declared dead: it joins again, as broker %d"
        log.warning(told, before.node_id, own.node_id)

    def leave(self) -> None:
        """Give the node id back. Raises as `MetadataLog.commit`."""
        self._remove(self._own, "left")

    # ---------------------------------------------------------------------------- signs of life

    def _show(self) -> None:
        self._count += 1
        sign = {"incarnation": self._incarnation, "count": self._count}
        self._files.overwrite(sign_path(self._own.node_id), orjson.dumps(sign))

    def _look(self, node_id: int, incarnation: str) -> None:
        """Note a broker's sign of life, and for how long it has been the same.

        The time without a look does not count if it is DEAD_MS or longer: the storage was away, or
        this process stood still. So the other broker perhaps could not show that it lives.
        """
        sign = sign_of_life(self._files, node_id) + incarnation.encode()
        known, now_ms = self._seen.get(node_id), self._clock.boot_ms()
        silent_ms = 0
        if known is not None and known.sign == sign and now_ms - known.looked_ms < DEAD_MS:
            silent_ms = known.silent_ms + min(now_ms - known.looked_ms, GAP_MS)
        self._seen[node_id] = _Seen(sign, silent_ms, now_ms)

    def _is_dead(self, node_id: int, incarnation: str) -> bool:
        known = self._seen.get(node_id)
        if known is None or not known.sign.endswith(incarnation.encode()):
            return False
        return known.silent_ms >= DEAD_MS

    def _wait_for(self, node_id: int, endpoints: tuple[Endpoint, ...]) -> None:
        """Watch the broker that has an id until it shows that it lives, or is dead."""
        held = self._log.image().brokers.get(node_id)
        if held is None or held.endpoints == endpoints:
            return
        self._look(node_id, held.incarnation)
        first = self._seen[node_id].sign
        while self._seen[node_id].sign == first and not self._is_dead(node_id, held.incarnation):
            self._clock.sleep_ms(HEARTBEAT_MS / 6)
            self._look(node_id, held.incarnation)

    def _takes_work(self, endpoints: tuple[Endpoint, ...]) -> bool:
        """Whether others are there, and none of them has the addresses of this one."""
        brokers = self._log.image().brokers
        return bool(brokers) and all(one.endpoints != endpoints for one in brokers.values())

    def _declare_dead(self, broker: Broker) -> None:
        log.warning("broker %d shows no sign of life: it is declared dead", broker.node_id)
        try:
            self._remove(broker, f"declared dead by broker {self._own.node_id}")
        except CommitConflictError:
            log.info("broker %d was started again", broker.node_id)

    def _remove(self, broker: Broker, why: str) -> None:
        node_id, incarnation = broker.node_id, broker.incarnation
        landed = self._log.commit(lambda image: without_broker(image, node_id, incarnation, why))
        if landed.edit is not None:
            self._files.delete(sign_path(node_id))


def _node_id(image: Image, endpoints: tuple[Endpoint, ...]) -> int:
    for node_id, broker in image.brokers.items():
        if broker.endpoints == endpoints:
            return node_id
    return next(number for number in range(len(image.brokers) + 1) if number not in image.brokers)


def try_to_leave(membership: Membership) -> None:
    """Leave; only log an error: the other gateways will see that this one is gone."""
    try:
        membership.leave()
    except SparklogError as error:
        log.warning("this broker could not leave: %s", error)
