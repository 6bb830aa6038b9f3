"""`sparklog transactions`: what kafka-transactions does, on a log dir and without a gateway."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparklog.cli.arguments import CommonArguments, add_command, chosen
from sparklog.cli.completion import topic_names
from sparklog.cli.output import print_columns, print_json
from sparklog.clock import SystemClock, age_s
from sparklog.errors import InvalidOptionError
from sparklog.model import TopicPartition

if TYPE_CHECKING:
    from sparklog.admin import TransactionDescription

STATES = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")


@dataclass(frozen=True, kw_only=True)
class ListArguments(CommonArguments):
    """Options of `transactions list`."""

    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATES", help="Ids in these states: Ongoing,Empty."),
    ] = None


def list_transactions(arguments: ListArguments) -> None:
    """List the transactional ids, and how long their transactions have been open."""
    states = chosen(arguments.state, STATES, "--state")
    found = arguments.admin().list_transactions(states)
    if arguments.is_json:
        for one in found:
            print_json(_json(one))
        return
    now_ms = SystemClock().now_ms()
    print_columns(
        ["TRANSACTIONAL-ID", "PRODUCER-ID", "EPOCH", "STATE", "OPEN-FOR-S"],
        [
            (
                one.transactional_id,
                one.producer_id,
                one.producer_epoch,
                one.state,
                age_s(one.started_ms, now_ms),
            )
            for one in found
        ],
    )


@dataclass(frozen=True, kw_only=True)
class DescribeArguments(CommonArguments):
    """Options of `transactions describe`."""

    name: Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")]


def describe(arguments: DescribeArguments) -> None:
    """Show one transactional id: its producer, and its open transaction's partitions and groups."""
    found = arguments.admin().describe_transactions([arguments.name])[0]
    if arguments.is_json:
        print_json(_json(found))
        return
    for name, value in _json(found).items():
        text = ", ".join(value) if isinstance(value, list) else value
        print(f"{name}: {'-' if text in (None, '') else text}")


@dataclass(frozen=True, kw_only=True)
class AbortArguments(CommonArguments):
    """Options of `transactions abort`."""

    name: Annotated[str | None, typer.Argument(metavar="ID", help="The transactional id.")] = None
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="A topic, instead of an id.", autocompletion=topic_names),
    ] = None
    partition: Annotated[int, typer.Option("--partition", "-p", help="The topic's partition.")] = 0
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", help="The first offset of the open transaction."),
    ] = None


def abort(arguments: AbortArguments) -> None:
    """Abort an open transaction, in all its partitions, and fence its producer.

    A transaction of an imported log may have no transactional id: give its partition and first
    offset.
    """
    admin = arguments.admin()
    if (arguments.name is None) == (arguments.topic is None):
        raise InvalidOptionError("give a transactional id, or --topic", option="topic")
    if arguments.name is not None:
        admin.abort_transaction(arguments.name)
    elif arguments.topic is not None and arguments.start_offset is not None:
        place = TopicPartition(arguments.topic, arguments.partition)
        admin.abort_transaction_at(place, arguments.start_offset)
    else:
        raise InvalidOptionError("--topic needs --start-offset", option="start_offset")
    arguments.tell({"aborted": True}, "Aborted the transaction.")


def _json(one: "TransactionDescription") -> dict[str, Any]:
    fields = one._asdict()
    fields["partitions"] = [f"{place.topic}-{place.partition}" for place in one.partitions]
    fields["groups"] = list(one.groups)
    return fields


def add_to(app: typer.Typer) -> None:
    """Register `transactions` with its commands."""
    group = typer.Typer(help="List, describe and abort transactions.")
    add_command(group, "list", list_transactions)
    add_command(group, "describe", describe)
    add_command(group, "abort", abort)
    app.add_typer(group, name="transactions")
