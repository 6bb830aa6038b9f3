"""Erase beside transactions, open, committed or aborted: hers go, and the rest holds."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.admin.erase import EraseReport, erase
from sparklog.fleet import LocalFleet
from sparklog.log_writer import SharedSegment
from sparklog.maintenance.verification.verify import verify
from sparklog.model import READ_COMMITTED, READ_UNCOMMITTED
from tests.erasing import ALICE, Meanwhile, swept
from tests.maintenance import run
from tests.metadata_logs import CrashError, CrashingLocalFiles
from tests.transactions import Client, Instance, new_log_dir

HERS = ALICE.encode()


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return new_log_dir(str(tmp_path / "log"), "t")


@pytest.fixture
def client(instance: Instance) -> Client:
    """A producer in an open transaction: one record of hers, and one of another, at 0 and 1."""
    return begun(instance)


def begun(instance: Instance) -> Client:
    made = Client(instance)
    made.init()
    assert made.produce("hers", key=HERS) == 0
    assert made.produce("other", key=b"bob") == 1
    return made


def erased(instance: Instance, fleet: LocalFleet | None = None) -> EraseReport:
    return erase(instance.catalog, "t", [ALICE], fleet or LocalFleet())


def told(instance: Instance) -> object:
    """What the metadata says of the partition and the transaction, but for the segments."""
    log = instance.log()
    return log.state, log.transactions, log.producers, instance.state()


def seen(instance: Instance, isolation: str = READ_COMMITTED) -> list[str]:
    return instance.values(isolation=isolation)[0]


class TestOpen:
    def test_keeps_the_last_stable_offset_and_the_transaction(
        self, instance: Instance, client: Client
    ) -> None:
        before = told(instance)
        report = erased(instance)

        assert report.partitions == {0: 1}
        assert seen(instance, READ_UNCOMMITTED) == ["other"]
        assert (instance.log().last_stable_offset, instance.log().log_end_offset) == (0, 2)
        assert told(instance) == before

    @pytest.mark.parametrize(("end", "left"), [("commit", ["other"]), ("abort", [])])
    def test_ends_as_it_would_have(
        self, instance: Instance, client: Client, end: str, left: list[str]
    ) -> None:
        erased(instance)
        getattr(client, end)()

        assert seen(instance) == left
        assert seen(instance, READ_UNCOMMITTED) == ["other"]
        assert instance.log().last_stable_offset == instance.log().log_end_offset == 3

    def test_of_nothing_but_hers_ends_too(self, instance: Instance) -> None:
        alone = Client(instance)
        alone.init()
        alone.produce("hers", key=HERS)
        erased(instance)
        alone.commit()

        assert seen(instance) == []
        assert instance.log().last_stable_offset == 2

    def test_goes_on_and_a_batch_sent_again_lands_once(
        self, instance: Instance, client: Client
    ) -> None:
        """The retry of her record is told the offset it had, and does not bring it back."""
        erased(instance)
        client._sequences["t", 0] = 0

        assert client.produce("hers", key=HERS) == 0
        assert client.produce("other", key=b"bob") == 1
        assert client.produce("more", key=b"bob") == 2
        client.commit()
        assert seen(instance) == ["other", "more"]

    def test_what_it_sends_of_her_later_stays(self, instance: Instance, client: Client) -> None:
        fleet = Meanwhile("search t", lambda: client.produce("again", key=HERS))
        erased(instance, fleet)
        client.commit()

        assert seen(instance) == ["other", "again"]
        erased(instance)
        assert seen(instance) == ["other"]

    def test_no_file_holds_her_afterwards(self, instance: Instance, client: Client) -> None:
        erased(instance)
        client.abort()
        log_dir = instance.catalog.files.uri

        assert swept(log_dir) == []
        assert run(verify, log_dir, repair=False, records=True, table=False)[0] == 0
        assert seen(instance) == []


class TestMeanwhile:
    @pytest.mark.parametrize(("end", "left"), [("commit", ["other"]), ("abort", [])])
    def test_an_end_between_search_and_commit_holds(
        self, instance: Instance, client: Client, end: str, left: list[str]
    ) -> None:
        """The row that replaces hers learns of the abort that its former has learnt of."""
        for title in ("search t", "erase t"):
            assert erased(instance, Meanwhile(title, getattr(client, end))).records == 1
            assert seen(instance) == left
            client = Client(instance)
            client.init()
            client.produce("hers", key=HERS)
            client.produce(f"after {title}", key=b"bob")
            left = [*left, f"after {title}"] if end == "commit" else left

    @pytest.mark.parametrize(("end", "left"), [("commit", ["other"]), ("abort", [])])
    def test_erase_between_the_marker_and_the_commit_of_an_end(
        self,
        instance: Instance,
        client: Client,
        monkeypatch: pytest.MonkeyPatch,
        end: str,
        left: list[str],
    ) -> None:
        complete = SharedSegment.complete
        others = [lambda: erased(Instance("", instance.catalog.files))]

        def completed(segment: SharedSegment) -> None:
            complete(segment)
            others.pop()()

        monkeypatch.setattr(SharedSegment, "complete", completed)
        getattr(client, end)()

        assert seen(instance) == left
        assert seen(instance, READ_UNCOMMITTED) == ["other"]


class TestCrashes:
    def test_leave_the_transaction_as_it_was(self, tmp_path: Path) -> None:
        """Killed before each of its steps, with a transaction open, which then commits."""
        crash_at, is_done = 0, False
        while not is_done:
            instance = new_log_dir(str(tmp_path / str(crash_at)), "t")
            client = begun(instance)
            log_dir = instance.catalog.files.uri
            try:
                erased(Instance(log_dir, CrashingLocalFiles(log_dir, crash_at)))
                is_done = True
            except CrashError:
                assert seen(instance, READ_UNCOMMITTED) in (["hers", "other"], ["other"])
            assert instance.log().last_stable_offset == 0
            client.commit()
            erased(instance)
            assert seen(instance) == ["other"]
            assert swept(log_dir) == []
            crash_at += 1

        assert crash_at > 5


Step = tuple[str, int, int]
"""What is done, by which of two producers, to which of two partitions."""

KINDS = ("hers", "hers", "other", "other", "commit", "abort", "erase")
steps = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 1), st.integers(0, 1)), max_size=20
)


class World:
    """A log dir with two transactional producers; one that erases, or one that does not."""

    def __init__(self, folder: str, *, erases: bool) -> None:
        self.instance = new_log_dir(f"{folder}/{erases}", "t")
        self.clients = [Client(self.instance, f"id-{number}") for number in range(2)]
        self.open = [False, False]
        self.gone: set[str] = set()
        self._erases = erases
        self._sent: list[str] = []
        for client in self.clients:
            client.init()

    def do(self, what: str, who: int, partition: int) -> None:
        """One step; an end of nothing is left out."""
        if what == "erase":
            self.gone |= {value for value in self._sent if value.startswith("hers")}
            if self._erases:
                erased(self.instance)
        elif what in ("hers", "other"):
            value = f"{what}-{len(self._sent)}"
            self._sent.append(value)
            self.open[who] = True
            self.clients[who].produce(value, partition, key=HERS if what == "hers" else b"bob")
        elif self.open[who]:
            self.open[who] = False
            getattr(self.clients[who], what)()

    def stable(self) -> list[tuple[int, int]]:
        """Last stable and log end offset of both partitions."""
        logs = [self.instance.log(partition=number) for number in (0, 1)]
        return [(log.last_stable_offset, log.log_end_offset) for log in logs]


class TestAnyOrder:
    @given(steps=steps)
    @settings(max_examples=25, deadline=None)
    def test_is_the_log_without_the_records(self, steps: list[Step]) -> None:
        """Goal: nothing but hers is lost, and every reader ends where it did.

        Method: the same steps of two producers with and without the erasures between them.
        """
        with TemporaryDirectory() as folder:
            ours, twin = World(folder, erases=True), World(folder, erases=False)
            for step in steps:
                ours.do(*step)
                twin.do(*step)
                assert ours.stable() == twin.stable()
            alike(ours, twin, READ_COMMITTED)
            alike(ours, twin, READ_UNCOMMITTED)
            for who in (0, 1):
                ours.do("commit", who, 0)
                twin.do("commit", who, 0)
            alike(ours, twin, READ_COMMITTED)


def alike(ours: World, twin: World, isolation: str) -> None:
    """Compare what a reader sees, but for what was erased."""
    wanted = {
        number: [value for value in some if value not in twin.gone]
        for number, some in twin.instance.values(isolation=isolation).items()
    }
    assert ours.instance.values(isolation=isolation) == wanted
