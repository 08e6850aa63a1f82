"""Several sorted scans as one: every record once, and of a key that several have, the first one's."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from migrate.stores.batch import Batch
from migrate.stores.merge import MergedScan

KEYS = st.one_of(st.binary(max_size=3), st.sampled_from([b"", b"\x00", b"\xff", b"\xff\xff", b"a", b"ab", b"ab\x00"]))
SCANS = st.lists(st.dictionaries(KEYS, st.binary(max_size=4), max_size=12), max_size=5)


def _batches(records: dict[bytes, bytes], sizes: Iterator[int]) -> Iterator[Batch]:
    """Cut anywhere; records of one size say so, as those of a real scan."""
    left = sorted(records.items())
    while left:
        count = next(sizes)
        mine, left = left[:count], left[count:]
        keys, values = [key for key, _ in mine], [value for _, value in mine]
        alike = {(len(key), len(value)) for key, value in mine}
        yield Batch(keys, values, alike.pop() if len(alike) == 1 else None)


def _merged(scans: list[dict[bytes, bytes]], sizes: Iterator[int]) -> tuple[list[tuple[bytes, bytes]], int]:
    merged = MergedScan([_batches(records, sizes) for records in scans])
    found: list[tuple[bytes, bytes]] = []
    for batch in merged:
        assert len(batch.keys) == len(batch.values) > 0
        if batch.sizes is not None:
            assert {(len(key), len(value)) for key, value in zip(batch.keys, batch.values, strict=True)} == {
                batch.sizes
            }
        found += zip(batch.keys, batch.values, strict=True)
    return found, merged.shadowed


@given(scans=SCANS, data=st.data())
def test_it_is_a_dictionary_of_all_where_the_first_wins(scans: list[dict[bytes, bytes]], data: st.DataObject) -> None:
    def sizes() -> Iterator[int]:
        while True:
            yield data.draw(st.integers(1, 5))

    found, shadowed = _merged(scans, sizes())
    expected: dict[bytes, bytes] = {}
    for records in reversed(scans):
        expected |= records
    assert found == sorted(expected.items())
    assert shadowed == sum(map(len, scans)) - len(expected)


@given(scans=SCANS, one=st.integers(1, 5), other=st.integers(1, 5))
def test_it_is_the_same_however_the_scans_are_cut(scans: list[dict[bytes, bytes]], one: int, other: int) -> None:
    assert _merged(scans, iter([one] * 100)) == _merged(scans, iter([other] * 100))


def test_scans_are_read_no_further_than_they_must_be() -> None:
    """One that lies behind all others waits with its first batch."""
    read = []

    def noted(name: str, *keys: bytes) -> Iterator[Batch]:
        for key in keys:
            read.append((name, key))
            yield Batch([key], [b""])

    merged = iter(MergedScan([noted("late", b"x", b"y", b"z"), noted("early", b"a", b"b", b"c")]))
    assert [next(merged).keys for _ in range(2)] == [[b"a"], [b"b"]]
    assert [key for name, key in read if name == "late"] == [b"x"]
