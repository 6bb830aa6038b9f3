"""Options of produce and consume: one row each, one parser for all."""

from typing import Any

import pytest

from sparklog.config.options import (
    CONSUME_OPTIONS,
    PRODUCE_OPTIONS,
    SOURCE_OPTIONS,
    STORAGE_PREFIX,
    STREAM_OPTIONS,
    Option,
    parse_options,
    storage_settings,
)
from sparklog.errors import InvalidOptionError


def produce_option(name: str, value: object) -> Any:
    return parse_options(PRODUCE_OPTIONS, {name: value})[0][name]


class TestRows:
    @pytest.mark.parametrize("options", [PRODUCE_OPTIONS, CONSUME_OPTIONS, STREAM_OPTIONS])
    def test_have_names_that_differ_and_a_sentence(self, options: tuple[Option, ...]) -> None:
        names = [option.name.lower() for option in options]

        assert len(set(names)) == len(names)
        assert all(option.doc.endswith(".") for option in options)
        assert not any(name.startswith(STORAGE_PREFIX) for name in names)

    @pytest.mark.parametrize("option", SOURCE_OPTIONS)
    def test_have_a_default_within_their_bounds(self, option: Option) -> None:
        assert option.default is None or option.parse(option.default) is not None

    def test_have_the_kafka_producers_defaults(self) -> None:
        values, storage = parse_options(PRODUCE_OPTIONS, {})

        assert values["compression.type"] == "none"
        assert values["batch.size"] == 16384
        assert values["flush"] == "fsync"
        assert storage == {}

    def test_have_the_connectors_defaults(self) -> None:
        values, _ = parse_options(CONSUME_OPTIONS, {})

        assert values["startingOffsetsByTimestampStrategy"] == "error"
        assert values["failOnDataLoss"] is True
        assert values["includeHeaders"] is False
        assert {values[name] for name in ("assign", "subscribe", "minPartitions")} == {None}

    def test_of_a_data_source_are_told_apart_by_their_names(self) -> None:
        names = [option.name for option in SOURCE_OPTIONS]

        assert len(set(names)) == len(names)
        assert parse_options(SOURCE_OPTIONS, {})[0]["maxTriggerDelay"] == "15m"


class TestNames:
    @pytest.mark.parametrize(
        "name", ["batch.size", "batch_size", "BATCH.SIZE", "Batch_Size", "batch.SIZE"]
    )
    def test_may_be_spelt_as_arguments_and_in_any_case(self, name: str) -> None:
        assert parse_options(PRODUCE_OPTIONS, {name: "5"})[0]["batch.size"] == 5

    @pytest.mark.parametrize("name", ["txnAppId", "txnappid", "TXNAPPID"])
    def test_in_camel_case_have_no_dots(self, name: str) -> None:
        assert parse_options(PRODUCE_OPTIONS, {name: "a"})[0]["txnAppId"] == "a"

    @pytest.mark.parametrize(
        ("name", "nearest"),
        [
            ("batchsize", "batch.size"),
            ("batch_sise", "batch.size"),
            ("compression", "compression.type"),
            ("txnApId", "txnAppId"),
        ],
    )
    def test_that_are_unknown_get_the_nearest(self, name: str, nearest: str) -> None:
        with pytest.raises(
            InvalidOptionError, match=f"unknown option {name}; did you mean {nearest}"
        ):
            parse_options(PRODUCE_OPTIONS, {name: "1"})

    def test_that_are_far_off_get_the_list(self) -> None:
        with pytest.raises(
            InvalidOptionError, match=r"unknown option xyz \(known: allowOffsetGaps, bat"
        ):
            parse_options(PRODUCE_OPTIONS, {"xyz": "1"})

    @pytest.mark.parametrize(
        ("options", "name", "place"),
        [
            (SOURCE_OPTIONS, "history", "sparklog.spark.consume"),
            (CONSUME_OPTIONS, "topic", "writes in Spark"),
            (CONSUME_OPTIONS, "batch_size", "writes in Spark"),
            (CONSUME_OPTIONS, "maxOffsetsPerTrigger", "streaming reads in Spark"),
            (PRODUCE_OPTIONS, "includeheaders", "reads in Spark"),
        ],
    )
    def test_that_are_known_elsewhere_get_the_place(
        self, options: tuple[Option, ...], name: str, place: str
    ) -> None:
        with pytest.raises(InvalidOptionError, match=f"option {name}, which is for {place} \\("):
            parse_options(options, {name: "1"})


class TestValues:
    def test_that_are_none_are_as_if_left_out(self) -> None:
        values, _ = parse_options(PRODUCE_OPTIONS, {"batch.size": None, "partitioner": None})

        assert (values["batch.size"], values["partitioner"]) == (16384, None)

    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("batch.size", 5, 5),
            ("batch.size", " 5 ", 5),
            ("txnVersion", "0", 0),
            ("segment.bytes", "14", 14),
            ("partitioner", "a.b_c:f", "a.b_c:f"),
            ("partitioner", "uniform-sticky", "uniform-sticky"),
        ],
    )
    def test_are_typed(self, name: str, value: object, expected: object) -> None:
        assert produce_option(name, value) == expected

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("batch.size", "-1"),
            ("batch.size", "1e3"),
            ("batch.size", 2**31),
            ("segment.bytes", 13),
            ("txnVersion", -1),
            ("txnVersion", 2**63),
            ("compression.type", "GZIP"),
            ("partitioner", "module.function"),
            ("partitioner", "module:"),
            ("clustered", ""),
        ],
    )
    def test_out_of_bounds_are_refused(self, name: str, value: object) -> None:
        with pytest.raises(InvalidOptionError, match=f"option {name}=.* is not allowed") as caught:
            produce_option(name, value)
        assert caught.value.option == name  # type: ignore[attr-defined] # a detail of the error

    @pytest.mark.parametrize("name", ["startingTimestamp", "endingTimestamp"])
    def test_that_are_times_are_milliseconds(self, name: str) -> None:
        with pytest.raises(InvalidOptionError, match="it takes milliseconds since 1970, an int"):
            parse_options(CONSUME_OPTIONS, {name: "2013-07-04"})

    @pytest.mark.parametrize("value", [["a", "b"], ("a",), {"a": [0]}, {"a"}, b"a"])
    def test_that_are_no_text_are_refused(self, value: object) -> None:
        with pytest.raises(InvalidOptionError, match=f"option topic is a {type(value).__name__}: "):
            produce_option("topic", value)

    def test_may_be_booleans(self) -> None:
        values, _ = parse_options(
            CONSUME_OPTIONS, {"includeHeaders": True, "failOnDataLoss": "FALSE"}
        )

        assert (values["includeHeaders"], values["failOnDataLoss"]) == (True, False)
        assert produce_option("clustered", True) == "true"


class TestStorage:
    def test_settings_pass_through(self) -> None:
        given = {"storage.AWS_REGION": "x", "Storage.aws_endpoint_url": "y", "flush": "none"}
        values, storage = parse_options(PRODUCE_OPTIONS, given)

        assert storage == {"AWS_REGION": "x", "aws_endpoint_url": "y"}
        assert values["flush"] == "none"


def test_storage_settings_are_found_in_any_case() -> None:
    given = {"storage.region": "x", "STORAGE.endpoint": 1, "topic": "t", "storages": "no"}
    assert storage_settings(given) == {"region": "x", "endpoint": "1"}
