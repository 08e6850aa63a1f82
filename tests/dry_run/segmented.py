"""Situations with windowed and session stores, and with upgrades that are not finished."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.dry_run.scenes import Arrange, Scene
from tests.support import TIMESTAMPED, copy_fixture, make_families, make_spec, numbered

WINDOW = "kafka-streams.window"
TIMESTAMPED_WINDOW = "kafka-streams.timestamped-window"
HEADERS_WINDOW = "kafka-streams.headers-window"
SESSION = "kafka-streams.session"
HEADERS_SESSION = "kafka-streams.headers-session"
FAMILY = "keyValueWithTimestamp"
MINUTE = 60_000
HOUR = 60 * MINUTE
NOON = 1_763_812_800_000
"""2025-11-22 12:00:00 UTC."""
RETENTION = 2 * HOUR
SEGMENTS = 5
"""An hour each, from noon on, in each of two tasks."""

Families = Mapping[str, Mapping[bytes, bytes]]


def windows(start_ms: int, count: int = 300, *, size_ms: int = HOUR, seed: int = 0) -> dict[bytes, bytes]:
    """Windows within an hour, of keys that are prefixes of one another."""
    rng = random.Random(seed + start_ms)
    keys = [b"user" + b"-%d" % rng.randrange(40) * rng.randrange(3) for _ in range(count)]
    times = [start_ms + rng.randrange(size_ms // MINUTE) * MINUTE for _ in keys]
    found = {key + struct.pack(">qi", time, 0): rng.randbytes(20) for key, time in zip(keys, times, strict=True)}
    return dict(sorted(found.items()))


def sessions(start_ms: int, count: int = 300) -> dict[bytes, bytes]:
    """Sessions that end within an hour."""
    rng = random.Random(start_ms)
    found = {}
    for number in range(count):
        end = start_ms + rng.randrange(HOUR)
        found[b"user-%d" % (number % 50) + struct.pack(">qq", end, end - rng.randrange(20 * MINUTE))] = rng.randbytes(
            20
        )
    return dict(sorted(found.items()))


def make_segments(
    application: Path, store: str, segments: Mapping[int, Families], *, tasks: Iterable[str] = ("0_0", "0_1")
) -> Path:
    """A windowed or session store, as Kafka Streams 4.0 leaves it."""
    for task in tasks:
        for start_ms, families in segments.items():
            make_families(application / task / store / f"{store}.{start_ms}", families)
        (application / task).mkdir(parents=True, exist_ok=True)
        (application / task / ".checkpoint").write_text(f"0\n1\n{application.name}-{store}-changelog {task[-1]} 4711\n")
    return application


def timestamped(records: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The same with a time before each value."""
    return {key: struct.pack(">q", NOON) + value for key, value in records.items()}


def hours(families: str = "default") -> dict[int, Families]:
    """The segments of a windowed store, all its records in one family."""
    made = {NOON + hour * HOUR: windows(NOON + hour * HOUR) for hour in range(SEGMENTS)}
    return {start: {families: timestamped(each) if families == FAMILY else each} for start, each in made.items()}


def windowed(folder: Path, segments: Mapping[int, Families] | None = None, /, **sections: Any) -> Scene:  # noqa: ANN401
    """Windows without timestamps become windows with them, unless `sections` say otherwise."""
    application = make_segments(folder / "visits-app", "visits", hours() if segments is None else segments)
    formats = {"source_format": WINDOW, "target_format": TIMESTAMPED_WINDOW}
    return Scene(make_spec(folder, application, **{**formats, "source": {"store": "visits"}, **sections}))


def moved(
    folder: Path,
    retention_ms: int,
    segments: Mapping[int, Families] | None = None,
    /,
    **sections: Any,  # noqa: ANN401
) -> Scene:
    """The same, with another retention."""
    retentions = {
        "source": {"store": "visits", "retention_ms": RETENTION},
        "target": {"retention_ms": retention_ms},
    }
    return windowed(folder, segments, **retentions, **sections)


def segments_stay(folder: Path) -> Scene:
    return windowed(folder)


def sessions_stay(folder: Path) -> Scene:
    segments = {NOON + hour * HOUR: {"default": sessions(NOON + hour * HOUR)} for hour in range(3)}
    return windowed(folder, segments, source_format=SESSION, target_format=HEADERS_SESSION)


def the_retention_shrinks(folder: Path) -> Scene:
    """Two segments and a part of the third are older than that."""
    return moved(folder, 40 * MINUTE)


def the_retention_shrinks_below_a_segment(folder: Path) -> Scene:
    return moved(folder, 5 * MINUTE, run={"chunk_size": 8_000})


def the_retention_grows(folder: Path) -> Scene:
    return moved(folder, 6 * HOUR)


def the_retention_changes_and_nothing_else(folder: Path) -> Scene:
    return moved(folder, 3 * HOUR, hours(FAMILY), source_format=TIMESTAMPED_WINDOW)


def the_retention_was_another_one(folder: Path) -> Scene:
    """What the spec says of the old store is wrong: its segments are of an hour."""
    scene = moved(folder, 4 * HOUR)
    source = scene.spec.source.model_copy(update={"retention_ms": HOUR})
    return Scene(scene.spec.model_copy(update={"source": source}), code=6)


def segments_without_records(folder: Path) -> Scene:
    segments: dict[int, Families] = {NOON + hour * HOUR: {"default": {}} for hour in range(3)}
    return moved(folder, 6 * HOUR, segments)


def a_task_without_segments(folder: Path) -> Scene:
    scene = moved(folder, 6 * HOUR)
    _lose_segments(scene, "0_0")
    return scene


def a_store_without_segments(folder: Path) -> Scene:
    scene = windowed(folder)
    _lose_segments(scene, "0_0", "0_1")
    return scene


def _lose_segments(scene: Scene, *tasks: str) -> None:
    """All were older than the retention once."""
    for task in tasks:
        shutil.rmtree(scene.spec.source_path / task / "visits")
        (scene.spec.source_path / task / "visits").mkdir()


def half_upgraded(count: int, twice: int) -> Families:
    """Of `count` records in each family `twice` are in both."""
    old = numbered(count, prefix=b"key-")
    new = numbered(count, prefix=b"key-", seed=1)
    new = {b"new-" + key if number >= twice else key: value for number, (key, value) in enumerate(new.items())}
    return {"default": old, FAMILY: timestamped(new)}


def an_unfinished_upgrade(folder: Path) -> Scene:
    """Of a key-value store; in one task it is finished, in one it has not begun."""
    application = copy_fixture(folder)
    for task, families in (
        ("0_0", half_upgraded(60, 0)),
        ("0_1", half_upgraded(70, 10)),
        ("0_2", {"default": numbered(50), FAMILY: {}}),
    ):
        shutil.rmtree(application / task / "rocksdb/orders")
        make_families(application / task / "rocksdb/orders", families)
    allowed = {"allow": ["loss:timestamp"]}
    sections: dict[str, Any] = {"source": {"store": "orders"}, "conversion": allowed}
    return Scene(
        make_spec(folder, application, source_format=TIMESTAMPED, target_format="kafka-streams.key-value", **sections)
    )


def segments_with_unfinished_upgrades(folder: Path) -> Scene:
    """And another retention besides."""
    segments = hours(FAMILY)
    for number, start in enumerate(sorted(segments)[1:4]):
        old = windows(start, 100, seed=number)
        both = {key: b"old" for key in list(segments[start][FAMILY])[: 7 * number]}
        segments[start] = {**segments[start], "default": old | both}
    return moved(folder, 100 * MINUTE, segments, source_format=TIMESTAMPED_WINDOW, target_format=HEADERS_WINDOW)


def two_unfinished_upgrades(folder: Path) -> Scene:
    segments: dict[int, Families] = {
        NOON: {"default": windows(NOON), FAMILY: timestamped(windows(NOON)), "keyValueWithTimestampAndHeaders": {}}
    }
    formats = {"source_format": HEADERS_WINDOW, "target_format": TIMESTAMPED_WINDOW}
    scene = windowed(folder, segments, **formats, conversion={"allow": ["loss:headers"]})
    return Scene(scene.spec, code=6)


def a_foreign_file_among_segments(folder: Path) -> Scene:
    scene = windowed(folder)
    (scene.spec.source_path / "0_1" / "visits" / "notes.txt").write_text("")
    return Scene(scene.spec, code=6)


def a_foreign_directory_among_segments(folder: Path) -> Scene:
    scene = windowed(folder)
    (scene.spec.source_path / "0_1" / "visits" / "visits.bak").mkdir()
    return Scene(scene.spec, code=6)


SEGMENT_SCENES: list[Arrange] = [
    segments_stay, sessions_stay, the_retention_shrinks, the_retention_shrinks_below_a_segment, the_retention_grows,
    the_retention_changes_and_nothing_else, the_retention_was_another_one, segments_without_records,
    a_task_without_segments, a_store_without_segments, an_unfinished_upgrade, segments_with_unfinished_upgrades,
    two_unfinished_upgrades, a_foreign_file_among_segments, a_foreign_directory_among_segments]  # fmt: skip
