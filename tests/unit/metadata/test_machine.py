"""The metadata log as a state machine: every reader sees the same as the twin."""

from collections.abc import Callable, Collection
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sparklog.clock import ManualClock
from sparklog.metadata.batch import Committed, Plan
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.runs import store
from sparklog.metadata.state import producers
from sparklog.metadata.state.edit import Edit
from sparklog.metadata.state.image import Image
from sparklog.metadata.upkeep.fold import fold
from sparklog.storage.memory import MemoryFiles
from tests.metadata_language import Author, whole
from tests.naive.metadata import NaiveMetadata, State, said_by
from tests.remembered_runs import remembering

LOGS = 3
NUMBERS = st.integers(0, LOGS - 1)


class InterruptedLog(MetadataLog):
    """A log in which something happens between a fold's files and its commit."""

    meanwhile: Callable[[], object] | None = None

    def commit(self, plan: Plan, topics: Collection[str] = (), **options: bool) -> Committed:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().commit(plan, topics, **options)


class MetadataMachine(RuleBasedStateMachine):
    """Goal: fold, follow and open never disagree. Method: any order of them, compared to a twin."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(producers, "PRODUCERS_MAX", 4)  # so that some are forgotten
        self.patch.setattr(store, "RunReader", remembering())
        self.clock = ManualClock()
        self.files = MemoryFiles(self.clock)
        MetadataLog.create(self.files, self.clock)
        self.logs = [InterruptedLog(self.files, self.clock) for _ in range(LOGS)]
        self.twin = NaiveMetadata()
        self.said: dict[int, State] = {0: self.twin.said}
        self.kept = [self.logs[0].image()]

    def teardown(self) -> None:
        self.patch.undo()

    @rule(number=NUMBERS, random=st.randoms(use_true_random=False), count=st.integers(1, 4))
    def commit(self, number: int, random: Random, count: int) -> None:
        author = self._author(random)
        for _ in range(count):
            self.clock.advance(7)
            author.now_ms = self.clock.now_ms()
            self._committed(self.logs[number], author)

    def _author(self, random: Random) -> Author:
        return Author(random)

    def _committed(self, log: MetadataLog, author: Author) -> None:
        author._made = len(self.said) * 1000

        def plan(image: Image) -> Edit:
            return author.edit(image)

        done = log.commit(plan, log.image().topics)
        assert done.edit is not None
        self._follow_folds(done.image.version)
        self.twin.apply(done.edit, done.image.stamp)
        self.said[done.image.version] = self.twin.said

    def _follow_folds(self, version: int) -> None:
        for missing in range(max(self.said) + 1, version):
            self.said[missing] = self.said[missing - 1]

    @rule(number=NUMBERS)
    def fold(self, number: int) -> None:
        fold(self.logs[number])

    @rule(number=NUMBERS, random=st.randoms(use_true_random=False), folds=st.booleans())
    def fold_while_others_go_on(self, number: int, random: Random, folds: bool) -> None:
        log, other = self.logs[number], self.logs[(number + 1) % LOGS]

        def meanwhile() -> None:
            self._committed(other, self._author(random))
            if folds:
                fold(other)

        log.meanwhile = meanwhile
        fold(log)
        log.meanwhile = None

    @rule(number=NUMBERS)
    def keep_an_image(self, number: int) -> None:
        """Keep also one whose topics are not opened yet."""
        self.kept += [self.logs[number].image(), MetadataLog(self.files, self.clock).image()]

    @rule(number=NUMBERS)
    def follow(self, number: int) -> None:
        self._check(whole(self.logs[number]))

    @rule()
    def open(self) -> None:
        self._check(whole(MetadataLog(self.files, self.clock)))

    @rule()
    def open_one_topic_after_the_other(self) -> None:
        log = MetadataLog(self.files, self.clock)
        for topic_id in log.image().topics:
            log.image([topic_id])
        self._check(log.last_image)

    @rule(number=NUMBERS)
    def read_an_old_image(self, number: int) -> None:
        for image in self.kept:
            self._check(self.logs[number].opened_at(image, image.topics))

    def _check(self, image: Image) -> None:
        self._follow_folds(image.version + 1)
        assert said_by(image) == self.said[image.version]


class ShortMachine(MetadataMachine):
    """The same within minutes: nothing is cleaned."""

    @invariant()
    def nobody_lists(self) -> None:
        kinds = {one.kind for one in self.files.trace if one.path.endswith("_delta_log")}
        assert "list" not in kinds


TestMachine = ShortMachine.TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
