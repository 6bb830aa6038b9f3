"""`sparklog topic`."""

import pytest

from sparklog.metadata.state.edit import OpenTransaction
from tests.command_line import CommandLine
from tests.edits import edited
from tests.opening import fold_now, make_damaged, note_looks, note_openings
from tests.transactions import Client, new_log_dir


class TestCreate:
    def test_it_says_what_kafka_topics_says(self, sparklog: CommandLine) -> None:
        assert sparklog.done("topic", "create", "flights").text == "Created topic flights.\n"

    def test_the_first_makes_the_log_dir(self, sparklog: CommandLine) -> None:
        sparklog.done("topic", "create", "flights")

        assert sparklog.done("topic", "list").lines == ["flights"]

    def test_kafkas_flags_mean_the_same(self, sparklog: CommandLine) -> None:
        sparklog.done(
            "topic", "create", "--topic", "flights", "--partitions", 3,
            "--config", "retention.ms=-1", "--config", "cleanup.policy=compact,delete",
        )  # fmt: skip

        (topic,) = sparklog.done("topic", "list", "--format", "json").json
        assert topic["partition_count"] == 3
        assert topic["configs"] == {"retention.ms": "-1", "cleanup.policy": "compact,delete"}

    def test_json_says_what_was_made(self, sparklog: CommandLine) -> None:
        (made,) = sparklog.done("topic", "create", "flights", "--format", "json").json

        assert sparklog.done("topic", "list", "--format", "json").json == [made]

    def test_quiet_says_nothing(self, sparklog: CommandLine) -> None:
        assert sparklog.done("topic", "create", "flights", "--quiet").text == ""

    def test_a_name_that_is_taken_fails(self, flights: CommandLine) -> None:
        outcome = flights("topic", "create", "flights")

        assert outcome.code == 1
        assert outcome.err == "sparklog: error: topic 'flights' already exists\n"

    def test_if_not_exists_leaves_the_topic_alone(self, flights: CommandLine) -> None:
        assert flights.done("topic", "create", "flights", "-p9", "--if-not-exists").text == ""
        assert flights.done("topic", "list", "--format", "json").json[0]["partition_count"] == 2

    def test_validate_only_creates_nothing(self, flights: CommandLine) -> None:
        assert (
            flights.done("topic", "create", "new", "--validate-only").text == "Valid topic new.\n"
        )
        assert flights.done("topic", "list").lines == ["flights"]

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["a b"], 1, "a b"),
            (["__consumer_offsets"], 1, "internal"),
            (["t", "-p0"], 1, "0 partitions"),
            (["t", "--config", "retention.msx=1"], 1, "retention.ms"),
            (["t", "--config", "retention.ms=x"], 1, "retention.ms"),
            (["t", "--config", "retention.ms"], 2, "NAME=VALUE"),
            ([], 2, "no topic"),
            (["t", "--topic", "u"], 2, "two topics"),
            (["t", "-p", "many"], 2, "--partitions"),
        ],
    )
    def test_what_is_wrong_is_said(
        self, sparklog: CommandLine, arguments: list[str], code: int, message: str
    ) -> None:
        outcome = sparklog("topic", "create", *arguments)

        assert outcome.code == code
        assert message in outcome.err
        assert outcome.err.count("\n") == 1


class TestDescribe:
    def test_partitions_with_offsets_segments_and_bytes(self, flights: CommandLine) -> None:
        title, header, first, second, config = flights.done("topic", "describe", "flights").lines

        assert title.startswith("flights  id ")
        assert header.split("  ")[:2] == ["partition", "log start offset"]
        assert first.split()[:4] == ["0", "0", "3", "1"]
        assert second.split()[:4] == ["1", "0", "1", "1"]
        assert config == "retention.ms=-1"

    def test_json_has_the_same(self, flights: CommandLine) -> None:
        (topic,) = flights.done("topic", "describe", "--topic", "flights", "--format", "json").json

        first = topic["partitions"][0]
        assert topic["configs"] == {"retention.ms": "-1"}
        assert (first["log_end_offset"], first["segments"], first["bytes"] > 0) == (3, 1, True)

    def test_all_topics_are_opened_together(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flights.done("topic", "create", "trains")
        openings = note_openings(monkeypatch, flights.log_dir)
        flights.done("topic", "describe")

        assert openings == [["flights", "trains"]]

    def test_several_names_cost_no_more_looks_at_the_metadata_than_one(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flights.done("topic", "create", "trains")
        looks = note_looks(monkeypatch)
        flights.done("topic", "describe", "flights")
        count = len(looks)
        flights.done("topic", "describe", "flights", "trains")

        assert len(looks) == 2 * count

    def test_a_damaged_topic_hides_no_other(
        self, flights: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flights.done("topic", "create", "trains")
        fold_now(flights.log_dir)
        make_damaged(monkeypatch, "flights")
        outcome = flights("topic", "describe", "--format", "json")

        assert (outcome.code, [one["name"] for one in outcome.json]) == (1, ["trains"])
        assert outcome.err == "sparklog: error: flights: flights: a run cannot be read\n"

    def test_a_topic_that_is_named_twice_is_shown_once(self, flights: CommandLine) -> None:
        twice = flights.done("topic", "describe", "flights", "flights", "--topic", "flights")

        assert twice == flights.done("topic", "describe", "flights")

    def test_without_names_all(self, flights: CommandLine) -> None:
        flights.done("topic", "create", "empty")

        described = flights.done("topic", "describe", "--format", "json").json
        assert [topic["name"] for topic in described] == ["empty", "flights"]
        assert described[0]["partitions"] == [
            {
                "partition": 0,
                "log_start_offset": 0,
                "last_stable_offset": 0,
                "log_end_offset": 0,
                "segments": 0,
                "bytes": 0,
            }
        ]

    def test_open_transactions_with_their_age(self, sparklog: CommandLine) -> None:
        instance = new_log_dir(sparklog.log_dir, "t")
        client = Client(instance, "etl-1")
        client.init()
        client.produce("x", 1)
        topic = instance.catalog.topic("t")
        opened = {0: (OpenTransaction(5, 0),)}
        edited(instance.catalog, topic, transactions=opened)
        client.produce("y", 0, attributes=0)
        (found,) = sparklog.done("topic", "describe", "t", "--format", "json").json
        lines = sparklog.done("topic", "describe", "t").lines

        fields = ("partition", "first_offset", "transactional_id")
        assert [tuple(one[name] for name in fields) for one in found["transactions"]] == [
            (0, 0, None),
            (1, 0, "etl-1"),
        ]
        assert found["transactions"][1]["open_for_s"] > 0
        assert "open transactions of t" in lines
        assert [line for line in lines if "etl-1" in line]

    def test_all_shows_defaults(self, flights: CommandLine) -> None:
        lines = flights.done("topic", "describe", "flights", "--all").lines

        assert "segment.bytes=1073741824" in lines

    def test_a_terminal_gets_a_table(self, flights: CommandLine) -> None:
        text = flights("topic", "describe", "flights", terminal=True).text

        assert "┃ partition ┃" in text
        assert "log end offset" in text

    def test_an_unknown_topic_names_the_nearest(self, flights: CommandLine) -> None:
        outcome = flights("topic", "describe", "flight")

        assert outcome.code == 1
        assert "did you mean flights?" in outcome.err


class TestAlter:
    def test_partitions_grow(self, flights: CommandLine) -> None:
        assert flights.done("topic", "alter", "flights", "-p5").text == "Altered topic flights.\n"
        assert flights.done("topic", "list", "--format", "json").json[0]["partition_count"] == 5

    def test_configs_are_set_and_set_back(self, flights: CommandLine) -> None:
        (altered,) = flights.done(
            "topic", "alter", "--topic", "flights", "--format", "json",
            "--config", "segment.ms=1000", "--delete-config", "retention.ms",
        ).json  # fmt: skip

        assert altered["configs"] == {"segment.ms": "1000"}

    def test_partitions_do_not_shrink(self, flights: CommandLine) -> None:
        outcome = flights("topic", "alter", "flights", "-p1")

        assert (outcome.code, "can only grow" in outcome.err) == (1, True)

    def test_wrong_configs_change_nothing(self, flights: CommandLine) -> None:
        outcome = flights("topic", "alter", "flights", "-p5", "--config", "nope=1")

        assert (outcome.code, "'nope' is not a topic config" in outcome.err) == (1, True)
        assert flights.done("topic", "list", "--format", "json").json[0]["partition_count"] == 2

    def test_a_config_is_not_set_and_set_back_at_once(self, flights: CommandLine) -> None:
        outcome = flights(
            "topic", "alter", "flights", "-p5",
            "--config", "segment.ms=1000", "--delete-config", "segment.ms",
        )  # fmt: skip

        assert (outcome.code, "'flights': segment.ms is named twice" in outcome.err) == (2, True)
        assert flights.done("topic", "list", "--format", "json").json[0]["partition_count"] == 2

    def test_partitions_and_configs_change_together(self, flights: CommandLine) -> None:
        (altered,) = flights.done(
            "topic", "alter", "flights", "-p5", "--config", "segment.ms=1000", "--format", "json"
        ).json

        assert (altered["partition_count"], altered["configs"]["segment.ms"]) == (5, "1000")

    def test_nothing_to_alter_is_misuse(self, flights: CommandLine) -> None:
        outcome = flights("topic", "alter", "flights")

        assert (outcome.code, "nothing to alter" in outcome.err) == (2, True)


class TestDelete:
    def test_topics_are_gone(self, flights: CommandLine) -> None:
        flights.done("topic", "create", "other")

        outcome = flights.done("topic", "delete", "flights", "--topic", "other")
        assert outcome.text == "Deleted topic flights.\nDeleted topic other.\n"
        assert flights.done("topic", "list").text == ""

    def test_a_topic_that_is_named_twice_is_deleted_once(self, flights: CommandLine) -> None:
        outcome = flights.done("topic", "delete", "flights", "flights", "--topic", "flights")

        assert outcome.text == "Deleted topic flights.\n"

    def test_json_names_them(self, flights: CommandLine) -> None:
        outcome = flights.done("topic", "delete", "flights", "--format", "json")

        assert outcome.json == [{"name": "flights", "deleted": True}]

    def test_quiet_says_nothing(self, flights: CommandLine) -> None:
        assert flights.done("topic", "delete", "flights", "-q").text == ""

    def test_an_unknown_one_fails_before_any_is_deleted(self, flights: CommandLine) -> None:
        assert flights("topic", "delete", "flights", "other").code == 1
        assert flights.done("topic", "list").lines == ["flights"]

    def test_if_exists_leaves_out_what_is_not_there(self, flights: CommandLine) -> None:
        outcome = flights.done("topic", "delete", "flights", "other", "--if-exists")

        assert outcome.text == "Deleted topic flights.\n"

    def test_a_name_is_needed(self, flights: CommandLine) -> None:
        assert flights("topic", "delete").code == 2


class TestUndelete:
    def test_the_topic_is_back(self, flights: CommandLine) -> None:
        before = flights.done("topic", "describe", "flights").text
        flights.done("topic", "delete", "flights")

        assert flights.done("topic", "undelete", "flights").text == "Undeleted topic flights.\n"
        assert flights.done("topic", "describe", "flights").text == before

    def test_the_one_of_an_id(self, flights: CommandLine) -> None:
        flights.done("topic", "delete", "flights")
        flights.done("topic", "create", "flights")
        flights.done("topic", "delete", "flights")
        first, second = flights.done("topic", "list", "--deleted", "--format", "json").json
        (back,) = flights.done(
            "topic", "undelete", "--topic", "flights", "--topic-id", first["topic_id"],
            "--format", "json",
        ).json  # fmt: skip

        assert (back["topic_id"], back["partition_count"]) == (first["topic_id"], 2)
        assert flights.done("topic", "list", "--deleted").lines == [f"flights {second['topic_id']}"]

    def test_one_that_is_not_deleted_is_refused(self, flights: CommandLine) -> None:
        outcome = flights("topic", "undelete", "flights")

        assert (outcome.code, "already exists" in outcome.err) == (1, True)
