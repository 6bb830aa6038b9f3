"""Entries, byte for byte: damaged, foreign and newer ones are refused by name."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import google_crc32c
import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import CorruptMetadataError, LogDirError, UnsupportedFeatureError
from sparklog.metadata.codec.edits import edit_of
from sparklog.metadata.codec.entry import (
    EditsFile,
    Entry,
    decode,
    encode,
    encode_edits,
    parse_edits,
)
from sparklog.metadata.state.edit import Edit, FoldEdit, Lease, RunFile
from sparklog.metadata.state.image import Image
from tests.edits import segment
from tests.metadata_language import Author, creating, producing

WHERE = "__cluster_metadata/_delta_log/00000000000000000007.json"
CREATED = Image().apply((creating(),), Entry(0, "a", "", "l", 1, "X").stamp)
PRODUCED = producing(segment())(CREATED)
RUN = RunFile("_runs/x.parquet", 1, 2, 3, 0, 5)
FOLD = Edit(operation="FOLD", fold=FoldEdit(5, -1, (RUN,), (RUN,)))
ACTION = {"add": {"path": "x"}}


def encoded(*edits: Edit, **fields: Any) -> bytes:
    values = {"version": 7, "id": "i", "previous": "p", "log": "l", "timestamp_ms": 5}
    return encode(Entry(**{**values, "operation": "TEST", **fields}), encode_edits(edits))


def damaged(change: Callable[[dict[str, Any]], object], *edits: Edit) -> bytes:
    """An entry with something else in it, and the right checksum."""
    lines = encoded(*(edits or (PRODUCED,))).split(b"\n")
    content = orjson.loads(lines[0])
    change(content)
    ours = content["commitInfo"]["sparklog"]
    ours["crc32c"] = ours.pop("crc32c", "") and "00000000"
    data = orjson.dumps(content) + b"\n"
    checksum = b"%08x" % google_crc32c.value(data)
    return data.replace(b'"crc32c":"00000000"', b'"crc32c":"' + checksum + b'"')


def with_ours(**members: Any) -> bytes:
    return damaged(lambda content: content["commitInfo"]["sparklog"].update(members))


def with_edit(**members: Any) -> bytes:
    return with_ours(edits=[{"operation": "X", **members}])


def with_topic(**members: Any) -> bytes:
    return with_edit(topics={"t": members})


class TestDamage:
    DATA = encoded(PRODUCED, FOLD, actions=[ACTION])

    def test_any_bit_is_noticed(self) -> None:
        for at in range(len(self.DATA)):
            for bit in range(8):
                flipped = bytearray(self.DATA)
                flipped[at] ^= 1 << bit

                with pytest.raises(CorruptMetadataError, match=WHERE):
                    decode(7, bytes(flipped), WHERE)

    def test_any_truncation_is_noticed(self) -> None:
        for length in range(len(self.DATA)):
            with pytest.raises(CorruptMetadataError, match=WHERE):
                decode(7, self.DATA[:length], WHERE)

    def test_an_entry_of_one_line_without_its_end_is_cut_off(self) -> None:
        with pytest.raises(CorruptMetadataError, match="cut off"):
            decode(7, encoded(PRODUCED)[:-1], WHERE)

    def test_what_is_whole_is_read(self) -> None:
        entry = decode(7, self.DATA, WHERE)

        assert entry.edits == (PRODUCED, FOLD)
        assert (entry.id, entry.previous, entry.actions) == ("i", "p", [ACTION])
        assert entry.bytes == len(self.DATA)

    @given(st.binary(max_size=60))
    def test_no_bytes_are_an_entry(self, data: bytes) -> None:
        with pytest.raises(CorruptMetadataError, match=WHERE):
            decode(7, data, WHERE)


class TestHostile:
    @pytest.mark.parametrize(
        "data",
        [
            with_ours(id=5),
            with_ours(previous=None),
            with_ours(edits=5),
            with_ours(edits=[5]),
            with_ours(edits={"a": 1}),
            with_ours(edits_file="abc"),
            with_ours(edits_file=["_edits/../x", 1, 2]),
            with_ours(edits_file=["x", 1, 2]),
            with_ours(edits_file=["_edits/x", True, 2]),
            with_edit(topics=[]),
            with_edit(level=2**63),
            with_edit(leases={"a": 5}),
            with_edit(leases={"a": ["b"]}),
            with_edit(forget_topics=[1]),
            with_edit(transactional_ids={"a": [1, 0]}),
            with_edit(added_to_transactions={"a": None}),
            with_edit(added_to_transactions={"a": [[], []]}),
            with_edit(added_to_transactions={"a": [[["t"]], [], []]}),
            with_edit(added_to_transactions={"a": [[], [1], []]}),
            with_edit(added_to_transactions={"a": [[], [], [["g", "t", 0]]]}),
            with_edit(fold={"cover": 1, "runs": []}),
            with_edit(fold={"cover": 1, "based_on": 0, "runs": [["a", 1.5]]}),
            with_topic(segments=[{"partition": 1}]),
            with_topic(segments=[{"partition": True}]),
            with_topic(segments=[{"partition": 2**63}]),
            with_topic(segments=[{"log_path": None}]),
            with_topic(segments=[{"producer_ids": ["a"]}]),
            with_topic(segments=[{"aborted": [{"a": 1}]}]),
            with_topic(segments=[{"aborted": [5]}]),
            with_topic(partitions={"a": [1]}),
            with_topic(partitions={"0": [1, 2, 3, 4, 5, 6]}),
            with_topic(remove=[[0, "a"]]),
            with_topic(allow_gaps=1),
            with_topic(receipts=[["a", 1, {}]]),
            with_topic(receipts=[["a"]]),
            with_topic(producers={"0": [[1]]}),
            with_topic(producers={"0": [[1, 0, 5, 5, 5]]}),
            with_topic(producers={"0": [[1, 0, 5, 5, 5, "a"]]}),
            with_topic(description={"name": "t"}),
            with_topic(description={"configs": {"a": 1}}),
            damaged(lambda content: content["commitInfo"].update(timestamp="5")),
            damaged(lambda content: content["commitInfo"].update(operationParameters={"a": 1})),
            damaged(lambda content: content["commitInfo"]["sparklog"].pop("id")),
        ],
    )
    def test_what_no_writer_wrote_is_told_by_name(self, data: bytes) -> None:
        with pytest.raises(CorruptMetadataError, match=WHERE):
            decode(7, data, WHERE)

    @pytest.mark.parametrize(
        "data",
        [
            with_ours(new=1),
            with_edit(new=1),
            with_topic(new=1),
            with_topic(segments=[{"new": 1}]),
            with_topic(description={"new": 1}),
            with_topic(receipts=[["a", True, {"new": 1}]]),
            with_edit(fold={"new": 1}),
        ],
    )
    def test_members_of_a_newer_release_are_told_by_name(self, data: bytes) -> None:
        with pytest.raises(UnsupportedFeatureError, match=f"{WHERE}.*new"):
            decode(7, data, WHERE)

    def test_another_format_is_told_by_name(self) -> None:
        with pytest.raises(LogDirError, match=f"{WHERE}: format 3"):
            decode(7, with_ours(format=3), WHERE)


class TestForeign:
    @pytest.mark.parametrize("end", [b"", b"\n"])
    def test_one_that_changes_nothing_is_passed_over(self, end: bytes) -> None:
        data = b'{"commitInfo":{"timestamp":5,"operation":"VACUUM END"}}' + end

        assert decode(7, data, WHERE).is_foreign

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_any_other_action_stops_the_reader(self, order: tuple[int, int]) -> None:
        lines = [b'{"commitInfo":{"operation":"WRITE","engineInfo":"e"}}', b'{"add":{}}']

        with pytest.raises(LogDirError, match="WRITE of e holds add"):
            decode(7, b"\n".join(lines[at] for at in order), WHERE)

    @pytest.mark.parametrize("data", [b'{"add":{}}', b"5", b'{"commitInfo":5}', b""])
    def test_what_says_nothing_is_damaged(self, data: bytes) -> None:
        with pytest.raises(CorruptMetadataError, match=WHERE):
            decode(7, data, WHERE)


class TestFormatOne:
    def test_is_refused_by_name(self, tmp_path: Path) -> None:
        DeltaTable.create(str(tmp_path), pa.schema([("kind", pa.string())]))
        data = next((tmp_path / "_delta_log").glob("*.json")).read_bytes()

        with pytest.raises(LogDirError, match="format 1 has a Delta table for each topic"):
            decode(0, data, WHERE)


class TestEditsFile:
    DATA = encode_edits([PRODUCED])
    FILE = EditsFile("_edits/x.json", len(DATA), google_crc32c.value(DATA))

    def entry(self) -> Entry:
        return decode(7, encoded(edits_file=self.FILE), WHERE)

    def test_holds_the_edits(self) -> None:
        entry = parse_edits(self.DATA, self.entry(), "x").decoded()

        assert entry.edits == (PRODUCED,)
        assert entry.bytes == len(encoded(edits_file=self.FILE)) + len(self.DATA)

    @given(st.randoms(use_true_random=False))
    def test_any_damage_is_noticed(self, random: Random) -> None:
        flipped = bytearray(self.DATA)
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)

        for data in (bytes(flipped), self.DATA[:-1], self.DATA + b" "):
            with pytest.raises(CorruptMetadataError, match=r"where: .* bytes"):
                parse_edits(data, self.entry(), "where").decoded()


class TestCodec:
    @given(st.randoms(use_true_random=False))
    def test_edits_are_read_as_they_were_written(self, random: Random) -> None:
        """Goal: nothing is lost. Method: made-up edits through an entry and back."""
        author, image = Author(random), CREATED
        for version in range(1, 6):
            edit = author.edit(image)
            data = encoded(edit, parameters=edit.parameters)
            (found,) = decode(7, data, WHERE).edits
            stamp = Entry(version, "a", "", "l", author.now_ms, "X").stamp
            image = image.apply((edit,), stamp)

            assert encode_edits([found]) == encode_edits([edit])

    def test_a_lease_is_read_as_it_was_written(self) -> None:
        edit = Edit(operation="LEASE", leases={"a": Lease("a", "b", 5), "c": None})

        assert decode(7, encoded(edit), WHERE).edits == (edit,)

    @pytest.mark.parametrize(
        "keys",
        [
            [["0", "a.log", 0]],
            [[0, "a.log", 0.5]],
            [[0, "a.log", 2**63]],
            [[0, None, 0]],
            [[0, "a.log"]],
            [[0, "a.log", 0], [0, "b.log"]],
            ["0a0"],
        ],
    )
    def test_keys_of_segments_of_other_types_are_refused(self, keys: list[Any]) -> None:
        with pytest.raises(ValueError):  # noqa: PT011 - whatever it says, it is no edit
            edit_of({"topics": {"id": {"remove": keys, "removed_ms": 1}}, "operation": "X"}, {})

    def test_an_empty_list_of_keys_is_read(self) -> None:
        read = edit_of({"topics": {"id": {"forget": []}}, "operation": "X"}, {})

        assert read.topics["id"].forget == ()
