"""Brokers, users and producer ids of a log dir: plans, and what is refused."""

import pytest

from sparklog.author import who
from sparklog.errors import (
    CommitConflictError,
    CorruptMetadataError,
    DuplicateBrokerRegistrationError,
    ErrorCode,
    UsageError,
)
from sparklog.log.names import CLUSTER_METADATA
from sparklog.metadata.codec.edits import edit_of
from sparklog.metadata.codec.entry import understood
from sparklog.metadata.history.read import history
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.plans.cluster import (
    producer_id_block,
    with_broker,
    with_users,
    without_broker,
)
from sparklog.metadata.state.check import check
from sparklog.metadata.state.cluster import FIRST_PRODUCER_ID, Broker, Endpoint, ScramCredential
from sparklog.metadata.state.edit import Done, Edit, Stamp
from sparklog.metadata.state.image import Image
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.repair import repair
from tests.edits import NOW_MS
from tests.metadata_language import new_log

SECRET = b"never shown"
CREDENTIAL = ScramCredential(b"salt", SECRET, SECRET, 4096)
ALICE = ("alice", "SCRAM-SHA-256")


def broker(incarnation: str, node_id: int = 1) -> Broker:
    return Broker(node_id, incarnation, (Endpoint("PLAINTEXT", "localhost", 9092),), "rack")


def after(image: Image, edit: Edit | Done) -> Image:
    """The image after an edit that is allowed."""
    assert isinstance(edit, Edit)
    check(image, edit)
    return image.apply((edit,), Stamp(image.version + 1, "x", NOW_MS))


class TestProducerIds:
    def test_the_first_block_begins_at_a_given_place(self) -> None:
        edit, block = producer_id_block(Image(), FIRST_PRODUCER_ID + 77)

        assert block == range(FIRST_PRODUCER_ID + 77, FIRST_PRODUCER_ID + 1077)
        assert edit.parameters == {"first": str(block.start), "count": "1000"}

    def test_the_next_one_follows_whatever_place_is_given(self) -> None:
        edit, first = producer_id_block(Image(), FIRST_PRODUCER_ID)
        _, second = producer_id_block(after(Image(), edit), FIRST_PRODUCER_ID + 5)

        assert second.start == first.stop

    @pytest.mark.parametrize(
        ("imported", "start"),
        [(5000, FIRST_PRODUCER_ID + 9), (FIRST_PRODUCER_ID + 10**6, FIRST_PRODUCER_ID + 10**6)],
    )
    def test_imported_ids_are_not_given_again(self, imported: int, start: int) -> None:
        image = after(Image(), Edit(operation="IMPORT", next_producer_id=imported))
        _, block = producer_id_block(image, FIRST_PRODUCER_ID + 9)

        assert block.start == start

    def test_a_low_place_is_refused(self) -> None:
        with pytest.raises(UsageError, match="allowed from 1099511627776"):
            producer_id_block(Image(), 5)


class TestBrokers:
    def test_one_joins_and_leaves(self) -> None:
        joined = after(Image(), with_broker(Image(), broker("a")))
        assert joined.brokers[1] == broker("a")

        left = after(joined, without_broker(joined, 1, "a", "SIGTERM"))
        assert not left.brokers

    def test_one_that_is_registered_so_changes_nothing(self) -> None:
        joined = after(Image(), with_broker(Image(), broker("a")))

        assert with_broker(joined, broker("a")) == Done()

    def test_one_may_change_its_own_addresses(self) -> None:
        joined = after(Image(), with_broker(Image(), broker("a")))
        moved = broker("a")._replace(rack=None)

        assert after(joined, with_broker(joined, moved)).brokers[1] == moved

    def test_two_never_share_an_id(self) -> None:
        joined = after(Image(), with_broker(Image(), broker("a")))
        edit = with_broker(joined, broker("b"))
        assert isinstance(edit, Edit)

        with pytest.raises(DuplicateBrokerRegistrationError, match="node id 1 .*9092") as refused:
            check(joined, edit)
        assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    def test_one_takes_the_id_of_an_incarnation_that_it_names(self) -> None:
        joined = after(Image(), with_broker(Image(), broker("a")))

        assert after(joined, with_broker(joined, broker("b"), "a")).brokers[1] == broker("b")

    def test_one_that_was_started_again_is_not_declared_dead(self) -> None:
        joined = after(Image(), with_broker(Image(), broker("a")))
        late = without_broker(joined, 1, "a", "dead")
        again = after(joined, with_broker(joined, broker("b"), "a"))
        assert isinstance(late, Edit)

        assert without_broker(again, 1, "a", "dead") == Done()
        with pytest.raises(CommitConflictError, match="started again"):
            check(again, late)

    @pytest.mark.parametrize("node_id", [-1, 2**31])
    def test_a_node_id_is_an_int32(self, node_id: int) -> None:
        edit = Edit(operation="X", brokers={node_id: broker("a", node_id)})

        with pytest.raises(UsageError, match=f"node id {node_id}: allowed are 0 to 2147483647"):
            check(Image(), edit)

    def test_one_stands_under_its_own_id(self) -> None:
        with pytest.raises(UsageError, match="node id 2: the broker has node id 1"):
            check(Image(), Edit(operation="X", brokers={2: broker("a", 1)}))


class TestUsers:
    def test_are_set_and_removed(self) -> None:
        known = after(Image(), with_users(Image(), {ALICE: CREDENTIAL}))
        assert known.users[ALICE] == CREDENTIAL

        assert not after(known, with_users(known, {ALICE: None})).users

    def test_what_changes_nothing_is_not_committed(self) -> None:
        assert with_users(Image(), {ALICE: None}) == Done()

    @pytest.mark.parametrize("key", [("", "SCRAM-SHA-256"), ("alice", "PLAIN")])
    def test_other_names_and_mechanisms_are_refused(self, key: tuple[str, str]) -> None:
        with pytest.raises(UsageError, match="allowed are a name and one of SCRAM-SHA-256"):
            check(Image(), Edit(operation="X", users={key: CREDENTIAL}))

    def test_a_credential_shows_no_key(self) -> None:
        edit = with_users(Image(), {ALICE: CREDENTIAL})

        assert "4096" in repr(edit)
        assert SECRET.decode() not in f"{edit} {CREDENTIAL}"

    @pytest.mark.parametrize(
        "users",
        [
            {"never shown": 1},
            [["alice", "SCRAM-SHA-256", "never shown"]],
            [["alice", "SCRAM-SHA-256", ["never shown", "", "", 1]]],
            [["alice", "SCRAM-SHA-256", ["", "", "", "never shown"]]],
            [["alice", "SCRAM-SHA-256", ["never shown"]]],
        ],
    )
    def test_a_damaged_one_shows_no_key(self, users: object) -> None:
        with pytest.raises(CorruptMetadataError) as told, understood("entry 7"):
            edit_of({"operation": "X", "users": users}, {})

        assert "never shown" not in str(told.value)

    def test_the_history_keeps_no_credential(self) -> None:
        log = new_log()
        log.commit(lambda image: with_users(image, {ALICE: CREDENTIAL}))
        fold(log)
        (told,) = [one for one in history(log) if one.operation.startswith("ALTER USER")]

        assert told.parameters == {"users": "alice", "who": who()}
        assert told.edits[0].users == {ALICE: None}
        assert log.image().users[ALICE] == CREDENTIAL

    def test_a_repaired_image_has_no_credential_that_only_the_history_told(self) -> None:
        """A password that was changed must not come back with the image."""
        log = new_log()
        log.commit(lambda image: with_users(image, {ALICE: CREDENTIAL}))
        folded = fold(log)
        assert folded is not None
        for run in folded.fold.runs:
            log.files.delete(f"{CLUSTER_METADATA}/{run.path}")
        repair(log.files, log.clock)

        assert not MetadataLog(log.files, log.clock).image().users


def test_all_of_it_is_in_a_fold() -> None:
    log = new_log()
    log.commit(lambda image: with_broker(image, broker("a")))
    log.commit(lambda image: with_broker(image, broker("b", 2)))
    log.commit(lambda image: with_users(image, {ALICE: CREDENTIAL}))
    log.commit(lambda image: producer_id_block(image, FIRST_PRODUCER_ID)[0])
    fold(log)
    log.commit(lambda image: without_broker(image, 1, "a", "left"))
    fold(log)
    image = MetadataLog(log.files, log.clock).image()

    assert dict(image.brokers) == {2: broker("b", 2)}
    assert dict(image.users) == {ALICE: CREDENTIAL}
    assert image.next_producer_id == FIRST_PRODUCER_ID + 1000
