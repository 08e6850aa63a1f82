"""Changelog records side by side, and in order."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.stores.batch import ChangelogBatch
from migrate.stores.merge import OutOfOrderError, in_order, paired

_KEYS = st.lists(st.integers(0, 40))


def _batches(numbers: list[int], size: int) -> Iterator[ChangelogBatch]:
    for at in range(0, len(numbers), size):
        part = numbers[at : at + size]
        yield ChangelogBatch([b"%02d" % each for each in part], [b"v"] * len(part), part, None, part)


@given(_KEYS, _KEYS, st.integers(1, 9), st.integers(1, 9))
def test_both_of_a_pair_are_of_the_same_keys(left: list[int], right: list[int], size: int, other: int) -> None:
    one, two = sorted({*left}), sorted({*right})
    pairs = list(paired(_batches(one, size), _batches(two, other)))
    assert [time for batch, _ in pairs for time in batch.timestamps] == one
    assert [offset for _, batch in pairs for offset in batch.offsets or ()] == two
    spans = [[*here.keys, *there.keys] for here, there in pairs]
    assert all(max(before) < min(after) for before, after in itertools.pairwise(spans))


@given(_KEYS, st.integers(1, 9))
def test_only_what_ascends_strictly_is_in_order(numbers: list[int], size: int) -> None:
    if numbers == sorted({*numbers}):
        assert [key for batch in in_order(_batches(numbers, size)) for key in batch.timestamps] == numbers
    else:
        with pytest.raises(OutOfOrderError):
            list(in_order(_batches(numbers, size)))
