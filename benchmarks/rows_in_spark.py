"""A store as rows in Spark: the data source into an aggregate of the JVM, beside the same rows in Parquet."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.results import Bar, Result
from benchmarks.rounds import measure
from benchmarks.setting import Setting
from benchmarks.stores import PLAIN, ensure_entries, enumerate_entries
from jobs.rows import register
from jobs.session import spark_context

Facts = dict[str, Any]
BINARY_BAR, TEXT_BAR = 0.8, 0.6
_SERDES = {"binary": "bytes", "text": "string"}


def aggregates(folder: str, store: str, kind: str, rounds: int) -> Facts:
    """Seconds of the same aggregate over the source and over Parquet, in turns, after one round that warms up."""
    parquet = Path(folder) / f"rows-{kind}.parquet"
    facts: Facts = {"source": [], "parquet": []}
    with spark_context("benchmark", "local[2]", [], is_sorting=True) as context:  # a JVM as users have it
        spark = SparkSession(context)
        register(spark)
        given = {"path": store, "store": "rows", "format": "kafka-streams.key-value"}
        serdes = {"key": _SERDES[kind], "value": _SERDES[kind]}
        source = spark.read.format("stateferry").options(**given, **serdes).load()
        try:
            source.write.mode("overwrite").parquet(str(parquet))
            others = {"source": source, "parquet": spark.read.parquet(str(parquet))}
            for number in range(rounds + 1):
                found = {name: _timed(frame) for name, frame in others.items()}
                assert len({answer for answer, _ in found.values()}) == 1, "the two differ"
                if number:
                    for name, (_, seconds) in found.items():
                        facts[name].append(seconds)
        finally:
            shutil.rmtree(parquet, ignore_errors=True)
    return facts


def _timed(frame: DataFrame) -> tuple[str, float]:
    begun = time.perf_counter()
    sums = (F.sum(F.octet_length(name)) for name in ("key", "value"))
    row = frame.agg(F.count("*"), F.max("task"), F.max("key"), F.max("value"), *sums).collect()[0]
    return str(row), time.perf_counter() - begun


def rows_in_spark(setting: Setting) -> list[Result]:
    """How fast rows of a store reach the JVM, beside Parquet's."""
    records = setting.sizes[-1]
    result = Result(
        "rows-in-spark",
        f"{records:,} records into an aggregate of the JVM, two slots, warm",
        ["columns", "source, M records/s", "Parquet, M records/s", "times Parquet's rate"],
    )
    for kind, bar in (("binary", BINARY_BAR), ("text", TEXT_BAR)):
        path = setting.folder / f"rows-{kind}-{records}"
        entries = enumerate_entries(PLAIN, records)
        if kind == "text":
            entries = ((key, value.hex()[:100].encode()) for key, value in entries)
        ensure_entries(path, {"kind": kind, "records": records}, entries)
        wanted = {"folder": str(setting.folder), "store": str(path), "kind": kind, "rounds": setting.rounds}
        facts = measure("rows-in-spark", wanted).facts
        rates = [f"{records / statistics.median(facts[name]) / 1e6:.2f}" for name in ("source", "parquet")]
        times = statistics.median(slow / fast for slow, fast in zip(facts["parquet"], facts["source"], strict=True))
        result.rows.append([kind, *rates, f"{times:.2f}"])
        result.raw[kind] = facts
        result.bars.append(Bar(result.name, f"times Parquet's rate, {kind} columns", bar, times))
    return [result]
