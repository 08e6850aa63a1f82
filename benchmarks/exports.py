"""A store as a Delta table: `export` beside Spark, which reads the rows by our source and writes by Delta's writer.

Needs delta-spark: `make bench VENV=.venv-delta EXTRAS=all,delta,dev`, with the section `export`.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.results import Bar, Result
from benchmarks.rounds import measure
from benchmarks.setting import Setting
from benchmarks.stores import PLAIN, ensure_entries, enumerate_entries
from migrate.rows.export_table import export
from migrate.spec.spec import parse_spec

Facts = dict[str, Any]
EXPORT_BAR = 2.0
_SLOTS = 2
_FORMAT = "kafka-streams.key-value"
_TEXT = {"from": {"serde": "string"}, "to": {"serde": "string"}}


def writers(folder: str, store: str, rounds: int) -> Facts:
    """Seconds of each way to write the table, in turns, after one round that warms up the JVM."""
    from pyspark.sql import SparkSession

    from jobs.rows import register

    place = Path(folder) / "exports"
    spec = parse_spec(
        {
            "name": "export",
            "work_dir": "work",
            "source": {"format": _FORMAT, "path": store},
            "target": {"format": _FORMAT, "path": "new"},
            "conversion": {"key": _TEXT, "value": _TEXT},
        },
        base_dir=Path(folder),
    )
    spark = _session()
    assert isinstance(spark, SparkSession)
    try:
        register(spark)
        options = {"path": store, "store": "rows", "format": _FORMAT, "key": "string", "value": "string"}
        source = spark.read.format("stateferry").options(**options).load()
        parquet = str(place / "rows.parquet")
        source.write.mode("overwrite").parquet(parquet)
        rows = spark.read.parquet(parquet)
        ways: dict[str, Callable[[str], object]] = {
            "export": lambda table: export(spec, table, jobs=_SLOTS),
            "source to Delta": lambda table: source.write.format("delta").partitionBy("task").save(table),
            "Parquet to Delta": lambda table: rows.write.format("delta").partitionBy("task").save(table),
        }
        facts: Facts = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, write in ways.items():
                table = place / f"{number}-{name}"  # a new one: Spark keeps what it knows of another
                begun = time.perf_counter()
                write(str(table))
                seconds = time.perf_counter() - begun
                counted = spark.read.format("delta").load(str(table)).count()
                assert facts.setdefault("records", counted) == counted
                shutil.rmtree(table)
                if number:
                    facts[name].append(seconds)
    finally:
        spark.stop()
        shutil.rmtree(place, ignore_errors=True)
    return facts


def _session() -> Any:  # noqa: ANN401 - delta-spark may be missing where types are checked
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{_SLOTS}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.databricks.delta.snapshotPartitions", "2").config("spark.driver.memory", "2g")
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    return configure_spark_with_delta_pip(builder.config("spark.sql.catalog.spark_catalog", catalog)).getOrCreate()


def exports(setting: Setting) -> list[Result]:
    """How fast a store becomes a Delta table, without Spark and with it."""
    records = setting.sizes[-1]
    result = Result(
        "export",
        f"{records:,} records with text values to a Delta table, two slots, Spark warm",
        ["way", "seconds, median", "M records/s", "times as long as `export`"],
    )
    if find_spec("delta") is None:
        result.notes.append("Not measured: delta-spark is not installed (`make bench VENV=.venv-delta`).")
        return [result]
    path = setting.folder / f"rows-text-{records}"
    entries = ((key, value.hex()[:100].encode()) for key, value in enumerate_entries(PLAIN, records))
    ensure_entries(path, {"kind": "text", "records": records}, entries)
    wanted = {"folder": str(setting.folder), "store": str(path), "rounds": setting.rounds}
    facts = measure("export", wanted).facts
    result.raw["export"] = facts
    assert facts.pop("records") == records
    for name, seconds in facts.items():
        times = statistics.median(slow / fast for slow, fast in zip(seconds, facts["export"], strict=True))
        median = statistics.median(seconds)
        result.rows.append([name, f"{median:.1f}", f"{records / median / 1e6:.2f}", f"{times:.2f}"])
        if name == "source to Delta":
            result.bars.append(Bar(result.name, "times as fast as Spark's Delta writer", EXPORT_BAR, times))
    return [result]
