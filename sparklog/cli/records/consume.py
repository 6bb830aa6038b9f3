"""`sparklog consume`: records to stdout, with kcat's habits; partition by partition, in order."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sparklog.cli.arguments import (
    Isolation,
    IsolationOption,
    OutputFormat,
    PastArguments,
    numbers,
    one_topic,
)
from sparklog.cli.completion import TopicArgument, topic_names
from sparklog.cli.positions import GRAMMAR, Span, parse_spans, resolve
from sparklog.errors import InvalidOptionError, SparklogWarning

if TYPE_CHECKING:
    from sparklog.cli.records.printing import Renderer
    from sparklog.log_reader import TopicReader


@dataclass(frozen=True, kw_only=True)
class ConsumeArguments(PastArguments):
    """Options of `consume`."""

    name: TopicArgument = None
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="The topic.", autocompletion=topic_names)
    ] = None
    offsets: Annotated[
        list[str] | None,
        typer.Option("--offset", "-o", metavar="OFFSET", help=f"{GRAMMAR}; start by default."),
    ] = None
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="As -o start.")] = False
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partition", "-p", metavar="N,N", help="These partitions only."),
    ] = None
    count: Annotated[
        int | None,
        typer.Option("--max-messages", "-c", min=0, metavar="N", help="Stop after N records."),
    ] = None
    template: Annotated[
        str | None,
        typer.Option(
            "-f",
            metavar="FORMAT",
            help="%t topic %p partition %o offset %T ms %k key %K size %s value %S size "
            "%R size in 4 bytes %h headers %%; \\n \\t \\xNN.",
        ),
    ] = None
    json_lines: Annotated[bool, typer.Option("-J", help="As --format json.")] = False
    key_delimiter: Annotated[
        str | None, typer.Option("-K", help="Print keys, with this text between key and value.")
    ] = None
    delimiter: Annotated[
        str | None, typer.Option("-D", help="The text after a record, \\n by default.")
    ] = None
    null: Annotated[bool, typer.Option("-Z", help="Print NULL for null keys and values.")] = False
    follow: Annotated[
        bool, typer.Option("--follow", "-F", help="Wait for new records until Ctrl-C.")
    ] = False
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED
    exit_at_end: Annotated[
        bool, typer.Option("-e", help="Exit at the end, which is the default.")
    ] = False


def consume(arguments: ConsumeArguments) -> None:
    """Print the records of a topic, by default from the log start to the log end.

    Partitions come one after another, each in the order of its offsets.
    """
    from sparklog.cli.records.printing import Printer, follow
    from sparklog.log_reader import TopicReader
    from sparklog.metadata.catalog import check_partition

    topic = one_topic(arguments.name, arguments.topic)
    renderer = _renderer(arguments)
    catalog = arguments.catalog_as_of()
    span = _span(arguments, catalog.clock.now_ms())
    reader = TopicReader.open(catalog, topic)
    chosen = numbers(arguments.partitions or (), "-p/--partition")
    for partition in chosen:
        check_partition(reader.topic, partition)
    partitions = chosen or range(reader.topic.num_partitions)
    ranges = _ranges(reader, partitions, span, arguments.isolation)
    printer = Printer(renderer, arguments.count, arguments.isolation)
    if not arguments.follow:
        printer.print(reader, ranges)
        return
    starts = {partition: start for partition, (start, _) in ranges.items()}
    with suppress(KeyboardInterrupt):
        follow(catalog, reader, printer, starts, chosen)


def _span(arguments: ConsumeArguments, now_ms: int) -> Span:
    texts = list(arguments.offsets or ())
    span = parse_spans([*texts, "start"] if arguments.from_beginning else texts, now_ms)
    if arguments.follow and span.end is not None:
        raise InvalidOptionError("--follow has no end, but -o gives one", option="follow")
    if arguments.follow and arguments.is_of_the_past:
        raise InvalidOptionError(
            "--follow waits for new records: it goes without --version-as-of and --timestamp-as-of",
            option="follow",
        )
    return span


def _renderer(arguments: ConsumeArguments) -> "Renderer":
    from sparklog.cli.records.render import JsonLines, compile_format

    is_json = arguments.is_json or arguments.json_lines
    if arguments.json_lines and arguments.output is OutputFormat.TEXT:
        raise InvalidOptionError("-J is --format json, and --format text was asked for")
    shape = (arguments.template, arguments.key_delimiter, arguments.delimiter)
    if is_json:
        if any(text is not None for text in shape) or arguments.null:
            raise InvalidOptionError("-f, -K, -D and -Z are for text, not for JSON lines")
        return JsonLines()
    template = arguments.template
    if template is None:
        # Percent signs in the given text stand for themselves.
        key, end = (None if text is None else text.replace("%", "%%") for text in shape[1:])
        template = ("" if key is None else f"%k{key}") + "%s" + ("\\n" if end is None else end)
    elif shape[1:] != (None, None):
        raise InvalidOptionError("-f is the whole format: give it without -K and -D", option="-f")
    return compile_format(template, null=b"NULL" if arguments.null else b"")


def _ranges(
    reader: "TopicReader", partitions: Sequence[int], span: Span, isolation: str
) -> dict[int, tuple[int, int]]:
    ranges = {}
    for partition in partitions:
        log = reader.partition(partition)
        low, high = log.log_start_offset, log.end_offset(isolation)

        def offset_at(time_ms: int, partition: int = partition) -> int:
            return reader.list_offset(partition, time_ms, isolation).offset

        start = resolve(span.start, low, high, offset_at) if span.start else low
        end = resolve(span.end, low, high, offset_at) if span.end else high
        if span.start and span.start.kind == "offset" and span.start.value < low:
            problem = (
                f"{reader.topic.name}-{partition}: offsets {span.start.value} to {low - 1} are "
                f"gone; starting at {low}"
            )
            warnings.warn(problem, SparklogWarning, stacklevel=2)
        ranges[partition] = start, max(start, min(end, high))
    return ranges
