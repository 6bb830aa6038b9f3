"""Membership: node ids, signs of life, and brokers that are declared dead."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event

import pytest
from kio.schema.errors import ErrorCode

from sparklog.admin import NewTopic
from sparklog.clock import ManualClock
from sparklog.coordinator.alive import DEAD_MS
from sparklog.errors import DuplicateBrokerRegistrationError, MissingFileError, StorageError
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.plans.cluster import with_broker
from sparklog.metadata.state.cluster import Broker, Endpoint
from sparklog.service.housekeeper import Housekeeper
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from sparklog.wire import gateway as wire_gateway
from sparklog.wire import membership
from sparklog.wire.membership import HEARTBEAT_MS, Membership, try_to_leave
from sparklog.wire.protocol.versions import ApiKey
from tests.failing import failing
from tests.waiting import until
from tests.wire.gateways import Client, RunningGateway, gateway, request
from tests.wire.test_metadata import metadata_request, topics_asked


def at(port: int) -> tuple[Endpoint, ...]:
    return (Endpoint("PLAINTEXT", "127.0.0.1", port),)


class Cluster:
    """Gateways over one log dir, and a clock that moves when told to."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.clock = ManualClock()
        MetadataLog.create(self.files, self.clock)
        self._starts = 0

    def gateway(self) -> Membership:
        self._starts += 1
        log = MetadataLog(self.files, self.clock)
        return Membership(log, self.clock, f"incarnation-{self._starts}")

    def joined(self, port: int, node_id: int | None = None) -> Membership:
        found = self.gateway()
        found.join(at(port), None, node_id)
        return found

    @property
    def brokers(self) -> dict[int, Broker]:
        return dict(MetadataLog(self.files, self.clock).image().brokers)

    def pass_time(self, *alive: Membership, ms: int) -> None:
        for _ in range(0, ms, HEARTBEAT_MS):
            self.clock.advance(HEARTBEAT_MS)
            for one in alive:
                one.beat()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


class TestNodeId:
    def test_is_the_smallest_free_one(self, cluster: Cluster) -> None:
        cluster.joined(1)
        second = cluster.joined(2)
        cluster.joined(3)
        second.leave()
        assert cluster.gateway().join(at(4), None).node_id == 1

    def test_is_the_same_behind_a_crash(self, cluster: Cluster) -> None:
        cluster.joined(1)
        cluster.joined(2)
        assert cluster.gateway().join(at(2), "rack").node_id == 1
        assert cluster.brokers[1] == Broker(1, "incarnation-3", at(2), "rack")

    def test_is_the_given_one(self, cluster: Cluster) -> None:
        assert cluster.gateway().join(at(1), None, 7).node_id == 7

    def test_is_refused_while_another_lives(self, cluster: Cluster) -> None:
        first = cluster.joined(1, node_id=7)

        class Beating(ManualClock):
            def sleep_ms(self, ms: float) -> None:
                super().sleep_ms(ms)
                first.beat()

        cluster.clock = Beating()
        with pytest.raises(DuplicateBrokerRegistrationError, match="node id 7"):
            cluster.gateway().join(at(2), None, 7)

    def test_is_given_on_when_the_other_is_dead(self, cluster: Cluster) -> None:
        cluster.joined(1, node_id=7)
        assert cluster.gateway().join(at(2), None, 7).endpoints == at(2)
        assert cluster.brokers[7].incarnation == "incarnation-2"


class TestWarmingUp:
    def warmed_up(self, cluster: Cluster, port: int) -> list[list[int]]:
        """The brokers at each call of `warm_up` while another gateway joins."""
        calls: list[list[int]] = []
        cluster.gateway().join(at(port), None, None, lambda: calls.append(sorted(cluster.brokers)))
        return calls

    def test_one_that_takes_work_from_others_is_warm_before_it_joins(
        self, cluster: Cluster
    ) -> None:
        cluster.joined(1, node_id=7)
        assert self.warmed_up(cluster, 2) == [[7]]
        assert sorted(cluster.brokers) == [0, 7]

    def test_one_that_is_alone_joins_at_once(self, cluster: Cluster) -> None:
        assert self.warmed_up(cluster, 1) == []

    def test_one_that_has_its_place_still_joins_at_once(self, cluster: Cluster) -> None:
        """So after a crash: clients already ask it, and nobody else has its address."""
        cluster.joined(1)
        cluster.joined(2, node_id=7)
        assert self.warmed_up(cluster, 2) == []
        assert sorted(cluster.brokers) == [0, 7]

    def test_one_with_its_id_at_a_new_address_is_warm_before_it_waits(
        self, cluster: Cluster
    ) -> None:
        """It waits until its former self is dead, and then takes work at once."""
        cluster.joined(1)
        cluster.joined(2, node_id=7)
        before_ms = cluster.clock.boot_ms()
        calls: list[float] = []
        cluster.gateway().join(at(3), None, 7, lambda: calls.append(cluster.clock.boot_ms()))
        assert calls == [before_ms]
        assert cluster.brokers[7].endpoints == at(3)


class TestLife:
    def test_others_see_who_joins_and_leaves(self, cluster: Cluster) -> None:
        first, second = cluster.joined(1), cluster.joined(2)
        assert sorted(first.beat()) == [0, 1]
        second.leave()
        assert sorted(first.beat()) == [0]

    def test_those_that_beat_stay(self, cluster: Cluster) -> None:
        first, second = cluster.joined(1), cluster.joined(2)
        cluster.pass_time(first, second, ms=5 * DEAD_MS)
        assert sorted(cluster.brokers) == [0, 1]

    def test_one_that_does_not_is_declared_dead(self, cluster: Cluster) -> None:
        first, _ = cluster.joined(1), cluster.joined(2)
        first.beat()
        cluster.pass_time(first, ms=DEAD_MS - HEARTBEAT_MS)
        assert sorted(cluster.brokers) == [0, 1]
        cluster.pass_time(first, ms=HEARTBEAT_MS)
        assert sorted(cluster.brokers) == [0]
        assert [file.path for file in cluster.files.list("__gateways")] == ["__gateways/0.json"]

    def test_one_is_looked_at_just_when_it_would_be_dead(self, cluster: Cluster) -> None:
        first, _ = cluster.joined(1), cluster.joined(2)
        rests = []
        while 1 in first.beat():
            rests.append(first.rest_ms)
            cluster.clock.advance(first.rest_ms)
        assert rests == [3_000, 3_000, 3_000, 1_000]
        assert first.rest_ms == HEARTBEAT_MS

    def test_one_without_a_sign_is_declared_dead(self, cluster: Cluster) -> None:
        first, _ = cluster.joined(1), cluster.joined(2)
        cluster.files.delete("__gateways/1.json")
        first.beat()
        cluster.pass_time(first, ms=DEAD_MS + HEARTBEAT_MS)
        assert sorted(cluster.brokers) == [0]

    def test_nobody_is_dead_because_the_storage_was_away(self, cluster: Cluster) -> None:
        first, second = cluster.joined(1), cluster.joined(2)
        for away_ms in (DEAD_MS - 1, 30 * DEAD_MS):
            cluster.pass_time(second, first, ms=HEARTBEAT_MS)
            cluster.clock.advance(away_ms)
            assert sorted(first.beat()) == [0, 1]
        cluster.pass_time(first, ms=DEAD_MS + HEARTBEAT_MS)
        assert sorted(cluster.brokers) == [0]

    def test_one_that_wakes_up_joins_again(self, cluster: Cluster) -> None:
        first, second = cluster.joined(1), cluster.joined(2)
        first.beat()
        cluster.pass_time(first, ms=2 * DEAD_MS)
        second.beat()
        assert cluster.brokers[1].incarnation == "incarnation-2"

    def test_one_whose_id_another_one_has_got_takes_a_free_one(self, cluster: Cluster) -> None:
        first, second, third = self.declared_dead(cluster, successor=3)
        assert sorted(second.beat()) == [0, 1, 2]
        assert second.own == cluster.brokers[2] == Broker(2, "incarnation-2", at(2))
        assert cluster.brokers[1] == third.own
        cluster.pass_time(first, second, ms=DEAD_MS + HEARTBEAT_MS)
        assert sorted(cluster.brokers) == [0, 2]

    def test_one_whose_place_is_taken_waits_until_it_is_free(self, cluster: Cluster) -> None:
        first, second, third = self.declared_dead(cluster, successor=2)
        for _ in range(0, DEAD_MS, HEARTBEAT_MS):
            with pytest.raises(DuplicateBrokerRegistrationError, match="node id 1"):
                second.beat()
            assert cluster.brokers[1] == third.own
            cluster.pass_time(first, ms=HEARTBEAT_MS)
        assert sorted(cluster.brokers) == [0]
        assert sorted(second.beat()) == [0, 1]

    def test_one_whose_address_another_one_has_got_waits_too(self, cluster: Cluster) -> None:
        """The address leads clients to that one, whichever node id the address has."""
        first, second, _ = self.declared_dead(cluster, successor=3)
        cluster.joined(2)
        with pytest.raises(DuplicateBrokerRegistrationError, match="node id 2"):
            second.beat()
        assert sorted(first.beat()) == [0, 1, 2]

    def test_one_whose_place_is_taken_still_looks_for_dead_ones(self, cluster: Cluster) -> None:
        first, second, _ = self.declared_dead(cluster, successor=2)
        first.leave()
        for _ in range(0, DEAD_MS, HEARTBEAT_MS):
            with pytest.raises(DuplicateBrokerRegistrationError):
                second.beat()
            cluster.clock.advance(HEARTBEAT_MS)
        assert list(second.beat().values()) == [second.own]

    def test_one_keeps_an_id_that_was_given(self, cluster: Cluster) -> None:
        first, second, third = self.declared_dead(cluster, successor=3, node_id=7)
        with pytest.raises(DuplicateBrokerRegistrationError, match="node id 7"):
            second.beat()
        third.leave()
        assert sorted(second.beat()) == [0, 7]
        assert sorted(first.beat()) == [0, 7]

    def declared_dead(
        self, cluster: Cluster, successor: int, node_id: int | None = None
    ) -> tuple[Membership, Membership, Membership]:
        """A gateway that lives, one that stood still, and its successor at a port."""
        first, second = cluster.joined(1), cluster.joined(2, node_id)
        first.beat()
        cluster.pass_time(first, ms=2 * DEAD_MS)
        third = cluster.joined(successor, node_id)
        first.beat()
        return first, second, third

    def test_one_that_is_started_again_meanwhile_stays(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, _ = cluster.joined(1), cluster.joined(2)
        first.beat()
        cluster.pass_time(first, ms=DEAD_MS - HEARTBEAT_MS)
        cluster.clock.advance(HEARTBEAT_MS)
        cluster.joined(2)
        assert sorted(first.beat()) == [0, 1]

    def test_none_is_given_where_the_log_dir_is_gone(self, tmp_path: Path) -> None:
        """Such as in the directory where its file system was mounted."""
        place = tmp_path / "log"
        log = MetadataLog.create(LocalFiles(str(place)), ManualClock())
        own = Membership(log, ManualClock(), "incarnation")
        own.join(at(1), None)
        place.rename(tmp_path / "elsewhere")
        place.mkdir()
        for _ in range(2):
            with pytest.raises(MissingFileError):
                own.beat()
        assert not [*place.iterdir()]
        place.rmdir()
        (tmp_path / "elsewhere").rename(place)
        assert sorted(own.beat()) == [0]

    def test_a_heartbeat_is_no_entry(self, cluster: Cluster) -> None:
        first = cluster.joined(1)
        version = MetadataLog(cluster.files, cluster.clock).image().version
        cluster.pass_time(first, ms=DEAD_MS)
        assert MetadataLog(cluster.files, cluster.clock).image().version == version


def test_a_storage_that_fails_keeps_nobody_from_leaving(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = cluster.joined(1)

    monkeypatch.setattr(first, "leave", failing(StorageError, "no disk"))
    try_to_leave(first)
    assert "could not leave" in caplog.text


def test_a_heart_beats_on_whatever_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    troubles: list[Exception] = [StorageError("no disk"), TypeError("a bug")]
    beat, is_well = Membership.beat, Event()

    def beats(self: Membership) -> Mapping[int, Broker]:
        if troubles:
            raise troubles.pop(0)
        is_well.set()
        return beat(self)

    monkeypatch.setattr(membership, "HEARTBEAT_MS", 1)
    monkeypatch.setattr(Membership, "beat", beats)
    with gateway(tmp_path / "log"):
        assert is_well.wait(60)
    assert ["no disk" in caplog.text, "a bug" in caplog.text] == [True, True]


class TestInstances:
    def test_agree_who_is_there_and_who_leads(self, tmp_path: Path) -> None:
        with gateway(tmp_path / "log") as first, gateway(tmp_path / "log") as second:
            first.server.gateway.admin.create_topics([NewTopic(str(n), 1) for n in range(32)])
            told = [described(one) for one in (first, second)]
        assert told[0] == told[1]
        brokers, leaders = told[0]
        assert [port for _, port in brokers] == [first.port, second.port]
        assert set(leaders.values()) == {0, 1}

    def test_one_that_joins_others_has_loaded_its_kernels(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with gateway(tmp_path / "log") as first:
            found, counts = first.server.gateway, list[int]()
            monkeypatch.setattr(
                wire_gateway, "_load_kernels", lambda: counts.append(len(found._newest().brokers))
            )
            with gateway(tmp_path / "log"):
                assert counts[0] == 1

    def test_one_that_ends_is_named_no_longer(self, tmp_path: Path) -> None:
        with gateway(tmp_path / "log") as first:
            with gateway(tmp_path / "log"):
                assert len(described(first)[0]) == 2
            assert [port for _, port in described(first)[0]] == [first.port]

    def test_one_that_has_lost_its_id_goes_on_with_another(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So after it stood still, if a gateway was started meanwhile: that one has the id."""
        monkeypatch.setattr(membership, "HEARTBEAT_MS", 1)
        works_on = list[Sequence[str]]()
        monkeypatch.setattr(Housekeeper, "work_on", lambda _, command: works_on.append(command))
        with gateway(tmp_path / "log") as running:
            before, log = running.server.gateway.membership.own, running.server.gateway.catalog.log
            other = Broker(before.node_id, "other", at(1))
            log.commit(lambda image: with_broker(image, other, before.incarnation))
            until(lambda: described(running)[0] == [(0, 1), (1, running.port)])
            assert works_on[-1][2] == "1"

    def test_of_other_listeners_are_named_by_theirs(self, tmp_path: Path) -> None:
        listen = ("127.0.0.1:0", "127.0.0.1:0")
        advertise = ("127.0.0.1:1001", "127.0.0.1:1002")
        with gateway(tmp_path / "log", listen=listen, advertise=advertise) as running:
            ports = [one.port for one in running.server.listeners]
            found = []
            for port in ports:
                with Client(port) as client:
                    [broker] = client.ask(topics_asked(12)).brokers
                    found.append(broker.port)
        assert found == [1001, 1002]

    def test_without_the_listener_of_a_client_are_not_named_to_it(self, tmp_path: Path) -> None:
        log_dir, two = tmp_path / "log", ("127.0.0.1:0", "127.0.0.1:0")
        with gateway(log_dir) as first, gateway(log_dir, listen=two) as second:
            first.server.gateway.admin.create_topics([NewTopic(str(n), 1) for n in range(32)])
            assert len(described(second)[0]) == 2
            brokers, leaders = described(second, listener=1)
            port = second.server.listeners[1].port
            with Client(port) as client:
                groups = {"key_type": 0, "coordinator_keys": tuple(map(str, range(32)))}
                found = client.ask(request(ApiKey.FIND_COORDINATOR, 6, **groups)).coordinators
        assert (brokers, set(leaders.values())) == ([(1, port)], {1})
        unavailable = (ErrorCode.coordinator_not_available, -1)
        assert {(one.error_code, one.port) for one in found} == {
            (ErrorCode.none, port),
            unavailable,
        }


def described(
    running: RunningGateway, listener: int = 0
) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """The brokers, and the leaders by topic, as a client of one instance sees them."""
    with Client(running.server.listeners[listener].port) as client:
        answer = client.ask(metadata_request(12, None))
    leaders = {topic.name: topic.partitions[0].leader_id for topic in answer.topics}
    return [(one.node_id, one.port) for one in answer.brokers], leaders
