"""Partitioners by columns against those of Kafka's own clients, in Java, and of librdkafka."""

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import confluent_kafka
import pytest

from migrate.engine.partitioning import partitions_of
from tests.live.kafka_streams.program import classpath
from tests.live.maven import JVM_FLAGS

_COUNTS = (1, 2, 3, 12, 997)
_SOURCE = Path(__file__).parent / "src" / "Murmur2.java"
_LIBRARIES = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"


@pytest.fixture(scope="module")
def keys() -> list[bytes]:
    rng = random.Random(8)
    return [b"", *(rng.randbytes(rng.randint(0, 300)) for _ in range(100_000))]


def _found(name: str, keys: list[bytes]) -> list[tuple[int, ...]]:
    """The partitions of each key, found in batches of as many as a scan reads."""
    found: list[tuple[int, ...]] = []
    for at in range(0, len(keys), 1024):
        columns = partitions_of(name, keys[at : at + 1024], _COUNTS)
        found += zip(*(column.tolist() for column in columns), strict=True)
    return found


def test_murmur2_is_that_of_javas_clients(keys: list[bytes]) -> None:
    java = shutil.which("java")
    assert java is not None
    command = [java, *JVM_FLAGS, "-cp", classpath("4.3.1"), str(_SOURCE), *map(str, _COUNTS)]
    sent = b"".join(len(key).to_bytes(4, "big") + key for key in keys)
    printed = subprocess.run(command, input=sent, capture_output=True, check=True, timeout=300).stdout
    expected = [tuple(map(int, line.split())) for line in printed.splitlines()]
    assert _found("murmur2", keys) == expected


@pytest.mark.parametrize(("name", "function"), [("crc32", "consistent"), ("murmur2", "murmur2")])
def test_partitions_are_those_of_librdkafka(keys: list[bytes], name: str, function: str) -> None:
    (library,) = _LIBRARIES.glob("librdkafka*")
    ask = getattr(ctypes.CDLL(str(library)), f"rd_kafka_msg_partitioner_{function}")
    ask.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p]
    ask.restype = ctypes.c_int32
    expected = [tuple(ask(None, key, len(key), many, None, None) for many in _COUNTS) for key in keys]
    assert _found(name, keys) == expected
