"""Where a stream stands: the JSON that Spark keeps in its checkpoint and shows in its progress.

    {"flights": {"0": 23, "1": 17}, "@sparklog": {"ids": {"flights": "…22 characters…"}}}

Offsets are the connector's: of the next record to read. `@sparklog`, a name that no topic can have,
holds three more members:

    ids      the topic's id, for a topic may be deleted and created again under its name
    start    offsets where the stream began; in the end of its first micro-batch only
    cluster  the log dir's cluster id, for a restored log dir gives its offsets a second time

Spark does not keep a stream's initial offset. So the end of the first micro-batch has it, as
`start`: the batch begins there, also when it runs again. A position without ids is an initial
offset. Spark compares offsets as text, so names and partitions are sorted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparklog.errors import UsageError
from sparklog.model import STREAM_MEMBER, TopicPartition, offsets_json

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Position:
    """Offsets by partition; topic ids by name, None where no micro-batch has ended yet.

    `cluster` is the cluster id; None in a checkpoint of sparklog 0.1.
    """

    offsets: Mapping[TopicPartition, int]
    ids: Mapping[str, str] | None = None
    start: Mapping[TopicPartition, int] | None = None
    cluster: str | None = None

    @property
    def is_initial(self) -> bool:
        """Whether this is where a stream begins."""
        return self.ids is None

    def begins(self, end: "Position") -> dict[TopicPartition, int]:
        """Return where the micro-batch from here to `end` begins in each of its partitions.

        A partition that is not here, or is one of a topic created again, begins at 0.
        """
        if self.ids is None:
            before = end.start or {}
            return {key: before.get(key, 0) for key in end.offsets}
        ids, known = end.ids or {}, self.ids
        return {
            key: self.offsets.get(key, 0) if known.get(key.topic) == ids.get(key.topic) else 0
            for key in end.offsets
        }

    def to_json(self) -> Json:
        """Return the position as Spark keeps it."""
        json = offsets_json(self.offsets)
        if self.ids is None:
            return json
        ours: Json = {"ids": dict(sorted(self.ids.items()))}
        if self.start is not None:
            ours["start"] = offsets_json(self.start)
        if self.cluster is not None:
            ours["cluster"] = self.cluster
        return {**json, STREAM_MEMBER: ours}

    @classmethod
    def of_json(cls, json: Json) -> "Position":
        """Return the position that `to_json` gave. Raises UsageError for any other JSON."""
        try:
            ours = json.get(STREAM_MEMBER)
            offsets = _offsets(
                {name: value for name, value in json.items() if name != STREAM_MEMBER}
            )
            if ours is None:
                return cls(offsets)
            start = _offsets(ours["start"]) if "start" in ours else None
            ids = {key.topic: ours["ids"][key.topic] for key in offsets}
            return cls(offsets, ids, start, ours.get("cluster"))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise UsageError(
                f"{json!r} in the checkpoint is no position of a sparklog stream"
            ) from None


def _offsets(json: Json) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in json.items()
        for partition, offset in partitions.items()
    }
