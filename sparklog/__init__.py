"""sparklog: Kafka's log without brokers. Spark is the broker fleet, Delta is the controller.

    from sparklog import AdminClient, NewTopic

The names below are the public ones; DataFrames in and out are in `sparklog.spark`. Each is imported
when it is first used, so that `import sparklog` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sparklog import errors
    from sparklog.admin import AdminClient, AlterConfigOp, NewTopic, OpType
    from sparklog.model import OffsetRange, TimestampOffset, TopicPartition

    __version__: str

__all__ = [
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

_HOME: Final = {
    "AdminClient": "sparklog.admin",
    "AlterConfigOp": "sparklog.admin",
    "NewTopic": "sparklog.admin",
    "OffsetRange": "sparklog.model",
    "OpType": "sparklog.admin",
    "TimestampOffset": "sparklog.model",
    "TopicPartition": "sparklog.model",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("importlib.metadata").version("sparklog")
    elif name == "errors":
        value = import_module("sparklog.errors")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
