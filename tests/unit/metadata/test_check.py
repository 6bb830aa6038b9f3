"""The rules of an edit: an edit that the image does not allow is refused, with the reason."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import pytest

from sparklog.errors import (
    CommitConflictError,
    FencedLeaderEpochError,
    LateWriterError,
    MissingFileError,
    OffsetOutOfRangeError,
    SparklogError,
    TopicClosedError,
    TopicExistsError,
    UnsupportedFeatureError,
    UsageError,
)
from sparklog.log.names import uuid7
from sparklog.metadata.state.check import check
from sparklog.metadata.state.edit import (
    ALL_FILES_MS,
    NO_FOLD,
    Edit,
    FoldEdit,
    PartitionState,
    RunFile,
    Stamp,
    TopicEdit,
)
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.metadata.state.transactions import (
    Added,
    TransactionalId,
    TransactionalIds,
    TransactionStatus,
)
from sparklog.model import SegmentKey
from tests.edits import NOW_MS, at, indexed, segment
from tests.metadata_language import creating, description, of_topic, topic_id

FIRST, SECOND, THIRD = (at(base, segment()) for base in (0, 10, 20))
SHARED = segment(log_path=f"__shared/{uuid7(NOW_MS, bytes(10))}.log")
RUN = RunFile(f"_runs/{uuid7(NOW_MS, bytes(10))}.parquet", 1, 1, 1, 0, 0)


def image_of(*edits: Edit) -> Image:
    image = Image()
    for version, edit in enumerate([creating(), *edits]):
        check(image, edit)
        image = image.apply((edit,), Stamp(version, str(version), NOW_MS))
    return image


FULL = image_of(of_topic(TopicEdit(segments=[FIRST, SECOND, THIRD])))


def removing(*entries: object, **fields: object) -> TopicEdit:
    keys = [entry.key for entry in (FIRST, SECOND, THIRD) if entry in entries]
    return TopicEdit(remove=keys, removed_ms=5, **fields)  # type: ignore[arg-type] # fields of a test are handed on


def test_an_edit_may_remove_in_one_partition_and_append_to_another() -> None:
    image = Image().apply((creating(), of_topic(TopicEdit(segments=[FIRST]))), Stamp(1, "1", 0))
    other = segment()._replace(partition=1)

    check(image, of_topic(TopicEdit(segments=[other], remove=[FIRST.key], removed_ms=NOW_MS)))


class TestSegments:
    @pytest.mark.parametrize(
        ("edit", "error", "why"),
        [
            (TopicEdit(segments=[at(29, segment())]), OffsetOutOfRangeError, "end offset is 30"),
            (TopicEdit(segments=[at(31, segment())]), OffsetOutOfRangeError, "end offset is 30"),
            (TopicEdit(segments=[at(30, segment(records=0))]), OffsetOutOfRangeError, "no offset"),
            (
                TopicEdit(segments=[at(2**63 - 10, segment())], allow_gaps=True),
                OffsetOutOfRangeError,
                "allowed up to 9223372036854775807",
            ),
            (removing(FIRST, segments=[at(5, segment())]), OffsetOutOfRangeError, "end offset"),
            (
                removing(FIRST, THIRD, segments=[at(5, segment())]),
                OffsetOutOfRangeError,
                "overlaps",
            ),
            (
                TopicEdit(remove=[SegmentKey(0, "gone")], removed_ms=5),
                CommitConflictError,
                "no longer live: gone of partition 0",
            ),
            (TopicEdit(replace=[segment()]), CommitConflictError, "no longer live"),
            (
                TopicEdit(replace=[FIRST._replace(next_offset=9)]),
                UsageError,
                r"\[0, 9\] instead of \[0, 10\]",
            ),
            (
                TopicEdit(leader_epochs={0: -1}),
                FencedLeaderEpochError,
                "planned with leader epoch -1, it is 0 now",
            ),
            (
                TopicEdit(partitions={0: PartitionState(31)}),
                OffsetOutOfRangeError,
                "log start offset 31 would lie behind the log end offset 30",
            ),
        ],
    )
    def test_are_refused(self, edit: TopicEdit, error: type[SparklogError], why: str) -> None:
        with pytest.raises(error, match=why):
            check(FULL, of_topic(edit))

    @pytest.mark.parametrize(
        "edit",
        [
            TopicEdit(segments=[at(30, segment()), at(40, segment())]),
            TopicEdit(segments=[at(50, segment())], allow_gaps=True),
            TopicEdit(replace=[indexed(SECOND)]),
            removing(FIRST, SECOND, segments=[at(5, segment())]),
            removing(FIRST, THIRD, segments=[at(0, segment()), at(20, segment(records=5))]),
            TopicEdit(segments=[at(30, segment())], partitions={0: PartitionState(40)}),
        ],
    )
    def test_are_allowed(self, edit: TopicEdit) -> None:
        check(FULL, of_topic(edit))

    def test_a_removed_one_does_not_come_back(self) -> None:
        image = image_of(of_topic(TopicEdit(segments=[FIRST])), of_topic(removing(FIRST)))

        with pytest.raises(CommitConflictError, match="was removed"):
            check(image, of_topic(TopicEdit(segments=[at(10, FIRST)])))


class TestEdits:
    @pytest.mark.parametrize(
        ("make", "why"),
        [
            (lambda: removing(FIRST, segments=[FIRST]), "also removes or replaces"),
            (lambda: TopicEdit(remove=[FIRST.key, FIRST.key], removed_ms=5), "twice"),
            (lambda: TopicEdit(segments=[FIRST, FIRST]), "adds a segment twice"),
        ],
    )
    def test_that_no_image_allows_are_not_made(
        self, make: Callable[[], TopicEdit], why: str
    ) -> None:
        with pytest.raises(UsageError, match=why):
            make()


class TestAges:
    def image(self, **horizons: int) -> Image:
        edit = TopicEdit(vacuum_horizon_ms=horizons.pop("vacuum_horizon_ms", None))
        return image_of(replace(of_topic(edit), **horizons))  # type: ignore[arg-type] # fields of a test are handed on

    def test_files_behind_the_topics_horizon_are_written_again(self) -> None:
        image = self.image(vacuum_horizon_ms=NOW_MS + 1)

        with pytest.raises(LateWriterError, match=f"write it again.*clock said {NOW_MS}"):
            check(image, of_topic(TopicEdit(segments=[segment()])))
        check(image, of_topic(TopicEdit(segments=[segment(made_ms=NOW_MS + 1)])))

    def test_a_topics_own_file_may_be_older_than_the_log_dirs_horizon(self) -> None:
        """Goal: A produce may take as long as its topic's own orphan retention says.

        Method: The log dir's horizon, of topics with shorter retention, has passed the file.
        """
        image = self.image(horizon_ms=NOW_MS + 1, vacuum_horizon_ms=NOW_MS - 1)

        check(image, of_topic(TopicEdit(segments=[segment()])))
        with pytest.raises(LateWriterError, match=f"horizon {NOW_MS - 1}"):
            check(image, of_topic(TopicEdit(segments=[segment(made_ms=NOW_MS - 2)])))

    def test_a_shared_file_is_as_old_as_the_log_dirs_horizon_lets_it(self) -> None:
        check(self.image(vacuum_horizon_ms=NOW_MS + 1), of_topic(TopicEdit(segments=[SHARED])))

        with pytest.raises(LateWriterError):
            check(self.image(horizon_ms=NOW_MS + 1), of_topic(TopicEdit(segments=[SHARED])))

    def test_files_that_are_known_may_be_old(self) -> None:
        ageing = of_topic(TopicEdit(vacuum_horizon_ms=NOW_MS + 1))
        image = image_of(of_topic(TopicEdit(segments=[FIRST])), ageing)

        check(image, of_topic(TopicEdit(replace=[indexed(FIRST, NOW_MS + 1)])))
        with pytest.raises(LateWriterError):
            check(image, of_topic(TopicEdit(replace=[indexed(FIRST)])))


class TestTopics:
    def test_an_unknown_one_is_missing(self) -> None:
        with pytest.raises(MissingFileError, match="no such topic"):
            check(Image(), of_topic(TopicEdit(vacuum_horizon_ms=1)))

    def test_a_deleted_one_takes_nothing_but_clearing(self) -> None:
        deleted = of_topic(TopicEdit(description=description(deleted_ms=5)))
        image = image_of(of_topic(TopicEdit(segments=[FIRST])), deleted)

        check(image, of_topic(removing(FIRST)))
        for edit in (TopicEdit(segments=[SECOND]), TopicEdit(producers={0: ()})):
            with pytest.raises(TopicClosedError, match="'t0' was deleted"):
                check(image, of_topic(edit))

    @pytest.mark.parametrize(
        "edit",
        [
            of_topic(TopicEdit(description=description(7, name="t0")), 7),
            Edit(
                operation="X",
                topics={
                    topic_id(one): TopicEdit(description=description(one, name="new"))
                    for one in (7, 8)
                },
            ),
        ],
    )
    def test_a_name_is_given_once(self, edit: Edit) -> None:
        with pytest.raises(TopicExistsError, match="exists already"):
            check(FULL, edit)

    def test_a_name_that_the_edit_frees_may_be_given(self) -> None:
        topics = {
            topic_id(0): TopicEdit(description=description(deleted_ms=5)),
            topic_id(7): TopicEdit(description=description(7, name="t0")),
        }

        check(FULL, Edit(operation="X", topics=topics))

    def test_a_description_stands_under_its_own_id(self) -> None:
        with pytest.raises(UsageError, match="the description has id"):
            check(FULL, of_topic(TopicEdit(description=description(7)), 8))


DELETING = of_topic(TopicEdit(description=description(deleted_ms=5)))
RESTORING = of_topic(TopicEdit(description=description()))
ERASING = of_topic(TopicEdit(vacuum_horizon_ms=ALL_FILES_MS))
FORGETTING = Edit(operation="X", forget_topics=[topic_id(0)])


class TestDeletion:
    def test_a_deleted_topic_comes_back_with_its_segments(self) -> None:
        image = image_of(of_topic(TopicEdit(segments=[FIRST])), DELETING, RESTORING)

        assert image.names == {"t0": description()}
        assert image.topics[topic_id(0)].partition(0).entries() == [FIRST]

    @pytest.mark.parametrize(
        ("edits", "edit", "error", "why"),
        [
            ([DELETING, ERASING], RESTORING, TopicClosedError, "begun to erase"),
            ([DELETING, creating(7, name="t0")], RESTORING, TopicExistsError, "exists already"),
            (
                [DELETING],
                of_topic(TopicEdit(description=description(num_partitions=9))),
                TopicClosedError,
                "was deleted",
            ),
            ([DELETING], DELETING, TopicClosedError, "was deleted"),
            ([DELETING, RESTORING], ERASING, CommitConflictError, "its files stay"),
            ([DELETING], FORGETTING, CommitConflictError, "before vacuum has erased"),
            ([], FORGETTING, CommitConflictError, "before vacuum has erased"),
        ],
    )
    def test_these_are_refused(
        self, edits: list[Edit], edit: Edit, error: type[SparklogError], why: str
    ) -> None:
        with pytest.raises(error, match=why):
            check(image_of(*edits), edit)

    def test_an_erased_topic_is_forgotten(self) -> None:
        assert image_of(DELETING, ERASING, FORGETTING).topic(topic_id(0)) is None


class TestTransactions:
    OPEN = TransactionalId("id", 7, 0, 1000, TransactionStatus.ONGOING)
    ADDED: ClassVar = {"id": Added(groups=("g",))}

    def test_an_open_one_may_grow(self) -> None:
        check(Image(transactional_ids=TransactionalIds([self.OPEN])), self.adding())
        check(Image(), self.adding(self.OPEN))

    @pytest.mark.parametrize("known", [[], [OPEN._replace(status=TransactionStatus.EMPTY)]])
    def test_another_may_not(self, known: list[TransactionalId]) -> None:
        with pytest.raises(UsageError, match="'id' has no open transaction to add to"):
            check(Image(transactional_ids=TransactionalIds(known)), self.adding())

    def adding(self, *changed: TransactionalId) -> Edit:
        ids = {one.transactional_id: one for one in changed}
        return Edit(operation="X", transactional_ids=ids, added_to_transactions=self.ADDED)


class TestSharedSegments:
    IMAGE = image_of(of_topic(TopicEdit(segments=[SHARED])))

    def test_one_in_use_is_not_forgotten(self) -> None:
        forgetting = Edit(operation="X", forget_shared=[SHARED.log_path])

        with pytest.raises(CommitConflictError, match="has live slices"):
            check(self.IMAGE, forgetting)
        check(Image(), forgetting)
        check(self.IMAGE, Edit(operation="X", forget_shared=["other"]))

    def test_one_that_is_used_up_takes_no_new_slice(self) -> None:
        """Goal: No row names a file that vacuum unlinks at this moment.

        Method: The only slice goes; a late commit names another, as it might before.
        """
        other = of_topic(TopicEdit(segments=[at(10, SHARED._replace(log_position=100))]))
        used_up = image_of(
            of_topic(TopicEdit(segments=[SHARED])),
            of_topic(TopicEdit(remove=[SHARED.key], removed_ms=5)),
        )

        check(self.IMAGE, other)
        with pytest.raises(LateWriterError, match="slices are all gone.*write it again"):
            check(used_up, other)
        check(used_up, of_topic(TopicEdit(segments=[at(10, segment())])))

    def test_who_forgets_a_topic_removes_its_slices(self) -> None:
        slices = {topic_id(0): TopicEdit(remove=[SHARED.key], removed_ms=5)}
        counted = Edit(operation="X", topics=slices, forget_topics=[topic_id(0)])
        erased = image_of(of_topic(TopicEdit(segments=[SHARED])), DELETING, ERASING)
        check(erased, counted)

        after = erased.apply((counted,), Stamp(9, "9", NOW_MS))
        assert after.shared[SHARED.log_path] == (0, NOW_MS)
        with pytest.raises(UsageError, match="1 slices of shared segments"):
            check(erased, replace(counted, topics={}))
        check(Image(), replace(counted, topics={}))


class TestFolds:
    @pytest.mark.parametrize(
        ("fold", "error"),
        [
            (FoldEdit(1, 0, (RUN,)), CommitConflictError),
            (FoldEdit(-1, -1, (RUN,)), CommitConflictError),
            (FoldEdit(9, -1, (RUN,)), UsageError),
        ],
    )
    def test_are_refused(self, fold: FoldEdit, error: type[SparklogError]) -> None:
        with pytest.raises(error):
            check(FULL, Edit(operation="FOLD", fold=fold))

    def test_old_runs_are_named_only_if_they_are_known(self) -> None:
        late = replace(FULL, horizon_ms=NOW_MS + 1)
        edit = Edit(operation="FOLD", fold=FoldEdit(1, -1, (RUN,)))

        with pytest.raises(LateWriterError, match="written before the vacuum horizon"):
            check(late, edit)
        check(replace(late, fold=replace(NO_FOLD, runs=(RUN,))), edit)


def test_a_newer_level_is_not_committed_to() -> None:
    with pytest.raises(UnsupportedFeatureError, match="level 2"):
        check(replace(FULL, level=2), Edit(operation="X"))
    with pytest.raises(UnsupportedFeatureError, match="level 2"):
        check(FULL, Edit(operation="X", level=2))


def test_a_closed_topic_is_not_written_to_blindly() -> None:
    closed = TopicImage(description(), 0, is_open=False)

    with pytest.raises(UsageError, match="is not opened"):
        check(FULL.with_topics({topic_id(0): closed}), of_topic(TopicEdit(segments=[FIRST])))
