"""Turns bodies of a produce into records: v2 `{"records": […]}`, v3 concatenated JSON objects.

    v2   key and value are base64 (…binary.v2+json, application/json) or JSON (…json.v2+json)
    v3   {"partition_id", "headers", "key": {"type", "data"}, "value": …, "timestamp"}, type BINARY,
         JSON or STRING

A JSON value is stored as compact JSON; null becomes a null value: a tombstone.
"""

import json
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NotRequired

import orjson
from pydantic import ConfigDict, FailFast, Field, TypeAdapter, ValidationError, with_config
from pydantic_core import from_json
from typing_extensions import TypedDict

from sparklog.group_commit.rows import Rows
from sparklog.rest.errors import INVALID_PAYLOAD, SCHEMA_NEEDED, ApiError
from sparklog.rest.payloads.bodies import NUMBER, invalid, parsed
from sparklog.rest.payloads.json_parts import PART_BYTES, Text, list_parts, stream_parts
from sparklog.rest.payloads.media_types import BINARY, JSON, PLAIN_JSON, V2
from sparklog.rest.times import exact_time

PRODUCE_TYPES: Final = {BINARY: False, PLAIN_JSON: False, V2: False, JSON: True}
"""Content types of a v2 produce, and whether keys and values are JSON."""

RECORDS_MAX: Final = 100_000
"""The most records of a request: a body could have millions of empty ones."""
REFUSALS_MAX: Final = 1000
"""The most invalid records that a v3 request reports one by one; with more it is refused."""
HEADERS: Final = Field(max_length=10_000)

Partition = Annotated[int, Field(ge=0, lt=2**31), NUMBER]
Timestamp = Annotated[int, Field(ge=0, lt=2**63), NUMBER]


@with_config(ConfigDict(extra="forbid"))
class HeaderIn(TypedDict):
    """A header; the value is base64."""

    key: str
    value: NotRequired[str | None]


@with_config(ConfigDict(extra="forbid"))
class RecordIn(TypedDict):
    """A record; key and value are base64, or any JSON if the Content-Type says so."""

    key: NotRequired[Any]
    value: NotRequired[Any]
    partition: NotRequired[Partition | None]
    timestamp: NotRequired[Timestamp | None]
    headers: NotRequired[Annotated[list[HeaderIn], HEADERS] | None]


@with_config(ConfigDict(extra="forbid"))
class ProduceIn(TypedDict):
    """Records to produce. There is no schema registry: fields about schemas must be null."""

    records: Annotated[list[RecordIn], FailFast(), Field(min_length=1, max_length=RECORDS_MAX)]
    key_schema: NotRequired[None]
    key_schema_id: NotRequired[None]
    value_schema: NotRequired[None]
    value_schema_id: NotRequired[None]


@with_config(ConfigDict(extra="forbid"))
class Data3(TypedDict):
    """A key or value."""

    type: NotRequired[Literal["BINARY", "JSON", "STRING"]]
    data: NotRequired[Any]


@with_config(ConfigDict(extra="forbid"))
class Header3(TypedDict):
    """A header; the value is base64."""

    name: str
    value: NotRequired[str | None]


@with_config(ConfigDict(extra="forbid"))
class Record3In(TypedDict):
    """A record of a v3 produce; a body has one or more, one after another."""

    partition_id: NotRequired[Partition | None]
    headers: NotRequired[Annotated[list[Header3], HEADERS] | None]
    key: NotRequired[Data3 | None]
    value: NotRequired[Data3 | None]
    timestamp: NotRequired[Timestamp | str | None]


PRODUCE: Final[TypeAdapter[ProduceIn]] = TypeAdapter(ProduceIn)
RECORDS: Final = TypeAdapter(Annotated[list[RecordIn], FailFast(), Field(min_length=1)])
RECORD3: Final[TypeAdapter[Record3In]] = TypeAdapter(Record3In)


def rows_of(body: Text, partition: int | None, *, is_json: bool) -> Rows:
    """Return the records of a v2 body. `partition` is the path's; None: records may name theirs.

    Raises ApiError: 413 for too many records, or too many values in one; 422 or 42206 naming the
    record.
    """
    rows = Rows()
    for part in list_parts(body, "records", RECORDS_MAX):
        first = len(rows)
        if first:
            records = parsed(part, RECORDS, ("records", first))
        else:
            records = _produce_in(part)["records"]
        for number, record in enumerate(records, first):
            try:
                _append_v2(rows, record, partition, _json if is_json else _base64)
            except ValueError as error:
                raise ApiError(INVALID_PAYLOAD, f"record {number}: {error}") from None
    return rows


def _append_v2(
    rows: Rows,
    record: RecordIn,
    partition: int | None,
    decode: Callable[[Any], bytes | None],
) -> None:
    rows.key.append(decode(record.get("key")))
    rows.value.append(decode(record.get("value")))
    pairs = record.get("headers")
    rows.headers.append(_pairs(pairs, "key") if pairs else None)
    named = record.get("partition")
    if partition is not None and named not in (None, partition):
        raise ValueError(f"partition {named} is not that of the path")
    rows.partition.append(partition if named is None else named)
    rows.timestamp.append(record.get("timestamp"))


def _produce_in(body: Text) -> ProduceIn:
    try:
        return parsed(body, PRODUCE)
    except ApiError as refusal:
        if "schema" in refusal.message.partition(":")[0]:
            raise ApiError(SCHEMA_NEEDED, f"schemas are not kept here: {refusal}") from None
        raise


def _base64(text: Any) -> bytes | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError("key and value are base64 text or null")
    try:
        return a2b_base64(text, strict_mode=True)
    except (Base64Error, ValueError):
        raise ValueError("key or value is not base64") from None


def _json(data: Any) -> bytes | None:
    if data is None:
        return None
    try:
        text = orjson.dumps(data)
    except TypeError:  # an integer of more than 64 bits, or deep nesting
        text = b""
    if text and b"null" not in text:
        return text
    # orjson writes NaN and 1e999 as null; json raises an error for them.
    plain = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text or plain.encode()


def _pairs(headers: Any, name: str) -> list[dict[str, Any]]:
    for one in headers:
        one[name].encode()  # raises ValueError: a lone surrogate is no UTF-8
    return [{"key": one[name], "value": _base64(one.get("value"))} for one in headers]


# --- v3 ------------------------------------------------------------------------------------------


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refused)
_BLANK: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome of one object of a v3 body: the types of key and value, or its error."""

    types: tuple[str, str] = ("BINARY", "BINARY")
    refusal: ApiError | None = None


def rows_of_stream(body: Text) -> tuple[Rows, list[Sent]]:
    """Return the valid records of a v3 body, and an outcome for every object, in their order.

    Text that is not JSON ends the body: objects after it cannot be found.
    """
    return rows_of_objects(_objects(body))


def rows_of_objects(objects: Iterable[Any]) -> tuple[Rows, list[Sent]]:
    """Return the valid records of parsed objects, and an outcome for every object, in their order.

    An ApiError among the objects stands for one that could not be parsed. Raises ApiError (422) for
    more than REFUSALS_MAX invalid objects.
    """
    rows = Rows()
    sent: list[Sent] = []
    refusals = 0
    for found in objects:
        try:
            if isinstance(found, ApiError):
                raise found
            sent.append(_append_v3(rows, _record3(found)))
        except ApiError as refusal:
            refusals += 1
            if refusals > REFUSALS_MAX:
                raise ApiError(422, f"more than {REFUSALS_MAX} objects are no records") from None
            # A new error: the traceback of the raised one would keep the record in memory.
            sent.append(Sent(refusal=ApiError(refusal.error_code, refusal.message)))
    return rows, sent


def _objects(body: Text) -> Iterator[Any]:
    for start, part in stream_parts(body, RECORDS_MAX):
        try:
            yield from _objects_of(start, part)
        except ApiError as refusal:
            yield refusal
            return


def _objects_of(start: int, part: Text) -> Iterator[Any]:
    """Yield the objects of a part. Raises ApiError (42206) at text that is not JSON."""
    if len(part) > PART_BYTES and not part.isascii():  # mostly one object: a str would be larger
        try:
            yield from_json(part, allow_inf_nan=False)
            return
        except ValueError:
            pass
    try:
        text = part.decode()
    except UnicodeDecodeError:
        raise ApiError(INVALID_PAYLOAD, "the body is not UTF-8") from None
    at = 0
    while at < len(text):
        if text[at] in _BLANK:
            at += 1
            continue
        try:
            found, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            position = start + len(text[:at].encode())
            raise ApiError(INVALID_PAYLOAD, f"no JSON at byte {position}") from None
        yield found


def _record3(found: Any) -> Record3In:
    try:
        return RECORD3.validate_python(found)
    except ValidationError as error:
        raise invalid(error) from None


def _append_v3(rows: Rows, record: Record3In) -> Sent:
    try:
        key_type, key = _data(record.get("key"))
        value_type, value = _data(record.get("value"))
        pairs = record.get("headers")
        headers = _pairs(pairs, "name") if pairs else None
    except (ValueError, RecursionError) as error:
        raise ApiError(INVALID_PAYLOAD, str(error)) from None
    timestamp = record.get("timestamp")
    when = None if timestamp is None else exact_time(timestamp)
    if when is not None and when < 0:
        raise ApiError(INVALID_PAYLOAD, f"timestamp {when} is negative")
    rows.key.append(key)
    rows.value.append(value)
    rows.headers.append(headers)
    rows.timestamp.append(when)
    rows.partition.append(record.get("partition_id"))
    return Sent((key_type, value_type))


def _data(given: Mapping[str, Any] | None) -> tuple[str, bytes | None]:
    if given is None:
        return "BINARY", None
    kind, data = given.get("type", "BINARY"), given.get("data")
    if kind == "JSON":
        return kind, _json(data)
    if kind == "STRING":
        if not isinstance(data, str | None):
            raise ValueError("data of type STRING is text or null")
        return kind, None if data is None else data.encode()
    return kind, _base64(data)
