"""Partitioners by columns give what the scalar ones give, for keys of every length."""

import random
from collections.abc import Callable

import pytest

from formats.partitioners import PARTITIONERS, crc32_partition
from migrate.engine.partitioning import murmur2_hashes, partitions_of

_COUNTS = (1, 2, 3, 12, 1000)


def _alike(name: str, keys: list[bytes]) -> None:
    of: Callable[[bytes, int], int] = PARTITIONERS[name]
    for many, found in zip(_COUNTS, partitions_of(name, keys, _COUNTS), strict=True):
        assert found.tolist() == [of(key, many) for key in keys]


@pytest.mark.parametrize("name", PARTITIONERS)
def test_keys_of_mixed_lengths(name: str) -> None:
    rng = random.Random(7)
    _alike(name, [b"", *(rng.randbytes(rng.randint(0, 300)) for _ in range(2000))])


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 16, 1023, 2000])
@pytest.mark.parametrize("name", PARTITIONERS)
def test_keys_of_one_length(name: str, size: int) -> None:
    rng = random.Random(size)
    _alike(name, [rng.randbytes(size) for _ in range(50)])


def test_one_long_key_among_short_ones() -> None:
    rng = random.Random(3)
    _alike("murmur2", [rng.randbytes(5), rng.randbytes(100_000), b"\xff" * 9])


def test_no_key() -> None:
    assert murmur2_hashes([]).tolist() == []


def test_a_function_decides() -> None:
    keys = [b"a", b"bb", b"ccc"]
    assert partitions_of("", keys, [2], crc32_partition)[0].tolist() == [crc32_partition(key, 2) for key in keys]
