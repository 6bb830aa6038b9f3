"""A topic's configs as one object."""

import pickle
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.config import (
    TOPIC_CONFIG_KEYS,
    ConfigSource,
    TopicConfig,
    config_key,
)
from sparklog.config.topic_keys import KAFKA_KEYS, KEPT_KEYS, SPARKLOG_KEYS
from sparklog.errors import InvalidConfigError
from sparklog.model import Codec, TimestampType
from tests.config_values import KAFKA_DEFAULTS


class TestTable:
    def test_has_every_topic_config_of_kafka_with_its_default(self) -> None:
        rows = {key.name: key.default for key in KAFKA_KEYS + KEPT_KEYS}

        assert rows == KAFKA_DEFAULTS

    def test_names_each_key_once(self) -> None:
        assert len(TOPIC_CONFIG_KEYS) == len(KAFKA_KEYS) + len(KEPT_KEYS) + len(SPARKLOG_KEYS)

    def test_has_one_field_of_the_config_per_key(self) -> None:
        names = sorted(field.name for field in fields(TopicConfig) if field.name != "overrides")

        assert names == sorted(key.field for key in TOPIC_CONFIG_KEYS.values())

    def test_says_each_key_in_a_sentence(self) -> None:
        assert [key.name for key in TOPIC_CONFIG_KEYS.values() if not key.doc.endswith(".")] == []

    def test_marks_only_keys_of_brokers_as_unused(self) -> None:
        assert {key.name for key in TOPIC_CONFIG_KEYS.values() if not key.is_used} == {
            key.name for key in KEPT_KEYS
        }


class TestParse:
    def test_gives_every_key_its_default(self) -> None:
        config = TopicConfig.parse({})

        assert config.retention_ms == 7 * 24 * 3600 * 1000
        assert config.orphan_retention_ms == 24 * 3600 * 1000
        assert config.cleanup_policy == ("delete",)
        assert config.overrides == ()

    def test_takes_overrides_as_text_or_number(self) -> None:
        config = TopicConfig.parse({"segment.ms": " 5 ", "retention.ms": -1})

        assert (config.segment_ms, config.retention_ms) == (5, -1)
        assert config.overrides == (("retention.ms", "-1"), ("segment.ms", "5"))

    def test_names_the_nearest_key_of_a_misspelt_one(self) -> None:
        with pytest.raises(InvalidConfigError, match=r"^'retention\.mss' .*'retention\.ms'$"):
            TopicConfig.parse({"retention.mss": "1"})

    def test_says_where_the_keys_come_from_when_none_is_near(self) -> None:
        with pytest.raises(InvalidConfigError, match=r"allowed are Kafka 4\.1's topic configs"):
            config_key("zzzzzz")

    def test_refuses_a_minimum_lag_above_the_maximum(self) -> None:
        with pytest.raises(InvalidConfigError, match="takes at most max.compaction.lag.ms"):
            TopicConfig.parse({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"})

    def test_survives_a_journey_to_a_worker(self) -> None:
        config = TopicConfig.parse({"cleanup.policy": "compact"})

        assert pickle.loads(pickle.dumps(config)) == config

    @given(st.dictionaries(st.sampled_from(sorted(TOPIC_CONFIG_KEYS)), st.none(), max_size=40))
    def test_setting_defaults_changes_no_value(self, names: dict[str, None]) -> None:
        """Goal: a default is a legal value of its key. Method: override keys with their default."""
        overrides = {name: TOPIC_CONFIG_KEYS[name].default for name in names}

        config = TopicConfig.parse(overrides)

        plain = TopicConfig.parse({})
        assert all(
            getattr(config, key.field) == getattr(plain, key.field)
            for key in TOPIC_CONFIG_KEYS.values()
        )


class TestDescribe:
    def test_tells_overrides_from_defaults(self) -> None:
        rows = {row.name: row for row in TopicConfig.parse({"retention.ms": "-1"}).describe()}

        assert (rows["retention.ms"].value, rows["retention.ms"].source) == (
            "-1",
            ConfigSource.TOPIC,
        )
        assert not rows["retention.ms"].is_default
        assert (rows["segment.ms"].value, rows["segment.ms"].is_default) == ("604800000", True)

    def test_lists_every_key_in_order(self) -> None:
        assert [row.name for row in TopicConfig.parse({}).describe()] == sorted(TOPIC_CONFIG_KEYS)


class TestDerived:
    @pytest.mark.parametrize(
        ("policy", "compacted", "deleted"),
        [
            ("delete", False, True),
            ("compact", True, False),
            ("compact,delete", True, True),
            ("", False, False),
        ],
    )
    def test_policy(self, policy: str, compacted: bool, deleted: bool) -> None:
        config = TopicConfig.parse({"cleanup.policy": policy})

        assert (config.is_compacted, config.is_deleted) == (compacted, deleted)

    def test_a_compacted_topic_rolls_by_the_compaction_lag_too(self) -> None:
        lag = {"max.compaction.lag.ms": "10", "segment.ms": "20"}

        assert TopicConfig.parse(lag).max_segment_ms == 20
        assert TopicConfig.parse({**lag, "cleanup.policy": "compact"}).max_segment_ms == 10

    @pytest.mark.parametrize(
        ("name", "codec"),
        [
            ("producer", None),
            ("uncompressed", Codec.NONE),
            ("gzip", Codec.GZIP),
            ("snappy", Codec.SNAPPY),
            ("lz4", Codec.LZ4),
            ("zstd", Codec.ZSTD),
        ],
    )
    def test_codec(self, name: str, codec: Codec | None) -> None:
        assert TopicConfig.parse({"compression.type": name}).codec is codec

    def test_levels_belong_to_codecs(self) -> None:
        config = TopicConfig.parse({"compression.zstd.level": "7"})

        assert [config.compression_level(codec) for codec in Codec] == [None, -1, None, 9, 7]

    def test_timestamp_type(self) -> None:
        append = TopicConfig.parse({"message.timestamp.type": "LogAppendTime"})

        assert append.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert TopicConfig.parse({}).timestamp_type is TimestampType.CREATE_TIME
