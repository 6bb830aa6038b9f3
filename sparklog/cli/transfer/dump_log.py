"""`sparklog dump-log`: the output of kafka-dump-log.sh, with its options, without a JVM."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sparklog.cli.arguments import CommonArguments
from sparklog.cli.output import binary_stdout, say
from sparklog.errors import InvalidOptionError, PassedOverError

if TYPE_CHECKING:
    from sparklog.interop.dumps.dump import Dump, DumpOptions
    from sparklog.interop.dumps.dump_batches import Decoder

INT32_MAX = 2**31 - 1
MESSAGE_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class DumpLogArguments(CommonArguments):
    """Options of `dump-log`, as kafka-dump-log.sh has them."""

    files: Annotated[
        list[str] | None,
        typer.Option(
            "--files", metavar="FILE,FILE", help="The files to dump, separated by commas."
        ),
    ] = None
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Print keys and values of records.")
    ] = False
    deep_iteration: Annotated[
        bool, typer.Option("--deep-iteration", help="Print records, not batches only.")
    ] = False
    skip_record_metadata: Annotated[
        bool, typer.Option("--skip-record-metadata", help="Print only key and value of a record.")
    ] = False
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Check indexes, print no entry.")
    ] = False
    index_sanity_check: Annotated[
        bool,
        typer.Option("--index-sanity-check", help="Check an index only as a starting broker does."),
    ] = False
    max_message_size: Annotated[
        int, typer.Option("--max-message-size", metavar="BYTES", help="Size of the largest batch.")
    ] = MESSAGE_BYTES
    max_bytes: Annotated[
        int,
        typer.Option(
            "--max-bytes", min=0, metavar="BYTES", help="Read only this many bytes of a log."
        ),
    ] = INT32_MAX
    key_decoder: Annotated[
        str | None,
        typer.Option(
            "--key-decoder-class", metavar="CLASS", help="The decoder of keys: String, Long, …"
        ),
    ] = None
    value_decoder: Annotated[
        str | None,
        typer.Option("--value-decoder-class", metavar="CLASS", help="The decoder of values."),
    ] = None
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", help="The records are of __consumer_offsets.")
    ] = False
    transaction_log_decoder: Annotated[
        bool,
        typer.Option("--transaction-log-decoder", help="The records are of __transaction_state."),
    ] = False


def dump_log(arguments: DumpLogArguments) -> None:
    """Print segments, indexes and snapshots of a broker or of this log, as kafka-dump-log.sh does.

    Exits with 1 when a file is damaged or an index does not fit its log. Gaps between offsets are
    printed, but compaction leaves gaps, so they are no damage.
    """
    from sparklog.interop.dumps.dump import Dump

    paths = [path for text in arguments.files or () for path in text.split(",") if path]
    if not paths:
        raise InvalidOptionError("no files: give --files FILE,FILE", option="files")
    if arguments.is_json:
        raise InvalidOptionError("--format json: dump-log prints Kafka's text", option="format")
    dump = Dump(_options(arguments))
    failed = [path for path in paths if not _is_dumped(dump, path)]
    for line in dump.findings.complaints():
        say(line)
    if failed or not dump.findings.is_sound:
        raise typer.Exit(1)


def _is_dumped(dump: "Dump", path: str) -> bool:
    """Whether a file was dumped to its end; prints the names of files that the tool skips."""
    stdout = binary_stdout()
    try:
        for text in dump.file(path):
            stdout.write(text)
    except PassedOverError as error:
        say(str(error))
        return False
    finally:
        stdout.flush()
    return True


def _options(arguments: DumpLogArguments) -> "DumpOptions":
    from sparklog.interop.dumps.dump import DumpOptions
    from sparklog.interop.dumps.dump_batches import RecordText
    from sparklog.interop.dumps.dump_index import IndexChecks

    decoder = _decoder(arguments)
    has_class = arguments.key_decoder or arguments.value_decoder
    data = arguments.print_data_log or bool(has_class) or decoder is not None
    return DumpOptions(
        text=RecordText(
            deep=arguments.deep_iteration or data,
            data=data,
            metadata=not arguments.skip_record_metadata,
            decoder=decoder,
        ),
        checks=IndexChecks(
            sanity=arguments.index_sanity_check,
            quiet=arguments.verify_index_only,
            max_message_size=arguments.max_message_size,
        ),
        max_bytes=arguments.max_bytes,
    )


def _decoder(arguments: DumpLogArguments) -> "Decoder | None":
    """Return the decoder of keys and values; None for UTF-8. Raises InvalidOptionError."""
    from sparklog.interop.dumps.coordinator_records import decode_offsets, decode_transactions
    from sparklog.interop.dumps.decoders import class_decoder

    if arguments.offsets_decoder:
        return decode_offsets
    if arguments.transaction_log_decoder:
        return decode_transactions
    return class_decoder(arguments.key_decoder, arguments.value_decoder)
