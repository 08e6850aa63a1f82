"""Another number of store partitions, against the run of the same old tasks that keeps them, by the same engine."""

from __future__ import annotations

import random
from pathlib import Path

from rocksdict import Options, Rdict, WriteBatch

from benchmarks.results import Bar, Result, route_result
from benchmarks.rounds import Sample, empty_folder, measure, ratio, take_turns
from benchmarks.setting import PER_CORE, Setting
from migrate.batch.run import run
from migrate.engine.partitioning import partitions_of
from migrate.spec.spec import parse_spec

RECORDS = 2_000_000
CHANGES = {(2, 12): 0.7, (2, 3): 0.5, (12, 2): 0.5}
"""From so many to so many, and the bar: times the run that keeps the old number, per core."""
_VALUE_BYTES = 100
_STEP = 1_000_003


def repartition(setting: Setting) -> list[Result]:
    """Each change of the number of partitions, in turns with the chunk path over the same old tasks."""
    return [_measured(setting, old, new) for old, new in CHANGES]


def _measured(setting: Setting, old: int, new: int) -> Result:
    records = RECORDS // 5 if setting.quick else RECORDS
    source = _ensure_tasks(setting.folder, records, old)

    def sample(route: str, _: int) -> Sample:
        with empty_folder(setting.folder) as folder:
            return measure("repartition", {"new": new, "route": route, "source": str(source), "folder": str(folder)})

    series = take_turns(setting.rounds, ("chunks", "split"), records, sample)
    result = route_result("repartition", f"{records:,} records of {old} partitions in {new}", series)
    reached = ratio(series["split"], series["chunks"], "cpu")
    what = "times the chunk path with the same digests, per core"
    result.bars = [Bar(f"repartition, {old} to {new}", what, CHANGES[old, new], reached)]
    result.notes.append(PER_CORE)
    return result


def _ensure_tasks(folder: Path, records: int, old: int) -> Path:
    """A state directory with the store `orders`, made unless it is there."""
    application = folder / f"tasks-{records}-{old}" / "app"
    if (application / ".made").exists():
        return application
    value = random.Random(1).randbytes(_VALUE_BYTES)
    keys = [b"key-%012d" % (number * _STEP % (records * 16)) for number in range(records)]
    numbers = partitions_of("murmur2", keys, [old])[0].tolist()
    parts: list[list[bytes]] = [[] for _ in range(old)]
    for key, number in zip(keys, numbers, strict=True):
        parts[number].append(key)
    for number, mine in enumerate(parts):
        directory = application / f"0_{number}" / "rocksdb" / "orders"
        directory.parent.mkdir(parents=True, exist_ok=True)
        database = Rdict(str(directory), Options(raw_mode=True))
        mine.sort()
        for at in range(0, len(mine), 10_000):
            batch = WriteBatch(raw_mode=True)
            for key in mine[at : at + 10_000]:
                batch.put(key, value)
            database.write(batch)
        database.flush()
        database.close()
        (directory / "rocksdict-config.json").unlink()
    (application / ".made").touch()
    return application


def move_partitions(route: str, new: int, source: str, folder: str) -> dict[str, object]:
    """A whole run, in this process, without verification; its digests are those of every run."""
    target: dict[str, object] = {"partitions": new} if route == "split" else {}
    spec = parse_spec(
        {
            "name": "benchmark",
            "work_dir": "work",
            "source": {"format": "kafka-streams.key-value", "path": source, "store": "orders"},
            "target": {"format": "kafka-streams.timestamped-key-value", "path": "new/app", **target},
            "conversion": {"allow": ["unverified", "changelog"]},
            "run": {"verify": "off", "snapshot": "link", "engine": "portable"},
        },
        base_dir=Path(folder),
    )
    report = run(spec)
    if report.totals.records_out != report.totals.records_in:
        raise AssertionError(f"{report.totals.records_out} of {report.totals.records_in} records were written")
    return {}
