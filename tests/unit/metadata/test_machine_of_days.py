"""The metadata log as a state machine over days: entries go, folders sleep, cuts are read."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import initialize, rule

from sparklog.metadata.history import files as history
from sparklog.metadata.history.read import PartitionCut, cut_at, oldest_cut
from sparklog.metadata.upkeep.clean import clean
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.repair import problems
from tests.backup_language import uncleaned
from tests.unit.metadata.test_machine import LOGS, NUMBERS, MetadataMachine

HOUR_MS = 3_600_000


class MachineOfDays(MetadataMachine):
    """Goal: whatever is cleaned, the newest version and every cut are what the twin says.

    Method: also folders that sleep for a day between the files of a fold and its commit.
    """

    @initialize()
    def make_many_cuts(self) -> None:
        self.patch.setattr(history, "CUT_EVERY", 4)
        self.patch.setattr("sparklog.metadata.log.EDITS_BYTES_MAX", 700)  # some are in files

    @rule(number=NUMBERS)
    def clean_what_is_old(self, number: int) -> None:
        log = self.logs[number]
        fold(log)
        self.clock.advance(3 * HOUR_MS)
        fold(log, is_forced=True)
        self._clean(number)

    @rule(number=NUMBERS)
    def fold_and_sleep_a_day(self, number: int) -> None:
        log, other = self.logs[number], (number + 1) % LOGS

        def meanwhile() -> None:
            for _ in range(2):
                fold(self.logs[other], is_forced=True)
                self.clock.advance(13 * HOUR_MS)
            fold(self.logs[other], is_forced=True)
            self._clean(other)

        log.meanwhile = meanwhile
        fold(log, is_forced=True)
        log.meanwhile = None

    def _clean(self, number: int) -> None:
        cleaned = clean(self.logs[number])
        self.kept.clear()  # these images are too old to be opened
        assert cleaned is None or uncleaned(self.files, cleaned.mark) == []

    @rule(number=NUMBERS, place=st.floats(0, 1))
    def read_a_past_version(self, number: int, place: float) -> None:
        image = self.logs[number].image()
        self._follow_folds(image.version + 1)
        oldest = oldest_cut(image)
        version = oldest + round(place * (image.version - oldest))
        topics = cut_at(self.logs[number], version).topics
        said = self.said[version]["topics"]
        assert set(topics) == set(said)
        for topic_id, topic in topics.items():
            assert topic.description == said[topic_id]["description"]
            for partition, expected in said[topic_id]["partitions"].items():
                log = topic.partitions.get(partition, PartitionCut(0, 0, 0, 0))
                found = (log.log_start_offset, log.log_end_offset, log.cleaner_offset)
                assert found == tuple(expected["state"][place] for place in (0, 1, 3))

    @rule()
    def is_sound(self) -> None:
        assert list(problems(self.files, self.clock)) == []


TestMachineOfDays = MachineOfDays.TestCase
TestMachineOfDays.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
