"""Keys in another order, which Spark sorts, against the run that keeps the order of the same records."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.results import Bar, Result
from benchmarks.rounds import Sample, empty_folder, measure, take_turns
from benchmarks.setting import LARGE, SMALL, Setting
from benchmarks.stores import ensure_entries
from jobs.session import spark_context
from migrate.batch.run import run
from migrate.spec.spec import parse_spec

COLD_BAR, WARM_BAR = 0.2, 0.25
_VALUE_BYTES = 100
_WARM_UP = 100_000
_ON_SPARK = "--driver-memory 1g --conf spark.ui.enabled=false pyspark-shell"
"""Two slots of a JVM with 1 GiB: rows that do not fit spill to its disks."""


def sorting(setting: Setting) -> list[Result]:
    """A key's bytes are reversed: a small number in front becomes one at the end, and every record moves."""
    records = SMALL if setting.quick else LARGE
    stores = {many: _ensure_store(setting.folder, many) for many in (_WARM_UP, records)}

    def sample(route: str, _: int) -> Sample:
        with empty_folder(setting.folder) as folder:
            wanted = {"route": route, "source": str(stores[records]), "folder": str(folder)}
            return measure("sorting", wanted | {"warm_up": str(stores[_WARM_UP])})

    rounds = max(1, setting.rounds // 2)
    series = take_turns(rounds, ("chunks", "sorted"), records, sample)
    result = Result(
        "sorting",
        f"{records:,} records, 8-byte keys, {_VALUE_BYTES}-byte values; Spark on two slots and 1 GiB, not verified",
        ["session", "chunks, s", "sorted, s", "times the chunk path"],
    )
    for session, bar in (("cold", COLD_BAR), ("warm", WARM_BAR)):
        chunks, with_sort = ([each.facts[session] for each in series[route].samples] for route in ("chunks", "sorted"))
        times = sorted(a / b for a, b in zip(chunks, with_sort, strict=True))[rounds // 2]
        result.rows.append([session, f"{min(chunks):.1f}", f"{min(with_sort):.1f}", f"{times:.2f}"])
        result.bars.append(Bar(result.name, f"times the chunk path, {session} session", bar, times))
        result.raw[session] = [chunks, with_sort]
    return [result]


def _ensure_store(folder: Path, records: int) -> Path:
    path = folder / f"numbers-{records}"
    ensure_entries(path, {"kind": "numbers", "records": records}, _entries(records))
    return path


def _entries(records: int) -> Iterator[tuple[bytes, bytes]]:
    noise = random.Random(1)
    for number in range(records):
        yield (number * 1_000_003).to_bytes(8, "big"), noise.randbytes(_VALUE_BYTES)


def sort_keys(route: str, source: str, folder: str, warm_up: str) -> dict[str, Any]:
    """Seconds of the rewriting in a session's first run, and in one after a small run of the same kind."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = _ON_SPARK
    with spark_context("benchmark", "local[2]", [], is_sorting=route == "sorted"):
        cold = _rewritten(route, source, Path(folder) / "cold")
        _rewritten(route, warm_up, Path(folder) / "warm-up")
        warm = _rewritten(route, source, Path(folder) / "warm")
    return {"cold": cold, "warm": warm}


def _rewritten(route: str, source: str, folder: Path) -> float:
    key = {"from": {"serde": "int64"}, "to": {"serde": "int64", "endian": "little"}} if route == "sorted" else None
    content: dict[str, Any] = {
        "name": "benchmark",
        "work_dir": "work",
        "source": {"format": "kafka-streams.key-value", "path": source},
        "target": {"format": "kafka-streams.timestamped-key-value", "path": "new"},
        "conversion": {"allow": ["unverified", "changelog", "key-change", "unclean-source"], "key": key},
        "run": {"verify": "off", "engine": "portable", "sort": True if route == "sorted" else None},
    }
    folder.mkdir()
    report = run(parse_spec(content, base_dir=folder), master="local[2]")
    assert report.totals.records_out == report.totals.records_in
    return report.seconds["rewrite"]
