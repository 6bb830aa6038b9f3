"""Avro values by schemas from a registry: types, resolution, and what is broken; without Spark."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import httpx2
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import SchemaError, UsageError
from sparklog.spark.avro import AvroTask
from sparklog.spark.avro_types import arrow_type
from sparklog.spark.registry import resolved

SUBJECT = "t-value"
INT = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
WIDER = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "a", "type": "long"},
        {"name": "b", "type": ["null", "string"], "default": None},
    ],
}


@pytest.fixture
def client() -> SchemaRegistryClient:
    return SchemaRegistryClient.new_client({"url": "mock://"})


def registered(client: SchemaRegistryClient, schema: Any, subject: str = SUBJECT) -> int:
    return client.register_schema(subject, Schema(json.dumps(schema), "AVRO"))


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    sink = BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
    sink.seek(5)
    fastavro.schemaless_writer(sink, schema, value)
    return sink.getvalue()


Decoded = tuple[list[Any], list[int | None], list[str | None]]


def decoded(client: SchemaRegistryClient, *values: bytes | None, reader: Any = None) -> Decoded:
    text = None if reader is None else json.dumps(reader)
    schemas = resolved(client, SUBJECT, text)
    kinds = {"decoded": schemas.arrow_type(), "_schema_id": pa.int32(), "_error": pa.string()}
    task = AvroTask(1, schemas, pa.schema([*kinds.items()]))
    batch = pa.record_batch({"offset": range(len(values)), "value": pa.array(values, pa.binary())})
    (found,) = task(iter([batch]))
    assert found.schema.names == ["offset", "value", *kinds]
    rows, ids, errors = (found.column(name).to_pylist() for name in kinds)
    return rows, ids, errors


class TestTypes:
    @pytest.mark.parametrize(
        ("schema", "kind", "value"),
        [
            ("boolean", pa.bool_(), True),
            ("int", pa.int32(), -(2**31)),
            ("long", pa.int64(), 2**63 - 1),
            ("double", pa.float64(), 0.5),
            ("bytes", pa.binary(), b"\0"),
            ("string", pa.string(), "ü"),
            ({"type": "fixed", "name": "F", "size": 2}, pa.binary(), b"ab"),
            ({"type": "enum", "name": "E", "symbols": ["x", "y"]}, pa.string(), "y"),
            ({"type": "array", "items": "int"}, pa.list_(pa.int32()), [1, 2]),
            ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int32()), {"a": 1}),
            (["null", "int"], pa.int32(), None),
            ({"type": "int", "logicalType": "date"}, pa.date32(), date(2013, 1, 1)),
            (
                {"type": "long", "logicalType": "timestamp-millis"},
                pa.timestamp("us", "UTC"),
                datetime(2013, 1, 1, tzinfo=UTC),
            ),
            (
                {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
                pa.decimal128(5, 2),
                Decimal("1.25"),
            ),
            ({"type": "string", "logicalType": "uuid"}, pa.string(), "no uuid at all"),
        ],
    )
    def test_follow_avro(
        self, client: SchemaRegistryClient, schema: Any, kind: pa.DataType, value: Any
    ) -> None:
        record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": schema}]}
        plain = {"type": "record", "name": "R", "fields": [{"name": "a", "type": _bare(schema)}]}
        schema_id = registered(client, record)
        (row,), _, errors = decoded(client, framed(schema_id, plain, {"a": value}))

        assert arrow_type(record) == pa.struct([("a", kind)])
        assert errors == [None]
        assert (dict(row["a"]) if isinstance(value, dict) else row["a"]) == value

    @pytest.mark.parametrize(
        ("schema", "problem"),
        [
            (["int", "string"], "field a is a union of several types"),
            ({"type": "array", "items": ["int", "string"]}, "field a.items is a union"),
            (["null", "R"], "field a is a recursive type R"),
            (
                {"type": "bytes", "logicalType": "decimal", "precision": 39},
                "field a is a decimal of 39 digits",
            ),
        ],
    )
    def test_that_spark_has_not_are_named(
        self, client: SchemaRegistryClient, schema: Any, problem: str
    ) -> None:
        registered(
            client, {"type": "record", "name": "R", "fields": [{"name": "a", "type": schema}]}
        )

        with pytest.raises(SchemaError, match=problem):
            decoded(client)

    def test_of_a_value_that_is_no_record(self, client: SchemaRegistryClient) -> None:
        schema_id = registered(client, "string")

        assert decoded(client, framed(schema_id, "string", "x"))[0] == ["x"]


def _bare(schema: Any) -> Any:
    is_uuid = isinstance(schema, dict) and schema.get("logicalType") == "uuid"
    return "string" if is_uuid else schema


class TestSchemas:
    def test_of_every_version_are_read_into_the_newest(self, client: SchemaRegistryClient) -> None:
        old, new = registered(client, INT), registered(client, WIDER)
        values = framed(old, INT, {"a": 1}), framed(new, WIDER, {"a": 2**40, "b": "x"})

        rows, ids, errors = decoded(client, *values)
        assert rows == [{"a": 1, "b": None}, {"a": 2**40, "b": "x"}]
        assert ids == [old, new]
        assert errors == [None, None]

    def test_of_the_reader_may_be_given(self, client: SchemaRegistryClient) -> None:
        schema_id = registered(client, WIDER)
        value = framed(schema_id, WIDER, {"a": 1, "b": "x"})
        narrow = {**WIDER, "fields": WIDER["fields"][1:]}

        assert decoded(client, value, reader=narrow)[0] == [{"b": "x"}]

    def test_may_refer_to_others(self, client: SchemaRegistryClient) -> None:
        registered(client, INT, "part")
        outer = {
            "type": "record",
            "name": "O",
            "fields": [{"name": "x", "type": "R"}, {"name": "y", "type": "R"}],
        }
        twice = [SchemaReference("R", "part", 1), SchemaReference("R", "part", 1)]
        schema = Schema(json.dumps(outer), "AVRO", references=twice)
        schema_id = client.register_schema(SUBJECT, schema)
        value = b"\0" + schema_id.to_bytes(4, "big") + b"\x02\x04"

        assert decoded(client, value)[0] == [{"x": {"a": 1}, "y": {"a": 2}}]

    def test_come_from_a_registry_by_its_settings(self) -> None:
        with pytest.raises(UsageError, match="subject 't-value' has no schema in the registry"):
            resolved({"url": "mock://"}, SUBJECT, None)

    def test_of_other_kinds_are_refused(self, client: SchemaRegistryClient) -> None:
        client.register_schema(SUBJECT, Schema("syntax = 'proto3';", "PROTOBUF"))

        with pytest.raises(UsageError, match="a schema of type PROTOBUF: no Avro"):
            decoded(client)

    @pytest.mark.parametrize("schema", ["nonsense", {"type": "record"}])
    def test_that_are_none_are_refused(self, client: SchemaRegistryClient, schema: Any) -> None:
        registered(client, schema)

        with pytest.raises(SchemaError, match="subject 't-value': no Avro schema"):
            decoded(client)

    def test_that_the_registry_withholds_are_told(
        self, client: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registered(client, INT)
        version: Callable[..., Any] = client.get_version
        monkeypatch.setattr(client, "get_version", lambda subject, _: version(subject, 99))

        with pytest.raises(UsageError, match="the registry answers"):
            decoded(client)

    def test_of_a_registry_that_is_not_reached_name_its_address_without_a_password(
        self, client: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request = httpx2.Request("GET", "http://user:secret@host:8081/subjects/t-value/versions")

        def refuse(_subject: str) -> list[int]:
            raise httpx2.ConnectError("[Errno 111] Connection refused", request=request)

        monkeypatch.setattr(client, "get_versions", refuse)

        with pytest.raises(UsageError) as told:
            decoded(client)
        assert str(told.value) == (
            "subject 't-value': the registry cannot be reached at "
            "http://host:8081/subjects/t-value/versions: [Errno 111] Connection refused"
        )


class TestBrokenValues:
    @pytest.mark.parametrize(
        ("value", "error"),
        [
            (b"", "no header of Confluent's"),
            (b"\0\0\0\0", "no header of Confluent's"),
            (b"\1\0\0\0\1\2", "no header of Confluent's"),
            (b"\0\0\0\0\1", "broken: EOFError"),
            (b"\0\0\0\0\1\2\2", "1 bytes follow the value"),
            (b"\0\0\0\0\1\xff\xff\xff\xff\xff\x0f", "broken: "),
        ],
    )
    def test_have_an_error(self, client: SchemaRegistryClient, value: bytes, error: str) -> None:
        good = framed(registered(client, INT), INT, {"a": 7})
        rows, _, errors = decoded(client, good, value)

        assert rows == [{"a": 7}, None]
        assert str(errors[1]).startswith(error)

    def test_with_an_unknown_id_keep_it(self, client: SchemaRegistryClient) -> None:
        registered(client, INT)

        assert decoded(client, b"\0\0\0\1\0\2") == ([None], [256], ["unknown schema id 256"])

    def test_are_no_tombstones(self, client: SchemaRegistryClient) -> None:
        registered(client, INT)

        assert decoded(client, None) == ([None], [None], [None])


@given(st.lists(st.binary(max_size=24), max_size=5))
def test_no_bytes_stop_a_task(values: list[bytes]) -> None:
    """Every value is decoded, or has an error, whatever its bytes."""
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    schema_id = registered(client, WIDER)
    headed = [b"\0" + schema_id.to_bytes(4, "big") + value for value in values]
    rows, _, errors = decoded(client, *headed)

    assert [row is None for row in rows] == [error is not None for error in errors]
