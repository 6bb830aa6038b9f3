"""The names that other people's scripts rely on, and that importing them costs nothing."""

import subprocess
import sys
from importlib.metadata import version
from types import ModuleType

import pytest

import sparklog
from sparklog.admin import AdminClient
from sparklog.model import OffsetRange, TimestampOffset, TopicPartition

PUBLIC_NAMES = [
    "AdminClient",
    "AlterConfigOp",
    "NewTopic",
    "OffsetRange",
    "OpType",
    "TimestampOffset",
    "TopicPartition",
    "__version__",
    "errors",
]
ADMIN_METHODS = [
    "abort_transaction",
    "abort_transaction_at",
    "alter_consumer_group_offsets",
    "consumer_group_lags",
    "create_log_dir",
    "create_partitions",
    "create_topics",
    "delete_consumer_group_offsets",
    "delete_consumer_groups",
    "delete_records",
    "delete_topics",
    "describe_configs",
    "describe_consumer_groups",
    "describe_topics",
    "describe_transactions",
    "each",
    "erase",
    "incremental_alter_configs",
    "list_consumer_group_offsets",
    "list_consumer_groups",
    "list_deleted_topics",
    "list_offsets",
    "list_topics",
    "list_transactions",
    "rebuild_indexes",
    "undelete_topic",
]
HEAVY = {"pyspark", "delta", "deltalake", "numba", "pyarrow", "numpy", "pandas", "typer", "rich"}


def public_members(thing: object) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_")]


def loaded_by(code: str) -> set[str]:
    """Modules that a new interpreter has after running `code`."""
    script = f"{code}\nimport sys; print(*sys.modules)"
    command = [sys.executable, "-c", script]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


class TestNames:
    def test_they_are_these(self) -> None:
        assert sparklog.__all__ == PUBLIC_NAMES

    @pytest.mark.parametrize("name", PUBLIC_NAMES)
    def test_each_is_there_and_listed(self, name: str) -> None:
        assert getattr(sparklog, name)
        assert name in dir(sparklog)

    def test_each_is_what_its_module_has(self) -> None:
        assert sparklog.AdminClient is AdminClient
        assert sparklog.TopicPartition is TopicPartition
        assert sparklog.OffsetRange is OffsetRange
        assert sparklog.TimestampOffset is TimestampOffset

    def test_errors_is_the_module(self) -> None:
        assert isinstance(sparklog.errors, ModuleType)
        assert issubclass(sparklog.errors.UnknownTopicError, sparklog.errors.SparklogError)

    def test_the_version_is_that_of_the_package(self) -> None:
        assert sparklog.__version__ == version("sparklog")

    def test_other_names_are_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="'sparklog' has no attribute 'Broker'"):
            getattr(sparklog, "Broker")  # noqa: B009 - written out, mypy would object

    def test_admin_client_has_kafkas_methods(self) -> None:
        assert public_members(AdminClient) == ADMIN_METHODS


class TestImport:
    def test_the_package_alone_loads_nothing_heavy(self) -> None:
        loaded = loaded_by("import sparklog")

        assert loaded & HEAVY == set()
        assert {name for name in loaded if name.startswith("sparklog")} == {"sparklog"}

    def test_nouns_and_errors_load_nothing_heavy(self) -> None:
        loaded = loaded_by("from sparklog import TopicPartition, OffsetRange, errors, __version__")

        assert loaded & HEAVY == set()

    def test_admin_client_starts_no_spark_and_loads_no_kernels(self) -> None:
        loaded = loaded_by("from sparklog import AdminClient")

        assert loaded & {"pyspark", "delta", "numba", "typer"} == set()
