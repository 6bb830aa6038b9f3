"""`python -m bench`: measures, prints a table, and keeps the figures as JSON.

Records are per round of the main load; `--quick` takes a million and one round, for a look only.
"""

import argparse
import fcntl
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from bench.figures import Figure, print_table, write_json
from bench.settings import Settings

RESULTS = Path(__file__).parents[1] / "bench-results"
PARTS = (
    "produce_consume",
    "streams",
    "table",
    "lake",
    "kernels",
    "metadata",
    "metadata_busy",
    "lookups",
    "object_store",
    # Before the jobs: for minutes after files were deleted, ext4 is slow at making others.
    "interop",
    "jobs_merge",
    "jobs_retention",
    "jobs_compact",
    "memory",
    "startup",
    "cold",
    "rest",
    "gateway",
    "groups",
    "transactions",
    "gateway_fetch",
    "gateway_memory",
    "gateway_waiting",
    "gateway_topics",
)
BY_HAND = ("jobs_compact_memory",)
"""Run only when asked for: they take too long, or need more disk than there may be."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for; if a part fails, the figures measured before are kept."""
    asked = _parser().parse_args(arguments)
    records = asked.records or (1_000_000 if asked.quick else 10_000_000)
    rounds = asked.rounds or (1 if asked.quick else 5)
    if asked.dir is not None:
        asked.dir.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir=asked.dir))
    _spread(directory)
    figures: list[Figure] = []
    try:
        for part in asked.only or PARTS:
            run: Callable[[Settings], list[Figure]] = import_module(f"bench.{part}").run
            place = Path(tempfile.mkdtemp(dir=directory))
            _spread(place)
            measured = run(Settings(records, rounds, asked.quick, place))
            print_table(measured)
            figures += measured
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if figures:
            write_json(asked.json, figures, {"records": records, "rounds": rounds})
            print(f"figures in {asked.json}")


def _spread(directory: Path) -> None:
    """Let ext4 place each directory made in this one apart, by its name (chattr +T).

    Without a journal, ext4 looks at all inodes that were freed lately in the place of a new file:
    up to 0.7 ms for each file. A part would pay for the files that the parts before have deleted.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # another file system
            (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8)))
            fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("l", flags | _TOP_DIRECTORY))
    finally:
        os.close(descriptor)


_GET_FLAGS, _SET_FLAGS, _TOP_DIRECTORY = 0x80086601, 0x40086602, 0x00020000
"""FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, EXT4_TOPDIR_FL of Linux."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure sparklog.")
    listed = f"{', '.join(PARTS)}; by hand {', '.join(BY_HAND)}"
    parser.add_argument("--records", type=int, help="of the main load (default 10 million)")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (default 5)")
    parser.add_argument("--quick", action="store_true", help="a million records, one round")
    parser.add_argument("--only", nargs="+", choices=PARTS + BY_HAND, metavar="PART", help=listed)
    parser.add_argument("--dir", type=Path, help="where the files go while measuring")
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    parser.add_argument("--json", type=Path, default=RESULTS / stamp, metavar="PATH")
    return parser


if __name__ == "__main__":
    main()
