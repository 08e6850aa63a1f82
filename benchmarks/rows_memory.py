"""Memory that does not grow with the store: of a worker that reads rows, exports them, or restores a changelog."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.changelogs import is_unmeasured
from benchmarks.processes import peaks_of
from benchmarks.results import Bar, Result
from benchmarks.rounds import empty_folder, measure, start
from benchmarks.setting import LARGE, SMALL, Setting
from benchmarks.stores import ensure_store_of
from formats import get_format
from tests.broker.broker import running_broker

MEMORY_BAR, MOST_MIB = 1.3, 350.0
_FORMAT = "kafka-streams.timestamped-key-value"
_READ_AS = "kafka-streams.key-value"
"""The column family of the benchmarks' stores is this format's, whatever their values are."""
_BINARY = {"from": {"serde": "bytes"}, "to": {"serde": "bytes"}}
Facts = dict[str, Any]


def rows_memory(setting: Setting) -> list[Result]:
    """Ten times the records: the peak of each worker."""
    sizes = (SMALL // 10, SMALL) if setting.quick else (SMALL, LARGE)
    few, many = (f"{records:,} records" for records in sizes)
    result = Result("rows-memory", "Peak resident memory of a worker, MiB", ["worker", few, many, "times"])
    if is_unmeasured(result):
        return [result]
    peaks: dict[str, list[float]] = {}
    for records in sizes:
        for worker, mib in _peaks(setting, records).items():
            peaks.setdefault(worker, []).append(mib)
    for worker, (small, large) in peaks.items():
        result.rows.append([worker, f"{small:.0f}", f"{large:.0f}", f"{large / small:.2f}"])
        result.bars.append(Bar(result.name, f"times the memory, {worker}", MEMORY_BAR, large / small, "at most"))
        result.bars.append(Bar(result.name, f"MiB, {worker}", MOST_MIB, large, "at most"))
    result.raw = {**peaks}
    return [result]


def _peaks(setting: Setting, records: int) -> dict[str, float]:
    store = ensure_store_of(setting.folder, get_format(_FORMAT), records)
    given = {"store": str(store.path), "records": records}
    peaks = {"rows in Spark": peaks_of(start("rows-once", given))["worker"]}
    with empty_folder(setting.folder) as folder:
        peaks["export"] = measure("export-once", {**given, "folder": str(folder)}).peak_mib
    with empty_folder(setting.folder) as folder, running_broker(folder) as broker:
        topic = {"bootstrap": broker.bootstrap, "source": str(store.path), "records": records, "topic": "orders"}
        peaks["changelog, written"] = measure("changelog-write, product", topic).peak_mib
        peaks["restore"] = measure("changelog-restore, product", {**topic, "folder": str(folder)}).peak_mib
    return peaks


def rows_once(store: str, records: int) -> Facts:
    """Every row, into an aggregate of the JVM."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from jobs.rows import register
    from jobs.session import spark_context

    with spark_context("benchmark", "local[2]", []) as context:
        spark = SparkSession(context)
        register(spark)
        source = spark.read.format("stateferry").options(path=store, store="rows", format=_READ_AS).load()
        (found,) = source.agg(F.count("*"), F.max("key"), F.max("value")).collect()
    if found[0] != records:
        raise AssertionError(found)
    return {}


def export_once(store: str, records: int, folder: str) -> Facts:
    """Every row, into a Delta table, by this process."""
    from migrate import export
    from migrate.spec.spec import parse_spec

    spec = parse_spec(
        {
            "name": "export",
            "work_dir": "work",
            "source": {"format": _READ_AS, "path": store},
            "target": {"format": _READ_AS, "path": "new"},
            "conversion": {"key": _BINARY, "value": _BINARY},
        },
        base_dir=Path(folder),
    )
    report = export(spec, Path(folder, "table"))
    shutil.rmtree(Path(folder, "table"))
    if report.records != records:
        raise AssertionError(report)
    return {}


JOBS: dict[str, Callable[..., Facts]] = {"rows-once": rows_once, "export-once": export_once}
