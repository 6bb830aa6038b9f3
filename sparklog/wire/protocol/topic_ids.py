"""Topic ids: 22 characters of base64 in the metadata log, 16 bytes in the protocol."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from typing import Final
from uuid import UUID

from sparklog.metadata.state.image import Image
from sparklog.model import TopicDescription

NO_TOPIC_ID: Final = bytes(16)
"""The id of no topic (Uuid.ZERO_UUID)."""


@lru_cache(maxsize=100_000)
def uuid_of(topic_id: str) -> UUID:
    """Return a topic id in the form that kio's messages have."""
    return UUID(bytes=urlsafe_b64decode(topic_id + "=="))


@lru_cache(maxsize=100_000)
def topic_id_of(id_bytes: bytes) -> str:
    """Return the metadata log's form of a topic id that has 16 bytes in the protocol."""
    return urlsafe_b64encode(id_bytes).rstrip(b"=").decode("ascii")


def asked_topic(image: Image, asked: str | bytes) -> TopicDescription | None:
    """Return the live topic of a name or of an id, which has 16 bytes; None when there is none."""
    if isinstance(asked, str):
        return image.names.get(asked)
    topic = image.existing(topic_id_of(asked))
    return None if topic is None else topic.description
