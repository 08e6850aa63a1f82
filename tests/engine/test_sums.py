"""Sums of records' hashes: independent of order and parts, and of nothing else."""

import random

import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from migrate.engine.sums import RangeSum, RangeSums, record_hashes, sum_of

RECORDS = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=300)), max_size=40)
Records = list[tuple[bytes, bytes]]


def _by_hand(records: Records, family: int) -> RangeSum:
    hashes = [
        xxhash.xxh3_128_intdigest(value, seed=xxhash.xxh3_64_intdigest(key, seed=family)) for key, value in records
    ]
    return RangeSum(len(records), sum(hashes) % 2**128)


def _sum(records: Records, family: int = 0) -> RangeSum:
    return sum_of([key for key, _ in records], [value for _, value in records], family)


@given(RECORDS, st.integers(0, 3), st.randoms())
def test_a_sum_is_that_of_the_hashes_in_any_order(records: Records, family: int, random: random.Random) -> None:
    assert _sum(records, family) == _by_hand(records, family)
    shuffled = random.sample(records, len(records))
    assert _sum(shuffled, family) == _by_hand(records, family)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.binary(max_size=9), st.binary(max_size=9)), max_size=60),
    st.integers(1, 60),
)
def test_sums_by_range_add_up_whatever_the_parts(records: list[tuple[int, bytes, bytes]], size: int) -> None:
    total: dict[int, RangeSum] = {}
    for at in range(0, len(records), size):
        part = records[at : at + size]
        sums = RangeSums(5)
        hashes = record_hashes([key for _, key, _ in part], [value for *_, value in part], 1)
        sums.add(np.array([number for number, *_ in part], np.int32), hashes)
        total = {
            number: total.get(number, RangeSum()).plus(sums.found().get(number, RangeSum()))
            for number in total.keys() | sums.found().keys()
        }
    expected = {number: [each[1:] for each in records if each[0] == number] for number, *_ in records}
    assert total == {number: _by_hand(mine, 1) for number, mine in expected.items()}


def test_what_is_not_the_same_has_another_sum() -> None:
    records = [(b"a", b"1"), (b"b", b"2"), (b"", b"")]
    others: list[Records] = [
        [(b"a", b"2"), (b"b", b"1"), (b"", b"")],  # swapped
        [(b"a", b"1"), (b"b", b"2")],
        [*records, (b"", b"")],
        [(b"a", b"1"), (b"a", b"1"), (b"b", b"2")],
        [(b"a1", b""), (b"b", b"2"), (b"", b"")],
    ]
    assert len({_sum(each) for each in [records, *others]}) == 1 + len(others)
    assert _sum(records, 0) != _sum(records, 1)
    assert _sum([]) == RangeSum()


def test_words_are_carried_into_the_next_one() -> None:
    sums = RangeSums(1)
    most = np.full((3, 2), 2**64 - 1, np.uint64)
    sums.add(np.zeros(3, np.int64), most)
    assert sums.found() == {0: RangeSum(3, 3 * (2**128 - 1) % 2**128)}
