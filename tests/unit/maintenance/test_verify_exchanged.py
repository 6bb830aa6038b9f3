"""Verify repairs segments whose `.log` files were exchanged: each is made of the other's file."""

from pathlib import Path

import pytest

from sparklog.maintenance.job import Outcome
from sparklog.maintenance.verify import verify
from tests.logs import append, log_files, values
from tests.maintenance import new_topic, outcome_of


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """Three segments of partition 0, of the same size and with the same times."""
    log_dir = new_topic(tmp_path / "log", partitions=1)
    for text in ("a", "b", "c"):
        append(log_dir, 0, [text])
    return log_dir


def exchange(log_dir: str) -> list[Path]:
    """Exchange the files of the first two segments; return them."""
    one, other, _ = found = log_files(log_dir)
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    return found


def verified(log_dir: str, *, repair: bool) -> Outcome:
    return outcome_of(verify, log_dir, repair=repair, records=False)


def test_nothing_is_lost_and_the_order_stays(log_dir: str) -> None:
    one, other, _ = exchange(log_dir)
    repaired = verified(log_dir, repair=True)

    assert (repaired.problems, repaired.counts["repaired"]) == ([], 2)
    told = [note for note in repaired.notes if "nothing is lost" in note]
    assert [note.rpartition("/")[2] for note in told] == [other.name, one.name]
    assert values(log_dir)[0] == ["a", "b", "c"]
    assert verified(log_dir, repair=False).problems == []


def test_a_third_one_that_is_damaged_loses_its_own_batches_alone(log_dir: str) -> None:
    *_, third = exchange(log_dir)
    data = third.read_bytes()
    third.write_bytes(data[:-1] + b"?")
    repaired = verified(log_dir, repair=True)

    assert [note for note in repaired.notes if "are lost" in note] == [
        "t-0: offsets [2, 3) are lost"
    ]
    assert values(log_dir)[0] == ["a", "b"]
