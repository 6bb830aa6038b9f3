from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.model import Codec
from tests.compaction import Compacted
from tests.naive.compaction import NaiveLog

keys = st.sampled_from(["a", "b", "c", "d", "", "long key " * 5])
records = st.builds(
    lambda key, value: f"{key}{value}", keys, st.sampled_from(["", "=", "=1", "=22"])
)
puts = st.lists(records, min_size=1, max_size=6)
steps = st.lists(st.one_of(puts, st.integers(0, 1500)), max_size=12)


class TestCompaction:
    def test_keeps_the_latest_record_of_each_key(self) -> None:
        log = Compacted().put("a=1", "b=2").put("a=3").put("newest=0")
        log.compact()

        assert log.shown() == "b=2 a=3 newest=0"
        assert [record.offset for record in log.records] == [1, 2, 3]

    def test_finds_older_records_in_the_clean_part(self) -> None:
        log = Compacted().put("a=1", "b=2").put("x=0")
        log.compact()
        log.put("a=3").put("newest=0")
        log.compact()

        assert log.shown() == "b=2 x=0 a=3 newest=0"

    @given(steps, st.sampled_from(list(Codec)))
    @example([["a=1", "a"], 0, ["b=1"], 1000, ["a=1"], 0], Codec.NONE)
    def test_leaves_what_a_dictionary_leaves(
        self, steps: list[list[str] | int], codec: Codec
    ) -> None:
        """Goal: right after any rounds. Method: puts and pauses, each pause ends in a round."""
        log, naive = Compacted(), NaiveLog(delete_retention_ms=1000)
        for step in steps:
            if isinstance(step, int):
                log.wait(step)
                now_ms, before = log.now_ms, log.partition.snapshot.state(0).cleaner_offset
                log.compact()
                end = log.partition.snapshot.state(0).cleaner_offset
                if end > before:
                    naive.compact(end, now_ms)
            else:
                log.put(*step, codec=codec)
                naive.records += log.partition.records[-len(step) :]
            assert log.records == naive.records
