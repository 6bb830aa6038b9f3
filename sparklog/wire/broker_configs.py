"""The broker configs of an instance: its settings, and the defaults of topic configs.

Clients cannot change them: settings belong to the process, defaults to the release.
"""

from collections.abc import Iterator
from typing import Any, Final, get_args, get_origin

from sparklog.config import TOPIC_CONFIG_KEYS, ConfigType
from sparklog.wire.configs import SYNONYMS, Config, Source, Synonym, fixed
from sparklog.wire.settings import Settings

PARTITIONS_DESCRIBED_MAX: Final = 2000
"""The most partitions in one answer to DescribeTopicPartitions."""
NAMES: Final = {
    "log_dir": "log.dirs",
    "listen": "listeners",
    "advertise": "advertised.listeners",
    "rack": "broker.rack",
}
"""Kafka's names of settings. Other settings have Kafka's name with underscores for dots."""
FIXED: Final = (
    ("default.replication.factor", "1", ConfigType.INT, "The storage replicates."),
    ("delete.topic.enable", "true", ConfigType.BOOLEAN, "Topics can be deleted."),
    (
        "max.request.partition.size.limit",
        str(PARTITIONS_DESCRIBED_MAX),
        ConfigType.INT,
        "The most partitions in one answer to DescribeTopicPartitions.",
    ),
)
"""Broker configs that have always the same value here: name, value, type, documentation."""


def broker_configs(settings: Settings, node_id: int) -> list[Config]:
    """Return every config of an instance, by name. Secrets have no value."""
    found = [_of_setting(settings, name, node_id) for name in Settings.model_fields]
    keys = [(name, TOPIC_CONFIG_KEYS[topic]) for topic, name in SYNONYMS.items()]
    found += [fixed(name, key.default, key.type, key.doc) for name, key in keys]
    found += [fixed(*one) for one in FIXED]
    return sorted(found, key=lambda one: one.name)


def _of_setting(settings: Settings, field: str, node_id: int) -> Config:
    info = Settings.model_fields[field]
    name = NAMES.get(field, field.replace("_", "."))
    value = getattr(settings, field)
    is_given = field in settings.model_fields_set
    shown = _text(node_id if field == "node_id" else value)
    source = Source.STATIC_BROKER_CONFIG if is_given else Source.DEFAULT_CONFIG
    is_sensitive = _is_secret(value)
    synonyms = [] if shown is None else [Synonym(name, shown, source)]
    default = None if info.is_required() else _text(info.default)
    if is_given and default is not None:
        synonyms.append(Synonym(name, default, Source.DEFAULT_CONFIG))
    return Config(
        name,
        shown,
        source,
        _type(info.annotation),
        info.description or "",
        () if is_sensitive else tuple(synonyms),
        is_read_only=True,
        is_sensitive=is_sensitive,
    )


def _is_secret(value: object) -> bool:
    """Whether a value is pydantic's SecretStr or SecretBytes."""
    return hasattr(value, "get_secret_value")


def _text(value: object) -> str | None:
    if value is None or _is_secret(value):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _type(annotation: Any) -> ConfigType:
    if get_origin(annotation) is tuple:
        return ConfigType.LIST
    kinds = set(_leaves(annotation))
    for kind, found in ((bool, ConfigType.BOOLEAN), (int, ConfigType.INT)):
        if kind in kinds:
            return found
    return ConfigType.STRING


def _leaves(annotation: Any) -> Iterator[Any]:
    """Yield the types of an annotation that is optional or annotated."""
    for one in get_args(annotation):
        yield from _leaves(one)
    yield annotation
