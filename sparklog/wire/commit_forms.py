"""The form of a commit of offsets: the bytes of the request without its numbers.

A consumer commits the partitions that it reads, again and again. Two such requests differ only in
their offsets and leader epochs, which stand at the same positions. So a connection remembers the
form of its last request: the bytes between these positions, the fields in them, and the answer. A
request of the same form is not read field by field, and its answer is there already.
"""

import struct
import weakref
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from sparklog.coordinator.requests import CommitRequest, made_offset
from sparklog.metadata.state.image import Directory
from sparklog.tokens import Principal

PARTITIONS_MAX: Final = 64
"""A request with more partitions is not remembered: its form takes 300 bytes for each."""
NUMBERS: Final = "qi"
"""An offset and a leader epoch."""
_NUMBERS_SIZE: Final = struct.calcsize(">" + NUMBERS)
_VALUES: Final = 1 + len(NUMBERS)
"""Values of the layout for each partition: the bytes before its numbers, and the numbers."""


class Asked(NamedTuple):
    """The validity of a form: one version of the request, one set of topics, and one principal."""

    version: int
    directory: Directory
    principal: Principal | None


class CommitForm:
    """The form of a request that was allowed, and has neither metadata nor tagged fields."""

    __slots__ = (
        "_between",
        "_directory",
        "_layout",
        "_places",
        "_principal",
        "_request",
        "_version",
        "answer",
    )

    def __init__(
        self,
        body: memoryview,
        request: CommitRequest,
        numbers_at: Sequence[int],
        answer: bytes,
        asked: Asked,
    ) -> None:
        """`numbers_at` are the positions of the numbers in `body`, in the order of `offsets`.

        `answer` is the body of the answer if no partition has an error.
        """
        self._layout = struct.Struct(">" + "".join(_formats(numbers_at, len(body))))
        self._between = self._layout.unpack(body)[::_VALUES]
        self._request = request._replace(offsets={}, is_dated=True)
        self._places = tuple(request.offsets)
        self._version, self._principal = asked.version, asked.principal
        # An idle connection must not keep the topics of long ago in memory.
        self._directory = weakref.ref(asked.directory)
        self.answer = answer

    def request_of(
        self, frame: memoryview, body_at: int, asked: Asked, now_ms: int
    ) -> CommitRequest | None:
        """Return the request in a frame, committed at `now_ms`.

        Returns None if it has another form, or must be checked again.
        """
        layout = self._layout
        if (
            len(frame) - body_at != layout.size
            or self._version != asked.version
            or self._directory() is not asked.directory
            or self._principal is not asked.principal
        ):
            return None
        values = layout.unpack_from(frame, body_at)
        if values[::_VALUES] != self._between:
            return None
        numbers = zip(
            values[1::_VALUES], values[2::_VALUES], repeat(""), repeat(now_ms), repeat(None)
        )
        offsets = dict(zip(self._places, map(made_offset, numbers), strict=False))
        return CommitRequest(self._request.group_id, offsets, *self._request[2:])


def _formats(numbers_at: Sequence[int], size: int) -> Iterator[str]:
    end = 0
    for at in numbers_at:
        yield f"{at - end}s{NUMBERS}"
        end = at + _NUMBERS_SIZE
    yield f"{size - end}s"
