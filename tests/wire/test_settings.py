"""Settings of the gateway: variables of the environment, and values that are refused."""

from typing import Any

import pytest
from pydantic_settings import BaseSettings

from sparklog.errors import InvalidOptionError
from sparklog.rest.settings import Settings as RestSettings
from sparklog.service.settings import NEVER_EMPTY, settings_of, split, variable_of
from sparklog.wire.groups.coordinators import INITIAL_MS, limits_of
from sparklog.wire.security.sasl import MECHANISMS
from sparklog.wire.settings import Settings


def of_variables(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Settings:
    for name, value in ({"log_dir": "log"} | variables).items():
        monkeypatch.setenv(variable_of(name), value)
    return settings_of(Settings)


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("listen", "127.0.0.1:9092", ("127.0.0.1:9092",)),
        ("listen", "127.0.0.1:1, SSL://[::1]:2", ("127.0.0.1:1", "SSL://[::1]:2")),
        ("advertise", "a:1,b:2", ("a:1", "b:2")),
        ("advertise", ",", ()),
        ("sasl_enabled_mechanisms", "SCRAM-SHA-512", ("SCRAM-SHA-512",)),
    ],
)
def test_a_variable_of_several_values_has_commas(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, values: tuple[str, ...]
) -> None:
    assert getattr(of_variables(monkeypatch, **{name: text}), name) == values


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"log_dir": ""}, "--log-dir (SPARKLOG_LOG_DIR): Field required"),
        ({"listen": ","}, "--listen (SPARKLOG_LISTEN): Value should have at least 1 item"),
        ({"sasl_enabled_mechanisms": "PLAIN,GSSAPI"}, "'PLAIN', 'SCRAM-SHA-256' or"),
        ({"sasl_enabled_mechanisms": ","}, "at least 1 item"),
        ({"node_id": "2147483648"}, "less than or equal to 2147483647"),
        ({"num_partitions": "100001"}, "less than or equal to 100000"),
        ({"offsets_topic_num_partitions": "100001"}, "less than or equal to 100000"),
    ],
)
def test_a_wrong_value_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], told: str
) -> None:
    with pytest.raises(InvalidOptionError) as raised:
        of_variables(monkeypatch, **given)
    assert told in str(raised.value)


@pytest.mark.parametrize("kind", [Settings, RestSettings])
def test_an_empty_variable_counts_as_not_given(
    monkeypatch: pytest.MonkeyPatch, kind: type[BaseSettings]
) -> None:
    for name in kind.model_fields.keys() - set(NEVER_EMPTY):
        monkeypatch.setenv(variable_of(name), "")
    assert settings_of(kind, {"log_dir": "log"}) == kind.model_construct(log_dir="log")


@pytest.mark.parametrize("name", NEVER_EMPTY)
def test_a_value_that_got_lost_lets_nobody_in(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(
        InvalidOptionError, match=f"{variable_of(name)}.*is empty; set it or remove"
    ):
        of_variables(monkeypatch, **{name: ""})


def test_the_mechanisms_are_those_that_there_are() -> None:
    assert Settings.model_fields["sasl_enabled_mechanisms"].default == tuple(MECHANISMS)


@pytest.mark.parametrize("value", [("a,b",), 1, None])
def test_other_values_than_texts_are_not_split(value: Any) -> None:
    assert split(value) is value


@pytest.mark.parametrize(("asked_ms", "expected_ms"), [(0, INITIAL_MS), (3_000, 3_000)])
def test_an_empty_group_waits_a_few_ms_at_least(asked_ms: int, expected_ms: int) -> None:
    settings = Settings(log_dir="log", group_initial_rebalance_delay_ms=asked_ms)
    assert limits_of(settings).initial_rebalance_delay_ms == expected_ms
