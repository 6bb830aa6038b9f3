"""Bytes that Kafka's own classes wrote (kafka-clients 4.3.0), and the records they hold.

r0: key k0, value v0, headers h1 = x and h2 = null; r1: no key, value v1, 5 ms later;
r2: key k2, no value, 10 ms before r0.
"""

from tests.naive.records import Record

T0 = 1_700_000_000_000

RECORDS = (
    Record(100, T0, b"k0", b"v0", (("h1", b"x"), ("h2", None))),
    Record(101, T0 + 5, None, b"v1"),
    Record(102, T0 - 10, b"k2", None),
)
"""The records of CREATE_TIME."""

PLAIN_RECORDS = bytes.fromhex(
    "26000000046b300476300404683102780468320110000a02010476310010001304046b320100"
)
"""r0, r1 and r2 behind a batch header."""

CREATE_TIME = (
    bytes.fromhex(
        "000000000000006400000057000000050257fd8bed0000000000020000018bcfe568000000018bcfe56805"
        "ffffffffffffffffffffffffffff00000003"
    )
    + PLAIN_RECORDS
)
"""Base offset 100, leader epoch 5, not compressed."""

APPEND_TIME = T0 + 1000
LOG_APPEND_TIME = (
    bytes.fromhex(
        "0000000000000064000000570000000502690ff5290008000000020000018bcfe568000000018bcfe56be8"
        "ffffffffffffffffffffffffffff00000003"
    )
    + PLAIN_RECORDS
)
"""The same with the time of the append."""

TRANSACTIONAL = (
    bytes.fromhex(
        "000000000000006400000057000000050290337a650010000000020000018bcfe568000000018bcfe56805"
        "000000000000000700020000000a00000003"
    )
    + PLAIN_RECORDS
)
"""The same as CREATE_TIME with producer id 7, epoch 2 and base sequence 10, in a transaction."""

COMMIT_MARKER = bytes.fromhex(
    "00000000000000c8000000420000000502826c23200030000000000000018bcfe568000000018bcfe56800"
    "00000000000000070002ffffffff000000012000000008000000010c00000000000300"
)
"""Offset 200, producer id 7, epoch 2, coordinator epoch 3."""

SNAPPY_STREAM = bytes.fromhex("82534e4150505900 00000001 00000001 00000028 2694") + PLAIN_RECORDS
LZ4_STREAM = bytes.fromhex("04224d18604082 26000080") + PLAIN_RECORDS + bytes(4)
ZSTD_STREAM = bytes.fromhex("28b52ffd 00 58 300100") + PLAIN_RECORDS + bytes.fromhex("010000")

SNAPPY_CRC = 0xDE1D042E
LZ4_CRC = 0xBF6F55C1
"""Of batches with base offset 0, leader epoch 0 and these streams."""

COMPACTED = bytes.fromhex(
    "0000000000000064000000540000000502f979600b0040000000020000018bd50bd7880000018bcfe56800"
    "ffffffffffffffffffffffffffff000000022c008fbeb35200046b30047630040468310278046832011600"
    "a3beb35204046b320100"
)
"""CREATE_TIME after compaction has dropped r1; r2 is a tombstone, so a delete horizon is set."""
DELETE_HORIZON = T0 + 5000 + 86_400_000

EMPTIED = bytes.fromhex(
    "0000000000000064000000310000000502372cf8b0000000000002ffffffffffffffff0000018bcfe56805"
    "ffffffffffffffffffffffffffff00000000"
)
"""CREATE_TIME after compaction has dropped everything."""

MESSAGES_V0 = bytes.fromhex(
    "0000000000000064000000128697724c0000000000026b300000000276300000000000000065000000104c9f"
    "5bc20000ffffffff0000000276310000000000000066000000108b23e3da0000000000026b32ffffffff"
)
"""r0, r1 and r2 without headers as a message set of magic 0."""

MESSAGE_V1 = bytes.fromhex(
    "00000000000000640000001a74aa514001000000018bcfe56800000000026b30000000027630"
)
"""r0 without headers as a message set of magic 1."""
