"""Windowed and session stores of the real Kafka Streams: other retentions, and cut-over and rollback in place."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from migrate import RefusedError, cutover, rollback, run
from tests.live.kafka_streams import kinds
from tests.live.kafka_streams.events import Event
from tests.live.kafka_streams.kinds import RETENTION_MS, segment_interval
from tests.live.kafka_streams.program import Verdict, make_state_of, require_live
from tests.live.migrating import APPLICATION, Application, as_migrated, migrate, spec_of
from tests.support import raises

MadeBy = Callable[[str], Application]
OpenedBy = Callable[[str], Verdict]

MINUTE_MS = 60_000
WINDOWED = ("window-1", "timestamped-window-1", "join-window-1", "session-1")
WITH_HEADERS = ("headers-window-1", "headers-session-1")


@pytest.mark.parametrize(
    ("version", "minutes"),
    [
        ("3.9.1", 10),
        ("4.3.1", 10),
        ("4.3.1", 120),
        ("4.0.1", 120),
        ("4.3.1", 20),
    ],
)
def test_records_lie_in_the_segments_of_the_new_retention(
    version: str, minutes: int, *, made_by: MadeBy, opened_by: OpenedBy, tmp_path: Path
) -> None:
    retention_ms = minutes * MINUTE_MS
    stores = (*WINDOWED, *WITH_HEADERS) if version == "4.3.1" else WINDOWED
    made = migrated = made_by(version)
    for store in stores:
        migrated, report = migrate(migrated, tmp_path / store, store, made.kinds[store], retention_ms=retention_ms)
        assert report.totals.expired == made.records(store) - migrated.records(store)
        assert (report.totals.expired > 0) == (retention_ms < RETENTION_MS)
        assert report.totals.records_out == migrated.records(store)
        starts = {int(segment.name.rpartition(".")[2]) for segment in migrated.path.glob(f"*/{store}/*")}
        assert all(start % segment_interval(retention_ms) == 0 for start in starts)
    verdict = migrated.open(*stores, exactly_once=True)
    assert verdict.ok, verdict.difference
    for store in stores:
        assert verdict.records(store) == migrated.records(store)
        assert offsets(verdict, store) == offsets(opened_by(version), store)


def test_segments_with_names_of_former_releases_are_read(made_by: MadeBy, tmp_path: Path) -> None:
    made = made_by("3.9.1")
    store = "window-1"
    old = replace(made, path=Path(shutil.copytree(made.path, tmp_path / "state" / made.path.name)))
    for task in old.tasks:
        for number, segment in enumerate(sorted((old.path / task / store).iterdir())):
            start_ms = segment.name.rpartition(".")[2]
            in_minutes = f"-{datetime.fromtimestamp(int(start_ms) / 1000, UTC):%Y%m%d%H%M}"
            segment.rename(segment.with_name(f"{store}{in_minutes if number % 2 else f':{start_ms}'}"))
    migrated, report = migrate(old, tmp_path, store, kinds.TIMESTAMPED_WINDOW, retention_ms=10 * MINUTE_MS)
    assert report.totals.expired == old.records(store) - migrated.records(store) > 0
    verdict = migrated.open(store, exactly_once=True)
    assert verdict.ok, verdict.difference
    assert verdict.records(store) == migrated.records(store)


def test_a_store_that_was_emptied_keeps_its_changelog_position(tmp_path: Path) -> None:
    require_live()
    begin = 1_700_000_000_000
    written = [Event(bytes([number]), b"value", begin, start=begin + number * MINUTE_MS) for number in range(20)]
    events = [*written, *(replace(each, value=None) for each in written)]
    stores = {"emptied": kinds.WINDOW, "emptied-too": kinds.WINDOW}
    path = tmp_path / "made" / APPLICATION
    expected = make_state_of("4.3.1", path, kinds=stores, events={"0_0": dict.fromkeys(stores, events)})
    made = Application("4.3.1", path, stores, expected)
    new_ms = 10 * MINUTE_MS
    migrated, _ = migrate(made, tmp_path / "1", "emptied", kinds.HEADERS_WINDOW, retention_ms=new_ms)
    kind, version = kinds.TIMESTAMPED_WINDOW, "4.2"  # which keeps the position in a file
    migrated, _ = migrate(migrated, tmp_path / "2", "emptied-too", kind, retention_ms=new_ms, version=version)
    verdict = migrated.open(*stores, exactly_once=True)
    assert verdict.ok, verdict.difference
    for store in stores:
        assert verdict.records(store) == 0
        assert [found.offset for found in verdict.stores(store)] == [len(events) - 1]


def offsets(verdict: Verdict, store: str) -> list[tuple[int | None, dict[str, int]]]:
    """The changelog's offset and the input's, by task."""
    return [(found.offset, dict(found.position)) for found in verdict.stores(store)]


# (version that made them, the stores, what they become, in minutes the new retention, version that opens them)
IN_PLACE = [
    ("3.9.1", ("session-1",), kinds.SESSION, 10, "3.9.1"),
    ("4.0.1", ("window-1",), kinds.HEADERS_WINDOW, 30, "4.3.1"),
    ("4.3.1", ("window-1", "window-2"), kinds.HEADERS_WINDOW, 20, "4.3.1"),
    ("4.3.1", ("timestamped-window-1", "timestamped-window-2"), kinds.TIMESTAMPED_WINDOW, 120, "4.0.1"),
    *(
        (old, ("key-value-1",), kinds.TIMESTAMPED_KEY_VALUE, None, new)
        for old, new in (("3.9.1", "3.9.1"), ("4.0.1", "4.0.1"), ("4.3.1", "4.3.1"), ("4.3.1", "3.9.1"))
    ),
]


@pytest.mark.parametrize(("old_version", "stores", "kind", "minutes", "version"), IN_PLACE)
def test_there_and_back_in_place(
    old_version: str,
    stores: tuple[str, ...],
    kind: str,
    minutes: int | None,
    version: str,
    *,
    made_by: MadeBy,
    opened_by: OpenedBy,
    tmp_path: Path,
) -> None:
    made = made_by(old_version)
    old = replace(made, path=Path(shutil.copytree(made.path, tmp_path / "state" / made.path.name)))
    before = [offsets(opened_by(old_version), store) for store in stores]
    retention_ms = None if minutes is None else minutes * MINUTE_MS
    short = version.rpartition(".")[0]
    spec = spec_of(old, tmp_path, *stores, kind=kind, retention_ms=retention_ms, version=short, in_place=True)
    run(spec)
    cutover(spec)
    new = as_migrated(old, spec, kind, tmp_path / "expected")
    verdict = new.open(*stores, version=version, in_place=True)
    assert verdict.ok, verdict.difference
    assert not any(verdict.upgrade_mode(store) for store in stores)
    assert [offsets(verdict, store) for store in stores] == before
    raises(RefusedError, "written to since the cut-over", rollback, spec)
    rollback(spec, discard_new_writes=True)
    verdict = old.open(*stores, exactly_once=True)
    assert verdict.ok, verdict.difference
    assert [offsets(verdict, store) for store in stores] == before
