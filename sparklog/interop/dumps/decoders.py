"""Kafka's decoders of keys and values: org.apache.kafka.tools.api.*Decoder."""

from collections.abc import Callable
from typing import Final

from sparklog.errors import CorruptRecordError, InvalidOptionError
from sparklog.interop.broker_files.java_records import JavaRecord
from sparklog.interop.dumps.dump_batches import Decoded, Decoder
from sparklog.interop.dumps.text_lines import java_text

_PACKAGES: Final = ("", "org.apache.kafka.tools.api.", "kafka.serializer.")


def _number(size: int) -> Callable[[bytes], bytes]:
    def decode(data: bytes) -> bytes:
        if len(data) < size:
            raise CorruptRecordError(f"{len(data)} bytes where a number of {size} is expected")
        return str(int.from_bytes(data[:size], "big", signed=True)).encode()

    return decode


_DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "StringDecoder": java_text,
    "IntegerDecoder": _number(4),
    "LongDecoder": _number(8),
}


def class_decoder(key: str | None, value: str | None) -> Decoder | None:
    """Return the decoder for the class names of key and value; None if both are plain text.

    Raises InvalidOptionError for a class that is not Kafka's: no code of a user's is loaded.
    """
    keys, values = (_of(name) for name in (key, value))
    if keys is java_text and values is java_text:
        return None

    def decode(record: JavaRecord) -> Decoded:
        return (
            None if record.key is None else keys(record.key),
            None if record.value is None else values(record.value),
        )

    return decode


def _of(name: str | None) -> Callable[[bytes], bytes]:
    if name is None:
        return java_text
    known = {package + short: found for package in _PACKAGES for short, found in _DECODERS.items()}
    if name not in known:
        raise InvalidOptionError(
            f"no decoder {name!r}: allowed are {', '.join(_DECODERS)}", option="decoder-class"
        )
    return known[name]
