"""The bytes of a record batch and of a legacy message. All integers are big-endian.

Record batch, magic 2 (DefaultRecordBatch):

    0                   8       12      16 17      21    23          27
    +-------------------+-------+-------+--+-------+-----+-----------+
    | base offset     8 | len 4 |epoch 4|mg| crc 4 |att 2| last Δ  4 |
    +-------------------+-------+-------+--+-------+-----+-----------+
    27                  35                  43              51    53      57      61
    +-------------------+-------------------+---------------+-----+-------+-------+---------
    | base timestamp  8 | max timestamp   8 | producer id 8 |ep  2| seq 4 | cnt 4 | records
    +-------------------+-------------------+---------------+-----+-------+-------+---------

    len counts the bytes behind it: the batch has 8 + 4 + len. crc is CRC-32C over [21, end).
    Base offset and leader epoch are outside the crc, so that they can be set in place.
    records: plain, or one compressed stream of all of them (count and deltas stay outside).

Record (DefaultRecord); every number is a zig-zag varint, timestamp delta the only 64-bit one:

    length | attributes (1 byte, 0) | timestamp delta | offset delta
           | key length, -1 = null | key | value length, -1 = null | value
           | header count | { key length | key (UTF-8) | value length, -1 = null | value } ...

    length counts the bytes behind it.

Message set entry, magic 0 and 1 (LegacyRecord, AbstractLegacyRecordBatch):

    0            8      12     16 17 18
    +------------+------+------+--+--+---------------+-------------------+---------------------+
    | offset   8 |size 4| crc 4|mg|at| timestamp 8   | key len 4 | key   | value len 4 | value |
    +------------+------+------+--+--+---------------+-------------------+---------------------+
                                      magic 1 only      -1 = null           -1 = null

    size counts the bytes behind it. crc is CRC-32 (IEEE) over [16, end). Magic 0 has no timestamp.

The magic byte is byte 16 in all three formats.
"""

# --- shared by all formats -----------------------------------------------------------------------
BASE_OFFSET = 0
LENGTH = 8
"""Position of the int32 that counts the bytes behind it."""
LOG_OVERHEAD = 8 + 4
"""The bytes that the length field does not count."""
MAGIC = 16
MAGIC_V0 = 0
MAGIC_V1 = 1
MAGIC_V2 = 2
HEADER_PREFIX = 17
"""How many bytes are needed to know size and magic of an entry."""

# --- record batch, magic 2 -----------------------------------------------------------------------
LEADER_EPOCH = 12
CRC = 17
ATTRIBUTES = 21
CRC_START = ATTRIBUTES
"""The first byte that the CRC-32C covers."""
LAST_OFFSET_DELTA = 23
BASE_TIMESTAMP = 27
MAX_TIMESTAMP = 35
PRODUCER_ID = 43
PRODUCER_EPOCH = 51
BASE_SEQUENCE = 53
RECORD_COUNT = 57
RECORDS = 61
BATCH_HEADER_SIZE = RECORDS
BATCH_MIN_LENGTH = BATCH_HEADER_SIZE - LOG_OVERHEAD
"""The smallest value of a batch's length field: 49."""

CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

MAX_VARINT_SIZE = 5
MAX_VARLONG_SIZE = 10

# --- message, magic 0 and 1 ----------------------------------------------------------------------
LEGACY_CRC = 12
LEGACY_CRC_START = 16
"""The first byte that the CRC-32 (IEEE) of an entry covers."""
LEGACY_ATTRIBUTES = 17
LEGACY_TIMESTAMP = 18
"""Magic 1 only."""
LEGACY_KEY_LENGTH_V0 = 18
LEGACY_KEY_LENGTH_V1 = 26
LEGACY_MIN_LENGTH_V0 = 14
"""The smallest value of the size field: crc, magic, attributes, two lengths."""
LEGACY_MIN_LENGTH_V1 = 22
