import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.log.names import LOG_SUFFIX
from sparklog.log.salvage import SEARCH_BYTES, Damage, sound_windows
from sparklog.log.windows import Window
from sparklog.log_reader.opened import opened
from sparklog.model import Codec
from sparklog.record import layout
from sparklog.record.scan import scan_batches
from tests.partitions import DIRECTORY, Partition, batch, message_set, partitions

Span = tuple[int, int]


def walked(partition: Partition, slot: int = 0, size: int = 200) -> tuple[list[Span], list[Damage]]:
    """The sound batches as (position, last offset of the log), and the damage."""
    sound, damage = [], []
    for part in sound_windows(opened(partition.files, DIRECTORY, partition.segments[slot]), size):
        if isinstance(part, Window):
            positions = part.batches.position + part.position
            lasts = part.batches.last_offset + part.entry.shift
            sound += list(zip(positions.tolist(), lasts.tolist(), strict=True))
        else:
            damage.append(part)
    return sound, damage


def batches_of(partition: Partition, slot: int = 0) -> list[Span]:
    """What a walk finds while everything is sound."""
    batches = scan_batches(partition.bytes_of(partition.path(LOG_SUFFIX, slot))).batches
    lasts = batches.last_offset + partition.segments[slot].shift
    return list(zip(batches.position.tolist(), lasts.tolist(), strict=True))


def four(codec: Codec = Codec.NONE) -> Partition:
    """A segment at offset 2 with four batches of three records."""
    parts = [batch(n, n, n, codec=codec, size=20) for n in range(4)]
    return Partition().append(batch(1, 1)).append(*parts)


def ends(partition: Partition) -> list[int]:
    return [position for position, _ in batches_of(partition, 1)]


class TestSoundWindows:
    @given(partitions())
    def test_are_all_of_a_sound_segment(self, partition: Partition) -> None:
        for slot in range(len(partition.segments)):
            assert walked(partition, slot) == (batches_of(partition, slot), [])

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
    @pytest.mark.parametrize("number", range(4))
    def test_go_on_behind_a_batch_whose_checksum_differs(self, codec: Codec, number: int) -> None:
        partition = four(codec)
        whole, size = batches_of(partition, 1), partition.segments[1].log_bytes
        starts = [*ends(partition), size]
        partition.flip_byte(partition.path(LOG_SUFFIX, 1), starts[number] + 70)
        sound, (damage,) = walked(partition, 1)

        assert sound == whole[:number] + whole[number + 1 :]
        assert (damage.position, damage.end_position) == (starts[number], starts[number + 1])
        assert (damage.start_offset, damage.end_offset) == (2 + 3 * number, 5 + 3 * number)
        assert damage.problem.startswith("the checksum of the batch is")

    @pytest.mark.parametrize("at", [layout.LENGTH, layout.LENGTH + 3, layout.MAGIC])
    def test_go_on_behind_a_header_that_leads_nowhere(self, at: int) -> None:
        partition = four()
        whole = batches_of(partition, 1)
        partition.flip_byte(partition.path(LOG_SUFFIX, 1), ends(partition)[1] + at)
        sound, (damage,) = walked(partition, 1)

        assert sound == [whole[0], *whole[2:]]
        assert (damage.start_offset, damage.end_offset) == (5, 8)

    def test_are_not_skipped_by_a_length_that_leads_to_a_later_batch(self) -> None:
        partition = four()
        whole, starts = batches_of(partition, 1), ends(partition)
        path = partition.path(LOG_SUFFIX, 1)
        data = bytearray(partition.bytes_of(path))
        struct.pack_into(">i", data, starts[1] + layout.LENGTH, starts[3] - starts[1] - 12)
        partition.put(path, bytes(data))
        sound, (damage,) = walked(partition, 1)

        assert sound == [whole[0], *whole[2:]]
        assert damage.end_position == starts[2]

    def test_leave_out_a_batch_that_says_other_offsets(self) -> None:
        partition = four()
        whole = batches_of(partition, 1)
        partition.put_offset(partition.path(LOG_SUFFIX, 1), ends(partition)[1], 2**40)
        sound, (damage,) = walked(partition, 1)

        assert sound == [whole[0], *whole[2:]]
        assert "does not fit between" in damage.problem

    def test_leave_out_two_in_a_row(self) -> None:
        partition = four()
        whole, path = batches_of(partition, 1), partition.path(LOG_SUFFIX, 1)
        partition.flip_byte(path, 70).put_offset(path, whole[1][0], 2**40)

        assert walked(partition, 1)[0] == whole[2:]

    def test_of_two_that_overlap_behind_damage_are_the_first(self) -> None:
        partition = four()
        whole, path = batches_of(partition, 1), partition.path(LOG_SUFFIX, 1)
        partition.flip_byte(path, 70).put_offset(path, whole[2][0], 4)
        sound, damage = walked(partition, 1, size=10_000)

        assert sound == [whole[1], whole[3]]
        assert [(one.start_offset, one.end_offset) for one in damage] == [(2, 5), (8, 11)]

    def test_are_not_what_only_looks_like_a_batch(self) -> None:
        """A header whose size is enough for a message, but not for its own format."""
        lookalike = b"\xff" + struct.pack(">qiIb", 1, 40, 0, 2)
        partition = Partition().append(batch(1), batch(2, size=30))
        start, path = batches_of(partition)[1][0], partition.path(LOG_SUFFIX)
        data = bytearray(partition.bytes_of(path))
        data[start : start + len(lookalike)] = lookalike
        partition.put(path, bytes(data))
        sound, (damage,) = walked(partition)

        assert (sound, damage.end_offset) == ([(0, 0)], 2)

    @pytest.mark.parametrize(("cut", "left"), [(1, 3), (140, 3), (500, 0)])
    def test_end_where_the_file_was_cut(self, cut: int, left: int) -> None:
        partition = four()
        size = partition.segments[1].log_bytes
        partition.shrink(partition.path(LOG_SUFFIX, 1), min(cut, size))
        sound, (damage,) = walked(partition, 1)

        assert len(sound) == left
        assert (damage.start_offset, damage.end_offset) == (2 + 3 * left, 14)
        assert "it was cut" in damage.problem

    def test_end_where_the_row_says_more(self) -> None:
        partition = Partition().append(batch(1), 0, next_offset=4, record_count=4)
        sound, (damage,) = walked(partition)

        assert sound == [(0, 0)]
        assert (damage.start_offset, damage.end_offset) == (1, 4)
        assert damage.position == damage.end_position == partition.segments[0].log_bytes

    def test_are_found_behind_much_that_is_none(self) -> None:
        partition = Partition().append(batch(1), *[batch(2, size=400_000)] * 3, batch(3))
        whole, path = batches_of(partition), partition.path(LOG_SUFFIX)
        start, stop = whole[1][0], whole[4][0]
        partition.zero(path, start, stop)
        sound, (damage,) = walked(partition)

        assert stop - start > SEARCH_BYTES
        assert sound == [whole[0], whole[4]]
        assert (damage.position, damage.end_position) == (start, stop)

    def test_are_found_among_message_sets(self) -> None:
        sets = [message_set(n, n, magic=1, codec="gzip") for n in range(3)]
        partition = Partition().append(*sets)
        whole = batches_of(partition)
        partition.flip_byte(partition.path(LOG_SUFFIX), whole[1][0] + 40)
        sound, (damage,) = walked(partition)

        assert sound == [whole[0], whole[2]]
        assert damage.start_offset == 2

    def test_of_mixed_formats_stop_before_the_first_that_is_wrong(self) -> None:
        partition = Partition().append(batch(1), message_set(1, magic=1), batch(2), batch(3))
        whole, path = batches_of(partition), partition.path(LOG_SUFFIX)
        partition.flip_byte(path, whole[1][0] + 30).flip_byte(path, whole[2][0] + 70)
        sound, damage = walked(partition)

        assert sound == [whole[0], whole[3]]
        assert [(one.start_offset, one.end_offset) for one in damage] == [(1, 3)]

    @example(four(), lambda size: [(70, 0xFF)])
    @given(
        partitions(),
        st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=3).map(
            lambda flips: lambda size: [(int(at * size), mask) for at, mask in flips]
        ),
    )
    def test_are_what_was_written_whatever_bytes_are_turned(
        self, partition: Partition, flips: Callable[[int], list[tuple[int, int]]]
    ) -> None:
        """Goal: nothing is invented and nothing passed over in silence."""
        for slot, entry in enumerate(partition.segments):
            before = batches_of(partition, slot)
            path = partition.path(LOG_SUFFIX, slot)
            turned = flips(entry.log_bytes)
            for position, mask in turned:
                partition.flip_byte(path, position, mask)
            sound, damage = walked(partition, slot)

            lost = {at for at, _ in before} - {at for at, _ in sound}
            assert all(any(d.position <= at < d.end_position for d in damage) for at in lost)
            # A base offset lies outside the checksum: one that stays possible is believed.
            assert len(set(sound) - set(before)) <= len(turned)
