"""Companions: requests of another kind that share the segment and the entry of a group of batches.

    begin(image)            returns the topics that they write to
    lose(errors)            fails those that write to topics that cannot be read
    pieces(image, now_ms)   returns the bytes that they write, behind the batches of the group
    plan(image, places)     returns their edit, on the image after the batches' edit
    land(outcome)           takes the outcome of the entry

Ends of transactions are companions: their markers lie behind the batches.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from sparklog.errors import SparklogError
from sparklog.metadata.log import Committed
from sparklog.metadata.state.edit import Done, Edit
from sparklog.metadata.state.image import Image


class Place(NamedTuple):
    """The place of bytes in a shared segment: its path, the position in it, and their CRC-32C."""

    path: str
    position: int
    crc32c: int


Places = Mapping[bytes, Place]
"""The places of bytes that were written, by the bytes."""


class Companions(Protocol):
    """The companions of one group. One that fails stops neither the others nor the batches."""

    @property
    def are_settled(self) -> bool:
        """Whether each of them has its outcome."""
        ...

    def begin(self, image: Image) -> Collection[str]:
        """Begin a round; settle those that the image refuses.

        Returns the ids of the topics that the others write to.
        """
        ...

    def lose(self, errors: Mapping[str, SparklogError]) -> None:
        """Fail those that write to topics of `begin` that cannot be read; `errors` by topic id."""
        ...

    def pieces(self, image: Image, now_ms: int) -> Collection[bytes]:
        """Return the bytes to write. `image` has the topics of `begin` opened."""
        ...

    def plan(self, image: Image, places: Places) -> Edit | Done:
        """Return their edit. Like any plan it is called again on every try (`metadata.batch`)."""
        ...

    def land(self, outcome: Committed | BaseException) -> None:
        """Settle those that have landed or failed; the others begin again, in the next round."""
        ...

    def fail(self, error: BaseException) -> None:
        """Give an error to all without an outcome."""
        ...

    def give_up(self) -> None:
        """Fail all without an outcome: they were written too often."""
        ...
