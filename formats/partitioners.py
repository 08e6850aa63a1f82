"""Which partition a serialized key is in, by the client that wrote it there.

Java's clients, and so Kafka Streams: murmur2. Clients made of librdkafka (Python, .NET, Go, C): CRC-32, unless they are
told otherwise.

Source: org.apache.kafka.common.utils.Utils.murmur2, org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
librdkafka's CONFIGURATION.md, `partitioner`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash of a serialized key, unsigned."""
    size = len(data)
    found = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        found = found * _M & _MASK ^ word
    if whole < size:
        found = (found ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    found = (found ^ found >> 13) * _M & _MASK
    return found ^ found >> 15


def default_partition(key: bytes, partitions: int) -> int:
    """The partition of a serialized key, of so many."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def crc32_partition(key: bytes, partitions: int) -> int:
    """The partition that librdkafka's default chooses; of an empty key it is any, and this one is wrong."""
    return zlib.crc32(key) % partitions


Partitioner = Callable[[bytes, int], int]
"""From a serialized key and the number of partitions to the key's partition."""
PARTITIONERS: Mapping[str, Partitioner] = {"murmur2": default_partition, "crc32": crc32_partition}
"""Those of Kafka's own clients, and of librdkafka's."""
