"""The metadata log as a state machine over days, with vacuum, backups and restored copies."""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, precondition, rule

from sparklog.errors import (
    CorruptMetadataError,
    ForgottenTopicError,
    LateWriterError,
    TopicClosedError,
)
from sparklog.fleet import LocalFleet
from sparklog.log.names import SHARED
from sparklog.maintenance.job import JobContext, Outcome
from sparklog.maintenance.runner import JobRun, StepReport
from sparklog.maintenance.vacuuming.vacuum import vacuum
from sparklog.metadata.batch import Committed, Plan
from sparklog.metadata.catalog import Catalog
from sparklog.metadata.entries import SEEN_MS
from sparklog.metadata.log import MetadataLog
from sparklog.metadata.plans.backups import BACKUPS, backups, begun, ended
from sparklog.metadata.state.cluster import ids_after_restore
from sparklog.metadata.state.edit import Edit, TopicEdit
from sparklog.metadata.state.image import Image
from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.repair import problems
from sparklog.metadata.upkeep.restore import restore
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.log_dir import create_log_dir, open_log_dir
from tests import edits
from tests.backup_language import (
    PARTS,
    Backup,
    FileAuthor,
    Landed,
    PausedFiles,
    entry_of,
    garbage_of,
    put_files,
)
from tests.metadata_language import Author, whole
from tests.naive.metadata import State, said_by
from tests.sweeping import DAY_MS, HOUR_MS
from tests.unit.metadata.test_machine import LOGS, NUMBERS, InterruptedLog
from tests.unit.metadata.test_machine_of_days import MachineOfDays

PLACES = st.integers(0, 9)
RANDOMS = st.randoms(use_true_random=False)
WORK = st.sampled_from(["commit", "fold", "clean", "vacuum"])


class HeardLog(InterruptedLog):
    """A log whose commits are heard: a call with the version after each."""

    heard: Callable[[int], object]

    def commit(self, plan: Plan, topics: Collection[str] = (), **options: bool) -> Committed:
        done = super().commit(plan, topics, **options)
        self.heard(done.image.version)
        return done


class MachineOfBackups(MachineOfDays):
    """Goal: only files go that no version needs, and a restored copy is the twin of its version.

    Method: every segment has a file, and the files that there should be are known from the twin:
    those of the newest version, of every version of the last day, and of all since one that a
    backup pins. Vacuum takes all others that are a day old, also what killed processes left.
    Whoever followed a log that was replaced by a copy is refused.
    """

    files: PausedFiles

    def __init__(self) -> None:
        super().__init__()
        self.files = PausedFiles(self.clock)
        create_log_dir(self.files, bytes(16))
        MetadataLog.create(self.files, self.clock)
        self.made = 0
        self.landed = [Landed.of(0, self.clock.now_ms(), self.twin.said)]
        self.oldest = 0
        self.not_spared: frozenset[str] = frozenset()
        self.is_paused = False
        self.backups: list[Backup] = []
        self.copies: list[Backup] = []
        self._open_logs()

    def _open_logs(self) -> None:
        self.logs = [self._opened() for _ in range(LOGS)]
        self.kept = []
        self.pending: list[tuple[TopicDescription, list[SegmentEntry]]] = []

    def _opened(self) -> HeardLog:
        log = HeardLog(self.files, self.clock)
        log.heard = self._hear
        return log

    def _hear(self, version: int) -> None:
        """Tell the twin all entries up to a version, also those of others."""
        for missing in range(self.landed[-1].version + 1, version + 1):
            entry = entry_of(self.files, missing)
            for edit in entry.edits:
                self.twin.apply(edit, entry.stamp)
            self._lands(missing, entry.timestamp_ms)

    def _lands(self, version: int, ms: int) -> None:
        self.said[version] = self.twin.said
        self.landed.append(Landed.of(version, ms, self.twin.said))

    def _follow_folds(self, version: int) -> None:
        self._hear(version - 1)

    def _needed(self) -> set[str]:
        now_ms = self.clock.now_ms()
        pinned = [one.version for one in self._under_way()]
        found = set(self.landed[-1].living - self.not_spared)
        for one, later in pairwise(self.landed):
            is_pinned = any(later.version > version for version in pinned)
            if one.version >= self.oldest and (is_pinned or later.ms > now_ms - DAY_MS):
                found |= one.logs
        return found

    def _under_way(self) -> list[Backup]:
        now_ms = self.clock.now_ms()
        self.backups = [one for one in self.backups if one.expires_ms > now_ms]
        return self.backups

    @invariant()
    def no_file_is_missing(self) -> None:
        assert self._needed() - self.files._stored.keys() == set()

    def _author(self, random: Random) -> FileAuthor:
        self.made += 1000
        return FileAuthor(random, self.clock.now_ms(), self.made)

    def _committed(self, log: MetadataLog, author: Author) -> None:
        files = self.files

        def plan(image: Image) -> Edit:
            edit = author.edit(image)
            for topic_id, one in edit.topics.items():
                topic = image.topic(topic_id)
                if topic is not None:
                    put_files(files, topic.description, [*one.segments, *one.replace])
            return edit

        author._made = self.made = self.made + 1000
        log.commit(plan, log.image().topics)

    @rule(random=RANDOMS)
    def write_files(self, random: Random) -> None:
        """A slow writer, who may never commit."""
        author = self._author(random)
        alive = [*self.logs[0].image().names.values()]
        for topic in random.sample(alive, min(1, len(alive))):
            known = [one.log_path for _, entries in self.pending for one in entries]
            shared = [path for path in known if path.startswith(SHARED)]
            entries = author.pending(topic, random.choice([author.shared_path(), *shared]))
            put_files(self.files, topic, entries)
            self.pending.append((topic, entries))

    @precondition(lambda self: bool(self.pending))
    @rule(number=NUMBERS)
    def commit_what_was_written(self, number: int) -> None:
        topic, entries = self.pending.pop(0)
        with suppress(LateWriterError, TopicClosedError, ForgottenTopicError):
            edits.append(self._catalog(number), topic, *entries)

    def _catalog(self, number: int) -> Catalog:
        found = Catalog(self.files, self.clock)
        found._log = self.logs[number]
        return found

    @rule(number=NUMBERS, place=PLACES)
    def delete_a_topic(self, number: int, place: int) -> None:
        """Vacuum may erase it after a day; until then the author may bring it back."""
        alive = [*self.logs[number].image().names.values()]
        for told in alive[place % max(len(alive), 1) :][:1]:
            gone = TopicEdit(description=replace(told, deleted_ms=self.clock.now_ms()))
            edit = Edit(operation="DELETE TOPICS", topics={told.topic_id: gone})
            self.logs[number].commit(partial(lambda edit, _: edit, edit))

    # ----------------------------------------------------------------------------- vacuum

    @rule(number=NUMBERS, days=st.integers(0, 2))
    def vacuum_what_is_old(self, number: int, days: int) -> None:
        self.clock.advance(days * DAY_MS + HOUR_MS)
        assert [one.problems for one in self._vacuum(number) if one.problems] == []
        assert self._garbage() == []

    def _vacuum(self, number: int) -> list[Outcome]:
        reports: list[StepReport] = []
        run = JobRun(name="vacuum", job=vacuum, options={})
        run.run(JobContext(self._catalog(number), LocalFleet()), reports.append)
        return [one.outcome for one in reports if one.outcome]

    def _garbage(self) -> list[str]:
        """The files and topics that vacuum had to take."""
        pinned = [one.version for one in self._under_way()]
        image, now_ms = self.logs[0].image(), self.clock.now_ms()
        return garbage_of(self.files, image, self.landed, self.said, now_ms, pinned)

    @rule(number=NUMBERS, random=RANDOMS, after=st.integers(0, 40), work=WORK)
    def be_killed(self, number: int, random: Random, after: int, work: str) -> None:
        """Another process takes the place of one that is killed at its work."""
        log = self.logs[number]
        works: dict[str, Callable[[], object]] = {
            "commit": lambda: self._committed(log, self._author(random)),
            "fold": lambda: fold(log, is_forced=True),
            "clean": lambda: self._clean(number),
            "vacuum": lambda: self._vacuum(number),
        }
        self.files.kill(after, works[work])
        self.kept.clear()
        self.logs[number] = self._opened()
        self._hear(self.logs[number].image().version)

    @rule(
        number=NUMBERS,
        random=RANDOMS,
        after=st.integers(0, 100),
        hours=st.sampled_from([0, 2, 30]),
        backs_up=st.booleans(),
    )
    def vacuum_while_others_go_on(
        self, number: int, random: Random, after: int, hours: int, backs_up: bool
    ) -> None:
        other = (number + 1) % LOGS

        def meanwhile() -> None:
            self.is_paused = True
            self._committed(self.logs[other], self._author(random))
            if backs_up:
                self._begin_backup(other, 2)
            self.clock.advance(hours * HOUR_MS)
            fold(self.logs[other], is_forced=True)
            self._committed(self.logs[other], self._author(random))
            self._vacuum(other)
            self.is_paused = False

        self.files.pause(after, meanwhile)
        self._vacuum(number)
        self.files.pause(0, None)
        assert not self.is_paused

    @rule(number=NUMBERS)
    def fold_while_others_vacuum(self, number: int) -> None:
        log, other = self.logs[number], (number + 1) % LOGS

        def meanwhile() -> None:
            fold(self.logs[other], is_forced=True)
            self.clock.advance(DAY_MS + HOUR_MS)
            self._vacuum(other)

        log.meanwhile = meanwhile
        fold(log, is_forced=True)
        log.meanwhile = None

    # ----------------------------------------------------------------------------- backups

    @rule(number=NUMBERS, days=st.integers(1, 5))
    def begin_backup(self, number: int, days: int) -> None:
        self._begin_backup(number, days)

    def _begin_backup(self, number: int, days: int) -> None:
        now_ms, name = self.clock.now_ms(), f"backup {self.made}"
        self.made += 1
        expires_ms = now_ms + days * DAY_MS
        done = self.logs[number].commit(lambda image: begun(image, name, now_ms, expires_ms))
        (version,) = [one.version for one in backups(done.image, now_ms) if one.name == name]
        assert version == done.image.version - 1
        self.backups.append(Backup(name, version, expires_ms, PausedFiles(self.clock)))

    @precondition(lambda self: bool(self._under_way()))
    @rule(place=PLACES, parts=st.integers(1, len(PARTS)))
    def copy_parts(self, place: int, parts: int) -> None:
        backup = self.backups[place % len(self.backups)]
        for _ in range(min(parts, len(PARTS) - backup.parts)):
            self._copy_a_part(backup)

    def _copy_a_part(self, backup: Backup) -> None:
        backup.copy_a_part(self.files)
        if backup.parts == 1:
            self._note_version(backup)
        if backup.is_whole:
            self.copies.append(backup)

    def _note_version(self, backup: Backup) -> None:
        log = MetadataLog(self.files, self.clock)
        backup.end = log.image().version
        backup.log_id = log.log_id
        self._hear(backup.end)
        backup.said = dict(self.said)
        backup.landed = [*self.landed]

    @precondition(lambda self: bool(self._under_way()))
    @rule(number=NUMBERS, place=PLACES)
    def end_backup(self, number: int, place: int) -> None:
        backup = self.backups.pop(place % len(self.backups))
        self.logs[number].commit(lambda image: ended(image, backup.name))

    @rule(
        number=NUMBERS,
        random=RANDOMS,
        waits=st.tuples(*[st.sampled_from([0, 3, 25])] * len(PARTS)),
        in_place=st.booleans(),
    )
    def restore_a_slow_copy(
        self, number: int, random: Random, waits: tuple[int, ...], in_place: bool
    ) -> None:
        """A whole backup, with everybody at work before each of its parts is copied."""
        self._begin_backup(number, 4)
        backup = self.backups[-1]
        for hours in waits:
            self.commit(number, random, 3)
            self.clock.advance(hours * HOUR_MS)
            fold(self.logs[number], is_forced=True)
            self._clean(number)
            self._vacuum(number)
            self._copy_a_part(backup)
        self.copies.remove(backup)
        if in_place:
            self._replace(backup, random)
        else:
            self._begin_elsewhere(backup)

    # ----------------------------------------------------------------------------- restore

    @precondition(lambda self: bool(self.copies))
    @rule(place=PLACES)
    def restore_elsewhere(self, place: int) -> None:
        self._begin_elsewhere(self.copies.pop(place % len(self.copies)))

    def _begin_elsewhere(self, backup: Backup) -> None:
        """The original stays as it is; the machine goes on with the copy."""
        before, log = self.files, self.logs[0]
        original = said_by(whole(log))
        self.files = PausedFiles(self.clock)
        self._restore(backup)
        assert said_by(whole(log)) == original
        assert open_log_dir(before).cluster_id != open_log_dir(self.files).cluster_id

    @precondition(lambda self: bool(self.copies))
    @rule(place=PLACES, random=RANDOMS)
    def restore_in_place(self, place: int, random: Random) -> None:
        self._replace(self.copies.pop(place % len(self.copies)), random)

    def _replace(self, backup: Backup, random: Random) -> None:
        """Who followed the original is refused, wherever in it."""
        followers = [log for log in self.logs if log.log_id]
        self.files.delete_many([stat.path for stat in self.files.list(recursive=True)])
        self._restore(backup)
        self.clock.advance(SEEN_MS + 1)
        for log in followers:
            with pytest.raises(CorruptMetadataError, match="restored"):
                self._committed(log, self._author(random))
        self.open()

    def _restore(self, backup: Backup) -> None:
        backup.put_into(self.files)
        restore(self.files, self.clock)
        assert list(problems(self.files, self.clock)) == []
        self.said, self.landed = dict(backup.said), [*backup.landed]
        self.oldest = backup.version
        # A copy may lack an index that was built anew meanwhile; it is read without it.
        self.not_spared |= self.landed[-1].living - self.landed[-1].logs
        self.twin.said = self._restored(backup)
        self._lands(backup.end + 1, self.clock.now_ms())
        self.backups = []
        self._open_logs()
        self.follow(0)
        assert self.logs[0].log_id != backup.log_id

    def _restored(self, backup: Backup) -> State:
        """What a restored copy says: as its version, but for what is the original's alone."""
        said = backup.said[backup.end]
        leases = {name: one for name, one in said["leases"].items() if BACKUPS not in name}
        next_id = said["next_producer_id"]
        return {
            **said,
            "leases": leases,
            "brokers": {},
            "next_producer_id": ids_after_restore(next_id) or next_id,
            "ended_logs": [*said["ended_logs"], (backup.log_id, backup.end)],
        }


TestMachineOfBackups = MachineOfBackups.TestCase
TestMachineOfBackups.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
