"""Keys in order, by columns, whatever their lengths."""

import random

import pytest

from migrate.kafka.sorted_runs import last_in_order


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [b""],
        [b"", b"\0", b"", b"\0\0"],
        [b"a\0", b"a", b"a\0\0", b"a", b"ab"],
        [b"b\0", b"a\0", b"b\0"],
        [b"x" * 300, b"x", b"x" * 299 + b"\0", b"x"],
        [bytes([each % 7]) * (each % 5) for each in range(100)],
    ],
)
def test_the_last_one_of_each_key_counts(keys: list[bytes]) -> None:
    last = {key: at for at, key in enumerate(keys)}
    assert last_in_order(keys) == [last[key] for key in sorted(last)]


def test_keys_of_one_length() -> None:
    rng = random.Random(5)
    keys = [rng.randbytes(2) for _ in range(5000)]
    last = {key: at for at, key in enumerate(keys)}
    assert last_in_order(keys) == [last[key] for key in sorted(last)]
