"""Parsers of a coordinator's records: sound ones are read, any other is an error of ours."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparklog.coordinator.messages import MessageReader, Tagged, json_text, read_message
from sparklog.coordinator.records import GROUP_RECORDS, TRANSACTION_RECORDS, read_record
from sparklog.errors import CorruptionError
from sparklog.interop.broker_files.broker_dir import BrokerDir
from sparklog.interop.broker_files.control_records import control_text
from sparklog.interop.broker_files.java_records import JavaRecord
from sparklog.interop.dumps.coordinator_records import decode_offsets
from sparklog.interop.imports.consumer_offsets import GroupOffset, consumer_offsets
from tests.broker_files import (
    TRANSACTIONAL,
    batch,
    emptied_marker,
    marker,
    patched,
    write_segment,
)
from tests.compat.cases import BROKER
from tests.foreign_bytes import BYTES, only_ours


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

    def test_records_that_only_a_broker_reads(self) -> None:
        topic = bytes(16) + b"\2t" + b"\0\0\0\3" + b"\2" + b"\0\0\0\1\2\2r\0" + b"\0"
        topics = JavaRecord(0, 0, b"\0\4\0\1g", b"\0\0\2" + topic + b"\0")
        resolved = b"\0\0\2\2t" + (7).to_bytes(8, "big") + (9).to_bytes(8, "big") + b"\0"
        expression = JavaRecord(0, 0, b"\0\x10\0\1g\0\2t.", resolved)

        metadata = b'"numPartitions":3,"partitionMetadata":[{"partition":1,"racks":["r"]}]'
        named = b'"topicId":"AAAAAAAAAAAAAAAAAAAAAA","topicName":"t"'
        assert decode_offsets(topics) == (
            b'{"type":"4","data":{"groupId":"g"}}',
            b'{"version":"0","data":{"topics":[{%s,%s}]}}' % (named, metadata),
        )
        assert decode_offsets(expression) == (
            b'{"type":"16","data":{"groupId":"g","regularExpression":"t."}}',
            b'{"version":"0","data":{"topics":["t"],"version":7,"timestamp":9}}',
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

    def test_those_of_a_transaction_wait_for_a_marker(self, tmp_path: Path) -> None:
        folder = tmp_path / "__consumer_offsets-0"
        folder.mkdir()
        pending = patched(commit_of(b"g", 5, 1), 7, TRANSACTIONAL)
        write_segment(folder, 0, emptied_marker(0, 7), pending, emptied_marker(2, 8))

        assert self.found(tmp_path) == []
        write_segment(folder, 3, marker(3, 7, 1))
        assert [one.offset for one in self.found(tmp_path)] == [5]

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
        monkeypatch.setattr("sparklog.interop.imports.consumer_offsets.COMMITS_MAX", 1)
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
