"""JSON lines in are JSON lines out, through a log."""

import base64
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.command_line import CommandLine

BYTES = st.none() | st.binary(max_size=12) | st.text(max_size=6).map(str.encode)
HEADERS = st.lists(st.tuples(st.text(max_size=4), BYTES), max_size=3)
RECORD = st.tuples(BYTES, BYTES, HEADERS, st.integers(0, 2**40))
RECORDS = st.lists(RECORD, min_size=1, max_size=8)


def field(name: str, data: bytes | None) -> dict[str, str | None]:
    """A key or value as JSON has it: text where it is UTF-8."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode(), f"{name}_encoding": "base64"}


def as_json(record: Any) -> dict[str, Any]:
    key, value, headers, timestamp = record
    pairs = [{"key": name, **field("value", data)} for name, data in headers]
    return {"timestamp": timestamp, **field("key", key), **field("value", value), "headers": pairs}


class TestRoundTrip:
    @settings(max_examples=25, deadline=None)
    @given(RECORDS)
    @example([(bytes(range(256)), b"", [("", b"\xff"), ("", None)], 0)])
    @example([(None, None, [], 2**40)])
    def test_what_goes_in_comes_out(self, records: list[Any]) -> None:
        """Goal: nothing is lost or altered. Method: any bytes; produce, consume, compare."""
        given_ = [as_json(record) for record in records]
        with TemporaryDirectory() as folder:
            sparklog = CommandLine(str(Path(folder) / "log"))
            unbounded = 2**63 - 1
            sparklog.done("topic", "create", "t", "--config",
                          f"message.timestamp.after.max.ms={unbounded}")  # fmt: skip
            lines = "\n".join(json.dumps(record) for record in given_)
            sparklog.done("produce", "t", "--format", "json", stdin=lines.encode())
            found = sparklog.done("consume", "t", "--format", "json").json

        assert found == [
            {"topic": "t", "partition": 0, "offset": offset, **record}
            for offset, record in enumerate(given_)
        ]
