"""Windowed and session stores, end to end: every record in the segment where its owner will look for it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import cutover, run, verify
from migrate.batch.home import load_plan
from migrate.batch.plan.target_layout import EXPIRED
from migrate.errors import ChunkFailedError, InterruptedMigrationError, RefusedError, VerificationError
from migrate.model.events import Event
from tests.shared.windowed import (
    MINUTE,
    NO_HEADERS,
    OFFSETS,
    PLAIN,
    TIMESTAMPED,
    UNKNOWN,
    WITH_HEADERS,
    by_segment,
    checkpoint,
    make_segments,
    offsets,
    read_segments,
    records_of,
    retentions,
    session_time,
    sessions,
    window_key,
    window_time,
    windowed_spec,
    windows,
)
from tests.support import Records, make_families, make_store, tree_state

WINDOW = "kafka-streams.window"
TIMESTAMPED_WINDOW = "kafka-streams.timestamped-window"
HEADERS_WINDOW = "kafka-streams.headers-window"
SESSION = "kafka-streams.session"
HEADERS_SESSION = "kafka-streams.headers-session"
SESSION_FAMILY = "sessionKeyValueWithHeaders"
SEGMENT = 15 * MINUTE
RETENTION = 2 * SEGMENT
UNTIL = 4 * SEGMENT
RECORDS = windows(300, until=UNTIL)
SESSIONS = sessions(300, until=UNTIL)
PUBLISHED = {"target": {"path": "new/app"}}


def _make(base: Path, records: Records = RECORDS, task: str = "0_0", **how: object) -> Path:
    store = base / "app" / task / "win"
    make_segments(store, records, SEGMENT, **how)  # type: ignore[arg-type]
    (base / "app" / task / ".checkpoint").write_text(checkpoint(f"app-win-changelog {task[-1]} 2999"))
    return store


def _with(prefix: bytes, segments: dict[int, dict[bytes, bytes]]) -> dict[int, dict[bytes, bytes]]:
    return {start: {key: prefix + value for key, value in mine.items()} for start, mine in segments.items()}


def _kept(
    records: Records, retention_ms: int, segment_ms: int, time: Callable[[bytes], int] = window_time
) -> dict[int, dict[bytes, bytes]]:
    """What Kafka Streams keeps, which destroys segments before that of `stream time - retention`."""
    oldest = max(0, max(map(time, records)) - retention_ms) // segment_ms * segment_ms
    return {start: mine for start, mine in by_segment(records, segment_ms, time).items() if start >= oldest}


# Segments as they are


FAMILIES = {
    WINDOW: PLAIN,
    TIMESTAMPED_WINDOW: TIMESTAMPED,
    HEADERS_WINDOW: WITH_HEADERS,
    SESSION: PLAIN,
    HEADERS_SESSION: SESSION_FAMILY,
}


@pytest.mark.parametrize(
    ("source", "target", "before"),
    [
        (WINDOW, TIMESTAMPED_WINDOW, UNKNOWN),
        (WINDOW, HEADERS_WINDOW, NO_HEADERS + UNKNOWN),
        (TIMESTAMPED_WINDOW, HEADERS_WINDOW, NO_HEADERS),
        (SESSION, HEADERS_SESSION, NO_HEADERS),
    ],
)
def test_every_kind_of_store_is_converted_where_it_lies(
    source: str, target: str, before: bytes, tmp_path: Path
) -> None:
    family, new_family = FAMILIES[source], FAMILIES[target]
    is_session = source == SESSION
    records, time = (SESSIONS, session_time) if is_session else (RECORDS, window_time)
    if family == TIMESTAMPED:
        records = {key: bytes(8) + value for key, value in records.items()}
    store = _make(tmp_path, records, family=family, time=time)
    state = tree_state(tmp_path / "app")
    report = run(windowed_spec(tmp_path, source, target, **PUBLISHED))
    assert tree_state(tmp_path / "app") == state
    assert report.totals.records_in == report.totals.records_out == report.verification.records == len(records)
    new = read_segments(tmp_path / "new" / store.relative_to(tmp_path))
    assert {tuple(sorted(families)) for families in new.values()} == {tuple(sorted({PLAIN, new_family}))}
    assert records_of(new, new_family) == _with(before, by_segment(records, SEGMENT, time))
    assert new_family == PLAIN or records_of(new, PLAIN) == {}


@pytest.mark.parametrize("name", ["{store}:{start}", "{store}-19700101{minutes}"])
def test_names_of_former_versions_become_those_of_today(name: str, tmp_path: Path) -> None:
    store = tmp_path / "app/0_0/win"
    segments = by_segment(RECORDS, SEGMENT)
    for start, mine in segments.items():
        folder = name.format(store="win", start=start, minutes=f"{start // 3_600_000:02}{start // MINUTE % 60:02}")
        make_store(store / folder, mine)
    for spec in (
        windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, **PUBLISHED),
        windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, name="in-place"),
    ):
        run(spec)
    assert records_of(read_segments(tmp_path / "new/app/0_0/win"), TIMESTAMPED) == _with(UNKNOWN, segments)
    cutover(spec)
    assert records_of(read_segments(store), TIMESTAMPED) == _with(UNKNOWN, segments)


def test_segments_without_records_stay(tmp_path: Path) -> None:
    store = _make(tmp_path)
    make_store(store / f"win.{UNTIL}", {})
    run(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, **PUBLISHED))
    new = read_segments(tmp_path / "new/app/0_0/win")
    assert sorted(new) == [*range(0, UNTIL, SEGMENT), UNTIL]
    assert new[UNTIL] == {PLAIN: {}, TIMESTAMPED: {}}


# Segments of another retention


@pytest.mark.parametrize(
    ("minutes", "segment_minutes"),
    [(10, None), (45, None), (60, None), (7, None), (24, None), (300, None), (30, 5), (30, 7), (90, 90), (1, None)],
)
def test_records_move_to_where_another_retention_looks_for_them(
    minutes: int, segment_minutes: int | None, tmp_path: Path
) -> None:
    _make(tmp_path)
    new_size = (segment_minutes or max(minutes / 2, 1)) * MINUTE
    target = {"retention_ms": minutes * MINUTE, **PUBLISHED["target"]}
    if segment_minutes:
        target["segment_ms"] = segment_minutes * MINUTE
    source = {"retention_ms": RETENTION}
    report = run(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, source=source, target=target))
    expected = _kept(RECORDS, minutes * MINUTE, int(new_size))
    new = read_segments(tmp_path / "new/app/0_0/win")
    assert records_of(new, TIMESTAMPED) == _with(UNKNOWN, expected)
    kept = sum(map(len, expected.values()))
    assert (report.totals.records_in, report.totals.records_out) == (len(RECORDS), kept)
    assert report.totals.expired == len(RECORDS) - kept
    assert report.verification.records == kept
    assert verify(
        windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, source=source, target=target), mode="digest"
    ).verification.ok


@pytest.mark.parametrize("minutes", [20, 120])
def test_a_session_belongs_to_the_segment_of_its_end(minutes: int, tmp_path: Path) -> None:
    _make(tmp_path, SESSIONS, time=session_time)
    sections = retentions(RETENTION, minutes * MINUTE)
    run(
        windowed_spec(
            tmp_path, SESSION, HEADERS_SESSION, **(sections | {"target": sections["target"] | {"path": "new/app"}})
        )
    )
    expected = _with(NO_HEADERS, _kept(SESSIONS, minutes * MINUTE, minutes * MINUTE // 2, session_time))
    assert records_of(read_segments(tmp_path / "new/app/0_0/win"), SESSION_FAMILY) == expected


def test_each_task_has_a_time_of_its_own(tmp_path: Path) -> None:
    """One that fell behind keeps what is old for another one."""
    behind = windows(100, until=2 * SEGMENT, seed=5)
    _make(tmp_path)
    _make(tmp_path, behind, task="0_1")
    sections = retentions(RETENTION, 20 * MINUTE)
    run(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, **sections))
    cutover(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, **sections))
    for task, records in (("0_0", RECORDS), ("0_1", behind)):
        expected = _with(UNKNOWN, _kept(records, 20 * MINUTE, 10 * MINUTE))
        assert records_of(read_segments(tmp_path / "app" / task / "win"), TIMESTAMPED) == expected


def test_empty_segments_neither_tell_the_time_nor_get_in_the_way(tmp_path: Path) -> None:
    store = _make(tmp_path)
    make_store(store / f"win.{100 * SEGMENT}", {})
    sections = retentions(RETENTION, 20 * MINUTE)
    report = run(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, **sections))
    kept = _kept(RECORDS, 20 * MINUTE, 10 * MINUTE)
    assert report.totals.records_out == sum(map(len, kept.values()))
    cutover(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, **sections))
    assert sorted(read_segments(store)) == sorted(kept)


def test_of_segments_that_are_all_empty_one_stays_and_knows_every_offset(tmp_path: Path) -> None:
    """A 4.3 store without any segment loses its offset, the newest one need not know it, and is found by its name."""
    store = tmp_path / "app/0_0/win"
    make_families(store / "win.0", {PLAIN: {}, OFFSETS: offsets(7)})
    make_families(store / "win.900000", {PLAIN: {}, OFFSETS: offsets(None)})
    sections = retentions(RETENTION, 20 * MINUTE)
    report = run(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, **sections))
    assert report.totals.records_in == 0
    cutover(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, **sections))
    assert read_segments(store) == {600_000: {PLAIN: {}, TIMESTAMPED: {}, OFFSETS: offsets(7)}}


def test_a_segment_of_old_records_that_is_named_as_the_newest_loses_none(tmp_path: Path) -> None:
    make_store(_make(tmp_path) / f"win.{100 * SEGMENT}", {window_key(b"lost", 3 * SEGMENT): b"v"})
    with pytest.raises(RefusedError, match=f"its newest record is of {3 * SEGMENT}"):
        run(windowed_spec(tmp_path, WINDOW, **retentions(RETENTION, 20 * MINUTE)))


@pytest.mark.parametrize("minutes", [20, 60])
def test_a_misplaced_record_in_an_older_segment_stops_the_chunk(minutes: int, tmp_path: Path) -> None:
    """Also where it is about to be left behind as expired."""
    store = tmp_path / "app/0_0/win"
    stray = {window_key(b"stray", 3 * SEGMENT): b"v"}
    for start, mine in by_segment(RECORDS, SEGMENT).items():
        make_store(store / f"win.{start}", {**mine, **(stray if start == 0 else {})})
    with pytest.raises(ChunkFailedError, match=r"win.0 is the segment of \[0, 900000\), and its key"):
        run(windowed_spec(tmp_path, WINDOW, **retentions(RETENTION, minutes * MINUTE)))


# What a run leaves


def test_a_run_that_was_interrupted_goes_on_with_other_chunks(tmp_path: Path) -> None:
    records = windows(3000, until=UNTIL, seed=9)
    _make(tmp_path, records)
    sections = retentions(RETENTION, 20 * MINUTE)
    committed: list[str] = []

    def stop(event: Event) -> None:
        if event.name == "chunk.committed":
            committed.extend(receipt.database for receipt in event.facts["receipts"])
            if len(committed) >= 5:
                raise InterruptedMigrationError("that will do")

    with pytest.raises(InterruptedMigrationError):
        run(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, run={"chunk_size": "2 KiB"}, **sections), on_event=stop)
    assert EXPIRED in committed
    spec = windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, run={"chunk_size": "9 KiB"}, **sections)
    report = run(spec)
    assert report.chunks_done_before == len(committed)
    expected = _kept(records, 20 * MINUTE, 10 * MINUTE)
    assert report.totals.expired == len(records) - sum(map(len, expected.values()))
    assert report.totals.records_in == len(records)
    cutover(spec)
    assert records_of(read_segments(tmp_path / "app/0_0/win"), TIMESTAMPED) == _with(UNKNOWN, expected)


@pytest.mark.parametrize("sections", [{}, retentions(RETENTION, 120 * MINUTE)], ids=["as they are", "moved"])
def test_what_cannot_be_converted_in_a_segment_is_skipped(sections: dict[str, object], tmp_path: Path) -> None:
    bad = {window_key(b"bad", 2 * SEGMENT): b"short"}
    records = {key: bytes(8) + value for key, value in RECORDS.items()}
    _make(tmp_path, {**records, **bad}, family=TIMESTAMPED)
    spec = windowed_spec(
        tmp_path,
        TIMESTAMPED_WINDOW,
        WINDOW,
        conversion={"allow": ["loss:timestamp"]},
        run={"on_reject": "skip", "max_rejects": 1},
        **sections,
    )
    report = run(spec)
    assert (report.totals.rejected, report.totals.records_out) == (1, len(records))
    assert verify(spec).verification.ok
    cutover(spec)
    found = records_of(read_segments(tmp_path / "app/0_0/win"), PLAIN)
    assert {key: value for mine in found.values() for key, value in mine.items()} == RECORDS


def test_a_malformed_key_is_skipped_where_segments_stay_and_stops_where_they_move(tmp_path: Path) -> None:
    """Without a time it belongs to no segment."""
    make_store(tmp_path / "app/0_0/win/win.0", {b"short": b"v", window_key(b"k", 1): b"v"})
    skip = {"run": {"on_reject": "skip", "max_rejects": 1}}
    report = run(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, **PUBLISHED, **skip))
    assert (report.totals.rejected, report.totals.records_out) == (1, 1)
    sections = retentions(RETENTION, 20 * MINUTE)
    with pytest.raises(ChunkFailedError, match="too short to contain a time"):
        run(windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, name="moved", **sections, **skip))


@pytest.mark.parametrize("mode", ["full", "digest"])
def test_a_record_in_the_wrong_new_segment_is_found(mode: str, tmp_path: Path) -> None:
    _make(tmp_path)
    spec = windowed_spec(tmp_path, WINDOW, TIMESTAMPED_WINDOW, **retentions(RETENTION, 20 * MINUTE))
    run(spec)
    (segment, other) = sorted((tmp_path / "work/test/new").glob("*/0_0/win/*"))[:2]
    segment.rename(segment.with_name("aside"))
    other.rename(segment)
    segment.with_name("aside").rename(other)
    with pytest.raises(VerificationError, match="keys missing"):
        verify(spec, mode=mode)  # type: ignore[arg-type]


def test_the_space_that_is_asked_for_does_not_grow_with_the_segments(tmp_path: Path) -> None:
    _make(tmp_path)
    source = {"retention_ms": RETENTION}
    run(
        windowed_spec(
            tmp_path, WINDOW, name="few", source=source, target={"retention_ms": RETENTION, "path": "few/app"}
        )
    )
    many = {"retention_ms": 2 * RETENTION, "segment_ms": 4 * MINUTE, "path": "many/app"}
    run(windowed_spec(tmp_path, WINDOW, name="many", source=source, target=many))
    few, split = (load_plan(tmp_path / "work" / name) for name in ("few", "many"))
    assert few is not None
    assert split is not None
    assert len(split.databases) > 3 * len(few.databases)
    total = sum(database.data_bytes for database in few.databases)
    assert sum(database.data_bytes for database in split.databases) == pytest.approx(total, rel=0.02)
