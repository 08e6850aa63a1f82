"""Windowed stores under another retention, against the same run that leaves the segments as they are."""

from __future__ import annotations

import random
from pathlib import Path

from rocksdict import Options, Rdict

from migrate.batch.run import run
from migrate.spec.spec import parse_spec

MINUTE_MS = 60_000
RECORDS = 400_000
SEGMENT_MS = 15 * MINUTE_MS
RETENTIONS = {"as they are": None, "shrunk": 20 * MINUTE_MS, "grown": 120 * MINUTE_MS}
"""Of the new store, by route; the old one's is half an hour, and all its records are of twenty minutes."""
_VALUE = bytes(range(100))


def ensure_windows(folder: Path) -> Path:
    """A state directory with a windowed store of two segments, made unless it is there."""
    application = folder / f"windows-{RECORDS}" / "app"
    if not (application / ".made").exists():
        rng = random.Random(11)
        segments: dict[int, list[bytes]] = {0: [], SEGMENT_MS: []}
        for number in range(RECORDS):
            start = rng.randrange(20 * MINUTE_MS)
            key = b"user-%07d" % (number // 4) + start.to_bytes(8, "big") + bytes(4)
            segments[start // SEGMENT_MS * SEGMENT_MS].append(key)
        for start, keys in segments.items():
            directory = application / "0_0" / "visits" / f"visits.{start}"
            directory.parent.mkdir(parents=True, exist_ok=True)
            database = Rdict(str(directory), Options(raw_mode=True))
            for key in sorted(keys):
                database[key] = _VALUE
            database.flush()
            database.close()
            (directory / "rocksdict-config.json").unlink()
        (application / ".made").touch()
    return application


def move_segments(route: str, source: str, folder: str) -> dict[str, object]:
    """A whole run, in this process, without verification."""
    retention = RETENTIONS[route]
    old, new = ({}, {}) if retention is None else ({"retention_ms": 30 * MINUTE_MS}, {"retention_ms": retention})
    spec = parse_spec(
        {
            "name": "benchmark",
            "work_dir": "work",
            "source": {"format": "kafka-streams.window", "path": source, "store": "visits", **old},
            "target": {"format": "kafka-streams.timestamped-window", "path": "new", **new},
            "conversion": {"allow": ["unverified"]},
            "run": {"verify": "off", "snapshot": "copy"},
        },
        base_dir=Path(folder),
    )
    report = run(spec)
    if report.totals.records_out != RECORDS:
        raise AssertionError(f"{report.totals.records_out} of {RECORDS} records were written")
    return {}
