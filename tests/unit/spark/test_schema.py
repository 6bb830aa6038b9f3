"""Columns: which are taken, which are refused, and which are warned of."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sparklog.config.options import CONSUME_OPTIONS, RECORD_COLUMNS, parse_options
from sparklog.errors import InvalidOptionError, SchemaError, SparklogWarning
from sparklog.record.record_batches import arrow_schema
from sparklog.spark.schema import input_columns, output_columns, output_schema

HEADERS = StructType().add("key", StringType()).add("value", BinaryType())
KINDS: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "headers": ArrayType(HEADERS),
    "misnamed": ArrayType(StructType().add("name", StringType()).add("value", BinaryType())),
    "mistyped": ArrayType(StructType().add("key", StringType()).add("value", StringType())),
    "strings": ArrayType(StringType()),
}


def schema(text: str) -> StructType:
    """`name kind, …`, without a JVM to parse it."""
    fields = StructType()
    for column in text.split(", "):
        name, _, kind = column.partition(" ")
        fields.add(name, KINDS[kind])
    return fields


class TestInput:
    @pytest.mark.parametrize(
        ("columns", "taken"),
        [
            ("value string", ["value"]),
            ("value binary, key string", ["key", "value"]),
            (
                "headers headers, partition int, topic string, key string, value binary",
                ["key", "value", "partition", "headers"],
            ),
            ("value string, topic int", ["value"]),  # an option names the topic
            ("value string, timestamp timestamp_ntz", ["value", "timestamp"]),
            ("value string, timestamp bigint", ["value", "timestamp"]),
            ("value string, timestampType int, more double", ["value"]),
            (
                "offset bigint, partition int, value string",
                ["value", "partition", "offset"],
            ),
        ],
    )
    def test_takes_the_kafka_sinks_columns(self, columns: str, taken: list[str]) -> None:
        assert input_columns(schema(columns), needs_topic=False) == taken

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ("key string", "required column value not found; columns are key"),
            ("valeu string", "required column value not found; did you mean valeu"),
            ("value int", "column value is int: it must be string or binary"),
            ("value string, key bigint", "column key is bigint: it must be string or binary"),
            ("value headers", r"string or binary \(to_json makes a string of it\)$"),
            ("key strings, value string", r"string or binary \(to_json makes a string"),
            ("value int", "it must be string or binary$"),
            ("value string, partition bigint", "column partition is bigint: it must be int"),
            ("value string, offset bigint", "column offset needs column partition: without either"),
            ("value string, partition int, offset int", "column offset is int: it must be bigint"),
            ("value string, timestamp string", "timestamp is string: it must be timestamp, "),
            ("value string, headers strings", "column headers is array<string>: it must be array"),
            ("value string, headers misnamed", "column headers is array<struct<name:string,"),
            ("value string, headers mistyped", "it must be array<struct<key: string, value: bin"),
            ("value string, headers string", "column headers is string: it must be array<struct"),
            ("value string, value string", "column value is there 2 times"),
            ("value string, Value string", "column value is there 2 times"),
            ("value string, Key string", "column Key must be spelt key"),
            ("VALUE string", "column VALUE must be spelt value"),
        ],
    )
    def test_refuses_what_it_cannot_write(self, columns: str, message: str) -> None:
        with pytest.raises(SchemaError, match=message):
            input_columns(schema(columns), needs_topic=False)

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ("value string", r"column topic not found \(or give the option topic"),
            ("value string, topic binary", "column topic is binary: it must be string"),
        ],
    )
    def test_asks_for_the_topic_when_no_option_names_it(self, columns: str, message: str) -> None:
        with pytest.raises(SchemaError, match=message):
            input_columns(schema(columns), needs_topic=True)

    def test_has_the_topic_when_no_option_names_it(self) -> None:
        given = schema("topic string, value string")

        assert input_columns(given, needs_topic=True) == ["value", "topic"]

    @pytest.mark.parametrize("name", ["keys", "headrs", "Timestmap", "partitions"])
    def test_warns_of_what_looks_misspelt(self, name: str) -> None:
        with pytest.warns(SparklogWarning, match=f"column {name} is ignored; did you mean"):
            input_columns(schema(f"value string, {name} string"), needs_topic=False)

    def test_is_silent_when_both_are_there(self) -> None:
        assert input_columns(schema("value string, key string, keys string"), needs_topic=False)


class TestOutput:
    def test_is_the_kafka_sources(self) -> None:
        assert output_schema().simpleString() == (
            "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
            "timestamp:timestamp,timestampType:int,"
            "headers:array<struct<key:string,value:binary>>>"
        )
        assert all(field.nullable for field in output_schema())

    @pytest.mark.parametrize("names", [RECORD_COLUMNS, ("offset",), ("value", "key")])
    def test_is_the_same_in_arrow(self, names: tuple[str, ...]) -> None:
        assert output_schema(names).names == list(names)
        assert arrow_schema(names).names == list(names)


class TestColumnsAskedFor:
    def columns(self, **options: object) -> list[str]:
        return output_columns(parse_options(CONSUME_OPTIONS, options)[0])

    def test_are_all_but_headers(self) -> None:
        assert self.columns() == list(RECORD_COLUMNS[:-1])
        assert self.columns(includeHeaders=True) == list(RECORD_COLUMNS)

    def test_may_be_named(self) -> None:
        assert self.columns(columns="offset, key") == ["offset", "key"]
        assert self.columns(columns="headers", includeHeaders=True) == ["headers"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"columns": "ofset"}, "columns='ofset' is not allowed: .* key, value, topic"),
            ({"columns": "Offset"}, "columns='Offset' is not allowed"),
            ({"columns": ""}, "option columns: '' must name at least one"),
            ({"columns": "key,key"}, "option columns: 'key,key' must name .* none twice"),
            ({"columns": "key", "includeHeaders": True}, "leaves out headers, includeHeaders asks"),
        ],
    )
    def test_are_refused(self, options: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidOptionError, match=message):
            self.columns(**options)
