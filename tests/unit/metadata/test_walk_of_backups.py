"""Each rule that the machine of backups adds: Hypothesis takes the rarer ones now and then."""

from random import Random

import pytest

from tests.backup_language import PARTS
from tests.metadata_language import creating
from tests.sweeping import HOUR_MS
from tests.unit.metadata.test_machine_of_backups import MachineOfBackups as Machine


def begun() -> Machine:
    """A machine with a topic."""
    machine = Machine()
    machine.make_many_cuts()
    machine.logs[0].commit(lambda _: creating(machine.made))
    return machine


def test_the_machine_can_take_each_step() -> None:
    """Whatever Hypothesis draws, these rules run; the tests below take the others."""
    machine, random = begun(), Random(0)
    for hours, backs_up in ((0, False), (2, True)):
        machine.logs[0].commit(lambda _: creating(machine.made))
        machine.write_files(random)
        machine.commit_what_was_written(1)
        machine.begin_backup(0, 3)
        machine.vacuum_while_others_go_on(1, random, 9, hours, backs_up)
        machine.copy_parts(0, len(PARTS))
        machine.end_backup(2, 0)
        machine.restore_elsewhere(0)
        machine.no_file_is_missing()
    machine.fold_while_others_vacuum(0)
    for in_place in (True, False):
        machine.restore_a_slow_copy(0, random, (0, 3, 25), in_place)
    machine.begin_backup(0, 3)
    machine.copy_parts(0, len(PARTS))
    machine.restore_in_place(0, random)
    machine.teardown()


@pytest.mark.parametrize(
    ("work", "after"),
    [
        (work, after)
        for work, end in (("commit", 9), ("clean", 18), ("fold", 27), ("vacuum", 15))
        for after in range(0, end, 3)
    ],
)
def test_a_process_may_be_killed_anywhere(work: str, after: int) -> None:
    machine, random = begun(), Random(after)
    machine.fold(0)
    machine.clock.advance(3 * HOUR_MS)
    machine.commit(1, random, 4)
    machine.fold(1)
    machine.write_files(random)

    machine.be_killed(0, random, after, work)

    machine.vacuum_what_is_old(1, 2)
    machine.no_file_is_missing()
    machine.teardown()


def test_orphans_go_while_a_backup_is_under_way() -> None:
    machine = begun()
    machine.begin_backup(0, 5)
    machine.write_files(Random(0))

    machine.vacuum_what_is_old(1, 0)  # they are too young
    machine.vacuum_what_is_old(1, 2)

    assert machine._under_way()
    machine.teardown()


def test_a_deleted_topic_goes_and_its_files_with_it() -> None:
    machine = begun()
    machine.write_files(Random(0))
    machine.delete_a_topic(0, 0)

    machine.vacuum_what_is_old(1, 2)

    assert not machine.logs[0].image().topics
    machine.teardown()
