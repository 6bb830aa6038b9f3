"""Lookups of every kind, asked while others change the log, and held against a naive scan.

A log is made of segments of every codec with times out of order; then the service produces,
another writer appends, records are deleted, retention and compaction run, and lookups are asked all
the while. Every answer must be what a scan of some version tells that was the newest between the
request's begin and its end; the answers to one request are of one version.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from fastapi.testclient import TestClient

from sparklog.admin import AdminClient
from sparklog.log_writer import WriteOptions
from sparklog.maintenance.compaction.compact import compact
from sparklog.maintenance.retention import retention
from sparklog.metadata.state.edit import TopicEdit
from sparklog.model import TopicPartition
from tests.logs import append, catalog, new_topic
from tests.maintenance import run
from tests.naive.topic import NaiveTopic, newest_version

PARTITIONS = 3
T0 = 1_600_000_000_000
TIMES = 60
"""How many times there are: few, so that records share them."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "-1",
    "retention.bytes": "9000",
    "delete.retention.ms": "0",
    "index.interval.bytes": "100",
}


class Question(NamedTuple):
    """A request, and what a scan of one version answers."""

    method: str
    path: str
    body: Any
    expected: Callable[[NaiveTopic], Any]


class Asked(NamedTuple):
    """A question, its answer, and the versions that were the newest meanwhile."""

    question: Question
    answer: Any
    versions: range


class Lookups:
    """A log dir with the topic t, a service over it, and those who change it."""

    def __init__(self, log_dir: Path, client: TestClient, seed: int) -> None:
        self.log_dir, self._client, self._seed = log_dir, client, seed
        (topic,) = catalog(log_dir).topics().values()
        self._directory = f"{topic.name}-{topic.topic_id}"
        self._random = random.Random(seed)

    # --- those who change it ---------------------------------------------------------------------

    def change(self, rounds: int) -> Iterator[None]:
        """Let everybody work at once, so many rounds; yields until they are done."""
        workers = (self._produce, self._append, self._clean)
        with ThreadPoolExecutor(len(workers)) as threads:
            waiting = [
                threads.submit(self._rounds, work, random.Random(f"{self._seed} {number}"), rounds)
                for number, work in enumerate(workers)
            ]
            yield
            while not all(one.done() for one in waiting):
                yield
            for one in waiting:
                one.result()

    def _rounds(
        self, work: Callable[[random.Random], None], rng: random.Random, rounds: int
    ) -> None:
        for _ in range(rounds):
            work(rng)

    def _produce(self, rng: random.Random) -> None:
        records = [
            {
                "partition": rng.randrange(PARTITIONS),
                "key": f"{rng.randrange(10):04}",
                "value": None if rng.random() < 0.1 else "AAAA" * rng.randrange(30),
                "timestamp": some_time(rng),
            }
            for _ in range(rng.randrange(1, 12))
        ]
        assert self._client.post("/topics/t", json={"records": records}).status_code == 200

    def _append(self, rng: random.Random) -> None:
        add_segment(self.log_dir, rng)

    def _clean(self, rng: random.Random) -> None:
        run(compact, self.log_dir, force=True, reindex=False)
        run(retention, self.log_dir)
        partition = rng.randrange(PARTITIONS)
        admin = AdminClient(self.log_dir)
        start, end = (self._offset(admin, partition, when) for when in (-2, -1))
        admin.delete_records({("t", partition): min(end, start + rng.randrange(8))})

    def _offset(self, admin: AdminClient, partition: int, when: int) -> int:
        place = TopicPartition("t", partition)
        return admin.list_offsets({place: when})[place].offset

    # --- those who ask ---------------------------------------------------------------------------

    def ask(self, question: Question) -> Asked:
        """Ask, and note which versions there were."""
        before = self._newest()
        got = self._client.request(question.method, question.path, json=question.body)
        body = got.json()
        answer = told(body) if got.status_code == 200 else body["error_code"]
        return Asked(question, answer, range(before, self._newest() + 1))

    def _newest(self) -> int:
        return newest_version(self.log_dir)

    def questions(self) -> list[Question]:
        """One of every kind."""
        partition, when, offset = self._draw()
        path = f"/topics/t/partitions/{partition}/offsets"
        return [
            Question("GET", path, None, lambda topic: ends(topic, partition)),
            Question(
                "GET", f"{path}?timestamp={when}", None, lambda topic: found(topic, partition, when)
            ),
            Question(
                "GET",
                f"/topics/t/offsets?timestamp={when}",
                None,
                lambda topic: [found(topic, number, when) for number in range(PARTITIONS)],
            ),
            Question(
                "GET", f"{path}/{offset}", None, lambda topic: place(topic, partition, offset)
            ),
            self.batch([self._lookup() for _ in range(6)]),
        ]

    def batch(self, lookups: list[dict[str, int]]) -> Question:
        """Many lookups as one question."""
        return Question(
            "POST",
            "/topics/t/offsets:lookup",
            {"lookups": lookups},
            lambda topic: {"lookups": [answer_of(topic, **one) for one in lookups]},
        )

    def _draw(self) -> tuple[int, int, int]:
        """A partition, a time and an offset, in the log or not far from it."""
        rng = self._random
        when = rng.choice([some_time(rng), some_time(rng), -1, -2, -3])
        return rng.randrange(PARTITIONS), when, rng.randrange(250)

    def _lookup(self) -> dict[str, int]:
        partition, when, offset = self._draw()
        asked = {"timestamp": when} if self._random.random() < 0.5 else {"offset": offset}
        return {"partition": partition, **asked}

    # --- the proof -------------------------------------------------------------------------------

    def wrong(self, asked: list[Asked]) -> list[Asked]:
        """Those whose answer no version gives that was the newest meanwhile."""
        versions = {number for one in asked for number in one.versions}
        topics = {n: NaiveTopic(self.log_dir, self._directory, n) for n in sorted(versions)}
        return [
            one
            for one in asked
            if one.answer not in [one.question.expected(topics[n]) for n in one.versions]
        ]


def random_log(log_dir: Path, seed: int) -> Path:
    """Make the log: segments of every codec, partly compacted, gaps, a deleted beginning."""
    rng = random.Random(seed)
    new_topic(log_dir, partitions=PARTITIONS, config=CONFIG)
    for number, codec in enumerate(CODECS * 2):
        add_segment(log_dir, rng, number % PARTITIONS, codec)
    run(compact, log_dir, force=True, reindex=False)
    AdminClient(log_dir).delete_records({("t", 0): 2})
    for number, codec in enumerate(CODECS):
        add_segment(log_dir, rng, number % PARTITIONS, codec)
    remove_last_segment(log_dir, partition=2)
    return log_dir


def remove_last_segment(log_dir: Path, partition: int) -> None:
    """Leave a gap at the end of a log."""
    found = catalog(log_dir)
    topic = found.topic("t")
    *_, last = found.topic_image(topic).segments(partition)
    edit = TopicEdit(remove=[last.key], removed_ms=1)
    found.commit(topic, lambda _: edit, operation="TEST")


def add_segment(
    log_dir: Path, rng: random.Random, partition: int | None = None, codec: str | None = None
) -> None:
    """Append a segment of some batches."""
    count = rng.randrange(2, 25)
    append(
        log_dir,
        rng.randrange(PARTITIONS) if partition is None else partition,
        ["x" * rng.randrange(40) for _ in range(count)],
        keys=[rng.randrange(10) for _ in range(count)],
        timestamps=[some_time(rng) for _ in range(count)],
        options=WriteOptions(
            compression_type=codec or rng.choice(CODECS),
            batch_size=rng.choice([100, 400, 16384]),
            flush=False,
        ),
    )


def some_time(rng: random.Random) -> int:
    """A time that others have too, or are near to."""
    return T0 + rng.randrange(TIMES)


# --- what the service says of what a scan finds -------------------------------------------------


def ends(topic: NaiveTopic, partition: int) -> Mapping[str, int]:
    """Where the log begins and ends."""
    return {"beginning_offset": topic.start(partition), "end_offset": topic.end(partition)}


def found(topic: NaiveTopic, partition: int, when: int) -> Mapping[str, int]:
    """ListOffsets' answer."""
    offset, timestamp = topic.list_offset(partition, when)
    return {"partition": partition, "offset": offset, "timestamp": timestamp}


def place(topic: NaiveTopic, partition: int, offset: int) -> Mapping[str, Any] | int:
    """Where an offset lies, or the error_code."""
    answer = topic.place(partition, offset)
    if isinstance(answer, int):
        return answer
    return {"topic": "t", "partition": partition, **answer}


def told(body: Any) -> Any:
    """An answer without the messages of errors."""
    if not (isinstance(body, dict) and "lookups" in body):
        return body
    fields = [{k: v for k, v in one.items() if k != "message"} for one in body["lookups"]]
    return {"lookups": fields}


def answer_of(
    topic: NaiveTopic, partition: int, offset: int | None = None, timestamp: int | None = None
) -> Mapping[str, Any]:
    """One answer of many; without the message of an error."""
    none = dict.fromkeys(("offset", "timestamp", "place", "error_code"))
    if offset is None:
        return {**none, **found(topic, partition, timestamp or 0)}
    at = place(topic, partition, offset)
    if isinstance(at, int):
        return {**none, "partition": partition, "error_code": at}
    where = {"offset": at["offset"], "timestamp": at["timestamp"]}
    return {**none, "partition": partition, **where, "place": at}
