"""Bodies of requests and answers; those of v3 are in models3. Field names are Confluent's."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, FailFast, Field, TypeAdapter, model_validator

from sparklog.model import NO_TIMESTAMP
from sparklog.rest.payloads.bodies import NUMBER

Int32 = Annotated[int, Field(ge=0, lt=2**31), NUMBER]
Int64 = Annotated[int, Field(ge=0, lt=2**63), NUMBER]


class In(BaseModel):
    """The body of a request. Unknown fields are refused: one of them may be misspelt."""

    model_config = ConfigDict(extra="forbid")


class ErrorBody(BaseModel):
    """The body of every error."""

    error_code: int = Field(examples=[40401])
    message: str = Field(examples=["unknown topic 'flihgts'"])


# --- offsets -------------------------------------------------------------------------------------


class PartitionOffsets(BaseModel):
    """The beginning and the end of a partition's log: the end is the offset of the next record."""

    beginning_offset: int
    end_offset: int


class FoundOffset(BaseModel):
    """The record that was found, as ListOffsets returns it; offset and timestamp -1 if none was."""

    partition: int
    offset: int
    timestamp: int = NO_TIMESTAMP


class FileRange(BaseModel):
    """The bytes of a segment: a file, or a slice of a shared one.

    The path is relative to the log dir.
    """

    path: str
    position: int
    bytes: int


class IndexEntry(BaseModel):
    """The entry of the offset index that led to the batch. The path is relative to the log dir."""

    path: str
    offset: int
    position: int


class OffsetPlace(BaseModel):
    """The place of an offset: segment, file, index entry, batch.

    The positions of the index entry and of the batch are relative to the segment's first byte.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    segment_base_offset: int
    segment_next_offset: int
    file_base_offset: int
    sealed: bool
    log: FileRange
    index_entry: IndexEntry | None
    position: int
    batch_bytes: int
    batch_base_offset: int
    batch_last_offset: int


_EITHER: Final[dict[str, Any]] = {
    "oneOf": [
        {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
        for name in ("offset", "timestamp")
    ]
}


class Lookup(In):
    """One question: the place of an offset, or the first record at or after a time."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_EITHER)

    partition: Int32
    offset: Int64 | None = None
    timestamp: Annotated[int, Field(ge=-3, lt=2**63), NUMBER] | str | None = None

    @model_validator(mode="after")
    def _asks_one_thing(self) -> "Lookup":
        if (self.offset is None) == (self.timestamp is None):
            raise ValueError("a lookup has either offset or timestamp")
        return self


class LookupsIn(In):
    """Questions about one topic."""

    lookups: Annotated[list[Lookup], FailFast(), Field(min_length=1, max_length=10_000)]


class LookupAnswer(BaseModel):
    """The answer to one question: what it asked for, or an error."""

    partition: int
    offset: int | None = None
    timestamp: int | None = None
    place: OffsetPlace | None = None
    error_code: int | None = None
    message: str | None = None


class LookupsOut(BaseModel):
    """The answers, in the order of the questions."""

    lookups: list[LookupAnswer]


# --- topics, v2 ----------------------------------------------------------------------------------


class Replica(BaseModel):
    """The one replica of a partition, on broker 0: the storage."""

    broker: int = 0
    leader: bool = True
    in_sync: bool = True


class PartitionOut(BaseModel):
    """A partition."""

    partition: int
    leader: int = 0
    replicas: list[Replica] = Field(default_factory=lambda: [Replica()])


class TopicOut(BaseModel):
    """A topic; `configs` has all its configs, defaults included."""

    name: str
    configs: dict[str, str]
    partitions: list[PartitionOut]


class Brokers(BaseModel):
    """The brokers: only broker 0, the storage."""

    brokers: list[int] = [0]


# --- records -------------------------------------------------------------------------------------


class Header(BaseModel):
    """A header; its value is base64."""

    key: str
    value: str | None


class RecordOut(BaseModel):
    """A record; key and value are base64, or JSON if Accept asks for it."""

    topic: str
    key: Any
    value: Any
    partition: int
    offset: int
    timestamp: int
    headers: list[Header] | None = None


class ProducedOffset(BaseModel):
    """The partition and the offset of one record, or its error."""

    partition: int
    offset: int
    error_code: int | None = None
    error: str | None = None


class Produced(BaseModel):
    """The offsets of the records of a request, in their order."""

    offsets: list[ProducedOffset]
    key_schema_id: int | None = None
    value_schema_id: int | None = None


LOOKUPS: TypeAdapter[LookupsIn] = TypeAdapter(LookupsIn)
