"""Coverage-guided fuzzing of every parser of a stranger's bytes: `make fuzz`.

`python -m tests.soak.fuzz [TARGET [SECONDS]]`: without a target each in turn, in a process of its
own; NUMBA_DISABLE_JIT=1 lets it see into the kernels. The corpus are the files that a broker wrote
(tests/compat/data); what is found stays in `.cache/fuzz`. Anything but an error of the library, a
minute without an answer, or more than 2 GiB ends the run.
"""

import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import atheris

from sparklog.errors import SparklogError
from tests.client_batches import NOW_MS
from tests.compat.cases import BROKER
from tests.damage import Log

with atheris.instrument_imports(include=["sparklog"]):
    from sparklog.config import TopicConfig
    from sparklog.coordinator.records import GROUP_RECORDS, TRANSACTION_RECORDS, read_record
    from sparklog.interop.broker_files import checkpoints
    from sparklog.interop.broker_files.control_records import control_text
    from sparklog.interop.broker_files.index_checks import check_offset_index, check_time_index
    from sparklog.interop.broker_files.producer_snapshot import read_snapshot
    from sparklog.interop.broker_files.txn_index import read_txn_index
    from sparklog.interop.dumps.dump_batches import RecordText
    from sparklog.interop.dumps.dump_index import IndexChecks, dump_index, dump_time_index
    from sparklog.interop.dumps.dump_log import DumpedFile, Findings, dump_log
    from sparklog.interop.epochs import Epochs
    from sparklog.interop.examine import Source, examine
    from sparklog.interop.sequences import Sequences
    from sparklog.interop.transactions import Transactions
    from sparklog.record.client_batch import check_client_batch
    from sparklog.record.layout import LENGTH, LOG_OVERHEAD, RECORDS
    from sparklog.storage.memory import MemoryFiles
    from sparklog.wire.protocol.versions import APIS
    from sparklog.wire.security.scram import ScramExchange
    from tests.wire.bodies import read_request

SECONDS: Final = 60
MEMORY_MB: Final = 2048
FOUND: Final = Path(__file__).parents[2] / ".cache" / "fuzz"


def _log(data: bytes) -> None:
    file = DumpedFile("/x/0.log", "/x/0.log", data)
    list(dump_log(file, RecordText(deep=True, data=True), Findings()))


def _import(data: bytes) -> None:
    files = MemoryFiles()
    files.write_new("0.log", data)
    examine(Source(files, "0.log", len(data), "f"), 0, 0, Transactions(), Epochs(), Sequences())


def _index(data: bytes) -> None:
    log = DumpedFile("/x/0.log", "/x/0.log", data[60:])
    index = DumpedFile("/x/0.index", "/x/0.index", data[:60])
    list(dump_index(index, log, IndexChecks(), Findings()))


def _time_index(data: bytes) -> None:
    log = DumpedFile("/x/0.log", "/x/0.log", data[60:])
    index = DumpedFile("/x/0.index", "/x/0.index", data[:60])
    list(dump_time_index(index, log, index, IndexChecks(), Findings()))


def _checked_indexes(data: bytes) -> None:
    with suppress(SparklogError):
        check_offset_index(data, 1000, 1000, "f")
    check_time_index(data, 1000, "f")


def _checkpoint(data: bytes) -> None:
    for read in (checkpoints.read_offsets, checkpoints.read_epochs, checkpoints.read_topic_id):
        with suppress(SparklogError):
            read(data, "f")


def _coordinator(data: bytes) -> None:
    with suppress(SparklogError):
        read_record(GROUP_RECORDS, data[:40], data[40:])
    read_record(TRANSACTION_RECORDS, data[:40], data[40:])


def _control(data: bytes) -> None:
    control_text(data[:4], data[4:])


def _request(data: bytes) -> None:
    read_request(memoryview(data))


def _client_batch(data: bytes) -> None:
    """A batch whose length and checksum are right, so that its records are looked at."""
    batch = Log(data.ljust(RECORDS, b"\0"))
    batch.put(LENGTH, struct.pack(">i", len(batch.data) - LOG_OVERHEAD))
    check_client_batch(bytes(batch.fix_crc().data), TopicConfig.parse({}), NOW_MS, 13)


def _zeros() -> list[bytes]:
    """A request of every API and version, all of zeros behind its header."""
    versions = [
        (key, version) for key, api in APIS.items() for version in range(api.max_version + 1)
    ]
    return [struct.pack(">hhih", *one, 0, 0) + bytes(100) for one in versions]


def _scram(data: bytes) -> None:
    exchange = ScramExchange("SCRAM-SHA-256", lambda _: None, "nonce", b"secret")
    first, _, final = data.partition(b"\n")
    exchange.step(first)
    exchange.step(final)


TARGETS: Final[dict[str, tuple[Callable[[bytes], object], str]]] = {
    "log": (_log, "*-0/*.log"),
    "import": (_import, "*-0/*.log"),
    "index": (_index, "*-0/*.index"),
    "time-index": (_time_index, "*-0/*.timeindex"),
    "checked-indexes": (_checked_indexes, "*-0/*.timeindex"),
    "snapshot": (read_snapshot, "*-0/*.snapshot"),
    "transaction-index": (read_txn_index, "*-0/*.txnindex"),
    "checkpoint": (_checkpoint, "*checkpoint"),
    "coordinator": (_coordinator, "__consumer_offsets-0/*.log"),
    "control": (_control, "__cluster_metadata-0/*.log"),
    "request": (_request, "no file"),
    "client-batch": (_client_batch, "*-0/*.log"),
    "scram": (_scram, "*checkpoint"),
}


def main() -> None:
    """Fuzz one target, or every target in a process of its own."""
    if len(sys.argv) > 1:
        _fuzz(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else SECONDS)
        return
    for name in TARGETS:
        print(f"--- {name}", flush=True)
        subprocess.run([sys.executable, "-m", "tests.soak.fuzz", name], check=True)


def _fuzz(name: str, seconds: int) -> None:
    target, pattern = TARGETS[name]
    corpus = FOUND / name
    corpus.mkdir(parents=True, exist_ok=True)
    kept = [path.read_bytes()[:4096] for path in sorted(BROKER.glob(pattern))]
    for number, data in enumerate(kept or _zeros()):
        (corpus / f"kept-{number}").write_bytes(data)

    def once(data: bytes) -> None:
        with suppress(SparklogError):
            target(data)

    limits = [f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}", "-timeout=60"]
    atheris.Setup([sys.argv[0], str(corpus), f"-artifact_prefix={FOUND}/", *limits], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
