"""The end of a newest segment whose broker was killed: the import leaves out what a broker would.

tests/kafka/test_torn_tail.py asks a broker.
"""

from pathlib import Path

import pytest

from sparklog.interop import examine
from sparklog.interop.imports.broker_dirs import BrokerDirs
from tests.broker_files import batch, write_segment
from tests.unit.interop.conftest import TRUST, Interop

SIZE = len(batch(2))


def in_part(base: int, size: int) -> bytes:
    """A batch of which only the first bytes were written into a preallocated file."""
    return batch(base)[:size] + bytes(SIZE - size)


class TestWrittenInPart:
    @pytest.mark.parametrize("behind", [0, 9000])
    @pytest.mark.parametrize("size", [8, 11, 12, 16, 17, 40, 61, 100, SIZE - 2])
    def test_is_left_out(
        self, size: int, behind: int, interop: Interop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(examine, "WINDOW_BYTES", 2048)
        write_segment(interop.partition(), 0, batch(0), in_part(2, size), bytes(behind))

        (report,) = interop.run()
        assert (report.problem, report.torn_bytes) == (None, SIZE + behind)
        assert interop.offsets() == [0, 1]

    @pytest.mark.parametrize("size", [0, 8, 100])
    def test_may_be_the_only_one(self, size: int, interop: Interop) -> None:
        write_segment(interop.partition(), 0, in_part(0, size), bytes(5000))

        (report,) = interop.run()
        assert (report.problem, interop.offsets()) == (None, [])

    def test_is_left_out_also_where_nothing_is_checked(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0), in_part(2, 100))
        interop.run(TRUST)

        assert interop.offsets() == [0, 1]

    def test_is_taken_by_a_later_import_when_it_is_whole(self, interop: Interop) -> None:
        newest = write_segment(interop.partition(), 0, batch(0), in_part(2, 100))
        interop.run()
        newest.write_bytes(batch(0) + batch(2) + batch(4))
        interop.run()

        assert interop.offsets() == [0, 1, 2, 3, 4, 5]

    def test_does_not_count_among_replicas(self, interop: Interop, tmp_path: Path) -> None:
        write_segment(interop.partition(), 0, batch(0), in_part(2, 100))
        (other := tmp_path / "other" / "t-0").mkdir(parents=True)
        write_segment(other, 0, batch(0), batch(2))

        [found] = BrokerDirs([str(interop.broker), str(other.parent)]).partitions()
        assert found.path == str(other)


class TestRefused:
    @pytest.mark.parametrize("size", [16, 100])
    def test_before_a_sound_batch(self, size: int, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0), in_part(2, size), batch(4))

        assert f"position {len(batch(0))}" in interop.problem()

    def test_in_a_sealed_segment(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0), in_part(2, 100))
        write_segment(interop.partition(), 4, batch(4))

        assert f"position {len(batch(0))}, offset 2: the checksum" in interop.problem()
