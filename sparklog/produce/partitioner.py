"""The partition of each record: Kafka's default, round robin, sticky, or your own function.

    default          by key: toPositive(murmur2(key)) % partitions, over all partitions; an empty
                     key is a key. Null keys: sticky (KIP-794)
    uniform-sticky   sticky, whatever the key (partitioner.ignore.keys)
    round-robin      the next partition for every record, from 0 (RoundRobinPartitioner)
    module:function  function(key, value, num_partitions), called once per Arrow batch

Sticky: records stay with one partition until `batch.size` bytes have gone there, then go to one
drawn at random. A partition that the row itself names wins (`merge_explicit`).

Sticky and round-robin depend on the rows before. Where the same rows may come again in another
order, `resolve_by_row` puts a hash of the row in their place.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparklog.config.partitioners import BUILT_IN, DEFAULT, ROUND_ROBIN, UNIFORM_STICKY
from sparklog.errors import InvalidOptionError, SparklogError, UnknownTopicError
from sparklog.record.kernels import murmur2 as kernels
from sparklog.record.kernels.columns import BinaryColumn
from sparklog.record.rows import RecordColumns, binary_column

_NO_CHOICES: Final = np.empty(0, np.int32)


class Partitioner(Protocol):
    """Assigns partitions batch by batch; the object keeps the state between two batches."""

    def assign(self, columns: RecordColumns, num_partitions: int) -> NDArray[np.int32]:
        """Return the partition of each row, in [0, num_partitions)."""
        ...


def resolve_partitioner(name: str, batch_bytes: int, seed: int) -> Partitioner:
    """Return a new partitioner of this name.

    `batch_bytes` is `batch.size`, for the sticky ones, which draw by `seed`: the same rows and seed
    give the same partitions. Raises InvalidOptionError for an unknown name, and for a function that
    cannot be imported or called.
    """
    if name == DEFAULT:
        return DefaultPartitioner(batch_bytes, seed)
    if name == UNIFORM_STICKY:
        return StickyPartitioner(batch_bytes, seed)
    if name == ROUND_ROBIN:
        return RoundRobinPartitioner()
    return FunctionPartitioner(name, _imported(name))


def resolve_by_row(name: str, seed: int) -> Partitioner:
    """Return a partitioner by which the partition of a row depends on the row alone.

    Where the partitioner of this name depends on earlier rows, a hash of the row's key, value and
    time, and of `seed`, chooses instead. A function of your own must depend on the row alone.
    Raises as `resolve_partitioner`.
    """
    if name in BUILT_IN:
        return RowPartitioner(seed, is_keyed=name == DEFAULT)
    return FunctionPartitioner(name, _imported(name))


class RowPartitioner:
    """By the hash of the key, if `is_keyed` and the row has a key; else by the hash of the row.

    Rows without a key that have the same value and time go to one partition.
    """

    def __init__(self, seed: int, *, is_keyed: bool) -> None:
        self._seed = np.uint64(seed)
        self._is_keyed = is_keyed

    def assign(self, columns: RecordColumns, num_partitions: int) -> NDArray[np.int32]:
        """Return the partition of each row; headers do not count."""
        drawn = (self._hashed(columns) % np.uint64(num_partitions)).astype(np.int32)
        out = np.full(len(columns), -1, np.int32)
        if self._is_keyed:
            kernels.assign_by_key(binary_column(columns.key, "key"), num_partitions, out)
        return np.where(out < 0, drawn, out)

    def _hashed(self, columns: RecordColumns) -> NDArray[np.uint64]:
        """Return a hash of key, value, time and seed of each row, by MurmurHash3's finalizer."""
        hashed = columns.timestamp.view(np.uint64) ^ self._seed
        for column, name in ((columns.key, "key"), (columns.value, "value")):
            found = binary_column(column, name)
            # A column of Arrow's type null has no offsets: all its rows are null.
            numbers = kernels.murmur2(found.offsets, found.data).astype(np.int64).view(np.uint64)
            hashed = _mixed(hashed) ^ (numbers if len(numbers) else np.uint64(0))
        return _mixed(hashed)


class StickyPartitioner:
    """Fills one partition with about a batch, then another; ignores keys."""

    def __init__(self, batch_bytes: int, seed: int) -> None:
        self._batch_bytes = max(batch_bytes, 1)
        self._random = np.random.default_rng(seed)
        self._state = np.array([-1, 0, 0], np.int64)

    def assign(self, columns: RecordColumns, num_partitions: int) -> NDArray[np.int32]:
        """Return the partition of each row; headers do not count among the bytes."""
        out = np.full(len(columns), -1, np.int32)
        self.fill(binary_column(columns.key, "key"), columns.value, num_partitions, out)
        return out

    def fill(
        self, keys: BinaryColumn, value: pa.Array, num_partitions: int, out: NDArray[np.int32]
    ) -> None:
        """Set the partition of each row for which `out` is negative, in place."""
        partition, used, _ = self._state.tolist()
        if partition >= num_partitions:
            partition = self._state[kernels.STICKY_PARTITION] = -1
        values = binary_column(value, "value")
        payload = int(_span(keys.offsets) + _span(values.offsets))
        bytes_max = payload + len(out) * kernels.RECORD_OVERHEAD_MAX
        choices = _NO_CHOICES
        if partition < 0 or used + bytes_max >= self._batch_bytes:
            # Between two draws at least batch_bytes go by, and at least one row.
            draws = min(len(out), bytes_max // self._batch_bytes + 1) + 1
            choices = self._random.integers(0, num_partitions, draws, np.int32)
        self._state[kernels.DRAWN] = 0
        kernels.assign_sticky(keys, values, self._batch_bytes, choices, self._state, out)

    def stay(self, value_bytes: Sequence[int], num_partitions: int) -> int | None:
        """Assign a few rows without keys as `fill` does; return the partition of all of them.

        `value_bytes` are the sizes of their values, -1 for null. Returns None, and changes nothing,
        if `fill` may draw a partition for one of them.
        """
        partition, used, _ = self._state.tolist()
        bytes_max = sum(value_bytes) + len(value_bytes) * (1 + kernels.RECORD_OVERHEAD_MAX)
        if not 0 <= partition < num_partitions or used + bytes_max >= self._batch_bytes:
            return None
        self._state[kernels.STICKY_BYTES] = used + sum(map(_keyless_bytes, value_bytes))
        return int(partition)


class DefaultPartitioner:
    """By the hash of the key; rows without key are sticky."""

    def __init__(self, batch_bytes: int, seed: int) -> None:
        self._sticky = StickyPartitioner(batch_bytes, seed)

    def assign(self, columns: RecordColumns, num_partitions: int) -> NDArray[np.int32]:
        """Return the partition of each row."""
        out = np.empty(len(columns), np.int32)
        keys = binary_column(columns.key, "key")
        if kernels.assign_by_key(keys, num_partitions, out):
            self._sticky.fill(keys, columns.value, num_partitions, out)
        return out

    def stay(self, value_bytes: Sequence[int], num_partitions: int) -> int | None:
        """See `StickyPartitioner.stay`."""
        return self._sticky.stay(value_bytes, num_partitions)


class RoundRobinPartitioner:
    """Partition 0 for the first record, then the next one for each record."""

    def __init__(self) -> None:
        self._count = 0

    def assign(self, columns: RecordColumns, num_partitions: int) -> NDArray[np.int32]:
        """Return the partition of each row."""
        rows = np.arange(self._count, self._count + len(columns))
        self._count += len(columns)
        return (rows % num_partitions).astype(np.int32)


class FunctionPartitioner:
    """By function(key: pa.Array, value: pa.Array, num_partitions: int).

    The function returns an Arrow array, a numpy array or a sequence of integers, one for each row.
    """

    def __init__(self, name: str, function: Callable[[pa.Array, pa.Array, int], Any]) -> None:
        self._name = name
        self._function = function

    def assign(self, columns: RecordColumns, num_partitions: int) -> NDArray[np.int32]:
        """Return the function's answer.

        Raises InvalidOptionError if it is not a partition for each row, and for an exception of the
        function. Errors of sparklog.errors pass as they are.
        """
        try:
            answer = self._function(columns.key, columns.value, num_partitions)
        except SparklogError:
            raise
        except Exception as error:
            raise self._refused(f"raised {type(error).__name__}: {error}") from error
        try:
            array = answer if isinstance(answer, pa.Array) else pa.array(answer)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise self._refused(
                f"returned {type(answer).__name__}, not an array: {error}"
            ) from None
        if not pa.types.is_integer(array.type):
            raise self._refused(f"returned {array.type}; partitions are integers")
        if len(array) != len(columns):
            raise self._refused(f"returned {len(array)} partitions for {len(columns)} rows")
        if array.null_count:
            row = array.is_null().index(True).as_py()
            raise self._refused(f"returned null for row {row}")
        partitions: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        row = _first_outside(partitions, num_partitions)
        if row is not None:
            raise self._refused(
                f"returned {partitions[row]} for row {row}; "
                f"the topic has partitions 0 to {num_partitions - 1}"
            )
        return partitions.astype(np.int32)

    def _refused(self, what: str) -> InvalidOptionError:
        return InvalidOptionError(f"partitioner {self._name} {what}", option="partitioner")


@lru_cache(1024)
def _keyless_bytes(value_bytes: int) -> int:
    """Return how many bytes `assign_sticky` counts for a row without a key."""
    size = (
        kernels.RECORD_FIXED + _varint_bytes(-1) + _varint_bytes(value_bytes) + max(value_bytes, 0)
    )
    return _varint_bytes(size) + size


def _varint_bytes(value: int) -> int:
    """Return how many bytes a varint takes."""
    code = 2 * value if value >= 0 else -2 * value - 1
    return max((code.bit_length() + 6) // 7, 1)


def merge_explicit(
    explicit: pa.Array | None,
    assign: Callable[[], NDArray[np.int32]],
    num_partitions: int,
) -> NDArray[np.int32]:
    """Return the partition that each row names, or else the one that `assign` returns.

    `explicit` is an Arrow array of integers, null where a row names no partition; None if none
    does. `assign` returns a partition for every row; it is called only if a row needs it. Raises
    UnknownTopicError with row and partition for a partition outside [0, num_partitions), and
    InvalidOptionError for a column of another type.
    """
    if explicit is None or explicit.null_count == len(explicit):
        return assign()
    if not pa.types.is_integer(explicit.type):
        raise InvalidOptionError(
            f"column partition is {explicit.type}, it must be an integer", option="partition"
        )
    named: NDArray[Any] = explicit.fill_null(0).to_numpy(zero_copy_only=False)
    row = _first_outside(named, num_partitions)
    if row is not None:
        raise UnknownTopicError(
            f"row {row} names partition {named[row]}; "
            f"the topic has partitions 0 to {num_partitions - 1}, and a row with null gets one",
            partition=int(named[row]),
            row=row,
        )
    if explicit.null_count == 0:
        return named.astype(np.int32)
    missing = explicit.is_null().to_numpy(zero_copy_only=False)
    return np.where(missing, assign(), named).astype(np.int32)


def _imported(name: str) -> Callable[[pa.Array, pa.Array, int], Any]:
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise InvalidOptionError(
            f"partitioner {name!r} is not {DEFAULT}, {ROUND_ROBIN}, {UNIFORM_STICKY} "
            "or module:function",
            option="partitioner",
        )
    try:
        function = getattr(import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise InvalidOptionError(
            f"partitioner {name!r} cannot be imported: {error}", option="partitioner"
        ) from error
    if not callable(function):
        raise InvalidOptionError(
            f"partitioner {name!r} is {type(function).__name__}, not a function",
            option="partitioner",
        )
    checked: Callable[[pa.Array, pa.Array, int], Any] = function
    return checked


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers of which each bit depends on all bits of the given ones (fmix64)."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(33))


def _first_outside(partitions: NDArray[Any], num_partitions: int) -> int | None:
    outside = np.flatnonzero((partitions < 0) | (partitions >= num_partitions))
    return int(outside[0]) if len(outside) else None


def _span(offsets: NDArray[np.int32]) -> int:
    return int(offsets[-1]) - int(offsets[0])
