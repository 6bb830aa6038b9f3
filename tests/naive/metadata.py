"""The naive twin of `metadata.state.image`: it interprets edits with dicts; an image is dicts."""

from typing import Any

from sparklog.metadata.state import producers
from sparklog.metadata.state.edit import Edit, EpochStart, Stamp, TopicEdit
from sparklog.metadata.state.image import Image, TopicImage
from sparklog.metadata.state.transactions import Added, TransactionalId
from sparklog.model import SegmentEntry

State = dict[str, Any]


def no_partition() -> State:
    """A partition that was never written to."""
    empty: State = {"live": {}, "producers": {}}
    return {"state": (0, 0, 0, 0, 0), "transactions": (), "epochs": (), **empty}


class NaiveMetadata:
    """The metadata of a log dir. What it said before an edit stays as it was."""

    def __init__(self) -> None:
        self.said: State = {
            "topics": {},
            "leases": {},
            "shared": {},
            "brokers": {},
            "users": {},
            "transactional_ids": {},
            "horizon_ms": 0,
            "level": 1,
            "next_producer_id": 0,
            "ended_logs": [],
        }

    def apply(self, edit: Edit, stamp: Stamp) -> None:
        """Apply an edit."""
        said = self.said = {name: _copied(one) for name, one in self.said.items()}
        for topic_id, one in edit.topics.items():
            empty = {"partitions": {}, "removed": {}, "receipts": {}, "vacuum_horizon_ms": 0}
            known = said["topics"].get(topic_id, {**empty, "receipts_before_ms": 0})
            topic = said["topics"][topic_id] = _topic_copied(known)
            topic["description"] = one.description or topic["description"]
            topic["version"] = stamp.version
            self._apply(topic, one, stamp)
        for topic_id in edit.forget_topics:
            said["topics"].pop(topic_id, None)
        for path in edit.forget_shared:
            said["shared"].pop(path, None)
        for kind in ("leases", "brokers", "users"):
            for name, one in getattr(edit, kind).items():
                said[kind].pop(name, None)
                if one is not None:
                    said[kind][name] = one
        self._apply_ids(said["transactional_ids"], edit, stamp)
        for name in ("horizon_ms", "level", "next_producer_id"):
            said[name] = max(said[name], getattr(edit, name) or 0)
        said["ended_logs"] += [(edit.ended_log, stamp.version - 1)] * (edit.ended_log is not None)

    @staticmethod
    def _apply_ids(ids: State, edit: Edit, stamp: Stamp) -> None:
        for name, new in edit.transactional_ids.items():
            before = ids.pop(name, None)
            if new is not None:
                started_ms = _started_ms(before, new, stamp)
                times = {"used_ms": stamp.timestamp_ms, "started_ms": started_ms}
                ids[name] = TransactionalId(**{**new._asdict(), **times})
        for name, more in edit.added_to_transactions.items():
            ids[name] = _grown(ids[name], more, stamp.timestamp_ms)

    def _apply(self, topic: State, edit: TopicEdit, stamp: Stamp) -> None:
        for number, epochs in edit.epochs.items():
            self._partition(topic, number)["epochs"] = epochs
        for entry in (*edit.segments, *edit.replace):
            self._put(self._partition(topic, entry.partition), edit, entry)
            if entry.is_shared and entry not in edit.replace:
                self._count(entry.log_path, 1, stamp)
        for key in edit.remove:
            gone = self._partition(topic, key.partition)["live"].pop(key)
            if key.is_shared:
                self._count(key.log_path, -1, stamp)
            else:
                removed_ms = stamp.timestamp_ms if edit.removed_ms is None else edit.removed_ms
                topic["removed"][key] = gone._replace(removed_ms=removed_ms)
        for key in edit.forget:
            topic["removed"].pop(key, None)
        for number, state in edit.partitions.items():
            partition = self._partition(topic, number)
            partition["state"] = tuple(map(max, partition["state"], state))
        for number, open_ones in edit.transactions.items():
            self._partition(topic, number)["transactions"] = open_ones
        topic["vacuum_horizon_ms"] = max(topic["vacuum_horizon_ms"], edit.vacuum_horizon_ms or 0)
        self._remember(topic, edit, stamp)
        self._use(topic, edit, stamp.timestamp_ms)

    @staticmethod
    def _put(partition: State, edit: TopicEdit, entry: SegmentEntry) -> None:
        starts, end, *rest = partition["state"]
        epoch = edit.leader_epochs.get(entry.partition)
        if entry.base_offset >= end and epoch is not None:
            known = partition["epochs"]
            if all(one.epoch < epoch for one in known):
                partition["epochs"] = (*known, EpochStart(epoch, entry.base_offset))
        partition["state"] = (starts, max(end, entry.next_offset), *rest)
        partition["live"][entry.key] = entry

    @staticmethod
    def _remember(topic: State, edit: TopicEdit, stamp: Stamp) -> None:
        before_ms = min(edit.forget_receipts_before_ms or 0, stamp.timestamp_ms)
        topic["receipts"] = {
            key: one
            for key, one in topic["receipts"].items()
            if key.is_versioned or one.used_ms >= before_ms
        }
        for key, receipt in edit.receipts.items():
            topic["receipts"][key] = receipt._replace(used_ms=stamp.timestamp_ms)
        topic["receipts_before_ms"] = max(topic["receipts_before_ms"], before_ms)

    def _use(self, topic: State, edit: TopicEdit, now_ms: int) -> None:
        before_ms = min(edit.forget_producers_before_ms or 0, now_ms)
        for partition in topic["partitions"].values():
            known = partition["producers"].items()
            partition["producers"] = {key: one for key, one in known if one.used_ms >= before_ms}
        for number, states in edit.producers.items():
            known = self._partition(topic, number)["producers"]
            known.update({one.producer_id: one._replace(used_ms=now_ms) for one in states})
            self._partition(topic, number)["producers"] = self._without_oldest(known, now_ms)

    @staticmethod
    def _without_oldest(known: State, now_ms: int) -> State:
        most = producers.PRODUCERS_MAX
        count = len(known) - (most - most // 10) if len(known) > most else 0
        oldest = sorted(known.values(), key=lambda one: (one.used_ms, one.producer_id))
        gone = {one.producer_id for one in oldest[:count] if one.used_ms < now_ms}
        return {key: one for key, one in known.items() if key not in gone}

    @staticmethod
    def _partition(topic: State, number: int) -> State:
        found: State = topic["partitions"].setdefault(number, no_partition())
        return found

    def _count(self, path: str, change: int, stamp: Stamp) -> None:
        count = self.said["shared"].get(path, (0, None))[0] + change
        self.said["shared"][path] = (count, None if count else stamp.timestamp_ms)


def _copied(one: Any) -> Any:
    """A dict or a list anew, with the same members; anything else as it is."""
    return one.copy() if isinstance(one, dict | list) else one


def _topic_copied(topic: State) -> State:
    """A topic anew, as far as an edit changes it; entries, states and receipts never change."""
    copy = {name: _copied(one) for name, one in topic.items()}
    copy["partitions"] = {
        number: {name: _copied(one) for name, one in partition.items()}
        for number, partition in topic["partitions"].items()
    }
    return copy


def _started_ms(before: TransactionalId | None, after: TransactionalId, stamp: Stamp) -> int:
    if after.status != "Ongoing":
        return 0
    is_same = before is not None and (before.status, before.number) == ("Ongoing", after.number)
    return before.started_ms if before is not None and is_same else stamp.timestamp_ms


def _grown(before: TransactionalId, more: Added, now_ms: int) -> TransactionalId:
    partitions, groups = list(before.partitions), list(before.groups)
    partitions += [one for one in more.partitions if one not in before.partitions]
    groups += [one for one in more.groups if one not in before.groups]
    offsets = list(before.offsets)
    for new in more.offsets:
        places = [(one.group_id, one.topic, one.partition) for one in offsets]
        place = (new.group_id, new.topic, new.partition)
        at = places.index(place) if place in places else len(places)
        offsets[at : at + 1] = [new]
    told = {"partitions": tuple(partitions), "groups": tuple(groups), "offsets": tuple(offsets)}
    return TransactionalId(**{**before._asdict(), **told, "used_ms": now_ms})


def said_by(image: Image) -> State:
    """Return an image, its topics all open, as the twin says it."""
    return {
        "topics": {topic_id: _topic(topic) for topic_id, topic in image.topics.items()},
        "leases": dict(image.leases),
        "shared": {path: tuple(one) for path, one in image.shared.items()},
        "brokers": dict(image.brokers),
        "users": dict(image.users),
        "transactional_ids": dict(image.transactional_ids.by_id),
        "horizon_ms": image.horizon_ms,
        "level": image.level,
        "next_producer_id": image.next_producer_id,
        "ended_logs": [tuple(one) for one in image.ended_logs],
    }


def _topic(topic: TopicImage) -> State:
    return {
        "description": topic.description,
        "version": topic.version,
        "partitions": {
            number: {
                "state": tuple(log.state),
                "live": {entry.key: entry for entry in log.entries()},
                "transactions": log.transactions,
                "epochs": log.epochs,
                "producers": dict(log.producers),
            }
            for number, log in topic.partitions.items()
        },
        "removed": {entry.key: entry for entry in topic.removed},
        "receipts": dict(topic.receipts),
        "vacuum_horizon_ms": topic.vacuum_horizon_ms,
        "receipts_before_ms": topic.receipts_before_ms,
    }
