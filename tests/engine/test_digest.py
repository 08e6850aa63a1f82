"""The record digest against its definition."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from migrate.engine.portable import RecordDigest
from migrate.stores.batch import Batch
from tests.support import digest_by_hand

RECORDS = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=30)


def _digest(*batches: list[tuple[bytes, bytes]]) -> RecordDigest:
    digest = RecordDigest()
    for pairs in batches:
        digest.update(Batch([key for key, _ in pairs], [value for _, value in pairs]))
    return digest


@given(records=RECORDS, cuts=st.lists(st.integers(0, 30), max_size=4))
def test_batching_does_not_matter(records: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(records)]
    parts = [records[start:end] for start, end in pairwise(edges)]
    digest = _digest(*parts)
    assert str(digest) == digest_by_hand(records)
    assert digest.records == len(records)
    assert digest.size == sum(len(key) + len(value) for key, value in records)


@given(left=RECORDS, right=RECORDS)
def test_other_records_have_another_digest(left: list[tuple[bytes, bytes]], right: list[tuple[bytes, bytes]]) -> None:
    assert (str(_digest(left)) == str(_digest(right))) is (left == right)


def test_lengths_tell_where_a_key_ends() -> None:
    assert str(_digest([(b"ab", b"c")])) != str(_digest([(b"a", b"bc")]))
    assert str(_digest([(b"a", b""), (b"b", b"")])) != str(_digest([(b"ab", b""), (b"", b"")]))


def test_golden_values() -> None:
    """XXH64 of nothing with seed 0, and of one record, from the reference implementation (xxhsum -H64)."""
    assert str(_digest()) == "ef46db3751d8e999-ef46db3751d8e999-ef46db3751d8e999"
    assert str(_digest([(b"a", b"a")])) == f"{digest_by_hand([(b'a', b'a')])[:16]}-d24ec4f1a98c6e5b-d24ec4f1a98c6e5b"
