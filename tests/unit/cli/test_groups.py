"""`sparklog groups`: what kafka-consumer-groups does, on a log dir."""

from pathlib import Path

import pytest

from sparklog.admin import AdminClient
from tests.command_line import CommandLine
from tests.group_language import Groups
from tests.group_logs import append_records
from tests.logs import catalog

ASSIGNED = b"\0\0" + b"\0\0\0\1" + b"\0\7flights" + b"\0\0\0\1\0\0\0\1" + b"\xff" * 4


@pytest.fixture
def members(flights: CommandLine) -> CommandLine:
    """With the group `readers`, which has a member."""
    log = Groups()
    ada = log.member("ada", client_host="/10.0.0.1")
    ada.joins()
    log.passes(3_000)
    assert ada.leads
    ada.syncs({ada.member_id: ASSIGNED})
    append_records(catalog(flights.log_dir), log.log)
    return flights


def committed(admin: AdminClient, group: str = "jobs") -> list[int]:
    return [one.offset for one in admin.list_consumer_group_offsets(group).values() if one]


def words(lines: list[str]) -> list[list[str]]:
    """The words of a table; it begins with an empty line."""
    assert lines[0] == ""
    return [line.split() for line in lines[1:]]


class TestList:
    def test_a_name_a_line(self, groups: CommandLine) -> None:
        assert groups.done("groups", "list").lines == ["idle", "jobs"]

    def test_with_types_and_states(self, members: CommandLine) -> None:
        assert words(members.done("groups", "list", "-v").lines) == [
            ["GROUP", "TYPE", "STATE"],
            ["readers", "classic", "Stable"],
        ]

    def test_by_state_and_type(self, groups: CommandLine, members: CommandLine) -> None:
        assert members.done("groups", "list", "--state", "stable,dead").lines == ["readers"]
        assert members.done("groups", "list", "--type", "consumer").lines == []

    @pytest.mark.parametrize(
        ("option", "allowed"), [("--state", "PreparingRebalance"), ("--type", "classic, consumer")]
    )
    def test_of_unknown_states_and_types_are_refused(
        self, groups: CommandLine, option: str, allowed: str
    ) -> None:
        outcome = groups("groups", "list", option, "Foo")
        assert outcome.code == 2
        assert f"{option} 'Foo': allowed are {allowed}" in outcome.err

    @pytest.mark.parametrize("command", ["list", "describe --all-groups", "delete g"])
    def test_without_a_log_dir_it_is_told(
        self, flights: CommandLine, tmp_path: Path, command: str
    ) -> None:
        outcome = flights("--log-dir", tmp_path, "groups", *command.split())
        assert outcome.code == 1
        assert "is not a log dir" in outcome.err

    def test_json(self, members: CommandLine) -> None:
        assert members.done("groups", "list", "--format", "json").json == [
            {"group": "readers", "type": "classic", "state": "Stable", "is_simple": False}
        ]


class TestDescribe:
    def test_offsets_and_lag_stand_in_kafkas_columns(self, groups: CommandLine) -> None:
        header, first, second = words(groups("groups", "describe", "jobs").lines)
        columns = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST"
        assert header == f"{columns} CLIENT-ID LAG-SECONDS LAG-STATE".split()
        assert first[:9] == ["jobs", "flights", "0", "1", "3", "2", "-", "-", "-"]
        assert float(first[9]) > 1e9
        assert second == ["jobs", "flights", "1", "1", "1", "0", "-", "-", "-", "0.0", "OK"]

    def test_without_a_window_there_is_no_state_and_it_says_so(self, groups: CommandLine) -> None:
        found = groups("groups", "describe", "--all-groups")
        assert [row[-1] for row in words(found.lines) if row and row[-1] != "LAG-STATE"] == [
            "OK",
            "-",
            "OK",
        ]
        assert "unknown for partitions of jobs: the log has fewer than 2" in found.err

    def test_leader_epochs_if_asked_for(self, groups: CommandLine) -> None:
        header, first, second = words(groups.done("groups", "describe", "jobs", "-v", "-q").lines)
        assert header[2:5] == ["PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET"]
        assert (first[3], second[3]) == ("2", "-")

    def test_json_of_all_groups(self, groups: CommandLine) -> None:
        found = groups.done("groups", "describe", "--all-groups", "--format", "json").json
        assert [one["group"] for one in found] == ["idle", "jobs", "jobs"]
        assert found[0] == {
            "group": "idle",
            "topic": "flights",
            "partition": 0,
            "current_offset": 3,
            "leader_epoch": None,
            "log_start_offset": 0,
            "log_end_offset": 3,
            "lag": 0,
            "member_id": None,
            "group_instance_id": None,
            "client_id": None,
            "host": None,
            "lag_seconds": 0.0,
            "lag_state": "OK",
        }

    def test_what_members_read_without_a_commit_is_there(self, members: CommandLine) -> None:
        _, row = words(members.done("groups", "describe", "--group", "readers").lines)
        assert row[:6] == ["readers", "flights", "1", "-", "1", "-"]
        assert row[6:] == ["ada-1", "/10.0.0.1", "ada", "-", "-"]

    def test_members(self, members: CommandLine) -> None:
        asked = ("groups", "describe", "readers", "--members")
        assert words(members.done(*asked).lines) == [
            ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"],
            ["readers", "ada-1", "/10.0.0.1", "ada", "1"],
        ]
        assert words(members.done(*asked, "-v").lines)[1][-1] == "flights(1)"
        assert members.done(*asked, "--format", "json").json == [
            {
                "group": "readers",
                "member_id": "ada-1",
                "group_instance_id": None,
                "host": "/10.0.0.1",
                "client_id": "ada",
                "partitions": ["flights-1"],
            }
        ]

    def test_members_with_instance_ids(self, flights: CommandLine) -> None:
        log = Groups()
        ada = log.member("ada", instance_id="desk")
        ada.joins()
        log.passes(3_000)
        assert ada.leads
        ada.syncs({ada.member_id: ASSIGNED})
        append_records(catalog(flights.log_dir), log.log)
        head, row = words(flights.done("groups", "describe", "readers", "--members").lines)
        assert head[:4] == ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST"]
        assert row[2] == "desk"

    def test_state(self, members: CommandLine) -> None:
        asked = ("groups", "describe", "readers", "--state")
        assert words(members.done(*asked).lines) == [
            ["GROUP", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "LAG-STATE"],
            ["readers", "range", "Stable", "1", "-"],
        ]
        assert members.done(*asked, "--format", "json").json == [
            {
                "group": "readers",
                "type": "classic",
                "assignment_strategy": "range",
                "state": "Stable",
                "members": 1,
                "lag_state": None,
            }
        ]

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            ([], 2, "give groups, or --all-groups"),
            (["jobs", "--all-groups"], 2, "give groups, or --all-groups"),
            (["jobs", "--members", "--state"], 2, "give one of --offsets, --members, --state"),
            (["nobody"], 1, "there is no group 'nobody'"),
        ],
    )
    def test_is_refused(
        self, groups: CommandLine, arguments: list[str], code: int, message: str
    ) -> None:
        outcome = groups("groups", "describe", *arguments)
        assert outcome.code == code
        assert message in outcome.err


class TestDelete:
    def test_groups_go_with_their_offsets(self, groups: CommandLine) -> None:
        assert groups.done("groups", "delete", "jobs").lines == ["Deleted group jobs."]
        assert groups.done("groups", "delete", "idle", "-q").lines == []
        assert groups.done("groups", "list").lines == []

    def test_of_a_group_that_does_not_exist_deletes_none(self, groups: CommandLine) -> None:
        outcome = groups("groups", "delete", "jobs", "nobody")
        assert (outcome.code, "there is no group 'nobody'" in outcome.err) == (1, True)
        assert groups.done("groups", "list").lines == ["idle", "jobs"]

    def test_json(self, groups: CommandLine) -> None:
        found = groups.done("groups", "delete", "jobs", "--format", "json").json
        assert found == [{"group": "jobs", "deleted": True}]

    def test_offsets_of_a_topic(self, groups: CommandLine, admin: AdminClient) -> None:
        lines = groups.done("groups", "delete-offsets", "jobs", "--topic", "flights").lines
        assert words(lines)[1:] == [["flights", "0", "Successful"], ["flights", "1", "Successful"]]
        assert committed(admin) == []

    def test_offsets_of_a_partition(self, groups: CommandLine, admin: AdminClient) -> None:
        arguments = ("--group", "jobs", "--topic", "flights:1", "--format", "json")
        assert groups.done("groups", "delete-offsets", *arguments).json == [
            {"group": "jobs", "topic": "flights", "partition": 1, "deleted": True}
        ]
        assert committed(admin) == [1]

    def test_offsets_of_a_topic_that_is_gone(self, groups: CommandLine, admin: AdminClient) -> None:
        admin.delete_topics(["flights"])
        groups.done("groups", "delete-offsets", "idle", "--topic", "flights")
        assert committed(admin, "idle") == []

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["jobs"], 2, "give --topic"),
            (["--topic", "flights"], 2, "no group: give its name"),
            (["jobs", "--group", "idle", "--topic", "flights"], 2, "two groups, 'jobs' and"),
            (["jobs", "--topic", "flights:x"], 2, "allowed are a topic, and topic:0,1"),
            (["idle", "--topic", "flights:1"], 1, "has committed nothing of flights:1"),
            (["nobody", "--topic", "flights"], 1, "there is no group 'nobody'"),
        ],
    )
    def test_is_refused(
        self, groups: CommandLine, arguments: list[str], code: int, message: str
    ) -> None:
        outcome = groups("groups", "delete-offsets", *arguments)
        assert outcome.code == code
        assert message in outcome.err
