"""Broker, import, a life of its own, export, another broker: with the commands of the docs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, AlterConfigOp
from sparklog.interop import staging
from sparklog.log_reader import TopicReader
from sparklog.log_writer import WriteOptions, plan_write
from sparklog.maintenance.build_index import build_index
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.merging.merge_segments import merge_segments
from sparklog.maintenance.runner import DONE, NOTHING_TO_DO
from sparklog.maintenance.verification.verify import verify
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.command_line import CommandLine
from tests.compat.cases import BROKER
from tests.kafka import journey
from tests.kafka.broker import Broker, log_end_offsets, running_broker
from tests.kafka.client import Client, Found, Record, offsets_for_times, read_topic
from tests.kafka.journey import KEPT, PARTITIONS, TIMES, Place, View, places
from tests.logs import append, image
from tests.maintenance import run
from tests.sweeping import sweep

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ALL = {**PARTITIONS, **KEPT}
LOGS = {name: count for name, count in ALL.items() if name not in ("profiles", "magic1-none")}
"""Topics that are not compacted here."""


@dataclass(kw_only=True)
class There:
    """What was seen while the first broker had the topics."""

    groups: list[Any]
    imported: View
    undisturbed: View
    verified: int
    rows: list[Any]
    warnings: list[str]
    source: dict[Place, Found]


@dataclass(kw_only=True)
class Back:
    """What the second broker serves."""

    target: dict[Place, Found]
    ends: dict[Place, int]
    times: dict[Place, list[int]]
    after: Found
    refusal: str = ""


@dataclass(kw_only=True)
class Journey:
    """What was seen on the way, and the log dir in the middle of it."""

    sparklog: CommandLine
    catalog: Catalog
    there: There
    again: View
    maintained: View
    back: Back


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Journey:
    place = tmp_path_factory.mktemp("journey")
    sparklog = CommandLine(str(place / "log"))
    catalog = Catalog(open_files(sparklog.log_dir))
    there = imported(place / "first", sparklog, catalog)
    kept = [option for name in KEPT for option in ("--topic", name)]
    sparklog.done("import", BROKER, *kept)
    again = journey.view(catalog, ALL)
    maintain(sparklog.log_dir)
    return Journey(
        sparklog=sparklog,
        catalog=catalog,
        there=there,
        again=again,
        maintained=journey.view(catalog, ALL),
        back=exported(place / "second", sparklog),
    )


def imported(node: Path, sparklog: CommandLine, catalog: Catalog) -> There:
    """Import a broker, let it go on, import it again."""
    with running_broker(node, journey.QUICK) as broker:
        producers = journey.write(broker)
        broker.stop()
        report = ("--consumer-offsets", "--format", "json")
        groups = sparklog.done("import", broker.data_dir, *report).json
        sparklog.done("import", broker.data_dir)
        first = journey.view(catalog, PARTITIONS)
        (broker.partition_dir("orders", 1) / f"{0:020d}.index").unlink()
        broker.start()
        journey.go_on(broker, producers)
        source = journey.served(broker, PARTITIONS)
        broker.stop()
        undisturbed = journey.view(catalog, PARTITIONS)
        verified = run(verify, sparklog.log_dir, repair=False, records=True)[0]
        second = sparklog("import", broker.data_dir, "--format", "json")
        return There(
            groups=groups,
            imported=first,
            undisturbed=undisturbed,
            verified=verified,
            rows=second.json,
            warnings=second.err.splitlines(),
            source=source,
        )


def exported(node: Path, sparklog: CommandLine) -> Back:
    """Give everything to another broker."""
    with running_broker(node) as broker:
        for name, count in ALL.items():
            broker.create_topic(name, count, {"retention.ms": "-1"})
        broker.stop()
        sparklog.done("export", "--into", broker.data_dir)
        broker.start()
        ends = {name: log_end_offsets(broker.bootstrap, name) for name in ALL}
        back = Back(
            target=journey.served(broker, ALL),
            ends={one: ends[one[0]][one[1]] for one in places(ALL)},
            times={one: offsets_for_times(broker, one[0], TIMES, one[1]) for one in places(ALL)},
            after=[],
        )
        Client(broker).send("magic0-gzip", [Record(b"k", b"after", TIMES[2])])
        back.after = read_topic(broker, "magic0-gzip")
        broker.stop()
        back.refusal = refusal(broker)
        return back


def refusal(broker: Broker) -> str:
    """Why a stopped broker does not start while an export into it is not finished."""
    (broker.data_dir / staging.NAME).mkdir()
    with pytest.raises(RuntimeError, match="the broker did not come up"):
        broker.start()
    return broker.log_text


def maintain(log_dir: str) -> None:
    """Every job, and `magic1-none` compacted, too."""
    ops = {"magic1-none": [AlterConfigOp("cleanup.policy", "compact")]}
    AdminClient(log_dir).incremental_alter_configs(ops)
    append(log_dir, 0, ["newest"], topic="magic1-none", keys=["newest"])
    assert run(compact, log_dir, force=True, reindex=False)[0] == DONE
    assert run(merge_segments, log_dir, seal=False)[0] == DONE
    assert run(build_index, log_dir, check=False, rebuild=True)[0] == DONE
    assert sweep(log_dir).code in (DONE, NOTHING_TO_DO)
    assert run(verify, log_dir, repair=False, records=True)[0] == DONE


class TestAfterImport:
    def test_nothing_that_the_broker_does_is_seen(self, made: Journey) -> None:
        assert made.there.undisturbed == made.there.imported
        assert made.there.verified == DONE

    def test_groups_are_reported(self, made: Journey) -> None:
        found = [
            (row["group"], row["topic"], row["partition"], row["offset"])
            for row in made.there.groups
        ]

        assert found == [("billing", "orders", number, 10 * number) for number in range(5)]

    def test_a_second_import_takes_what_came_since(self, made: Journey) -> None:
        starts = {(row["topic"], row["partition"]): row["start"] for row in made.there.rows}
        for place, (_, everything) in made.there.imported.items():
            assert starts[place] > everything[-1][0]
            assert made.again[place][1][: len(everything)] == everything

    def test_all_that_the_broker_shows_is_here(self, made: Journey) -> None:
        for place, found in made.there.source.items():
            if place[0] != "profiles":
                # Both hold back the records behind a transaction that is still open.
                ours = [one for one in made.again[place][0] if one[0] >= found[0][0]]
                assert ours == found, place

    def test_of_a_compacted_topic_the_latest_values_are_here(self, made: Journey) -> None:
        place = "profiles", 0

        assert journey.latest(made.again[place][0]) == journey.latest(made.there.source[place])

    def test_a_second_import_warns_of_tombstones_that_the_broker_may_have_removed(
        self, made: Journey
    ) -> None:
        [line] = made.there.warnings

        assert "warning: profiles-0: the broker has cleaned the log up to offset 300" in line

    def test_an_open_transaction_ends_what_is_stable(self, made: Journey) -> None:
        log = TopicReader.open(made.catalog, "ledger").partition(1)
        everything = made.again["ledger", 1][1]

        assert len(log.transactions) == 1
        assert [at for at, _ in everything if at >= log.last_stable_offset] == [
            at for at, _ in everything[-15:]
        ]

    def test_an_open_transaction_is_hidden_until_it_commits(self, made: Journey) -> None:
        before, after = made.there.imported["ledger", 0], made.again["ledger", 0][0]

        assert len(before[1]) - len(before[0]) == 20
        assert len(after) == len(before[1]) - 10 + 5

    def test_is_refused_where_records_were_produced(self, made: Journey) -> None:
        outcome = made.sparklog("import", BROKER, "--topic", "magic1-none")

        assert (outcome.code, "records were produced here since" in outcome.err) == (1, True)


class TestMaintained:
    def test_jobs_change_nothing_but_what_is_compacted(self, made: Journey) -> None:
        for place in places(LOGS):
            assert made.maintained[place] == made.again[place], place

    def test_of_what_is_compacted_the_latest_values_stay(self, made: Journey) -> None:
        for place in (("profiles", 0), ("magic1-none", 0)):
            kept, before = made.maintained[place][0], made.again[place][0]
            expected = journey.latest(before)
            expected.pop(None, None)  # what has no key is not kept
            found = journey.latest(kept)
            found.pop(b"newest", None)
            assert found == expected
            assert len(kept) < len(before)

    def test_new_batches_have_a_higher_epoch(self, made: Journey) -> None:
        for name in PARTITIONS:
            imported = [
                epoch
                for number in range(PARTITIONS[name])
                for entry in image(made.sparklog.log_dir, name).segments(number)
                if (epoch := entry.max_leader_epoch) is not None
            ]
            epochs = plan_write(made.catalog, name, WriteOptions()).leader_epochs
            assert max(epochs.values()) > max(imported)


class TestAnotherBroker:
    def test_serves_every_record(self, made: Journey) -> None:
        for place, found in made.back.target.items():
            committed, everything = made.maintained[place]
            # There the transaction that is open here is aborted, and no more in the way.
            behind = everything[-5:] if place == ("ledger", 1) else []
            assert found == committed + behind, place

    def test_ends_where_the_log_does(self, made: Journey) -> None:
        for (name, number), end in made.back.ends.items():
            ours = TopicReader.open(made.catalog, name).partition(number).log_end_offset
            # An ABORT marker ends the transaction that is still open.
            assert end == ours + ((name, number) == ("ledger", 1))

    def test_finds_the_same_offsets_for_times(self, made: Journey) -> None:
        for place, found in made.back.times.items():
            reader = TopicReader.open(made.catalog, place[0])
            ours = [reader.list_offset(place[1], time).offset for time in TIMES]
            # librdkafka says the end where Kafka says that there is none.
            theirs = [-1 if offset in (-1, made.back.ends[place]) else offset for offset in found]
            assert theirs == ours, place

    def test_appends_to_a_log_of_old_messages(self, made: Journey) -> None:
        place = "magic0-gzip", 0

        assert made.back.after[:-1] == made.back.target[place]
        assert made.back.after[-1][0] == made.back.ends[place]

    def test_does_not_start_before_an_export_is_finished(self, made: Journey) -> None:
        expected = f"'{staging.NAME}' is not in the form of topic-partition"

        assert expected in made.back.refusal
