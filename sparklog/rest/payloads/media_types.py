"""The media types of requests and answers."""

from typing import Final

PLAIN_JSON: Final = "application/json"
V2: Final = "application/vnd.kafka.v2+json"
"""JSON of a v2 body without records."""
BINARY: Final = "application/vnd.kafka.binary.v2+json"
"""v2 records, with keys and values in base64."""
JSON: Final = "application/vnd.kafka.json.v2+json"
"""v2 records, with keys and values as JSON."""
ARROW: Final = "application/vnd.apache.arrow.stream"
"""Records as a stream of Arrow record batches."""
RAW: Final = "application/vnd.sparklog.recordbatch"
"""Kafka's record batches, byte for byte."""
