"""`sparklog import` with its partitions as Spark tasks: `python -m sparklog.spark.jobs.import_log`.

The broker's directory and the log dir have one path for the driver and all executors. Options, rows
and exit codes are those of `sparklog import`: 0 done, 1 a partition was refused or it failed, 2
misuse. One commit a topic, when all partitions are taken.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sparklog.admin import AdminClient
from sparklog.config.pairs import pairs
from sparklog.interop.consumer_offsets import committed_offsets
from sparklog.interop.import_log import ImportOptions, PartitionReport, import_log_dir
from sparklog.maintenance.runner import DONE, FAILED
from sparklog.metadata.catalog import Catalog
from sparklog.spark.jobs.command import (
    add_common_options,
    ended,
    output_format,
    print_rows,
    spark_fleet,
    storage_settings,
    warn,
)
from sparklog.storage import open_files

NAME = "import_log"
ABOUT = "Adopt the topics of a stopped (or copied) broker's log directory, partitions in parallel."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the import and return its exit code."""
    parser = argparse.ArgumentParser(prog=f"sparklog jobs {NAME}", description=ABOUT)
    _add_options(parser)
    add_common_options(parser)
    given = vars(parser.parse_args(arguments))
    return ended(NAME, lambda: _import(given))


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("broker", metavar="LOGDIR", help="A stopped broker's log directory.")
    parser.add_argument(
        "--topic", "-t", metavar="TOPIC", action="append", help="This topic only; again for more."
    )
    parser.add_argument(
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="A config of topics that are made.",
    )
    parser.add_argument(
        "--copy", action="store_true", help="Copy sealed segments, too, instead of linking them."
    )
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="Believe the indexes of sealed segments: read none of it.",
    )
    parser.add_argument(
        "--consumer-offsets",
        action="store_true",
        help="Import nothing: print what consumer groups committed.",
    )


def _import(given: Mapping[str, Any]) -> int:
    output, is_quiet = output_format(given["format"]), given["quiet"]
    if given["consumer_offsets"]:
        found = [one._asdict() for one in committed_offsets(given["broker"])]
        print_rows("committed offsets", found, output)
        return DONE
    storage = storage_settings(given["storage"])
    options = ImportOptions(
        topics=given["topic"],
        check=not given["no_check"],
        link=not given["copy"],
        config=pairs(given["config"], "--config"),
    )
    files = open_files(given["log_dir"], storage)
    admin = AdminClient(given["log_dir"], storage)
    fleet = spark_fleet(NAME, is_quiet=is_quiet)
    reports = import_log_dir(admin, Catalog(files), given["broker"], options, fleet)
    _print_reports(reports, output, is_quiet=is_quiet)
    return FAILED if any(report.problem is not None for report in reports) else DONE


def _print_reports(reports: Sequence[PartitionReport], output: str, *, is_quiet: bool) -> None:
    for report in reports:
        if report.warning is not None and (report.problem is not None or not is_quiet):
            warn(NAME, report.warning)
    rows = [report.as_row() for report in reports if report.problem is None]
    if output == "json" or not is_quiet:
        print_rows("imported", rows, output)


if __name__ == "__main__":
    sys.exit(main())
