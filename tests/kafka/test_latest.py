"""The last record of each key, whatever of it fits in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.kafka.latest import Latest
from migrate.model.key_range import KeyRange
from migrate.stores.batch import ChangelogBatch, RecordHeaders
from migrate.stores.files import temporary_folder

Record = tuple[bytes | None, int, RecordHeaders]

_HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)
_RECORD = st.tuples(
    st.binary(min_size=1, max_size=2), st.none() | st.binary(max_size=4), st.integers(-1, 1 << 62), _HEADERS
)
_BOUND = st.none() | st.binary(min_size=1, max_size=2)


def _batches(records: list[tuple[bytes, bytes | None, int, RecordHeaders]], size: int) -> Iterator[ChangelogBatch]:
    for at in range(0, len(records), size):
        part = records[at : at + size]
        headers = [record[3] for record in part]
        yield ChangelogBatch(
            [record[0] for record in part],
            [record[1] for record in part],
            [record[2] for record in part],
            headers if any(headers) else None,
            range(at, at + len(part)),
        )


def _scanned(latest: Latest, keys: KeyRange) -> list[tuple[bytes, bytes | None, int, RecordHeaders, int]]:
    return [
        record
        for batch in latest.scan(keys)
        for record in zip(
            batch.keys,
            batch.values,
            batch.timestamps,
            batch.headers or [[]] * len(batch),
            batch.offsets or (),
            strict=True,
        )
    ]


@given(st.lists(_RECORD, max_size=60), st.integers(1, 20), st.sampled_from([1, 2_000, 8_000, 1 << 20]), _BOUND, _BOUND)
def test_of_each_key_the_last_record_is_found_in_key_order(
    records: list[tuple[bytes, bytes | None, int, RecordHeaders]],
    size: int,
    memory: int,
    start: bytes | None,
    end: bytes | None,
) -> None:
    last = {key: (value, time, headers, offset) for offset, (key, value, time, headers) in enumerate(records)}
    keys = KeyRange(start=start, end=end)
    with temporary_folder() as name:
        with Latest.build(_batches(records, size), Path(name) / "runs", memory=memory) as latest:
            assert _scanned(latest, KeyRange()) == [(key, *last[key]) for key in sorted(last)]
            assert _scanned(latest, keys) == [(key, *last[key]) for key in sorted(last) if key in keys]
            assert latest.records == len(records)
        assert list(Path(name).iterdir()) == []


def _numbered(count: int, keys: int) -> Iterator[ChangelogBatch]:
    for at in range(0, count, 100):
        found = [b"%04d" % (number % keys) for number in range(at, at + 100)]
        yield ChangelogBatch(found, [b"v" * 100] * 100, range(at, at + 100), None, range(at, at + 100))


def test_what_fits_in_memory_makes_no_file(tmp_path: Path) -> None:
    with Latest.build(_numbered(1000, 1000), tmp_path / "runs") as latest:
        assert sum(map(len, latest.scan())) == 1000
        assert not (tmp_path / "runs").exists()


def test_records_that_later_ones_replace_take_no_memory(tmp_path: Path) -> None:
    """Ten times the memory is read, and all fits into half of it."""
    with Latest.build(_numbered(10_000, 200), tmp_path / "runs", memory=500_000) as latest:
        assert not (tmp_path / "runs").exists()
        assert [time for batch in latest.scan() for time in batch.timestamps] == [*range(9800, 10_000)]


def test_without_values_a_tombstone_is_still_one(tmp_path: Path) -> None:
    batch = ChangelogBatch([b"a", b"b"], [b"x" * 1000, None], [1, 2], [[("h", b"1")], []], [0, 1])
    with Latest.build([batch], tmp_path / "runs", values_too=False, memory=1) as latest:
        assert _scanned(latest, KeyRange()) == [(b"a", b"", 1, [], 0), (b"b", None, 2, [], 1)]


def test_a_stream_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> Iterator[ChangelogBatch]:
        yield from _numbered(1000, 1000)
        raise ConnectionError

    with pytest.raises(ConnectionError), Latest.build(broken(), tmp_path / "runs", memory=1000):
        pass
    assert list(tmp_path.iterdir()) == []
