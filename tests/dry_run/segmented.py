"""Windowed and session stores, and unfinished upgrades."""

import random
import shutil
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from migrate.spec.spec import Spec
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
    """The records with a timestamp before each value."""
    return {key: struct.pack(">q", NOON) + value for key, value in records.items()}


def hours(families: str = "default") -> dict[int, Families]:
    """The segments of a windowed store, all its records in one family."""
    made = {NOON + hour * HOUR: windows(NOON + hour * HOUR) for hour in range(SEGMENTS)}
    return {start: {families: timestamped(each) if families == FAMILY else each} for start, each in made.items()}


def windowed(folder: Path, segments: Mapping[int, Families] | None = None, /, **sections: Any) -> Spec:  # noqa: ANN401
    """Windows without timestamps become windows with them, unless `sections` say otherwise."""
    application = make_segments(folder / "visits-app", "visits", hours() if segments is None else segments)
    formats = {"source_format": WINDOW, "target_format": TIMESTAMPED_WINDOW}
    return make_spec(folder, application, **{**formats, "source": {"store": "visits"}, **sections})


def moved(
    folder: Path,
    retention_ms: int,
    segments: Mapping[int, Families] | None = None,
    /,
    **sections: Any,  # noqa: ANN401
) -> Spec:
    retentions = {
        "source": {"store": "visits", "retention_ms": RETENTION},
        "target": {"retention_ms": retention_ms},
    }
    return windowed(folder, segments, **retentions, **sections)


def half_upgraded(count: int, twice: int) -> Families:
    """An unfinished upgrade: of `count` records in each family, `twice` are in both."""
    old = numbered(count, prefix=b"key-")
    new = numbered(count, prefix=b"key-", seed=1)
    new = {b"new-" + key if number >= twice else key: value for number, (key, value) in enumerate(new.items())}
    return {"default": old, FAMILY: timestamped(new)}


def unfinished_upgrade(application: Path) -> None:
    """An unfinished upgrade of a key-value store, at another stage in each task."""
    stores: dict[str, Families] = {
        "0_0": half_upgraded(60, 0),
        "0_1": half_upgraded(70, 10),
        "0_2": {"default": numbered(50), FAMILY: {}},
    }
    for task, families in stores.items():
        shutil.rmtree(application / task / "rocksdb/orders")
        make_families(application / task / "rocksdb/orders", families)


def unfinished_upgrades() -> dict[int, Families]:
    segments = hours(FAMILY)
    for number, start in enumerate(sorted(segments)[1:4]):
        both = {key: b"old" for key in list(segments[start][FAMILY])[: 7 * number]}
        segments[start] = {**segments[start], "default": windows(start, 100, seed=number) | both}
    return segments


def an_unfinished_upgrade(folder: Path) -> Spec:
    application = copy_fixture(folder)
    unfinished_upgrade(application)
    allowed: dict[str, Any] = {"source": {"store": "orders"}, "conversion": {"allow": ["loss:timestamp"]}}
    return make_spec(folder, application, source_format=TIMESTAMPED, target_format="kafka-streams.key-value", **allowed)
