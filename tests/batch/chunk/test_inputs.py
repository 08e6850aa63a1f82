"""What a chunk reads: of segments the records of its time, of an unfinished upgrade the newer of two."""

import random
from pathlib import Path

import pytest

from formats import Format, get_format
from migrate.engine.chunk_source import Inputs, newest_time, open_inputs
from migrate.errors import ChunkFailedError
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping, TimeSlice
from migrate.stores.rocksdb.database import open_read_only
from tests.shared.windowed import (
    NO_HEADERS,
    PLAIN,
    TIMESTAMPED,
    UNKNOWN,
    WITH_HEADERS,
    session_key,
    session_time,
    sessions,
    window_key,
    window_time,
    windows,
)
from tests.support import Records, make_families, make_store

WINDOW = get_format("kafka-streams.window")
SESSION = get_format("kafka-streams.session")
MAPPING = FamilyMapping(source=PLAIN, target=PLAIN)


def _read(
    inputs: Inputs, source: Format = WINDOW, mapping: FamilyMapping = MAPPING, keys: KeyRange | None = None
) -> tuple[list[tuple[bytes, bytes]], int]:
    with open_inputs(inputs, source) as records:
        batches = list(records.batches(mapping, keys))
        found = [pair for batch in batches for pair in zip(batch.keys, batch.values, strict=True)]
        for batch in batches:
            sizes = {(len(key), len(value)) for key, value in zip(batch.keys, batch.values, strict=True)}
            assert batch.sizes is None or sizes == {batch.sizes}
        return found, records.shadowed


def _sampled(
    inputs: Inputs, source: Format = WINDOW, mapping: FamilyMapping = MAPPING
) -> tuple[list[tuple[bytes, bytes]], int]:
    """As a dry run reads, one column family after the other: of whole families the same records."""
    with open_inputs(inputs, source) as records:
        batches = [
            batch
            for number, database in enumerate(records.databases)
            for family in records.families(number, mapping)
            for batch in records.sampled(number, mapping, family, database.batches(family))
        ]
        found = [pair for batch in batches for pair in zip(batch.keys, batch.values, strict=True)]
        return sorted(found), records.shadowed


def _segments(folder: Path, *segments: Records, size_ms: int = 100) -> list[tuple[str, TimeSlice]]:
    made = [make_store(folder / f"win.{number * size_ms}", mine) for number, mine in enumerate(segments)]
    times = [TimeSlice(start_ms=number * size_ms, end_ms=(number + 1) * size_ms) for number in range(len(made))]
    return list(zip(map(str, made), times, strict=True))


def _inputs(segments: list[tuple[str, TimeSlice]], times: TimeSlice | None) -> Inputs:
    newest_first = segments[::-1]
    return Inputs(tuple(folder for folder, _ in newest_first), tuple(own for _, own in newest_first), times)


@pytest.mark.parametrize("size", [4, None], ids=["even keys", "uneven keys"])
@pytest.mark.parametrize(("start", "end"), [(0, 200), (100, 200), (99, 101), (150, 151), (0, 1), (199, 200)])
def test_records_of_these_times_alone_are_read(start: int, end: int, size: int | None, tmp_path: Path) -> None:
    rng = random.Random(3)
    keys = [window_key(rng.randbytes(size or rng.randint(0, 9)), time) for time in range(200) for _ in range(20)]
    records = {key: b"v" for key in keys}
    halves = [{key: records[key] for key in keys if window_time(key) // 100 == half} for half in (0, 1)]
    inputs = _inputs(_segments(tmp_path, *halves), TimeSlice(start_ms=start, end_ms=end))
    found, shadowed = _read(inputs)
    assert found == sorted((key, b"v") for key in records if start <= window_time(key) < end)
    assert shadowed == 0
    assert _sampled(inputs) == (found, shadowed)


def test_a_session_is_of_the_time_of_its_end(tmp_path: Path) -> None:
    records = sessions(300, until=100)
    times = TimeSlice(start_ms=20, end_ms=60)
    found, _ = _read(_inputs(_segments(tmp_path, records), times), SESSION)
    assert found == sorted((key, value) for key, value in records.items() if 20 <= session_time(key) < 60)


def test_a_key_range_cuts_every_input(tmp_path: Path) -> None:
    records = windows(400, until=200)
    halves = [{key: records[key] for key in records if window_time(key) // 100 == half} for half in (0, 1)]
    keys = sorted(records)
    inside = KeyRange(start=keys[100], end=keys[300])
    found, _ = _read(_inputs(_segments(tmp_path, *halves), TimeSlice(start_ms=0, end_ms=200)), keys=inside)
    assert found == [(key, records[key]) for key in keys[100:300]]


@pytest.mark.parametrize("time", [-1, 99, 200, 1 << 62, -(1 << 63)])
def test_a_record_in_a_segment_of_another_time_is_never_left_out(time: int, tmp_path: Path) -> None:
    """Nor would it be found where it belongs: whatever times are wanted, the segment is not what its name says."""
    own = TimeSlice(start_ms=100, end_ms=200)
    folder = make_store(tmp_path / "win.100", {window_key(b"a", 150): b"", window_key(b"stray", time): b""})
    for wanted in (own, TimeSlice(start_ms=150, end_ms=151), TimeSlice(start_ms=0, end_ms=1 << 62)):
        with pytest.raises(ChunkFailedError, match=f"its key 0x{b'stray'.hex()}.* is of {time}: ") as error:
            _read(Inputs((str(folder),), (own,), wanted))
        assert "[source] segment_ms" in error.value.hint


@pytest.mark.parametrize("others", [{}, {window_key(b"long enough", 1): b"v"}], ids=["alone", "among others"])
def test_a_key_that_is_too_short_to_tell_its_time_is_no_record(others: Records, tmp_path: Path) -> None:
    folder = make_store(tmp_path / "win.0", {b"11 bytes...": b"v", **others})
    with pytest.raises(ChunkFailedError, match=r"win.0 has the key .11 bytes.*, which is too short"):
        _read(_inputs([(str(folder), TimeSlice(start_ms=0, end_ms=100))], TimeSlice(start_ms=0, end_ms=50)))


def test_segments_that_stay_as_they_are_may_hold_anything(tmp_path: Path) -> None:
    records = {b"short": b"v", window_key(b"of another time", 1 << 62): b"v"}
    assert _read(Inputs((str(make_store(tmp_path / "win.0", records)),), (None,))) == (sorted(records.items()), 0)


def test_of_one_key_in_several_inputs_the_first_one_counts(tmp_path: Path) -> None:
    key = window_key(b"k", 50)
    folders = [str(make_store(tmp_path / name, {key: name.encode()})) for name in ("new", "old", "older")]
    assert _read(Inputs(tuple(folders), (None,) * 3)) == ([(key, b"new")], 2)


@pytest.mark.parametrize(
    ("older", "then", "now"),
    [
        (PLAIN, b"", UNKNOWN),
        (PLAIN, b"value", UNKNOWN + b"value"),
    ],
)
def test_what_an_upgrade_left_is_read_as_its_owner_reads_it(
    older: str, then: bytes, now: bytes, tmp_path: Path
) -> None:
    new = {b"b": bytes(8) + b"new", b"c": bytes(8)}
    folder = make_families(tmp_path / "store", {older: {b"a": then, b"b": b"outdated", b"d": then}, TIMESTAMPED: new})
    mapping = FamilyMapping(source=TIMESTAMPED, target=TIMESTAMPED, older=(older,))
    found, shadowed = _read(Inputs((str(folder),)), get_format("kafka-streams.timestamped-key-value"), mapping)
    assert found == sorted({b"a": now, b"d": now, **new}.items())
    assert shadowed == 1
    sampled = _sampled(Inputs((str(folder),)), get_format("kafka-streams.timestamped-key-value"), mapping)
    assert sampled == (found, shadowed)


@pytest.mark.parametrize(
    ("older", "value", "read"),
    [
        (TIMESTAMPED, bytes(8) + b"value", NO_HEADERS + bytes(8) + b"value"),
        (TIMESTAMPED, b"short", NO_HEADERS + b"short"),
        (TIMESTAMPED, b"", NO_HEADERS),
        (PLAIN, b"value", NO_HEADERS + UNKNOWN + b"value"),
        (PLAIN, b"", NO_HEADERS + UNKNOWN),
    ],
)
def test_malformed_values_of_an_upgrade_stay_malformed(older: str, value: bytes, read: bytes, tmp_path: Path) -> None:
    """The owner puts what is missing before them, and looks no further: the conversion says what they are."""
    folder = make_families(tmp_path / "store", {older: {b"%02d" % n: value for n in range(40)}, WITH_HEADERS: {}})
    mapping = FamilyMapping(source=WITH_HEADERS, target=WITH_HEADERS, older=(older,))
    found, _ = _read(Inputs((str(folder),)), get_format("kafka-streams.headers-key-value"), mapping)
    assert found == [(b"%02d" % n, read) for n in range(40)]


def test_the_newest_record_has_the_time(tmp_path: Path) -> None:
    records = windows(2000, until=1 << 50)
    folder = make_families(tmp_path / "win.0", {PLAIN: records, "empty": {}, "session": {session_key(b"", 1, 7): b""}})
    with open_read_only(folder) as database:
        assert newest_time(database, PLAIN, WINDOW.segment_time) == max(map(window_time, records))
        assert newest_time(database, "empty", WINDOW.segment_time) is None
        assert newest_time(database, "session", SESSION.segment_time) == 7
