"""`sparklog groups reset-offsets`: scenarios, files, and what is refused."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient, NewTopic
from tests.command_line import CommandLine
from tests.unit.cli.test_groups import committed, words


class TestScenarios:
    @pytest.mark.parametrize(
        ("scenario", "offsets"),
        [
            (["--to-earliest"], [0, 0]),
            (["--to-latest"], [3, 1]),
            (["--to-current"], [1, 1]),
            (["--shift-by", "-1"], [0, 0]),
            (["--to-offset", "1"], [1, 1]),
            (["--to-datetime", "1970-01-01T00:00:02.000"], [1, 0]),
            (["--to-datetime", "2700"], [2, 1]),
            (["--by-duration", "P1D"], [3, 1]),
            (["--by-duration", "P100000DT1H1M1.5S"], [0, 0]),
        ],
    )
    def test_are_kafkas(
        self, groups: CommandLine, admin: AdminClient, scenario: list[str], offsets: list[int]
    ) -> None:
        asked = ("groups", "reset-offsets", "--group", "jobs", "--all-topics", *scenario)
        header, *rows = words(groups.done(*asked).lines)
        assert header == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
        assert [int(row[3]) for row in rows] == offsets
        assert committed(admin) == [1, 1]
        groups.done(*asked, "--execute")
        assert committed(admin) == offsets

    def test_of_a_topic_or_some_of_its_partitions(self, groups: CommandLine) -> None:
        asked = ("groups", "reset-offsets", "new", "--to-latest", "--export", "--topic")
        assert groups.done(*asked, "flights").lines == ["flights,0,3", "flights,1,1"]
        assert groups.done(*asked, "flights:1").lines == ["flights,1,1"]

    def test_to_current_of_what_is_not_committed_is_the_end(self, groups: CommandLine) -> None:
        asked = ("groups", "reset-offsets", "idle", "--to-current", "--topic", "flights")
        assert groups.done(*asked, "--export").lines == ["flights,0,3", "flights,1,1"]

    def test_offsets_outside_the_log_become_its_ends(self, groups: CommandLine) -> None:
        asked = ("groups", "reset-offsets", "jobs", "--topic", "flights:0", "--to-offset", "99")
        outcome = groups(*asked, "--export")
        assert (outcome.code, outcome.lines) == (0, ["flights,0,3"])
        assert "flights-0: offset 99 is outside the log, it becomes 3" in outcome.err
        assert groups.done(*asked, "--export", "-q").lines == ["flights,0,3"]

    def test_offsets_of_a_topic_that_is_gone_are_left_out(
        self, groups: CommandLine, admin: AdminClient
    ) -> None:
        admin.create_topics([NewTopic("gone")])
        admin.alter_consumer_group_offsets("jobs", {("gone", 0): 0})
        admin.delete_topics(["gone"])
        asked = ("groups", "reset-offsets", "jobs", "--all-topics", "--to-current", "--export")
        outcome = groups(*asked)
        assert (outcome.code, outcome.lines) == (0, ["flights,0,1", "flights,1,1"])
        assert "topic 'gone': offsets of partitions that do not exist" in outcome.err

    def test_json(self, groups: CommandLine) -> None:
        asked = ("groups", "reset-offsets", "idle", "--all-topics", "--to-earliest")
        assert groups.done(*asked, "--format", "json").json == [
            {"group": "idle", "topic": "flights", "partition": 0, "new_offset": 0}
        ]

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["--all-topics"], 2, "give one of --to-earliest, --to-latest"),
            (["--all-topics", "--to-latest", "--to-current"], 2, "give one of --to-earliest"),
            (["--to-latest"], 2, "give --topic or --all-topics"),
            (["--all-topics", "--to-latest", "--execute", "--dry-run"], 2, "give --dry-run or"),
            (["--all-topics", "--by-duration", "2d"], 2, "allowed is PnDTnHnMnS"),
            (["--all-topics", "--by-duration", "P"], 2, "allowed is PnDTnHnMnS"),
            (["--all-topics", "--by-duration", f"P{'9' * 400}D"], 2, "allowed is PnDTnHnMnS"),
            (["--all-topics", "--to-datetime", "soon"], 2, "'soon' is no time"),
            (["--topic", "nowhere", "--to-latest"], 1, "unknown topic 'nowhere'"),
            (["--topic", "flights", "--shift-by", "1"], 1, "flights-1: group 'idle' has committed"),
        ],
    )
    def test_is_refused(
        self, groups: CommandLine, arguments: list[str], code: int, message: str
    ) -> None:
        outcome = groups("groups", "reset-offsets", "idle", *arguments)
        assert outcome.code == code
        assert message in outcome.err


class TestFiles:
    def test_what_is_exported_can_be_read_back(
        self, groups: CommandLine, admin: AdminClient, tmp_path: Path
    ) -> None:
        file = tmp_path / "offsets.csv"
        asked = ("groups", "reset-offsets", "--all-groups", "--all-topics", "--to-current")
        lines = groups.done(*asked, "--export").lines
        assert lines == ["idle,flights,0,3", "jobs,flights,0,1", "jobs,flights,1,1"]
        file.write_text("\n".join(["idle,flights,0,2", *lines[1:]]))
        groups.done("groups", "reset-offsets", "--all-groups", "--from-file", file, "--execute")
        assert (committed(admin, "idle"), committed(admin)) == ([2], [1, 1])

    def test_one_without_groups_is_for_any(
        self, groups: CommandLine, admin: AdminClient, tmp_path: Path
    ) -> None:
        file = tmp_path / "offsets.csv"
        file.write_text("flights,1,0\n")
        groups.done("groups", "reset-offsets", "jobs", "--from-file", file, "--execute")
        assert committed(admin) == [1, 0]

    def test_a_file_may_begin_with_a_bom(
        self, groups: CommandLine, admin: AdminClient, tmp_path: Path
    ) -> None:
        file = tmp_path / "offsets.csv"
        file.write_text("flights,1,0\n", encoding="utf-8-sig")
        groups.done("groups", "reset-offsets", "jobs", "--from-file", file, "--execute")
        assert committed(admin) == [1, 0]

    def test_all_groups_are_those_of_the_file_if_it_names_some(
        self, groups: CommandLine, admin: AdminClient, tmp_path: Path
    ) -> None:
        file = tmp_path / "offsets.csv"
        file.write_text('"new","flights",0,2\n"idle","flights",0,1\n')
        asked = ("groups", "reset-offsets", "--all-groups", "--from-file", file)
        assert groups.done(*asked, "--export").lines == ["new,flights,0,2", "idle,flights,0,1"]
        groups.done(*asked, "--execute")
        assert (committed(admin, "new"), committed(admin, "idle")) == ([2], [1])
        file.write_text("flights,0,0\n")
        assert len(groups.done(*asked, "--export").lines) == 3

    def test_all_groups_of_a_cluster_leave_out_topics_that_are_not_here(
        self, groups: CommandLine, admin: AdminClient, tmp_path: Path
    ) -> None:
        file = tmp_path / "offsets.csv"
        file.write_text('"new","flights",0,2\n"new","left",0,7\n"others","left",0,7\n')
        given = ("--from-file", file, "--execute")
        outcome = groups("groups", "reset-offsets", "--all-groups", *given)
        assert (outcome.code, committed(admin, "new")) == (0, [2])
        assert "topic 'left': offsets of partitions that do not exist here" in outcome.err
        assert "others" not in groups.done("groups", "list").lines
        assert groups("groups", "reset-offsets", "new", *given).code == 1

    @pytest.mark.parametrize("text", ["", "jobs-2,flights,0,0\n"])
    def test_a_file_without_offsets_of_the_group_is_refused(
        self, groups: CommandLine, tmp_path: Path, text: str
    ) -> None:
        file = tmp_path / "offsets.csv"
        file.write_text(text)
        outcome = groups("groups", "reset-offsets", "jobs", "--from-file", file, "--execute")
        assert outcome.code == 1
        assert f"{file} has no offsets of group 'jobs'" in outcome.err

    @pytest.mark.parametrize("more", [["--topic", "flights:0"], ["--all-topics"]])
    def test_a_file_goes_without_topics(
        self, groups: CommandLine, tmp_path: Path, more: list[str]
    ) -> None:
        outcome = groups("groups", "reset-offsets", "jobs", "--from-file", tmp_path, *more)
        assert outcome.code == 2
        assert "it goes without --topic and --all-topics" in outcome.err

    def test_an_offset_in_a_file_has_at_most_18_digits(
        self, groups: CommandLine, tmp_path: Path
    ) -> None:
        (file := tmp_path / "offsets.csv").write_text(f"flights,0,{'9' * 5000}\n")
        outcome = groups("groups", "reset-offsets", "jobs", "--from-file", file)
        assert outcome.code == 1
        assert f"{file}, line 1: allowed are topic,partition,offset" in outcome.err

    def test_a_partition_stands_once_in_a_file(self, groups: CommandLine, tmp_path: Path) -> None:
        file = tmp_path / "offsets.csv"
        file.write_text("flights,1,0\n\nflights,1,1\n")
        outcome = groups("groups", "reset-offsets", "jobs", "--from-file", file)
        assert outcome.code == 1
        assert f"{file} has two offsets of flights-1: allowed is one" in outcome.err

    def test_groups_that_were_set_before_an_error_are_told(self, groups: CommandLine) -> None:
        places = ("--topic", "flights:0", "--to-earliest", "--execute", "--export")
        outcome = groups("groups", "reset-offsets", "idle", "", *places)
        assert (outcome.code, outcome.lines) == (1, ["idle,flights,0,0"])
        assert "sparklog: error: " in outcome.err
        only = groups("groups", "reset-offsets", "", *places)
        assert (only.code, only.lines) == (1, [])

    @pytest.mark.parametrize("data", [b"fl\xffghts,0,0\n", b"x" * 200_000])
    def test_a_file_that_is_no_csv_is_told(
        self, groups: CommandLine, tmp_path: Path, data: bytes
    ) -> None:
        file = tmp_path / "offsets.csv"
        file.write_bytes(data)
        outcome = groups("groups", "reset-offsets", "jobs", "--from-file", file)
        assert outcome.code == 1
        assert f"{file} is no CSV in UTF-8: " in outcome.err

    @pytest.mark.parametrize("line", ["flights,0", "flights,0,x", "a,b,c,d,e", "flights,-1,0"])
    def test_a_line_that_is_no_offset_is_told(
        self, groups: CommandLine, tmp_path: Path, line: str
    ) -> None:
        file = tmp_path / "offsets.csv"
        file.write_text(f"flights,0,0\n{line}\n")
        outcome = groups("groups", "reset-offsets", "jobs", "--from-file", file)
        assert outcome.code == 1
        assert "line 2: allowed are topic,partition,offset" in outcome.err
