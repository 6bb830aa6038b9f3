"""Partition directories that no broker left, and a process without much memory for them."""

import gzip
import json
import os
import re
import resource
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import lz4.frame
import pyarrow as pa
import zstandard

from sparklog.admin import AdminClient
from sparklog.fleet import LocalFleet
from sparklog.interop.imports.import_log import ImportOptions, import_log_dirs
from sparklog.metadata.catalog import Catalog
from sparklog.model import Codec
from sparklog.storage import open_files
from tests.broker_files import batch, write_indexes, write_segment
from tests.command_line import CommandLine
from tests.naive.messages import message
from tests.naive.records import Record

ROOM_BYTES = 768 * 1024 * 1024
"""What a process may take on top of what it has when everything is loaded: three large batches."""
PIECE = bytes(16 * 1024 * 1024)
PIECES = 64
"""Of which a bomb has as many: 1 GiB."""
MANY = 500
LOG = f"{0:020d}.log"


def raw_batch(body: bytes, codec: int = 0, count: int = 1, base: int = 0) -> bytes:
    """A batch with a right checksum around whatever bytes."""
    data = bytearray(batch(base, count=1)[:61]) + body
    data[8:12] = struct.pack(">i", len(data) - 12)
    data[22] = codec
    data[57:61] = struct.pack(">i", count)
    data[17:21] = struct.pack(">I", google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def bombs() -> dict[Codec, bytes]:
    """A stream of each codec that holds 1 GiB of zeros."""
    snappy = bytes(pa.Codec("snappy").compress(PIECE))
    block = struct.pack(">i", len(snappy)) + snappy
    frame = lz4.frame.compress(PIECE, block_linked=False, block_size=7, store_size=False)
    head, blocks, end = frame[:7], frame[7:-4], frame[-4:]
    return {
        Codec.GZIP: gzip.compress(PIECE) * PIECES,
        Codec.SNAPPY: bytes.fromhex("82534e4150505900 00000001 00000001") + block * PIECES,
        Codec.LZ4: head + blocks * PIECES + end,
        Codec.ZSTD: zstandard.compress(PIECE) * PIECES,
    }


class Case(NamedTuple):
    """What is put into a partition's directory, and what is said of it, after the directory."""

    name: str
    put: Callable[[Path], object]
    says: str


def of_log(name: str, data: bytes, says: str) -> Case:
    """A `.log` of such bytes, which is the newest."""
    return Case(name, lambda folder: write_segment(folder, 0, data), f"/{LOG}, {says}")


def with_bytes(at: int, new: str) -> bytes:
    """A sound batch, behind another, with some bytes overwritten."""
    data = bytearray(batch(2))
    data[at : at + len(new) // 2] = bytes.fromhex(new)
    return batch(0) + bytes(data)


def lies() -> Iterator[Case]:
    """Lengths, counts and numbers that promise more than there is."""
    at = len(batch(0))
    for name, data, says in (
        ("size-negative", with_bytes(8, "80000000"), f"position {at}: size -2147483648"),
        ("size-small", with_bytes(8, "00000030"), f"position {at}: size 48 is below 49"),
        ("size-huge", with_bytes(8, "7ffffff0"), f"position {at}: a batch of 2147483644 bytes"),
        ("varints", batch(0) + raw_batch(b"\xff" * 999, base=2), f"position {at}, offset 2: "),
        ("count", batch(0) + raw_batch(b"\0", count=2**31 - 1, base=2), f"position {at}, "),
        ("count-negative", batch(0) + raw_batch(b"", count=-5, base=2), f"position {at}, "),
        ("headers", raw_batch(bytes.fromhex("140000000101 feffffff0f")), "position 0, offset 0"),
        ("key-size", raw_batch(bytes.fromhex("10000000 feffffff0f")), "position 0, offset 0: "),
        ("magic-9", with_bytes(16, "09"), f"position {at}: magic 9"),
        ("message", message(Record(0, 1, None, b"x" * 40), 1, 1), "position 0, offset 0: "),
    ):
        yield of_log(f"lies.{name}", data, says)


def strange_files() -> Iterator[Case]:
    """What stands where a plain file should."""
    yield Case("strange.pipe", lambda at: os.mkfifo(at / LOG), f"/{LOG}: a symbolic link, or no pl")
    yield Case("strange.folder", lambda at: (at / LOG).mkdir(), f"/{LOG}: a symbolic link, or no p")
    yield Case(
        "strange.link",
        lambda at: (at / LOG).symlink_to("/dev/zero"),
        f"/{LOG}: a symbolic link, or no plain file",
    )
    yield Case(
        "strange.epochs",
        lambda at: os.mkfifo(at / "leader-epoch-checkpoint"),
        "/leader-epoch-checkpoint: no plain file",
    )
    yield Case("strange.zeros", _zeros, f"/{LOG}, position 0: ")
    yield Case("strange.large", lambda at: _sparse(at, 2**40), f"/{LOG}: 1099511627776 bytes")


def neighbours() -> Iterator[Case]:
    """Files that contradict each other."""

    def overlap(folder: Path) -> None:
        write_segment(folder, 0, batch(0, 9))
        write_segment(folder, 5, batch(5))

    def astray(folder: Path) -> None:
        write_indexes(write_segment(folder, 0, batch(0)))
        write_segment(folder, 2, batch(2))
        (folder / f"{0:020d}.index").write_bytes(struct.pack(">ii", 1, 10**6))

    def huge(folder: Path) -> None:
        astray(folder)
        os.truncate(folder / f"{0:020d}.index", 2**31 - 9)
        with (folder / f"{0:020d}.index").open("ab") as file:
            file.write(b"\1")

    yield Case("overlap", overlap, f"/{LOG}: it ends at offset 9, and the next segment begins at 5")
    yield Case("astray", astray, f"/{0:020d}.index: entry 0 says 1000000; positions")
    yield Case("huge", huge, f"/{0:020d}.index: entry 1 says 0; offsets ascend")


def _zeros(folder: Path) -> None:
    """A segment of zeros before another one: only the newest may be without a batch."""
    _sparse(folder, 2**31 - 1)
    write_segment(folder, 2, batch(2))


def _sparse(folder: Path, size: int) -> None:
    os.truncate(write_segment(folder, 0), size)


@cache
def cases() -> list[Case]:
    """Everything that is refused."""
    above = "decompressed size above 268435456 bytes"
    found = [
        of_log(f"bomb.{codec.name}", raw_batch(data, codec), f"position 0, offset 0: {above}")
        for codec, data in bombs().items()
    ]
    set_of = message(Record(0, 1, None, bombs()[Codec.GZIP]), 1, 1)
    found.append(of_log("bomb.messages", set_of, f"position 0, offset 0: {above}"))
    return [*found, *lies(), *strange_files(), *neighbours()]


def write_broker(broker: Path) -> None:
    """Everything that is refused, a partition each, and three that are not."""
    for case in cases():
        folder = broker / f"{case.name}-0"
        folder.mkdir(parents=True)
        case.put(folder)
    for name in ("sound-0", "overlap-1", "many-0"):
        (broker / name).mkdir()
        write_segment(broker / name, 0, batch(0))
    for base in range(MANY):
        write_segment(broker / "many-0", 2 + base)
        (broker / "many-0" / f"{2 + base:020d}.index").touch()


def bound_memory() -> None:
    """Let this process take no more than ROOM_BYTES from now on."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (used,) = re.findall(r"VmData:\s+(\d+) kB", status)
    limit = int(used) * 1024 + ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def bounded_import(broker: str, log_dir: str, answer: str) -> None:
    """Import in bounded memory; write what became of each partition as JSON."""
    admin, catalog = AdminClient(log_dir), Catalog(open_files(log_dir))
    import_log_dirs(admin, catalog, [broker], ImportOptions(topics=["sound"]))
    bound_memory()
    reports = import_log_dirs(admin, catalog, [broker], ImportOptions(), LocalFleet())
    found = {str(one.topic_partition): one.problem and str(one.problem) for one in reports}
    Path(answer).write_text(json.dumps(found), encoding="utf-8")


def bounded_dump(broker: str, answer: str) -> None:
    """Dump every `.log` in bounded memory; write the exit codes as JSON."""
    sparklog = CommandLine()
    sparklog.done("dump-log", "--deep-iteration", "--files", f"{broker}/sound-0/{LOG}")
    bound_memory()
    found = {}
    for path in sorted(Path(broker).glob(f"*-0/{LOG}")):
        if path.is_file():
            outcome = sparklog("dump-log", "--deep-iteration", "--files", path)
            found[path.parent.name] = outcome.code, outcome.err
    Path(answer).write_text(json.dumps(found), encoding="utf-8")
