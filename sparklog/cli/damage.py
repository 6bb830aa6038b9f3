"""Damage of some topics: the command tells it, answers for the other topics, and exits with 1."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from sparklog.cli.output import tell_error
from sparklog.errors import CorruptionError, MissingFileError, SparklogError

if TYPE_CHECKING:
    from sparklog.metadata.catalog import Catalog
    from sparklog.metadata.state.image import Image
    from sparklog.model import TopicDescription


class Damage:
    """The damage that one run of a command has met."""

    def __init__(self) -> None:
        self._is_told = False

    @contextmanager
    def told_of(self, subject: str) -> Iterator[None]:
        """Tell damage that ends the block, on stderr; `subject` is a partition."""
        try:
            yield
        except (CorruptionError, MissingFileError) as error:
            self._tell(subject, error)

    def _tell(self, subject: str, error: SparklogError) -> None:
        tell_error(f"{subject}: {error}")
        self._is_told = True

    def sound(
        self, catalog: "Catalog", topics: "Sequence[TopicDescription]"
    ) -> "tuple[Image, Sequence[TopicDescription]]":
        """Return the newest image with the topics opened that are sound, and these topics."""
        _, errors = catalog.log.sound_image([topic.topic_id for topic in topics])
        for topic in topics:
            if topic.topic_id in errors:
                self._tell(topic.name, errors[topic.topic_id])
        sound = [topic for topic in topics if topic.topic_id not in errors]
        image = catalog.image(*sound)
        # A topic that was erased meanwhile is in neither.
        return image, [topic for topic in sound if image.topic(topic.topic_id) is not None]

    def end(self) -> None:
        """End the command with exit code 1 if there was damage."""
        if self._is_told:
            raise typer.Exit(1)
