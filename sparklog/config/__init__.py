"""Configuration: one declarative row per key, parsed once into a frozen object."""

from sparklog.config.keys import ConfigKey, ConfigType
from sparklog.config.topic import ConfigEntry, ConfigSource, TopicConfig, config_key
from sparklog.config.topic_keys import TOPIC_CONFIG_KEYS

__all__ = [
    "TOPIC_CONFIG_KEYS",
    "ConfigEntry",
    "ConfigKey",
    "ConfigSource",
    "ConfigType",
    "TopicConfig",
    "config_key",
]
