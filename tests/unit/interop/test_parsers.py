"""Every parser of a stranger's bytes: what it takes, and that anything else is an error of ours."""

import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparklog.coordinator.messages import MessageReader, Tagged, json_text, read_message
from sparklog.coordinator.records import GROUP_RECORDS, TRANSACTION_RECORDS, read_record
from sparklog.errors import CorruptIndexError, CorruptionError, SparklogError
from sparklog.interop import checkpoints
from sparklog.interop.broker_dir import BrokerDir
from sparklog.interop.consumer_offsets import GroupOffset, consumer_offsets
from sparklog.interop.control_records import control_text
from sparklog.interop.coordinator_records import decode_offsets
from sparklog.interop.dump_batches import RecordText
from sparklog.interop.dump_index import IndexChecks, dump_index, dump_time_index
from sparklog.interop.dump_log import DumpedFile, Findings, dump_log
from sparklog.interop.index_checks import check_offset_index, check_time_index
from sparklog.interop.java_records import JavaRecord, batch_records, message_records
from sparklog.interop.producer_snapshot import ProducerState, encode_snapshot, read_snapshot
from sparklog.interop.text_lines import java_text
from sparklog.interop.txn_index import (
    AbortedTxn,
    encode_txn_index,
    read_txn_index,
    txn_index_pieces,
)
from sparklog.model import TopicPartition
from tests.broker_files import TRANSACTIONAL, batch, marker, patched, write_segment
from tests.compat.cases import BROKER

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
SAMPLES = sorted(path.read_bytes() for path in BROKER.glob("*-0/*.log"))


def damaged(sample: bytes, edits: list[tuple[int, int]]) -> bytes:
    data = bytearray(sample)
    for at, byte in edits:
        data[at % len(data)] = byte
    return bytes(data)


DAMAGED = st.builds(
    damaged,
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=4),
)
BYTES = st.one_of(st.binary(max_size=300), DAMAGED)


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


def only_ours(call: object) -> None:
    """Calls, and lets nothing but the library's errors pass unseen."""
    assert callable(call)
    with suppress(SparklogError):
        call()


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
        monkeypatch.setattr("sparklog.interop.txn_index.PIECE_ENTRIES", 2)
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
        monkeypatch.setattr("sparklog.interop.index_checks.PIECE_ENTRIES", 2)
        monkeypatch.setattr("sparklog.interop.index_checks.PIECE_BYTES", 8)
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


class TestMessages:
    SCHEMA = (("a", "string"), ("b", ["int32"]), ("c", Tagged(1, "int64")), ("d", "uint16"))

    def test_tagged_fields(self) -> None:
        flexible = b"\x02x\x02\0\0\0\7\xff\xff\2\1\x08" + bytes(7) + b"\t" + b"\5\1z"

        found = read_message(flexible, self.SCHEMA, flexible=True)
        assert found == {"a": "x", "b": [7], "d": 65535, "c": 9}

    def test_nulls_and_sizes_that_lie(self) -> None:
        reader = MessageReader(b"\0\0\5ab", flexible=True)

        assert (reader.value("string"), reader.value(["int8"])) == (None, None)
        with pytest.raises(CorruptionError, match="only 2 byte"):
            reader.value("bytes")
        with pytest.raises(CorruptionError, match="collection of size 99"):
            MessageReader(b"\0\0\0\x63", flexible=False).value(["int8"])
        with pytest.raises(CorruptionError, match="more bytes than"):
            MessageReader(b"\xff" * 6, flexible=True).unsigned()

    def test_text_as_jackson_writes_it(self) -> None:
        assert (
            json_text({"a": '\x1f"\\u\u00e9', "b": b"\1"})
            == '{"a":"\\u001F\\"\\\\u\u00e9","b":"AQ=="}'
        )

    @given(BYTES, st.booleans())
    def test_any_bytes(self, data: bytes, flexible: bool) -> None:
        only_ours(lambda: read_message(data, self.SCHEMA, flexible=flexible))


class TestCoordinators:
    @given(st.integers(-2, 9), st.binary(max_size=60), st.integers(-1, 5), st.binary(max_size=90))
    @settings(max_examples=300)
    def test_any_bytes(self, kind: int, key: bytes, version: int, value: bytes) -> None:
        full_key = kind.to_bytes(2, "big", signed=True) + key
        full_value = version.to_bytes(2, "big", signed=True) + value
        for kinds in (GROUP_RECORDS, TRANSACTION_RECORDS):
            only_ours(lambda kinds=kinds: read_record(kinds, full_key, full_value))
        decoded = decode_offsets(JavaRecord(0, 0, full_key, full_value))
        assert all(text is None or isinstance(text, bytes) for text in decoded)

    def test_a_key_has_no_nulls(self) -> None:
        record = JavaRecord(7, 0, b"\0\1\xff\xff\0\1t\0\0\0\0", None)
        key, value = decode_offsets(record)

        assert value is None
        assert key == (
            b"Error at offset 7, skipping. Could not read record with version 1 from key's buffer "
            b"due to: non-nullable field group was serialized as null."
        )

    def test_older_versions_of_a_group(self) -> None:
        key = b"\0\2\0\1g"
        member = b"\0\1m\0\1c\0\1h" + b"\0\0\0\1" + b"\0\0\0\1s\0\0\0\1a"
        value = b"\0\0" + b"\0\1x" + b"\0\0\0\5" + b"\xff\xff\xff\xff" + b"\0\0\0\1" + member

        found = read_record(GROUP_RECORDS, key, value).value
        assert found is not None
        assert found["members"][0]["subscription"] == b"s"
        assert "currentStateTimestamp" not in found

    def test_a_subscription_that_is_none_stays_bytes(self) -> None:
        key = b"\0\2\0\1g"
        member = b"\0\1m\0\1c\0\1h" + b"\0\0\0\1" + b"\0\0\0\1s\0\0\0\1a"
        value = b"\0\0" + b"\0\x08consumer" + b"\0\0\0\5" + b"\xff" * 4 + b"\0\0\0\1" + member

        _, text = decode_offsets(JavaRecord(0, 0, key, value))
        assert text is not None
        assert b'"subscription":"cw=="' in text

    def test_an_unknown_version(self) -> None:
        _, value = decode_offsets(JavaRecord(0, 0, b"\0\2\0\1g", b"\0\x63"))
        key, _ = decode_offsets(JavaRecord(5, 0, b"\0\2\0\1g", b"\0\x63"))

        assert value is None
        assert key is not None
        assert key.startswith(b"Error at offset 5, skipping. Unknown version 99")

    def test_a_member_that_is_of_the_classic_protocol_too(self) -> None:
        head = b"\0" * 2 + b"\2c\2h" + b"\1" + b"\1" + b"\0\0\0\5" + b"\0"
        classic = b"\1" + b"\0\0\0\7" + b"\2" + b"\2p\2m" + b"\0" + b"\0"
        value = b"\0\0" + head + b"\1\0" + bytes([len(classic)]) + classic

        found = read_record(GROUP_RECORDS, b"\0\5\0\1g\0\1m", value).value
        assert found is not None
        assert found["classicMemberMetadata"]["supportedProtocols"] == [
            {"name": "p", "metadata": b"m"}
        ]


class TestControlRecords:
    def test_kinds(self) -> None:
        voters = b"\0\0" + b"\2" + b"\0\0\0\1" + bytes(16) + b"\1" + b"\0\0\0\1\0" + b"\0" + b"\0"

        assert "KRaftVoters" in control_text(b"\0\0\0\6", voters)
        assert "voterDirectoryId" in control_text(
            b"\0\0\0\2", b"\0\1" + b"\0\0\0\1" + b"\2\0\0\0\1" + bytes(16) + b"\0" + b"\1" + b"\0"
        )

    @given(st.binary(max_size=6) | st.none(), st.binary(max_size=40) | st.none())
    @example(None, None)
    @example(b"\0\0", b"")
    def test_any_bytes(self, key: bytes | None, value: bytes | None) -> None:
        only_ours(lambda: control_text(key, value))


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


def commit_of(group: bytes, offset: int | None, base: int) -> bytes:
    """A batch with one offset commit of topic t, partition 3."""
    import pyarrow as pa

    from sparklog.record.encode import BatchSettings, encode
    from sparklog.record.rows import RecordColumns

    key = b"\0\1" + bytes([0, len(group)]) + group + b"\0\1t\0\0\0\3"
    value = None
    if offset is not None:
        value = b"\0\1" + offset.to_bytes(8, "big") + b"\xff\xff" + bytes(16)
    columns = RecordColumns(pa.array([key]), pa.array([value], pa.binary()), np.zeros(1, np.int64))
    (stream,) = encode(columns, None, 1, np.array([base], np.int64), BatchSettings())
    return bytes(stream.data)


class TestConsumerOffsets:
    def found(self, folder: Path) -> list[GroupOffset]:
        return consumer_offsets(BrokerDir(str(folder)).partitions())

    def test_the_last_commit_counts(self, tmp_path: Path) -> None:
        folder = tmp_path / "__consumer_offsets-0"
        folder.mkdir()
        transactional = [
            patched(commit_of(name, 9, base), producer, TRANSACTIONAL)
            for name, base, producer in ((b"g", 4, 7), (b"h", 5, 8))
        ]
        write_segment(
            folder, 0, commit_of(b"g", 5, 0), commit_of(b"g", 6, 1), commit_of(b"x", 1, 2)
        )
        write_segment(folder, 3, commit_of(b"x", None, 3), *transactional, marker(6, 7, 0))
        write_segment(folder, 7, marker(7, 8, 1), batch(8))

        assert self.found(tmp_path) == [
            GroupOffset("g", "t", 3, 6, -1, "", 0),
            GroupOffset("h", "t", 3, 9, -1, "", 0),
        ]

    @pytest.mark.parametrize(("later", "expected"), [(9, [9]), (None, [])])
    def test_one_behind_that_of_an_open_transaction_counts(
        self, tmp_path: Path, later: int | None, expected: list[int]
    ) -> None:
        folder = tmp_path / "__consumer_offsets-0"
        folder.mkdir()
        pending = patched(commit_of(b"g", 5, 0), 7, TRANSACTIONAL)
        write_segment(folder, 0, pending, commit_of(b"g", later, 1), marker(2, 7, 1))

        assert [one.offset for one in self.found(tmp_path)] == expected

    def test_what_a_broker_kept(self) -> None:
        groups = [
            one
            for one in BrokerDir(str(BROKER)).partitions()
            if "offsets" in one.topic_partition.topic
        ]
        found = consumer_offsets(groups)

        assert [(one.group, one.offset) for one in found] == [
            ("group-classic", 7),
            ("group-consumer", 7),
        ]

    def test_damage_is_refused(self, tmp_path: Path) -> None:
        folder = tmp_path / "__consumer_offsets-0"
        folder.mkdir()
        data = bytearray(commit_of(b"g", 5, 0))
        data[-1] ^= 1
        path = write_segment(folder, 0, bytes(data))

        with pytest.raises(CorruptionError, match=f"{path}, position 0"):
            self.found(tmp_path)

    @pytest.mark.parametrize("producer", [-1, 7])
    def test_too_many_are_refused(
        self, producer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.interop.consumer_offsets.COMMITS_MAX", 1)
        folder = tmp_path / "__consumer_offsets-0"
        folder.mkdir()
        attributes = TRANSACTIONAL if producer >= 0 else 0
        write_segment(
            folder,
            0,
            patched(commit_of(b"g", 5, 0), producer, attributes),
            patched(commit_of(b"h", 5, 1), producer, attributes),
        )

        with pytest.raises(CorruptionError, match=r"\.log.*: more than 1 committed"):
            self.found(tmp_path)
