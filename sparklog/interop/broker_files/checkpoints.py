r"""Reads and writes the text files that a broker keeps beside its logs.

    offsets         0\n <count>\n then lines <topic> <partition> <offset>\n   of a log directory
    leader epochs   0\n <count>\n then lines <epoch> <start offset>\n         of a partition
    partition.metadata   version: 0\ntopic_id: <22 characters>   (no newline behind it)

See CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile. An empty
checkpoint has no entries. A file of more than CHECKPOINT_BYTES_MAX is refused.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sparklog.errors import CorruptionError
from sparklog.log.names import OFFSET_MAX
from sparklog.metadata.state.edit import EpochStart
from sparklog.model import TopicPartition

VERSION: Final = "0"
CHECKPOINT_BYTES_MAX: Final = 64 * 1024 * 1024
EPOCH_MAX: Final = 2**31 - 1
LOG_START: Final = "log-start-offset-checkpoint"
CLEANER: Final = "cleaner-offset-checkpoint"
RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
LEADER_EPOCH: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_METADATA: Final = re.compile(r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?", re.ASCII)


def read_offsets(data: bytes, file: str) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint. Raises CorruptionError naming `file` and the line."""
    found: dict[TopicPartition, int] = {}
    for number, fields in _entries(data, file, 3):
        topic, partition, offset = fields
        key = TopicPartition(topic, _number(partition, file, number))
        found[key] = _number(offset, file, number)
    return found


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the bytes of a checkpoint."""
    lines = [f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items())]
    return _encoded(lines)


def read_epochs(data: bytes, file: str) -> list[EpochStart]:
    """Return leader epochs and their start offsets, both ascending. Raises CorruptionError."""
    found: list[EpochStart] = []
    for number, fields in _entries(data, file, 2):
        epoch, start = (_number(text, file, number) for text in fields)
        if epoch > EPOCH_MAX:
            raise CorruptionError(f"{file}, line {number}: epoch {epoch} is above 2^31-1")
        if found and (epoch <= found[-1].epoch or start <= found[-1].start_offset):
            raise CorruptionError(f"{file}, line {number}: epochs and offsets must ascend")
        found.append(EpochStart(epoch, start))
    return found


def encode_epochs(epochs: Sequence[tuple[int, int]]) -> bytes:
    """Return the bytes of a leader epoch checkpoint; `epochs` are (epoch, start offset)."""
    return _encoded([f"{epoch} {start}" for epoch, start in epochs])


def read_topic_id(data: bytes, file: str) -> str:
    """Return the topic id in a partition.metadata. Raises CorruptionError."""
    text = data[:1024].decode(errors="replace")
    match = _METADATA.fullmatch(text)
    if match is None or len(data) > len(text.encode()):
        raise CorruptionError(f"{file}: it must say 'version: 0' and 'topic_id: <22 characters>'")
    return match[1]


def encode_topic_id(topic_id: str) -> bytes:
    """Return the bytes of a partition.metadata."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def _encoded(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in [VERSION, str(len(lines)), *lines]).encode()


def _entries(data: bytes, file: str, fields: int) -> Iterable[tuple[int, list[str]]]:
    """Yield line number and fields of every entry."""
    if len(data) > CHECKPOINT_BYTES_MAX:
        raise CorruptionError(f"{file}: more than {CHECKPOINT_BYTES_MAX} bytes")
    if not data:
        return
    version, *lines = data.decode(errors="replace").removesuffix("\n").split("\n")
    if version != VERSION:
        raise CorruptionError(f"{file}, line 1: version {version[:20]!r}, allowed is {VERSION}")
    if not lines or lines[0] != str(len(lines) - 1):
        raise CorruptionError(f"{file}, line 2: it must say how many lines follow it")
    for number, line in enumerate(lines[1:], 3):
        parts = line.split()
        if len(parts) != fields:
            raise CorruptionError(f"{file}, line {number}: {len(parts)} fields, not {fields}")
        yield number, parts


def _number(text: str, file: str, line: int) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > OFFSET_MAX:
        raise CorruptionError(f"{file}, line {line}: {text[:20]!r} is no number from 0 to 2^63-1")
    return int(text)
