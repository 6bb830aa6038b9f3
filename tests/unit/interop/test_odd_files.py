"""What no writer makes, and what Kafka's classes and so ours say of it."""

import os
from pathlib import Path

import numpy as np
import pytest

from sparklog.errors import CorruptionError, CorruptRecordError
from sparklog.interop.broker_files.control_records import control_text
from sparklog.interop.broker_files.java_records import batch_records, message_records
from sparklog.interop.broker_files.producer_snapshot import ProducerState, encode_snapshot
from sparklog.interop.broker_files.txn_index import AbortedTxn, encode_txn_index, read_txn_index
from sparklog.interop.dumps.dump_batches import Offsets
from sparklog.interop.dumps.dump_index import IndexChecks, dump_index, dump_time_index
from sparklog.interop.dumps.dump_log import DumpedFile, Findings
from sparklog.interop.dumps.dump_state import dump_snapshot, dump_txn_index
from sparklog.interop.exports.export_partition import ExportRules, PartitionExport
from sparklog.interop.imports.import_log import ImportOptions
from sparklog.log_writer import WriteOptions, plan_write
from sparklog.model import READ_COMMITTED, SegmentEntry
from sparklog.storage.local import LocalFiles
from sparklog.storage.memory import MemoryFiles
from tests.broker_files import (
    TRANSACTIONAL,
    batch,
    marker,
    write_epochs,
    write_indexes,
    write_segment,
)
from tests.logs import live_rows
from tests.naive.messages import message
from tests.naive.records import Record
from tests.unit.interop.conftest import Interop

TRUST = ImportOptions(check=False)
INNER = Record(3, 9, b"k", b"v", ())


def file(name: str, data: bytes) -> DumpedFile:
    return DumpedFile(f"/x/{name}", f"/x/{name}", data)


def wrapped(plain: bytes) -> bytes:
    """A message of magic 1 whose value is these bytes, as gzip."""
    import gzip

    return message(Record(7, 9, None, gzip.compress(plain), ()), 1, 1)


def odd(magic: int) -> bytes:
    data = bytearray(batch(0))
    data[16] = magic
    return bytes(data)


class TestControlRecords:
    @pytest.mark.parametrize(
        ("key", "says"),
        [
            (None, "found null"),
            (b"\0", "found only 1"),
            (b"\xff\xff\0\0", "Invalid version found for control record: -1"),
        ],
    )
    def test_keys_that_say_no_type(self, key: bytes | None, says: str) -> None:
        with pytest.raises(CorruptionError, match=says):
            control_text(key, b"")

    def test_a_type_that_is_not_known(self) -> None:
        assert control_text(b"\0\0\0\x63", None) == " controlType: UNKNOWN(99)"

    def test_a_negative_version_of_a_marker(self) -> None:
        with pytest.raises(CorruptionError, match="Invalid version found for end transaction"):
            control_text(b"\0\0\0\0", b"\xff\xff\0\0\0\0")


class TestOffsets:
    def test_no_records_are_no_gap(self) -> None:
        offsets = Offsets(5, [])
        offsets.add(np.empty(0, np.int64))

        assert (offsets.last, offsets.gaps) == (5, [])


class TestIndexes:
    @pytest.mark.parametrize(("magic", "last"), [(3, 1), (0xFF, 0)])
    def test_an_entry_may_lead_to_an_odd_batch(self, magic: int, last: int) -> None:
        index, log = file("0.index", bytes(8)), file("0.log", odd(magic))
        findings = Findings()
        list(dump_index(index, log, IndexChecks(), findings))

        assert findings.mismatches == ({"/x/0.index": [(0, last)]} if last else {})

    def test_a_time_entry_may_lead_to_an_odd_batch(self) -> None:
        times, log = file("0.timeindex", bytes(12)), file("0.log", odd(3))
        findings = Findings()
        list(dump_time_index(times, log, file("0.index", b""), IndexChecks(), findings))

        assert findings.not_found == {"/x/0.timeindex": [(0, 1)]}

    def test_a_damaged_record_ends_the_dump(self) -> None:
        data = bytearray(batch(0))
        data[61] ^= 2
        times = file("0.timeindex", bytes(11) + b"\1")

        with pytest.raises(CorruptRecordError, match="Invalid record size"):
            list(
                dump_time_index(
                    times,
                    file("0.log", bytes(data)),
                    file("0.index", b""),
                    IndexChecks(),
                    Findings(),
                )
            )


class TestState:
    def test_a_producer_without_a_batch(self) -> None:
        state = ProducerState(1, 2, -1, -1, 0, 5, 3, -1)
        (line,) = dump_snapshot(file("0.snapshot", encode_snapshot([state])))

        assert line.endswith(b"OptionalLong.empty lastTimestamp: 5 \n")

    def test_an_unknown_version_of_a_transaction_index(self) -> None:
        with pytest.raises(CorruptionError, match="Unexpected aborted transaction version 1"):
            read_txn_index(encode_txn_index([AbortedTxn(1, 1, 2, 3, 4)]))

    def test_a_transaction_index_is_printed_in_pieces(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sparklog.interop.broker_files.txn_index.PIECE_ENTRIES", 2)
        rows = [AbortedTxn(-1, 2**63 - 1, -(2**63), 0, 4), *[AbortedTxn(0, 1, 2, 3, 4)] * 2]
        printed = list(dump_txn_index(file("0.txnindex", encode_txn_index(rows))))

        plain = "version: 0 producerId: 1 firstOffset: 2 lastOffset: 3 lastStableOffset: 4\n"
        assert b"".join(printed).decode() == (
            "version: -1 producerId: 9223372036854775807 firstOffset: -9223372036854775808 "
            f"lastOffset: 0 lastStableOffset: 4\n{plain}{plain}"
        )
        assert len(printed) == 2


class TestMessageSets:
    @pytest.mark.parametrize(
        ("data", "says"),
        [
            (wrapped(b""), "no inner records"),
            (wrapped(message(INNER, 1)[:-1]), "no inner records"),
            (wrapped(wrapped(message(INNER, 1))), "must not be compressed"),
            (wrapped(b"\0" * 20), "Record size 0 is less than"),
            (wrapped(message(INNER, 1, 7)), "Unknown compression type id: 7"),
            (message(INNER, 1)[:30], "Found invalid record structure"),
        ],
        # Not by the bytes: a gzip header holds the time.
        ids=["empty", "cut inside", "twice", "zeros", "codec", "cut"],
    )
    def test_what_is_refused(self, data: bytes, says: str) -> None:
        with pytest.raises(CorruptRecordError, match=says):
            list(message_records(data))


class TestLinks:
    def test_only_local_files_are_linked(self, tmp_path: Path) -> None:
        entry = SegmentEntry(
            partition=0,
            base_offset=0,
            next_offset=1,
            file_base_offset=0,
            log_path="t-0/x.log",
            log_bytes=1,
            created_ms=0,
        )
        rules = ExportRules(segment_bytes=1, segment_ms=1, link=True)
        export = PartitionExport(MemoryFiles(), "t", LocalFiles(str(tmp_path)), rules)

        assert not export._is_linked(entry, "x")


class TestTrusted:
    def test_aborted_transactions_come_from_the_transaction_index(self, interop: Interop) -> None:
        folder = interop.partition()
        write_epochs(folder)
        data = batch(0, producer=7, attributes=TRANSACTIONAL)
        write_indexes(write_segment(folder, 0, data, marker(2, 7, 0)))
        entry = AbortedTxn(0, 7, 0, 2, 3)
        (folder / f"{0:020d}.txnindex").write_bytes(encode_txn_index([entry]))
        write_segment(folder, 3, batch(3))
        (folder / f"{3:020d}.snapshot").write_bytes(encode_snapshot([]))
        interop.run(TRUST)

        assert interop.offsets("t", READ_COMMITTED) == [3, 4]
        assert interop.offsets() == [0, 1, 3, 4]

    def test_what_was_open_and_has_ended_since(self, interop: Interop) -> None:
        folder = interop.partition()
        write_epochs(folder)
        data = batch(0, producer=7, attributes=TRANSACTIONAL)
        newest = write_segment(folder, 0, data)
        interop.run(TRUST)
        newest.write_bytes(data + batch(2))
        write_indexes(write_segment(folder, 4, marker(4, 7, 1)))
        write_segment(folder, 5, batch(5))
        (folder / f"{5:020d}.snapshot").write_bytes(encode_snapshot([]))
        interop.run(TRUST)

        assert interop.offsets("t", READ_COMMITTED) == [0, 1, 2, 3, 5, 6]

    def test_what_is_still_open(self, interop: Interop) -> None:
        folder = interop.partition()
        write_epochs(folder)
        data = batch(0, producer=7, attributes=TRANSACTIONAL)
        write_indexes(write_segment(folder, 0, data))
        write_segment(folder, 2, batch(2))
        state = ProducerState(7, 0, 0, 1, 1, 0, 0, 0)
        closed = ProducerState(8, 0, 0, 1, 1, 0, 0, -1)
        (folder / f"{2:020d}.snapshot").write_bytes(encode_snapshot([state, closed]))
        interop.run(TRUST)

        assert interop.log().transactions == ((7, 0),)
        assert interop.offsets("t", READ_COMMITTED) == []

    def test_a_segment_that_must_be_read_goes_on_from_its_snapshot(self, interop: Interop) -> None:
        folder = interop.partition()
        write_epochs(folder)
        write_indexes(write_segment(folder, 0, batch(0, producer=7, attributes=TRANSACTIONAL)))
        data = batch(2, producer=7, attributes=TRANSACTIONAL)
        write_segment(folder, 2, data, marker(4, 7, 0))
        write_segment(folder, 5, batch(5))
        (folder / f"{5:020d}.snapshot").write_bytes(encode_snapshot([]))
        assert f"{2:020d}.snapshot: there is no such file" in interop.problem(TRUST)

        state = ProducerState(7, 0, 0, 1, 1, 0, 0, 0)
        (folder / f"{2:020d}.snapshot").write_bytes(encode_snapshot([state]))
        interop.run(TRUST)
        assert interop.offsets("t", READ_COMMITTED) == [5, 6]

    def test_an_index_of_more_than_a_million_transactions_is_refused(
        self, interop: Interop
    ) -> None:
        folder = interop.partition()
        write_epochs(folder)
        write_indexes(write_segment(folder, 0, batch(0)))
        (folder / f"{0:020d}.txnindex").touch()
        os.truncate(folder / f"{0:020d}.txnindex", 2**31 - 1)
        write_segment(folder, 2, batch(2))
        (folder / f"{2:020d}.snapshot").write_bytes(encode_snapshot([]))

        assert f"{0:020d}.txnindex: more than 34000000 bytes" in interop.problem(TRUST)

    def test_a_segment_with_a_larger_index_than_any_is_read(
        self, interop: Interop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = interop.partition()
        write_epochs(folder)
        write_indexes(write_segment(folder, 0, batch(0)))
        write_segment(folder, 2, batch(2))
        (folder / f"{2:020d}.snapshot").write_bytes(encode_snapshot([]))
        monkeypatch.setattr("sparklog.interop.imports.sealed.INDEX_BYTES_MAX", 11)
        interop.run(TRUST)

        counts = live_rows(str(interop.log_dir)).column("batch_count")
        assert counts.to_pylist() == [1, 1]

    def test_without_known_epochs_all_headers_are_read(self, interop: Interop) -> None:
        folder = interop.partition()
        write_indexes(write_segment(folder, 0, batch(0, epoch=8)))
        write_segment(folder, 2, batch(2, epoch=3))
        (folder / f"{2:020d}.snapshot").write_bytes(encode_snapshot([]))
        interop.run(TRUST)

        assert plan_write(interop.catalog, "t", WriteOptions()).leader_epochs == {0: 9}


class TestHeaders:
    @pytest.mark.parametrize(
        ("headers", "says"),
        [
            ("01", "Found invalid number of record headers -1"),
            ("7e", "63 is larger than the remaining size"),
            ("0201", "Invalid negative header key size -1"),
        ],
    )
    def test_what_is_refused(self, headers: str, says: str) -> None:
        record = bytes.fromhex("0000000101" + headers)
        data = batch(0, 1)[:61] + bytes([2 * len(record)]) + record

        with pytest.raises(CorruptRecordError, match=says):
            list(batch_records(data))
