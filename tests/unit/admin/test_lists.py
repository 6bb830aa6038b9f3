"""AdminClient takes lists of names and keys: one text would count as the list of its letters."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.errors import InvalidConfigError, InvalidTopicError, UsageError
from sparklog.testing import Record, TemporaryLogDir


@pytest.fixture
def log_dir(tmp_path: Path) -> TemporaryLogDir:
    """A log dir whose topic a has a record with the key k; its group g has read it."""
    log_dir = TemporaryLogDir(tmp_path / "log")
    log_dir.topic("a").produce(Record("value", key="k"))
    log_dir.admin.alter_consumer_group_offsets("g", {("a", 0): 1})
    return log_dir


@pytest.mark.parametrize(
    ("call", "one"),
    [
        (AdminClient.delete_topics, "a"),
        (AdminClient.describe_topics, "a"),
        (AdminClient.describe_consumer_groups, "g"),
        (AdminClient.consumer_group_lags, "g"),
        (AdminClient.delete_consumer_groups, "g"),
        (AdminClient.describe_transactions, "id"),
        (AdminClient.list_transactions, "Ongoing"),
        (lambda admin, state: admin.list_consumer_groups(states=state), "Empty"),
        (lambda admin, kind: admin.list_consumer_groups(types=kind), "classic"),
        (lambda admin, key: admin.erase("a", key), "k"),
        (lambda admin, key: admin.erase("a", key), b"k"),
    ],
)
def test_a_single_name_or_key_is_refused(
    log_dir: TemporaryLogDir, call: Callable[[AdminClient, Any], object], one: str | bytes
) -> None:
    with pytest.raises(UsageError, match=f"{one!r} is one text, .* give a list"):
        call(log_dir.admin, one)

    assert log_dir["a"].values() == [b"value"]
    assert log_dir.admin.consumer_group_lags()["g"][0].current_offset == 1


@pytest.mark.parametrize(
    ("call", "given", "error", "message"),
    [
        (AdminClient.create_topics, ["x"], InvalidTopicError, "'x' is no NewTopic: give a list"),
        (
            AdminClient.incremental_alter_configs,
            {"a": {"retention.ms": "1"}},
            InvalidConfigError,
            "topic 'a': 'retention.ms' is no AlterConfigOp: give a list",
        ),
        (
            lambda admin, offsets: admin.alter_consumer_group_offsets("g", offsets),
            {"d": 5},
            UsageError,
            r"'d' is no partition: give \(topic, partition\)",
        ),
        (AdminClient.list_offsets, {"d": -1}, UsageError, "'d' is no partition"),
        (lambda admin, keys: admin.erase("a", keys), [b"a", 3], UsageError, "3 is no key"),
    ],
)
def test_other_objects_are_refused(
    log_dir: TemporaryLogDir,
    call: Callable[[AdminClient, Any], object],
    given: object,
    error: type[UsageError],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        call(log_dir.admin, given)


def test_a_replication_factor_is_refused() -> None:
    factor: Any = 3
    with pytest.raises(InvalidConfigError, match="'t': config is 3, .* no replication factor"):
        NewTopic("t", 1, factor)
