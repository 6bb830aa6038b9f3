"""Options of Spark's Kafka connector that have no meaning, or another meaning, without brokers.

kafka.<produce option>          means that option: kafka.compression.type, kafka.batch.size
kafka.isolation.level           means isolation.level
REFUSED_CLIENT_CONFIGS          are refused, as by the connector; the error names the alternative
other kafka.<client config>,    are ignored, with a warning
and IGNORED_OPTIONS
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from sparklog.config.options import ISOLATION_LEVEL, PRODUCE_OPTIONS, Option
from sparklog.errors import InvalidOptionError, SparklogWarning

CLIENT_PREFIX = "kafka."

IGNORED_OPTIONS = (
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
)
"""Options of the connector about brokers and consumer pools."""

REFUSED_CLIENT_CONFIGS = {
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "offsets are kept in Spark's checkpoint",
    "interceptor.classes": "transform the DataFrame instead",
    "key.deserializer": "keys are bytes: cast the column",
    "value.deserializer": "values are bytes: cast the column",
    "key.serializer": "cast the column to string or binary",
    "value.serializer": "cast the column to string or binary",
}
"""Client configs that the connector refuses (KafkaSourceProvider), with the alternatives."""


CLIENT_OPTIONS = (*PRODUCE_OPTIONS, ISOLATION_LEVEL)
"""Options of sparklog that are client configs of Kafka as well."""


def without_connector_options(
    given: Mapping[str, Any], client_options: Sequence[Option] = CLIENT_OPTIONS
) -> dict[str, Any]:
    """Return the options that have a meaning here; warn about the others (SparklogWarning).

    `client_options` are the options that may also be given as kafka.<name>; a plain <name> wins, in
    any spelling. Raises InvalidOptionError for kafka.<name> if <name> is one of
    REFUSED_CLIENT_CONFIGS.
    """
    ignored = {name.lower() for name in IGNORED_OPTIONS}
    ours = {option.name.lower() for option in client_options}
    kept: dict[str, Any] = {}
    prefixed: dict[str, Any] = {}
    for name, value in given.items():
        client_config = name.lower().removeprefix(CLIENT_PREFIX)
        if client_config == name.lower():
            if name.lower() in ignored:
                _warn(name)
            else:
                kept[name] = value
        elif client_config in REFUSED_CLIENT_CONFIGS:
            raise InvalidOptionError(
                f"option {name} is not supported: {REFUSED_CLIENT_CONFIGS[client_config]}",
                option=name,
            )
        elif client_config in ours:
            prefixed.setdefault(client_config, value)
        else:
            _warn(name)
    plain = {name.lower().replace("_", ".") for name in kept}
    return {**{name: value for name, value in prefixed.items() if name not in plain}, **kept}


def _warn(name: str) -> None:
    warnings.warn(
        f"option {name} has no meaning without brokers and is ignored",
        SparklogWarning,
        stacklevel=3,
    )
