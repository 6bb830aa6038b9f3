"""Kafka's murmur2, as its Utils.murmur2 reads."""

MASK = 0xFFFFFFFF
M = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """The signed 32-bit hash."""
    hashed = 0x9747B28C ^ len(key)
    words = len(key) // 4 * 4
    for at in range(0, words, 4):
        word = int.from_bytes(key[at : at + 4], "little") * M & MASK
        word = (word ^ word >> 24) * M & MASK
        hashed = hashed * M & MASK ^ word
    if words < len(key):
        hashed = (hashed ^ int.from_bytes(key[words:], "little")) * M & MASK
    hashed = (hashed ^ hashed >> 13) * M & MASK
    hashed ^= hashed >> 15
    return hashed - 2**32 if hashed >= 2**31 else hashed


def partition(key: bytes, count: int) -> int:
    """The partition of Kafka's default partitioner for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % count
