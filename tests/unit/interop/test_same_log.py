"""A second import goes on with the log of the first, and refuses any other."""

import pytest

from sparklog.model import Codec
from tests.broker_files import HORIZON, batch, patched, write_segment
from tests.partitions import message_set
from tests.unit.interop.conftest import Interop

ANOTHER = "this is another log than the one that was imported before: import it as another topic"
OTHER = batch(0, codec=Codec.GZIP)
"""The offsets of `batch(0)`, and other bytes."""


def imported(interop: Interop, *batches: bytes, base: int = 0) -> None:
    write_segment(interop.partition(), base, *batches)
    interop.run()


def with_one_record(data: bytes) -> bytes:
    """The header of a batch of which cleaning has kept one record."""
    raw = bytearray(data)
    raw[57:61] = (1).to_bytes(4, "big")
    return patched(bytes(raw), -1, 0)


class TestEpoch:
    def test_of_a_topic_that_was_created_again_is_older(self, interop: Interop) -> None:
        imported(interop, batch(0, epoch=3))
        path = write_segment(interop.partition(), 2, batch(2, epoch=1))

        expected = f"{path}, position 0, offset 2: leader epoch 1, and up to 3 was imported: "
        assert interop.problem() == expected + ANOTHER

    def test_may_stay_or_rise(self, interop: Interop) -> None:
        imported(interop, batch(0, epoch=3))
        write_segment(interop.partition(), 2, batch(2, epoch=3), batch(4, epoch=5))
        interop.run()

        assert interop.offsets() == [0, 1, 2, 3, 4, 5]


class TestFiles:
    @pytest.mark.parametrize("with_index", [True, False])
    def test_without_a_log_are_incomplete(self, with_index: bool, interop: Interop) -> None:
        imported(interop, batch(0))
        log = interop.partition() / "00000000000000000000.log"
        log.rename(log.with_suffix(".index")) if with_index else log.unlink()

        expected = "it has no .log, and up to 2 was imported: a part of the directory is missing"
        assert interop.problem() == f"{interop.partition()}: {expected}"


class TestLastBatch:
    @pytest.mark.parametrize(
        "other",
        [[OTHER], [batch(0, epoch=1)], [batch(0, 1), batch(1, 1)], [patched(batch(0), 7, 0)]],
    )
    @pytest.mark.parametrize("grown", [[], [batch(2, epoch=1)]])
    def test_that_differs_is_of_another_log(
        self, other: list[bytes], grown: list[bytes], interop: Interop
    ) -> None:
        imported(interop, batch(0))
        write_segment(interop.partition(), 0, *other, *grown)

        assert interop.problem().endswith(ANOTHER)
        assert interop.offsets() == [0, 1]

    def test_is_named(self, interop: Interop) -> None:
        imported(interop, batch(0), batch(2))
        path = write_segment(interop.partition(), 0, batch(0), batch(2, epoch=1), batch(4, epoch=1))

        expected = f"{path}, position {len(batch(0))}, offset 2: the batch of offsets 2 to 3 is not"
        assert interop.problem().startswith(expected)

    def test_may_be_in_a_segment_before(self, interop: Interop) -> None:
        imported(interop, batch(0), batch(4))
        write_segment(interop.partition(), 0, OTHER)
        write_segment(interop.partition(), 4)
        write_segment(interop.partition(), 6, batch(6))

        assert interop.problem().endswith(ANOTHER)

    @pytest.mark.parametrize("cleaned", [with_one_record(batch(0)), batch(0, attributes=HORIZON)])
    def test_that_a_broker_has_cleaned_is_the_same(self, cleaned: bytes, interop: Interop) -> None:
        imported(interop, batch(0))
        write_segment(interop.partition(), 0, cleaned, batch(2))
        interop.run()

        assert interop.offsets() == [0, 1, 2, 3]

    def test_that_was_cleaned_before_is_not_compared(self, interop: Interop) -> None:
        (interop.broker / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 2\n")
        imported(interop, batch(0))
        write_segment(interop.partition(), 0, OTHER, batch(2))
        interop.run()

        assert interop.offsets() == [0, 1, 2, 3]

    def test_below_the_newest_segment_here_is_not_compared(self, interop: Interop) -> None:
        write_segment(interop.partition(), 0, batch(0))
        imported(interop, batch(2), base=2)
        write_segment(interop.partition(), 0, OTHER)
        write_segment(interop.partition(), 2)
        write_segment(interop.partition(), 4, batch(4))
        interop.run()

        assert interop.offsets() == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize("there", [message_set(7, 8, magic=1)(0), batch(0)])
    def test_of_an_old_format_is_not_compared(self, there: bytes, interop: Interop) -> None:
        imported(interop, message_set(5, 6, magic=1)(0))
        write_segment(interop.partition(), 0, there, batch(2))
        interop.run()

        assert interop.offsets() == [0, 1, 2, 3]
