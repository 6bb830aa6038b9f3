"""Dumps to compare: which files, with which options, damaged how.

`data/broker` is the log directory of a Kafka 4.1.1 broker, `data/expected` what its dump tool
prints of every case; `python -m tests.kafka.make_compat` writes both anew.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"
BROKER = DATA / "broker"
EXPECTED = DATA / "expected"
FOLDER = "<folder>"
"""Stands for the folder of the dumped files in what was printed."""

Edit = Callable[[bytearray], None]


@dataclass(frozen=True, slots=True)
class Case:
    """Files of one partition directory, copied, edited and dumped in one run."""

    name: str
    partition: str
    files: tuple[str, ...]
    options: tuple[str, ...] = ("--print-data-log",)
    edits: tuple[tuple[str, Edit], ...] = ()

    def prepared(self, folder: Path) -> list[Path]:
        """The files to dump: copies in `folder`, with everything that lies beside them."""
        for path in (BROKER / self.partition).iterdir():
            shutil.copyfile(path, folder / path.name)
        for name, edit in self.edits:
            data = bytearray((folder / name).read_bytes())
            edit(data)
            (folder / name).write_bytes(data)
        return [folder / name for name in self.files]


@dataclass(frozen=True, slots=True)
class Printed:
    """What a dump printed; `failed` says that it ended with an exception, told on stderr."""

    out: bytes
    complaints: str
    failed: bool


def expected(name: str) -> Printed:
    """What Kafka's tool printed of a case."""
    complaints = EXPECTED / f"{name}.err"
    text = complaints.read_text(encoding="utf-8") if complaints.exists() else ""
    failed = text == "FAILED\n"
    return Printed((EXPECTED / f"{name}.out").read_bytes(), "" if failed else text, failed)


def put(at: int, text: str) -> Edit:
    """Overwrites bytes, given in hexadecimal digits."""
    data = bytes.fromhex(text)

    def edit(target: bytearray) -> None:
        target[at : at + len(data)] = data

    return edit


def cut(end: int) -> Edit:
    """Keeps the bytes before `end`; a negative one counts from the end."""

    def edit(target: bytearray) -> None:
        del target[end:]

    return edit


ZERO = "0" * 20
LOG, INDEX, TIME_INDEX = f"{ZERO}.log", f"{ZERO}.index", f"{ZERO}.timeindex"
TXN_LOG, TXN_INDEX, SNAPSHOT = (f"{10:020d}{end}" for end in (".log", ".txnindex", ".snapshot"))
OLD_LOG = f"{100:020d}.log"
DEEP = ("--deep-iteration",)
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
DATA_LOG = ("--print-data-log",)
SANITY = ("--index-sanity-check",)


def _whole() -> Iterator[Case]:
    """Every file of every partition, as the broker left it."""
    for folder in sorted(BROKER.iterdir()):
        for path in sorted(folder.glob("*")) if folder.is_dir() else ():
            if path.suffix in {".log", ".index", ".timeindex", ".snapshot", ".txnindex"}:
                name = f"whole-{folder.name}-{path.name.lstrip('0')}"
                yield Case(name, folder.name, (path.name,))


_TABLES = (
    # name, partition, files, options, edits
    ("deep", "plain-none-0", (LOG,), DEEP, ()),
    ("shallow", "plain-gzip-0", (LOG,), (), ()),
    ("without-metadata", "plain-snappy-0", (LOG,), (*DATA_LOG, "--skip-record-metadata"), ()),
    ("nothing-of-records", "plain-snappy-0", (LOG,), (*DEEP, "--skip-record-metadata"), ()),
    ("markers-without-metadata", "transactional-0", (TXN_LOG,),
     ("--print-data-log", "--skip-record-metadata"), ()),
    ("max-bytes", "plain-none-0", (LOG,), ("--max-bytes", "5000"), ()),
    ("key-class", "grouped-0", (LOG,), ("--key-decoder-class", STRING_DECODER), ()),
    ("offsets", "__consumer_offsets-0", (LOG,), ("--offsets-decoder",), ()),
    ("transactions", "__transaction_state-0", (LOG,), ("--transaction-log-decoder",), ()),
    ("not-transactions", "__consumer_offsets-0", (LOG,), ("--transaction-log-decoder",), ()),
    ("not-offsets", "__transaction_state-0", (LOG,), ("--offsets-decoder",), ()),
    ("no-keys-to-decode", "plain-none-0", (LOG,), ("--offsets-decoder",), ()),
    ("several", "compacted-0", (LOG, INDEX, TIME_INDEX), DEEP, ()),
    ("unknown", "plain-none-0", ("partition.metadata", LOG), (), ()),
    # batches
    ("magic-3", "plain-none-0", (LOG,), DEEP, ((LOG, put(16, "03")),)),
    ("magic-negative", "plain-none-0", (LOG,), DEEP, ((LOG, put(16, "ff")),)),
    ("magic-1", "plain-none-0", (LOG,), DEEP, ((LOG, put(16, "01")),)),
    ("wrong-crc", "plain-lz4-0", (LOG,), DEEP, ((LOG, put(20, "00")),)),
    ("size-13", "plain-none-0", (LOG,), DEEP, ((LOG, put(8, "0000000d")),)),
    ("size-48", "plain-none-0", (LOG,), DEEP, ((LOG, put(8, "00000030")),)),
    ("size-48-shallow", "plain-none-0", (LOG,), (), ((LOG, put(8, "00000030")),)),
    ("size-48-at-the-end", "plain-none-0", (LOG,), (), ((LOG, put(8, "00000020")), (LOG, cut(50)))),
    ("size-large", "plain-none-0", (LOG,), DEEP, ((LOG, put(8, "7fffffff")),)),
    ("torn", "plain-none-0", (LOG,), DEEP, ((LOG, cut(-1)),)),
    ("17-bytes-left", "grouped-0", (LOG,), DEEP, ((LOG, cut(17)),)),
    ("empty", "plain-none-0", (LOG,), DEEP, ((LOG, cut(0)),)),
    ("codec-5", "plain-none-0", (LOG,), DEEP, ((LOG, put(22, "05")),)),
    ("codec-damaged", "plain-gzip-0", (LOG,), DEEP, ((LOG, put(70, "ffff")),)),
    ("count-zero", "plain-none-0", (LOG,), DEEP, ((LOG, put(57, "00000000")),)),
    ("count-negative", "plain-none-0", (LOG,), DEEP, ((LOG, put(57, "ffffffff")),)),
    ("count-too-large", "plain-none-0", (LOG,), DEEP, ((LOG, put(57, "0000ffff")),)),
    ("count-too-small", "plain-none-0", (LOG,), DEEP, ((LOG, put(57, "00000002")),)),
    ("count-too-small-compressed", "plain-zstd-0", (LOG,), DEEP, ((LOG, put(57, "00000002")),)),
    ("horizon", "plain-none-0", (LOG,), DEEP, ((LOG, put(22, "40")),)),
    ("append-time", "plain-none-0", (LOG,), DEEP, ((LOG, put(22, "08")),)),
    ("sequence-wraps", "idempotent-0", (LOG,), DEEP, ((LOG, put(53, "7ffffffe")),)),
    ("sequence-strange", "idempotent-0", (LOG,), DEEP,
     ((LOG, put(53, "fffffff0")), (LOG, put(23, "ffffff00")))),
    ("record-length", "plain-none-0", (LOG,), DEEP, ((LOG, put(61, "7e")),)),
    ("record-length-large", "plain-none-0", (LOG,), DEEP, ((LOG, put(61, "feffffff0f")),)),
    ("record-length-overlong", "plain-none-0", (LOG,), DEEP, ((LOG, put(61, "ffffffffff")),)),
    ("not-utf8", "plain-none-0", (LOG,), DATA_LOG, ((LOG, put(90, "eda080c3ff41")),)),
    ("gap", "plain-none-0", (LOG,), DEEP, ((LOG, put(7, "20")),)),
    # control records
    ("marker-unknown", "transactional-0", (TXN_LOG,), DEEP, ((TXN_LOG, put(69, "0009")),)),
    ("marker-version", "transactional-0", (TXN_LOG,), DEEP, ((TXN_LOG, put(67, "ff")),)),
    ("marker-abort", "transactional-0", (TXN_LOG,), DEEP, ((TXN_LOG, put(70, "00")),)),
    ("marker-value", "transactional-0", (TXN_LOG,), DEEP, ((TXN_LOG, put(72, "ff")),)),
    ("marker-kraft", "transactional-0", (TXN_LOG,), DEEP, ((TXN_LOG, put(70, "05")),)),
    # message sets
    ("message-codec", "magic1-none-0", (OLD_LOG,), DEEP, ((OLD_LOG, put(17, "07")),)),
    ("message-zstd", "magic1-gzip-0", (OLD_LOG,), DEEP, ((OLD_LOG, put(17, "04")),)),
    ("message-append-time", "magic1-gzip-0", (OLD_LOG,), DEEP, ((OLD_LOG, put(17, "09")),)),
    ("message-crc", "magic0-none-0", (OLD_LOG,), DEEP, ((OLD_LOG, put(12, "00")),)),
    ("message-key-size", "magic0-none-0", (OLD_LOG,), DEEP, ((OLD_LOG, put(18, "7f")),)),
    ("message-value-size", "magic0-none-0", (OLD_LOG,), DATA_LOG, ((OLD_LOG, put(29, "7f")),)),
    ("wrapper-offset", "magic1-lz4-0", (OLD_LOG,), DEEP, ((OLD_LOG, put(0, "0000000000000002")),)),
    ("wrapper-offset-0", "magic1-lz4-0", (OLD_LOG,), DEEP, ((OLD_LOG, put(0, "00" * 8)),)),
    ("wrapper-null", "magic1-gzip-0", (OLD_LOG,), DEEP, ((OLD_LOG, put(30, "ffffffff")),)),
    ("wrapper-cut", "magic1-gzip-0", (OLD_LOG,), DEEP, ((OLD_LOG, put(30, "7fffffff")),)),
    ("wrapper-magic", "magic1-gzip-0", (OLD_LOG,), DEEP, ((OLD_LOG, put(16, "f0")),)),
    # indexes
    ("sanity", "plain-none-0", (INDEX, TIME_INDEX), SANITY, ()),
    ("quiet", "plain-none-0", (INDEX, TIME_INDEX), ("--verify-index-only",), ()),
    ("index-offset", "plain-none-0", (INDEX,), (), ((INDEX, put(3, "01")), (INDEX, put(11, "02")))),
    ("index-position", "plain-none-0", (INDEX,), (), ((INDEX, put(15, "00")),)),
    ("index-beyond", "plain-none-0", (INDEX,), (), ((INDEX, put(12, "7f")),)),
    ("index-negative", "plain-none-0", (INDEX,), (), ((INDEX, put(12, "ff")),)),
    ("index-at-the-end", "plain-none-0", (INDEX,), (), ((LOG, cut(9000)),)),
    ("index-zeros", "plain-none-0", (INDEX,), (), ((INDEX, put(8, "0000000000000000")),)),
    ("index-odd", "plain-none-0", (INDEX,), (), ((INDEX, cut(-3)),)),
    ("index-odd-sanity", "plain-none-0", (INDEX,), SANITY, ((INDEX, cut(-3)),)),
    ("index-low-sanity", "plain-none-0", (INDEX,), SANITY, ((INDEX, put(80, "ff")),)),
    ("index-small-messages", "plain-none-0", (INDEX,), ("--max-message-size", "100"), ()),
    ("index-negative-size", "plain-none-0", (INDEX,), ("--max-message-size", "-1"), ()),
    ("index-odd-batches", "plain-none-0", (INDEX, TIME_INDEX), (), ((LOG, put(16, "03")),)),
    ("index-log-damaged", "plain-none-0", (INDEX,), (), ((LOG, put(8, "00000001")),)),
    ("time-timestamp", "plain-none-0", (TIME_INDEX,), (),
     ((TIME_INDEX, put(7, "00")), (TIME_INDEX, put(12, "00")))),
    ("time-offset", "plain-none-0", (TIME_INDEX,), (), ((TIME_INDEX, put(11, "03")),)),
    ("time-offset-behind", "plain-none-0", (TIME_INDEX,), (), ((TIME_INDEX, put(8, "01")),)),
    ("time-order", "plain-none-0", (TIME_INDEX,), (), ((TIME_INDEX, put(12, "7f")),)),
    ("time-odd-sanity", "plain-none-0", (TIME_INDEX,), SANITY, ((TIME_INDEX, cut(-3)),)),
    ("time-low-sanity", "plain-none-0", (TIME_INDEX,), SANITY, ((TIME_INDEX, put(122, "00")),)),
    ("time-base-sanity", "plain-none-0", (TIME_INDEX,), SANITY, ((TIME_INDEX, put(128, "ff")),)),
    ("time-without-index", "plain-none-0", (TIME_INDEX,), (), ((INDEX, cut(0)),)),
    ("time-index-beyond", "plain-none-0", (TIME_INDEX,), (), ((INDEX, put(12, "7f")),)),
    ("time-record-damaged", "plain-none-0", (TIME_INDEX,), (), ((LOG, put(61, "7e" * 20000)),)),
    ("time-log-out-of-order", "plain-none-0", (TIME_INDEX,), (), ((LOG, put(6, "03e8")),)),
    ("time-markers", "transactional-0", (f"{10:020d}.timeindex",), (), ()),
    # state
    ("snapshot-crc", "transactional-0", (SNAPSHOT, TXN_INDEX), (), ((SNAPSHOT, put(3, "ff")),)),
    ("snapshot-version", "transactional-0", (SNAPSHOT,), (), ((SNAPSHOT, put(0, "0002")),)),
    ("snapshot-cut", "transactional-0", (SNAPSHOT,), (), ((SNAPSHOT, cut(-1)),)),
    ("snapshot-head", "transactional-0", (SNAPSHOT,), (), ((SNAPSHOT, cut(9)),)),
    ("snapshot-count", "transactional-0", (SNAPSHOT,), (), ((SNAPSHOT, put(6, "7f")),)),
    ("snapshot-null", "transactional-0", (SNAPSHOT,), (), ((SNAPSHOT, put(6, "ff")),)),
    ("txnindex-cut", "transactional-0", (TXN_INDEX,), (), ((TXN_INDEX, cut(-1)),)),
    ("txnindex-version", "transactional-0", (TXN_INDEX,), (), ((TXN_INDEX, put(1, "01")),)),
)  # fmt: skip


def cases() -> dict[str, Case]:
    """Every case by its name."""
    return {case.name: case for case in (*_whole(), *(Case(*row) for row in _TABLES))}
