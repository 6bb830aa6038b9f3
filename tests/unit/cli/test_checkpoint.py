"""`sparklog checkpoint`: how far a stream has read, as offsets and as a group."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from tests.command_line import CommandLine

SOURCE = '{"flights":{"0":3,"1":1},"@sparklog":{"ids":{"flights":"…"}}}'


def checkpoint(folder: Path, *sources: str, done: int = 1) -> str:
    """A checkpoint of two micro-batches, the last of which ends at these offsets."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for batch, ends in enumerate((['{"flights":{"0":1}}'], sources)):
        lines = ["v1", '{"batchWatermarkMs":0}', *ends]
        (folder / "offsets" / str(batch)).write_text("\n".join(lines), encoding="utf-8")
        (folder / "offsets" / f".{batch}.crc").write_bytes(b"crc")
        if batch <= done:
            (folder / "commits" / str(batch)).write_text("v1\n{}")
            (folder / "commits" / f".{batch}.crc").write_bytes(b"crc")
    return str(folder)


class TestShow:
    def test_the_ends_of_the_last_micro_batch_that_is_done(
        self, sparklog: CommandLine, tmp_path: Path
    ) -> None:
        folder = checkpoint(tmp_path / "ckpt", SOURCE)
        lines = sparklog.done("checkpoint", "show", folder).lines
        assert [line.split() for line in lines[1:]] == [
            ["TOPIC", "PARTITION", "OFFSET"],
            ["flights", "0", "3"],
            ["flights", "1", "1"],
        ]

    def test_one_that_is_under_way_does_not_count(
        self, sparklog: CommandLine, tmp_path: Path
    ) -> None:
        folder = checkpoint(tmp_path / "ckpt", SOURCE, done=0)
        assert sparklog.done("checkpoint", "show", folder, "--format", "json").json == [
            {"batch": 0, "offsets": {"flights": {"0": 1}}}
        ]

    def test_a_stream_of_several_sources(self, sparklog: CommandLine, tmp_path: Path) -> None:
        folder = checkpoint(tmp_path / "ckpt", SOURCE, "-", '{"other":{"0":7}}')
        [found] = sparklog.done("checkpoint", "show", folder, "--format", "json").json
        assert found["offsets"] == {"flights": {"0": 3, "1": 1}, "other": {"0": 7}}

    def test_the_source_that_is_behind_counts(self, sparklog: CommandLine, tmp_path: Path) -> None:
        sources = ['{"flights":{"0":7,"1":1}}', '{"flights":{"0":3}}', '{"flights":{"0":5}}']
        folder = checkpoint(tmp_path / "ckpt", *sources)
        [found] = sparklog.done("checkpoint", "show", folder, "--format", "json").json
        assert found["offsets"] == {"flights": {"0": 3, "1": 1}}

    @pytest.mark.parametrize("source", ["7", '{"flights":7}', '{"logOffset":3}', "no json"])
    def test_other_sources_are_refused(
        self, sparklog: CommandLine, tmp_path: Path, source: str
    ) -> None:
        outcome = sparklog("checkpoint", "show", checkpoint(tmp_path / "ckpt", source))
        assert outcome.code == 1
        assert "offsets/1: a source of the stream is no log of topics" in outcome.err

    def test_offsets_that_are_no_text_are_named(
        self, sparklog: CommandLine, tmp_path: Path
    ) -> None:
        folder = checkpoint(tmp_path / "ckpt", "{}")
        (Path(folder) / "offsets" / "1").write_bytes(b"v1\n{}\n\xff")
        outcome = sparklog("checkpoint", "show", folder)

        assert outcome.code == 1
        assert "offsets/1: a source of the stream is no log of topics: '\ufffd'" in outcome.err

    def test_what_is_no_checkpoint_is_told(self, sparklog: CommandLine, tmp_path: Path) -> None:
        outcome = sparklog("checkpoint", "show", tmp_path)
        assert outcome.code == 1
        assert "no checkpoint of a stream" in outcome.err


class TestGroups:
    def test_a_checkpoint_becomes_a_group(self, flights: CommandLine, tmp_path: Path) -> None:
        asked = ("checkpoint", "to-group", checkpoint(tmp_path / "ckpt", SOURCE), "stream")
        admin = AdminClient(flights.log_dir)
        assert len(flights.done(*asked, "--dry-run").lines) == 4
        assert admin.list_consumer_group_offsets("stream") == {}
        found = flights.done(*asked, "--execute", "--format", "json").json
        assert found == [{"group": "stream", "offsets": {"flights": {"0": 3, "1": 1}}}]
        offsets = admin.list_consumer_group_offsets("stream")
        assert [one and one.offset for one in offsets.values()] == [3, 1]

    def test_a_group_becomes_the_start_of_a_stream(self, flights: CommandLine) -> None:
        admin = AdminClient(flights.log_dir)
        admin.alter_consumer_group_offsets("stream", {("flights", 1): 1, ("flights", 0): 2})
        found = flights.done("checkpoint", "from-group", "stream").lines
        assert found == ['{"flights":{"0":2,"1":1}}']

    def test_a_start_names_no_topic_that_is_gone(self, flights: CommandLine) -> None:
        admin = AdminClient(flights.log_dir)
        admin.create_topics([NewTopic("gone")])
        admin.alter_consumer_group_offsets("stream", {("flights", 1): 1, ("gone", 0): 0})
        admin.delete_topics(["gone"])
        outcome = flights("checkpoint", "from-group", "stream")
        assert (outcome.code, outcome.lines) == (0, ['{"flights":{"1":1}}'])
        assert "'gone'" in outcome.err

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["to-group", "ckpt", "stream", "--execute", "--dry-run"], 2, "give --dry-run or"),
            (["from-group", "nobody"], 1, "group 'nobody' has committed nothing"),
        ],
    )
    def test_is_refused(
        self, flights: CommandLine, arguments: list[str], code: int, message: str
    ) -> None:
        outcome = flights("checkpoint", *arguments)
        assert outcome.code == code
        assert message in outcome.err
