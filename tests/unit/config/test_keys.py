"""One key: text to value, and the sentence that refuses."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.config import TOPIC_CONFIG_KEYS, ConfigKey, ConfigType
from sparklog.config.keys import LONG_MAX, Bounds
from sparklog.errors import InvalidConfigError
from tests.config_values import KAFKA_BOUNDS

OWN_BOUNDS: list[tuple[str, tuple[object, ...], tuple[object, ...]]] = [
    ("index.build", ("write", "job"), ("never",)),
    ("sparklog.partitioner", ("round-robin", "a.b:c"), ("sticky", "a.b", ":c", "a:b c")),
]

ANYTHING = Bounds("anything", lambda value: True)


def refuses(key: ConfigKey, text: str) -> bool:
    try:
        key.parse(text)
    except InvalidConfigError:
        return True
    return False


def a_key(kind: ConfigType) -> ConfigKey:
    return ConfigKey("a.key", kind, "", ANYTHING, "A key.")


class TestParse:
    @pytest.mark.parametrize(
        ("kind", "text", "value"),
        [
            (ConfigType.BOOLEAN, "TRUE", True),
            (ConfigType.BOOLEAN, " false ", False),
            (ConfigType.INT, "+5", 5),
            (ConfigType.LONG, "-007", -7),
            (ConfigType.DOUBLE, "1e-1", 0.1),
            (ConfigType.STRING, " as it is ", "as it is"),
            (ConfigType.LIST, "", ()),
            (ConfigType.LIST, " compact , delete ", ("compact", "delete")),
            (ConfigType.LIST, "a,,b", ("a", "", "b")),
        ],
    )
    def test_takes_what_kafka_takes(self, kind: ConfigType, text: str, value: object) -> None:
        assert a_key(kind).parse(text) == value

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            (ConfigType.BOOLEAN, "yes"),
            (ConfigType.INT, ""),
            (ConfigType.INT, "1_000"),
            (ConfigType.INT, "٣"),
            (ConfigType.INT, "1.0"),
            (ConfigType.LONG, "9" * 5000),
            (ConfigType.DOUBLE, "half"),
            (ConfigType.DOUBLE, "1_0"),
            (ConfigType.DOUBLE, "NaN"),
            (ConfigType.DOUBLE, "inf"),
        ],
    )
    def test_refuses_text_of_another_type(self, kind: ConfigType, text: str) -> None:
        assert refuses(a_key(kind), text)

    def test_takes_numbers_and_booleans_by_their_text(self) -> None:
        assert TOPIC_CONFIG_KEYS["retention.ms"].parse(-1) == -1
        assert TOPIC_CONFIG_KEYS["preallocate"].parse(True) is True

    def test_names_key_value_and_what_is_allowed(self) -> None:
        expected = (
            "segment.bytes='12' is not allowed: it takes an integer from 1048576 to 2147483647"
        )

        with pytest.raises(InvalidConfigError, match=f"^{re.escape(expected)}$") as caught:
            TOPIC_CONFIG_KEYS["segment.bytes"].parse("12")

        assert vars(caught.value) == {"key": "segment.bytes", "value": "12"}

    @given(st.integers(-(2**70), 2**70))
    @example(LONG_MAX)
    @example(LONG_MAX + 1)
    @example(-1)
    @example(-2)
    def test_a_long_is_taken_exactly_within_its_bounds(self, number: int) -> None:
        """Goal: bounds are inclusive and nothing wraps. Method: compare with plain comparison."""
        key = TOPIC_CONFIG_KEYS["retention.ms"]

        assert refuses(key, str(number)) == (not -1 <= number <= LONG_MAX)

    @given(st.text(max_size=30))
    @example("-1")
    @example("1:2,3:4")
    def test_any_text_is_a_value_or_one_kind_of_error(self, text: str) -> None:
        """Goal: no text crashes a parser. Method: feed text to every key of the table.

        A miss is InvalidConfigError; a hit parses again from its own value.
        """
        for key in TOPIC_CONFIG_KEYS.values():
            if refuses(key, text):
                continue
            value = key.parse(text)
            again = ",".join(value) if isinstance(value, tuple) else value

            assert key.parse(again) == value


class TestBounds:
    @pytest.mark.parametrize(("name", "allowed", "refused"), KAFKA_BOUNDS + OWN_BOUNDS)
    def test_hold(
        self, name: str, allowed: tuple[object, ...], refused: tuple[object, ...]
    ) -> None:
        key = TOPIC_CONFIG_KEYS[name]

        assert [value for value in allowed if refuses(key, str(value))] == []
        assert [value for value in refused if not refuses(key, str(value))] == []
