"""Kafka's partitioner: against vectors of Kafka's own test (org.apache.kafka.common.utils.UtilsTest)."""

import pytest

from formats.partitioners import default_partition, murmur2

_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("data", _VECTORS)
def test_murmur2_is_kafkas(data: bytes) -> None:
    assert murmur2(data) == _VECTORS[data] % (1 << 32)


def test_a_partition_is_never_negative() -> None:
    assert {default_partition(f"key-{number}".encode(), 7) for number in range(500)} == set(range(7))
    assert default_partition(b"21", 5) == (_VECTORS[b"21"] & 0x7FFFFFFF) % 5
