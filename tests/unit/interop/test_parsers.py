"""Parsers of a broker's files: sound bytes are taken, any others are an error of ours."""

import struct
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparklog.errors import CorruptIndexError, CorruptionError
from sparklog.interop.broker_files import checkpoints
from sparklog.interop.broker_files.broker_dir import BrokerDir
from sparklog.interop.broker_files.index_checks import check_offset_index, check_time_index
from sparklog.interop.broker_files.java_records import batch_records, message_records
from sparklog.interop.broker_files.producer_snapshot import (
    ProducerState,
    encode_snapshot,
    read_snapshot,
)
from sparklog.interop.broker_files.txn_index import (
    AbortedTxn,
    encode_txn_index,
    read_txn_index,
    txn_index_pieces,
)
from sparklog.interop.dumps.dump_batches import RecordText
from sparklog.interop.dumps.dump_index import IndexChecks, dump_index, dump_time_index
from sparklog.interop.dumps.dump_log import DumpedFile, Findings, dump_log
from sparklog.interop.dumps.text_lines import java_text
from sparklog.model import TopicPartition
from tests.foreign_bytes import BYTES, SAMPLES, damaged, only_ours

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)


class TestDamage:
    def test_it_is_done_to_samples(self) -> None:
        assert damaged(b"abc", [(4, 0)]) == b"a\0c"


class TestCheckpoints:
    @given(st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), max_size=5))
    def test_offsets_come_back(self, offsets: dict[int, int]) -> None:
        wanted = {TopicPartition("t", number): at for number, at in offsets.items()}

        assert checkpoints.read_offsets(checkpoints.encode_offsets(wanted), "f") == wanted

    def test_epochs_come_back(self) -> None:
        wanted = [(0, 0), (3, 7)]

        assert checkpoints.read_epochs(checkpoints.encode_epochs(wanted), "f") == wanted
        assert checkpoints.read_epochs(b"", "f") == []

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("1\n0\n", "line 1: version '1'"),
            ("0\n", "line 2: it must say how many"),
            ("0\n2\nt 0 1\n", "line 2"),
            ("0\n1\nt 0\n", "line 3: 2 fields, not 3"),
            ("0\n1\nt 0 x\n", "line 3: 'x' is no number"),
            ("0\n1\nt 0 9223372036854775808\n", "is no number from 0 to"),
        ],
    )
    def test_what_is_no_checkpoint(self, text: str, says: str) -> None:
        with pytest.raises(CorruptionError, match=says):
            checkpoints.read_offsets(text.encode(), "f")

    def test_epochs_that_do_not_grow(self) -> None:
        with pytest.raises(CorruptionError, match="must ascend"):
            checkpoints.read_epochs(b"0\n2\n1 0\n1 5\n", "f")

    def test_epochs_are_numbers_of_32_bits(self) -> None:
        with pytest.raises(CorruptionError, match="line 3: epoch 2147483648 is above"):
            checkpoints.read_epochs(b"0\n1\n2147483648 0\n", "f")

    def test_too_many_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES_MAX", 3)

        with pytest.raises(CorruptionError, match="more than 3 bytes"):
            checkpoints.read_offsets(b"0\n0\n", "f")

    def test_a_file_of_too_many_bytes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "x").write_bytes(b"0\n0\n")
        monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES_MAX", 3)

        with pytest.raises(CorruptionError, match="more than 3 bytes"):
            BrokerDir(str(tmp_path)).offsets("x")

    def test_topic_ids(self) -> None:
        data = checkpoints.encode_topic_id("B" * 22)

        assert checkpoints.read_topic_id(data, "f") == "B" * 22
        with pytest.raises(CorruptionError, match="it must say"):
            checkpoints.read_topic_id(data + b"x", "f")

    @given(BYTES)
    def test_any_bytes(self, data: bytes) -> None:
        for read in (checkpoints.read_offsets, checkpoints.read_epochs, checkpoints.read_topic_id):
            only_ours(lambda read=read: read(data, "f"))


class TestStateFiles:
    @given(
        st.lists(
            st.builds(ProducerState, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64),
            max_size=3,
        )
    )
    def test_snapshots_come_back(self, states: list[ProducerState]) -> None:
        assert read_snapshot(encode_snapshot(states)) == states

    def test_first_sequences_wrap(self) -> None:
        state = ProducerState(1, 0, 1, 9, 3, 0, 0, -1)

        assert state.first_sequence == 2**31 - 2
        assert state._replace(last_sequence=7).first_sequence == 4

    def test_transaction_indexes_come_back(self) -> None:
        rows = [AbortedTxn(0, 1, 2, 3, 4)]

        assert read_txn_index(encode_txn_index(rows) + b"rest") == rows

    def test_transaction_indexes_are_read_in_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sparklog.interop.broker_files.txn_index.PIECE_ENTRIES", 2)
        rows = [AbortedTxn(0, number, -number, 3, 4) for number in range(5)]
        pieces = [len(piece) for piece in txn_index_pieces(encode_txn_index(rows))]
        unknown = encode_txn_index([*rows, AbortedTxn(2, 0, 0, 0, 0)])

        assert (pieces, read_txn_index(encode_txn_index(rows))) == ([2, 2, 1], rows)
        with pytest.raises(CorruptionError, match="version 2, current version is 0"):
            next(txn_index_pieces(unknown))

    @pytest.mark.parametrize("zeros", [0, 3, 8, 100])
    def test_indexes_are_checked_in_pieces(
        self, monkeypatch: pytest.MonkeyPatch, zeros: int
    ) -> None:
        monkeypatch.setattr("sparklog.interop.broker_files.index_checks.PIECE_ENTRIES", 2)
        monkeypatch.setattr("sparklog.interop.broker_files.index_checks.PIECE_BYTES", 8)
        offsets = b"".join(struct.pack(">ii", n, n + 9) for n in range(5))
        times = b"".join(struct.pack(">qi", n, n + 9) for n in range(5))
        offsets_back = offsets[:32] + struct.pack(">ii", 4, 12)
        times_back = times[:48] + struct.pack(">qi", 3, 13)
        end = bytes(zeros)

        assert check_offset_index(offsets + end, 5, 99, "f") == offsets
        assert check_time_index(times + end, 99, "f") == times
        with pytest.raises(CorruptIndexError, match="f: entry 4 says 12; positions ascend"):
            check_offset_index(offsets_back + end, 5, 99, "f")
        with pytest.raises(CorruptIndexError, match="f: entry 4 says 3; timestamps ascend"):
            check_time_index(times_back + end, 99, "f")

    @given(st.one_of(st.binary(max_size=80), st.binary(max_size=80).map(lambda b: b"\0\1" + b)))
    def test_any_bytes(self, data: bytes) -> None:
        only_ours(lambda: read_snapshot(data))
        only_ours(lambda: read_txn_index(data))
        only_ours(lambda: check_offset_index(data, 1000, 1000, "f"))
        only_ours(lambda: check_time_index(data, 1000, "f"))


class TestJavaText:
    @given(st.binary(max_size=12))
    def test_it_is_always_text(self, data: bytes) -> None:
        assert java_text(data).decode() is not None


class TestLogs:
    @given(BYTES)
    @settings(max_examples=150, deadline=None)
    def test_any_bytes_are_dumped_or_refused(self, data: bytes) -> None:
        file = DumpedFile("/x/00000000000000000000.log", "/x/00000000000000000000.log", data)
        text = RecordText(deep=True, data=True)

        only_ours(lambda: list(dump_log(file, text, Findings())))

    @given(BYTES, st.binary(max_size=60))
    @settings(max_examples=100, deadline=None)
    def test_any_index_is_dumped_or_refused(self, data: bytes, entries: bytes) -> None:
        log = DumpedFile("/x/0.log", "/x/0.log", data)
        index = DumpedFile("/x/0.index", "/x/0.index", entries)

        only_ours(lambda: list(dump_index(index, log, IndexChecks(), Findings())))
        only_ours(lambda: list(dump_time_index(index, log, index, IndexChecks(), Findings())))

    @given(BYTES)
    @example(b"")
    @example(SAMPLES[0])
    def test_any_records_are_read_or_refused(self, data: bytes) -> None:
        only_ours(lambda: list(batch_records(data)))
        if len(data) > 17:
            only_ours(lambda: list(message_records(data)))
