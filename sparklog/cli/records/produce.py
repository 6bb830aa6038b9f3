"""`sparklog produce`: stdin or files to records, with kcat's habits. One commit, or one every N."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sparklog.cli.arguments import CommonArguments, raw, stdin
from sparklog.cli.completion import topic_names
from sparklog.cli.output import counted, print_json, print_table, warn
from sparklog.errors import InvalidOptionError, UsageError

if TYPE_CHECKING:
    from sparklog.cli.interrupt import Readable
    from sparklog.cli.records.input import InputRows, TextFormat
    from sparklog.cli.records.production import Produced, Production

STDIN: Final = "-"
"""The name of stdin among files."""
_NOT_HERE: Final = frozenset({"topic", "clustered", "allowOffsetGaps"})
_TEXT_ONLY: Final = ("key", "key_delimiter", "delimiter", "headers", "empty_is_null")


@dataclass(frozen=True, kw_only=True)
class ProduceArguments(CommonArguments):
    """Options of `produce`."""

    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC [FILE]...",
            help="The topic; then files to read instead of stdin (- is stdin).",
            autocompletion=topic_names,
        ),
    ] = None
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", "-t", help="The topic; then all names are files.", autocompletion=topic_names
        ),
    ] = None
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            "-p",
            min=-1,
            max=2**31 - 1,
            help="The partition; -1 lets the partitioner choose.",
        ),
    ] = None
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The key of messages that have none.")
    ] = None
    key_delimiter: Annotated[
        str | None, typer.Option("-K", help="The text between key and value; \\t \\xNN allowed.")
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(
            "-D", help="The text after a message, \\n by default; '' takes each file whole."
        ),
    ] = None
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "-H", metavar="NAME=VALUE", help="A header of every message; may be repeated."
        ),
    ] = None
    empty_is_null: Annotated[
        bool, typer.Option("-Z", help="With -K: empty keys and values are null.")
    ] = False
    codec: Annotated[
        str | None,
        typer.Option(
            "--compression-codec", "-z", help="none, gzip, snappy, lz4 or zstd: compression.type."
        ),
    ] = None
    properties: Annotated[
        list[str] | None,
        typer.Option("-X", metavar="KEY=VALUE", help="An option of produce, such as flush=none."),
    ] = None
    txn_app_id: Annotated[
        str | None, typer.Option("--txn-app-id", help="With --txn-version: commit only once.")
    ] = None
    txn_version: Annotated[
        int | None, typer.Option("--txn-version", help="Grows with every write of --txn-app-id.")
    ] = None
    commit_every: Annotated[
        int | None,
        typer.Option(
            "--commit-every",
            min=1,
            metavar="N",
            help="Commit about every N records; by default all at the end.",
        ),
    ] = None


def produce(arguments: ProduceArguments) -> None:
    """Write messages from stdin or files to a topic.

    A message is a line, or a JSON object a line with --format json. Everything becomes visible in
    one commit at the end of input; Ctrl-C ends the input. Prints the offsets that were given, also
    before an error if --commit-every has committed some.
    """
    from sparklog.cli.interrupt import Interrupts
    from sparklog.cli.records.input import read_messages

    topic, paths = _topic_and_files(arguments)
    text = _text_format(arguments)
    production = _production(arguments)
    began_ms = production.clock.now_ms()
    try:
        if topic is not None:
            production.open(topic)
        with Interrupts() as interrupts:
            for path in paths:
                with _opened(path) as stream:
                    messages = read_messages(stream, text.delimiter, interrupts)
                    for groups in _groups(arguments, topic, text, path, messages):
                        for to, rows in groups.items():
                            _write(production, to, rows, arguments.commit_every)
                        production.bound_memory()
        production.commit()
    except BaseException:
        production.abort()
        if production.produced.ranges:  # by --commit-every
            _report(arguments, production.produced, production.clock.now_ms() - began_ms)
        raise
    _report(arguments, production.produced, production.clock.now_ms() - began_ms)


def _groups(
    arguments: ProduceArguments,
    topic: str | None,
    text: "TextFormat",
    path: str,
    blocks: Iterator[Any],
) -> Iterator[dict[str, "InputRows"]]:
    """Yield the rows of each block by topic: `topic`, or without it those that the records name."""
    from sparklog.cli.records.input import json_rows, with_partition

    count, place = 0, "stdin" if path == STDIN else path
    for messages in blocks:
        if topic is None or arguments.is_json:
            groups = json_rows(messages, place, count + 1, topic)
        else:
            groups = {topic: text.rows(messages)}
        count += len(messages)
        yield {to: with_partition(rows, arguments.partition) for to, rows in groups.items()}


def _write(production: "Production", topic: str, rows: "InputRows", every: int | None) -> None:
    """Write rows, and commit whenever `every` records are waiting."""
    while every is not None and production.pending + len(rows) >= every:
        room = every - production.pending
        production.write(topic, rows.slice(0, room))
        production.commit()
        rows = rows.slice(room)
    if len(rows):
        production.write(topic, rows)


def _topic_and_files(arguments: ProduceArguments) -> tuple[str | None, list[str]]:
    names = list(arguments.names or ())
    topic = arguments.topic
    if topic is None and names:
        topic, *names = names
    if topic is None and not arguments.is_json:
        raise InvalidOptionError("no topic: give its name", option="topic")
    return topic, names or [STDIN]


def _text_format(arguments: ProduceArguments) -> "TextFormat":
    from sparklog.cli.records.input import TextFormat
    from sparklog.cli.records.render import unescape

    given = [name for name in _TEXT_ONLY if getattr(arguments, name) not in (None, False, [])]
    if arguments.is_json:
        if given:
            raise InvalidOptionError(
                "-k, -K, -D, -H and -Z are for text: a JSON record says these things itself",
                option=given[0],
            )
        return TextFormat()
    key_delimiter = arguments.key_delimiter
    if key_delimiter == "":
        raise InvalidOptionError("-K: the delimiter of keys is empty", option="-K")
    return TextFormat(
        delimiter=b"\n" if arguments.delimiter is None else unescape(arguments.delimiter),
        key_delimiter=None if key_delimiter is None else unescape(key_delimiter),
        fixed_key=None if arguments.key is None else raw(arguments.key),
        empty_is_null=arguments.empty_is_null,
        headers=tuple(_header(text) for text in arguments.headers or ()),
    )


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidOptionError(f"-H {text!r}: the name is not UTF-8", option="-H") from None
    return name, raw(value) if equals else None


def _production(arguments: ProduceArguments) -> "Production":
    from sparklog.cli.records.production import Production
    from sparklog.config.options import PRODUCE_OPTIONS, parse_options
    from sparklog.config.pairs import pairs
    from sparklog.log_writer import WriteOptions

    given: dict[str, Any] = dict(pairs(arguments.properties or (), "-X"))
    own = {
        "compression.type": arguments.codec,
        "txnAppId": arguments.txn_app_id,
        "txnVersion": arguments.txn_version,
    }
    given |= {name: value for name, value in own.items() if value is not None}
    known = [option for option in PRODUCE_OPTIONS if option.name not in _NOT_HERE]
    values, storage = parse_options(known, given)
    transaction = values["txnAppId"], values["txnVersion"]
    if (transaction[0] is None) != (transaction[1] is None):
        raise InvalidOptionError("--txn-app-id and --txn-version go together", option="txn-app-id")
    if transaction[0] is not None and arguments.commit_every is not None:
        raise InvalidOptionError(
            "--commit-every makes several commits, --txn-app-id is for one", option="commit-every"
        )
    options = WriteOptions.of(values)
    catalog = arguments.catalog(flush=options.flush, storage=storage)
    return Production(catalog, options, transaction)


@contextmanager
def _opened(path: str) -> Iterator["Readable"]:
    """Open stdin or a file. Raises UsageError, which names it, if it cannot be opened or read."""
    try:
        if path == STDIN:
            buffer = stdin().buffer
            yield getattr(buffer, "raw", buffer)
        else:
            with open(path, "rb", buffering=0) as stream:
                yield stream
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _report(arguments: ProduceArguments, produced: "Produced", took_ms: int) -> None:
    if arguments.quiet:  # also with --format json, which may be there for the input alone
        return
    for topic in sorted(produced.replayed):
        lost = "; its offsets are no longer known" if topic in produced.forgotten else ""
        warn(f"{topic}: this transaction was committed before, nothing was written{lost}")
    places = sorted(produced.ranges)
    if arguments.is_json:
        print_json(_as_json(produced, took_ms))
    elif places:
        records = sum(produced.records.values())
        rate = records * 1000 / max(took_ms, 1)
        rows = [
            [
                place.topic,
                place.partition,
                produced.ranges[place].start,
                produced.ranges[place].end,
                produced.records[place],
                produced.size.get(place, 0) / 1e6,
            ]
            for place in places
        ]
        title = f"{counted(records, 'record')} in {took_ms / 1000:.1f} s, {rate:,.0f} a second"
        print_table(title, ["topic", "partition", "start", "end", "records", "MB"], rows)


def _as_json(produced: "Produced", took_ms: int) -> dict[str, Any]:
    return {
        "records": sum(produced.records.values()),
        "bytes": sum(produced.size.values()),
        "took_ms": took_ms,
        "ranges": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "start": got.start,
                "end": got.end,
                "records": produced.records[place],
            }
            for place, got in sorted(produced.ranges.items())
        ],
        "replayed": sorted(produced.replayed),
    }
