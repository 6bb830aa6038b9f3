"""Damage of some topics: the command tells it, answers for the other topics, and exits with 1."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer

from sparklog.cli.output import tell_error
from sparklog.errors import CorruptionError, MissingFileError

if TYPE_CHECKING:
    from sparklog.metadata.catalog import Catalog
    from sparklog.metadata.state.image import Image
    from sparklog.model import TopicDescription

FAILED: Final = 1


class Damage:
    """The damage that one run of a command has met."""

    def __init__(self) -> None:
        self.is_told = False

    @contextmanager
    def told_of(self, subject: str) -> Iterator[None]:
        """Tell damage that ends the block, on stderr; `subject` is a topic or a partition."""
        try:
            yield
        except (CorruptionError, MissingFileError) as error:
            tell_error(f"{subject}: {error}")
            self.is_told = True

    def sound(
        self, catalog: "Catalog", topics: "Sequence[TopicDescription]"
    ) -> "tuple[Image, Sequence[TopicDescription]]":
        """Return the newest image with the topics opened that are sound, and these topics."""
        try:
            return catalog.image(*topics), topics  # together: each alone would read the runs anew
        except (CorruptionError, MissingFileError):
            found: list[TopicDescription] = []
        for topic in topics:
            with self.told_of(topic.name):
                catalog.image(topic)
                found.append(topic)
        image = catalog.image(*found)
        return image, [topic for topic in found if image.topic(topic.topic_id) is not None]

    def end(self) -> None:
        """End the command with exit code 1 if there was damage."""
        if self.is_told:
            raise typer.Exit(FAILED)
