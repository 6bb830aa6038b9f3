"""A bank: random transfers between topics by several producers over several instances.

Money moves from a partition of one topic to one of another, and a group's offset counts the
transfers. Whoever dies leaves a transaction that its successor, or an instance, aborts.
"""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.coordinator.offsets_topic import offsets_topic
from sparklog.metadata.state.image import Image
from tests.crashes import END_WRITES, Crash, Fails
from tests.transactions import Client, Instance, new_log_dir

pytestmark = pytest.mark.slow

TOPICS = ("debit", "credit")
NAMES = tuple(f"teller {number}" for number in range(4))


class Teller:
    """A producer at some instance. It transfers, aborts, dies, moves to another instance."""

    def __init__(self, name: str, instances: list[Instance], random: Random) -> None:
        self.name = name
        self._instances = instances
        self._random = random
        self.transfers = 0
        """Ended by a commit that was acknowledged."""
        self._client: Client | None = None
        self._is_open = False

    def step(self) -> None:
        """Do one thing."""
        client = self._client
        if client is None or self._random.random() < 0.1:
            version = self._random.choice([9, 13])
            self._client = Client(self._random.choice(self._instances), self.name, version=version)
            self._client.init()
            self._is_open = False
        elif self._is_open:
            self._end(client)
        else:
            self._transfer(client)

    def _transfer(self, client: Client) -> None:
        places = [(topic, self._random.randrange(2)) for topic in TOPICS]
        for topic, partition in places:
            client.instance = self._random.choice(self._instances)
            if client.version < 12:
                client.add(partition, topic=topic)
            assert client.produce(f"{self.name} {self.transfers}", partition, topic) is not None
        client.offsets(self.name, self.transfers + 1, "debit")
        self._is_open = True

    def _end(self, client: Client) -> None:
        client.instance = self._random.choice(self._instances)
        if self._random.random() < 0.3:
            client.abort()
        else:
            client.commit()
            self.transfers += 1
        self._is_open = False


def seen(instance: Instance) -> dict[str, Counter[str]]:
    """How often a reader of committed records sees each transfer, in each topic."""
    found = {}
    for topic in TOPICS:
        values = instance.values(topic)
        found[topic] = Counter(value for part in values.values() for value in part)
    return found


def is_at_rest(image: Image) -> bool:
    return not image.transactional_ids.open


@given(seed=st.integers(0, 2**32))
@settings(max_examples=5, deadline=None)
def test_money_is_conserved(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Goal: where no transaction is open, each transfer is in both topics once, or in none.

    Method: tellers take turns at random; whenever none has a transaction open, and at the end, what
    a reader sees is held against what was acknowledged, and against the committed offsets.
    """
    random, path = Random(seed), str(tmp_path_factory.mktemp("bank") / "log")
    instances = [new_log_dir(path, *TOPICS), Instance(path), Instance(path)]
    offsets_topic(instances[0].catalog, instances[0].catalog.clock, 3)
    tellers = [Teller(name, instances, random) for name in NAMES]
    for _ in range(60):
        random.choice(tellers).step()
        if is_at_rest(instances[0].catalog.image()):
            _check(instances, tellers)
    for name in NAMES:
        instances[0].transactions.abort(name)
    _check(instances, tellers)


def _check(instances: list[Instance], tellers: list[Teller]) -> None:
    expected = Counter(
        f"{teller.name} {number}" for teller in tellers for number in range(teller.transfers)
    )
    assert seen(instances[1]) == dict.fromkeys(TOPICS, expected)
    from sparklog.admin import AdminClient

    admin = AdminClient(instances[2].catalog.files.uri)
    for teller in tellers:
        found = admin.list_consumer_group_offsets(teller.name)
        assert [one.offset for one in found.values() if one] == [teller.transfers] * bool(
            teller.transfers
        )


def open_in_all(path: str) -> Client:
    """A producer with an open transaction in all partitions, and with a group's offset."""
    instance = new_log_dir(path, *TOPICS)
    offsets_topic(instance.catalog, instance.catalog.clock, 1)
    client = Client(instance)
    client.init()
    for topic in TOPICS:
        for partition in (0, 1):
            client.produce("x", partition, topic)
    client.offsets("g", 7, "debit")
    return client


@pytest.mark.parametrize("is_commit", [True, False])
def test_these_are_the_writes_of_an_end(tmp_path: Path, *, is_commit: bool) -> None:
    path = str(tmp_path / "log")
    client = open_in_all(path)
    files: Any = Fails(client.instance.catalog.files)
    Instance(path, files).transactions.end(client.step, is_commit=is_commit)

    assert files.done == list(END_WRITES)


@pytest.mark.parametrize("is_behind", [False, True])
@pytest.mark.parametrize(
    ("ends", "at"),
    [(ends, at + 1) for ends in ("commit", "abort") for at in range(len(END_WRITES))],
)
def test_a_crash_at_any_write_leaves_all_or_nothing(
    tmp_path: Path, at: int, *, is_behind: bool, ends: str
) -> None:
    path = str(tmp_path / "log")
    client = open_in_all(path)
    dying = Instance(path, Fails(client.instance.catalog.files, at, is_behind=is_behind))
    step, is_commit = client.step, ends == "commit"
    with pytest.raises(Crash):
        dying.transactions.end(step, is_commit=is_commit)
    found = {topic: Instance(path).values(topic) for topic in TOPICS}
    whole: dict[int, list[str]] = {0: ["x"], 1: ["x"]}
    none: dict[int, list[str]] = {0: [], 1: []}
    is_ended = not Instance(path).state().is_open
    assert found == dict.fromkeys(TOPICS, whole if is_ended and is_commit else none)

    Instance(path).transactions.end(step, is_commit=is_commit)
    found = {topic: Instance(path).values(topic) for topic in TOPICS}
    assert found == dict.fromkeys(TOPICS, whole if is_commit else none)
