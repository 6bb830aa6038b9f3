"""Images: edits applied, against the naive twin; answers of topics and partitions."""

from random import Random
from weakref import ref

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import OffsetOutOfRangeError, UsageError
from sparklog.metadata.codec.edits import edit_json, edit_of
from sparklog.metadata.state.check import check
from sparklog.metadata.state.edit import (
    Edit,
    EpochStart,
    OpenTransaction,
    PartitionState,
    Receipt,
    ReceiptKey,
    Stamp,
    TopicEdit,
)
from sparklog.metadata.state.image import Image, TopicImage, added_ranges, at_log_end
from sparklog.metadata.state.producers import ProducerState
from sparklog.metadata.state.segments import TAIL_MAX
from sparklog.metadata.state.topic_image import WAITING_MAX
from tests.edits import NOW_MS, at, segment
from tests.metadata_language import Author, creating, description, of_topic, producing, topic_id
from tests.naive.metadata import NaiveMetadata, said_by


def applied(*edits: Edit, image: Image | None = None) -> Image:
    """The image after some entries of one edit each."""
    image = image or Image()
    for edit in edits:
        version = image.version + 1
        image = image.apply((edit,), Stamp(version, str(version), NOW_MS + version))
    return image


def topic_of(image: Image) -> TopicImage:
    topic = image.topic(topic_id(0))
    assert topic is not None
    return topic


def test_forgetting_an_unknown_shared_segment_changes_nothing() -> None:
    edit = Edit(operation="VACUUM", forget_shared=["__shared/a.log"])
    image = Image().apply((edit,), Stamp(1, "1", NOW_MS))

    assert image.shared == Image().shared


@pytest.mark.usefixtures("no_collector")
def test_the_names_of_topics_keep_no_earlier_image_of_a_topic() -> None:
    image = applied(creating())
    assert [*image.names] == ["t0"]
    gone = ref(topic_of(image))
    image = applied(of_topic(TopicEdit(partitions={0: PartitionState(1, 1)})), image=image)
    assert gone() is None
    assert [*image.names] == ["t0"]


def test_the_mapping_of_fields_without_a_value_stays_empty() -> None:
    default = TopicEdit().partitions

    assert default == {} == Edit(operation="X").leases
    assert isinstance(default, dict)
    with pytest.raises(TypeError, match="stays empty"):
        default[0] = PartitionState()


@pytest.mark.slow
class TestTwin:
    @given(st.randoms(use_true_random=False))
    def test_images_say_what_the_twin_says(self, random: Random) -> None:
        """Goal: apply is right. Method: edits at random, twice encoded; each image is compared."""
        author, image, twin = Author(random), Image(), NaiveMetadata()
        for version in range(25):
            edit = author.edit(image)
            check(image, edit)
            decoded = edit_of(orjson.loads(orjson.dumps(edit_json(edit))), edit.parameters)
            assert edit_json(decoded) == edit_json(edit)
            stamp = Stamp(version, str(version), author.now_ms)
            image = image.apply((decoded,), stamp)
            twin.apply(edit, stamp)

            assert said_by(image) == twin.said

    @given(st.randoms(use_true_random=False))
    def test_an_image_never_changes(self, random: Random) -> None:
        """Goal: structure is shared safely. Method: every image goes on twice; all stay as said."""
        author, images = Author(random), [Image()]
        for version in range(12):
            before = images[-1]
            for _ in range(2):
                stamp = Stamp(version, str(version), author.now_ms)
                images.append(before.apply((author.edit(before),), stamp))
        said = [said_by(image) for image in images]
        for image in images:
            image.apply((author.edit(image),), Stamp(99, "99", NOW_MS))

        assert [said_by(image) for image in images] == said


class TestNames:
    def test_are_in_order_and_without_the_deleted(self) -> None:
        gone = TopicEdit(description=description(1, deleted_ms=5))
        image = applied(creating(2), creating(1), creating(0), of_topic(gone, 1))

        assert list(image.names) == ["t0", "t2"]
        assert [one.name for one in image.deleted] == ["t1"]

    def test_are_carried_on_by_edits_that_change_none(self) -> None:
        image = applied(creating())
        names = image.names
        later = applied(producing(segment())(image), Edit(operation="X", horizon_ms=1), image=image)

        assert later.names is names

    def test_an_unknown_topic_is_refused(self) -> None:
        with pytest.raises(UsageError, match="does not exist"):
            applied(of_topic(TopicEdit(vacuum_horizon_ms=1)))

    def test_what_is_forgotten_is_gone(self) -> None:
        forgetting = Edit(operation="VACUUM", forget_topics=[topic_id(0), topic_id(7)])
        image = applied(creating(), forgetting)

        assert image.topic(topic_id(0)) is None
        assert image.names == {}


class TestRemoved:
    @pytest.mark.parametrize(("told_ms", "removed_ms"), [(None, NOW_MS + 2), (5, 5)])
    def test_are_so_since_the_entry_unless_the_edit_says_when(
        self, told_ms: int | None, removed_ms: int
    ) -> None:
        first = at(0, segment())
        removing = of_topic(TopicEdit(remove=[first.key], removed_ms=told_ms))
        image = applied(creating(), of_topic(TopicEdit(segments=[first])), removing)

        assert [one.removed_ms for one in topic_of(image).removed] == [removed_ms]


class TestProducers:
    def test_are_apart_from_segments(self) -> None:
        state = ProducerState(7, 0)
        image = applied(creating(), of_topic(TopicEdit(producers={1: (state,)})))
        log = topic_of(image).partition(1)

        assert log.producers[7] == state._replace(used_ms=NOW_MS + 1)
        assert log.log_end_offset == 0

    def test_stay_when_their_segments_are_removed_or_rewritten(self) -> None:
        first, second = at(0, segment()), at(10, segment())
        used = TopicEdit(segments=[first, second], producers={0: (ProducerState(7, 0),)})
        merging = TopicEdit(
            segments=[at(0, segment(records=20))], remove=[first.key, second.key], removed_ms=5
        )
        image = applied(creating(), of_topic(used), of_topic(merging))

        assert list(topic_of(image).partition(0).producers) == [7]

    def test_a_partitions_unused_ones_are_counted_and_forgotten(self) -> None:
        one, two = (of_topic(TopicEdit(producers={0: (ProducerState(n, 0),)})) for n in (1, 2))
        image = applied(creating(), one, two)
        topic = topic_of(image)

        assert topic.producers_unused_since(NOW_MS + 2) == 1
        forgetting = TopicEdit(forget_producers_before_ms=NOW_MS + 2)
        image = applied(of_topic(forgetting), image=image)
        assert list(topic_of(image).partition(0).producers) == [2]

    def test_one_used_in_the_same_millisecond_is_never_forgotten(self) -> None:
        ahead = TopicEdit(forget_producers_before_ms=2**50, producers={0: (ProducerState(1, 0),)})
        image = applied(creating(), of_topic(ahead))

        assert list(topic_of(image).partition(0).producers) == [1]


class TestEpochs:
    def test_one_begins_at_the_first_record_written_in_it(self) -> None:
        image = applied(creating())
        behind_a_gap = TopicEdit(segments=[at(5, segment())], allow_gaps=True, leader_epochs={0: 3})
        image = applied(of_topic(behind_a_gap), image=image)

        assert topic_of(image).partition(0).epochs == (EpochStart(3, 5),)

    def test_rewriting_begins_none(self) -> None:
        image = applied(creating())
        old = at_log_end(topic_of(image), [segment()])
        rewritten = TopicEdit(
            segments=[segment()], remove=[old[0].key], removed_ms=1, leader_epochs={0: 3}
        )
        image = applied(of_topic(TopicEdit(segments=old)), of_topic(rewritten), image=image)

        assert topic_of(image).partition(0).epochs == ()

    @pytest.mark.parametrize(
        ("epoch", "end"),
        [(-1, None), (0, (0, 5)), (1, (1, 10)), (2, (1, 10)), (3, (3, 30)), (9, None)],
    )
    def test_ends(self, epoch: int, end: tuple[int, int] | None) -> None:
        """Goal: Kafka's answers. Method: epochs around and between those that the log has."""
        epochs = (EpochStart(1, 5), EpochStart(3, 10))
        state = PartitionState(log_end_offset=30)
        told = TopicEdit(epochs={0: epochs}, partitions={0: state})
        image = applied(creating(), of_topic(told))

        assert topic_of(image).partition(0).end_of_epoch(epoch) == end

    @pytest.mark.parametrize(("epoch", "end"), [(0, (0, 30)), (3, (3, 30)), (4, None)])
    def test_the_leaders_begins_at_the_log_end(
        self, epoch: int, end: tuple[int, int] | None
    ) -> None:
        state = PartitionState(log_end_offset=30, leader_epoch=3)
        image = applied(creating(), of_topic(TopicEdit(partitions={0: state})))

        assert topic_of(image).partition(0).end_of_epoch(epoch) == end


class TestLastStableOffset:
    @pytest.mark.parametrize(
        ("firsts", "stable"), [([], 30), ([12, 17], 12), ([3], 10), ([99], 30)]
    )
    def test_is_the_first_open_transaction_within_the_log(
        self, firsts: list[int], stable: int
    ) -> None:
        told = TopicEdit(
            transactions={0: tuple(OpenTransaction(7, first) for first in firsts)},
            partitions={0: PartitionState(10, 30)},
        )
        log = topic_of(applied(creating(), of_topic(told))).partition(0)

        assert log.last_stable_offset == stable
        assert (log.end_offset("read_committed"), log.end_offset()) == (stable, 30)


class TestReceipts:
    def test_none_of_a_later_entry_is_forgotten_by_a_time_ahead(self) -> None:
        ahead = TopicEdit(forget_receipts_before_ms=NOW_MS + 1_000_000)
        key = ReceiptKey("key")
        image = applied(
            creating(), of_topic(ahead), of_topic(TopicEdit(receipts={key: Receipt(())}))
        )
        topic = topic_of(image)

        assert key in topic.receipts
        assert topic.receipts_before_ms < topic.receipts[key].used_ms
        assert topic.receipts_unused_since(NOW_MS + 999) == 1


class TestClosedToView:
    def closed(self) -> TopicImage:
        return TopicImage(description(), 0, is_open=False)

    def test_only_the_description_can_be_asked_for(self) -> None:
        with pytest.raises(UsageError, match="'t0' is not opened"):
            self.closed().partition(0)

    def test_horizons_are_known(self) -> None:
        edit = TopicEdit(vacuum_horizon_ms=5, forget_receipts_before_ms=6)
        topic = self.closed().apply(edit, Stamp(1, "1", NOW_MS))

        assert (topic.vacuum_horizon_ms, topic.receipts_before_ms) == (5, 6)


class TestWaiting:
    """Edits of an open topic wait until it is looked into."""

    def after(self, edits: int) -> TopicImage:
        topic = TopicImage(description(), 0)
        for number in range(edits):
            grown = PartitionState(log_end_offset=number + 1)
            topic = topic.apply(TopicEdit(partitions={0: grown}), Stamp(number, "", NOW_MS))
        return topic

    def test_they_are_applied_when_it_is_asked(self) -> None:
        topic = self.after(3)
        before = len(topic.waiting)

        assert topic.partition(0).log_end_offset == 3
        assert (before, len(topic.waiting)) == (3, 0)

    def test_they_are_applied_when_they_are_many(self) -> None:
        topic = self.after(WAITING_MAX + 2)

        assert len(topic.waiting) == 2
        assert topic.partition(0).log_end_offset == WAITING_MAX + 2


class TestManySegments:
    def test_are_found_however_many_there_are(self) -> None:
        image, made = applied(creating()), []
        for _ in range(5 * TAIL_MAX):
            made.append(segment(records=1))
            image = applied(producing(made[-1])(image), image=image)
        log = topic_of(image).partition(0)

        assert [entry.log_path for entry in log.entries()] == [one.log_path for one in made]
        assert len(log.live) == len(log.segments) == len(made)
        assert log.live.find([made[70].key])[0].base_offset == 70
        assert [one.start for one in log.slices(60, 70)] == list(range(60, 70))


class TestSlices:
    IMAGE = applied(creating(), of_topic(TopicEdit(segments=[at(0, segment()), at(10, segment())])))

    def test_hold_the_range_that_is_asked_for(self) -> None:
        log = topic_of(self.IMAGE).partition(0)

        assert [(one.start, one.end) for one in log.slices(5, 15)] == [(5, 10), (10, 15)]
        assert log.imported_end_offset == log.cleaner_offset == 0

    @pytest.mark.parametrize(("start", "end", "why"), [(-1, 0, "offset -1"), (0, 21, "offsets")])
    def test_lie_within_the_log(self, start: int, end: int, why: str) -> None:
        with pytest.raises(OffsetOutOfRangeError, match=f"t0-0: {why}"):
            topic_of(self.IMAGE).partition(0).slices(start, end)

    def test_added_ranges_are_those_at_the_end(self) -> None:
        before, edit = (
            applied(creating()),
            TopicEdit(segments=[at(0, segment(1)), at(10, segment(1))]),
        )
        inside = TopicEdit(segments=[at(0, segment())])

        assert added_ranges(topic_of(before), edit) == ((1, 0, 20),)
        assert added_ranges(topic_of(self.IMAGE), inside) == ()
