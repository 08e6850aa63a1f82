"""Real queries of PySpark over the same input: of the old form, of the new one, and of the one that moves.

A marker of a sweep is a row without a number. `python -m tests.processors.spark_queries FOLDER FORM` runs one.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from jobs.session import gateway, spark_context
from migrate.processors.spark import DualList, DualMap, DualValue

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "k string, n int"
DAY = "2026-01-{:02d}T00:00:00Z"
"""An event's time; without one a row has none."""
PAIRS = {"count": "totals", "seen": "words", "last": "newest"}
"""Old and new names of a value, a list and a map."""
OLD: dict[str, tuple[Any, ...]] = {
    "count": ("count", "n int"),
    "seen": ("seen", "x string"),
    "last": ("last", "m string", "n int"),
}
NEW: dict[str, tuple[Any, ...]] = {
    "totals": ("totals", "n long, shown string"),
    "words": ("words", "x string, size int"),
    "newest": ("newest", "m string", "n long, shown string"),
}


def shown(row: tuple[int]) -> tuple[int, str]:
    return row[0], str(row[0])


def sized(row: tuple[str]) -> tuple[str, int]:
    return row[0], len(row[0])


class OldForm(StatefulProcessor):
    """Counts the rows of a key, and keeps their numbers and the largest ones, whatever the order of rows in a batch."""

    value: Any = staticmethod(lambda number: (number,))
    element: Any = staticmethod(lambda word: (word,))
    ttl: tuple[int, ...] = ()
    count: Any
    seen: Any
    last: Any

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState(*OLD["count"], *self.ttl)
        self.seen = handle.getListState(*OLD["seen"], *self.ttl)
        self.last = handle.getMapState(*OLD["last"], *self.ttl)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: ANN401
        numbers = [row.n for row in rows if row.n is not None]
        if numbers:
            count = (self.count.get() or (0,))[0] + len(numbers)
            self.count.update(self.value(count))
            for number in numbers:
                self.seen.appendValue(self.element(f"n{number}"))
                group = (f"m{number % 3}",)
                self.last.updateValue(group, self.value(max(number, *(self.last.getValue(group) or (0,))[:1])))
            yield Row(k=key[0], n=count)

    def close(self) -> None: ...


class NewForm(OldForm):
    """The same, with the new variables alone."""

    value = staticmethod(lambda number: shown((number,)))
    element = staticmethod(lambda word: sized((word,)))

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState(*NEW["totals"], *self.ttl)
        self.seen = handle.getListState(*NEW["words"], *self.ttl)
        self.last = handle.getMapState(*NEW["newest"], *self.ttl)


class FinalForm(NewForm):
    """The new form, once no old variable is left."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        for name in PAIRS:
            handle.deleteIfExists(name)
        super().init(handle)


class DualForm(NewForm):
    """The new form over both."""

    convert: Any = staticmethod(shown)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = DualValue(
            handle, new=(*NEW["totals"], *self.ttl), old=(*OLD["count"], *self.ttl), convert=self.convert
        )
        self.seen = DualList(handle, new=(*NEW["words"], *self.ttl), old=(*OLD["seen"], *self.ttl), convert=sized)
        self.last = DualMap(handle, new=(*NEW["newest"], *self.ttl), old=(*OLD["last"], *self.ttl), convert=shown)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: ANN401
        yield from super().handleInputRows(key, rows, timerValues)
        for dual in (self.count, self.seen, self.last):
            dual.converge()


class FailingForm(DualForm):
    """Its conversion gives a number of another kind than the new form has, which PySpark writes as null."""

    @staticmethod
    def convert(row: tuple[int]) -> tuple[float, str]:
        return float(row[0]), str(row[0])


class OldTtl(OldForm):
    ttl = (3_600_000,)


class DualTtl(DualForm):
    ttl = (3_600_000,)


class NewTtl(NewForm):
    ttl = (3_600_000,)


class OldTimed(OldForm):
    """Behind a watermark."""


class DualTimed(DualForm):
    """Behind a watermark."""


FORMS = {
    each.__name__: each
    for each in (OldForm, NewForm, FinalForm, DualForm, FailingForm, OldTimed, DualTimed, OldTtl, DualTtl, NewTtl)
}


@contextmanager
def open_session() -> Iterator[SparkSession]:
    with spark_context("processors", "local[2]", []) as context:
        spark = SparkSession(context)
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark.conf.set(PROVIDER, ROCKSDB)
        jvm = gateway().proc
        yield spark
    jvm.wait(timeout=60)


def write_rows(folder: Path, name: str, rows: dict[str, list[int]], *, day: int = 1) -> None:
    """A file of the source."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"k": key, "n": number, "ts": DAY.format(day)})
        for key, numbers in rows.items()
        for number in numbers
    ]
    (folder / f".{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / f".{name}").rename(folder / f"{name}.json")


def start(
    spark: SparkSession,
    folder: Path,
    form: str,
    *,
    checkpoint: str = "checkpoint",
    files: int = 1000,
    kafka: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """A query over `input` in that folder, so many files a batch: it ends with the input, unless state expires.

    `kafka`: the options of that source, instead.
    """
    if kafka is None:
        rows = spark.readStream.schema(f"{SCHEMA}, ts timestamp").option("maxFilesPerTrigger", files)
        read = rows.json(str(folder / "input"))
    else:
        records = spark.readStream.format("kafka").options(**kafka).load()
        read = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")).select("row.*")
    expires = form.endswith("Ttl")
    time_mode = "ProcessingTime" if expires else "None"
    if form.endswith("Timed"):
        read, time_mode = read.withWatermark("ts", "0 seconds"), "EventTime"
    out = read.groupBy("k").transformWithState(FORMS[form](), SCHEMA, "Update", time_mode)
    writer = out.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(folder / checkpoint))
    return (writer if expires else writer.trigger(availableNow=True)).start()


def run(
    spark: SparkSession,
    folder: Path,
    form: str,
    *,
    checkpoint: str = "checkpoint",
    files: int = 1000,
    kafka: Mapping[str, str] | None = None,
) -> None:
    """Run one until its input is read. Raises what ends it."""
    query = start(spark, folder, form, checkpoint=checkpoint, files=files, kafka=kafka)
    if form.endswith("Ttl"):
        wait_for_input(query, folder, checkpoint=checkpoint)
        query.stop()
    else:
        query.awaitTermination()


def wait_for_input(query: StreamingQuery, folder: Path, *, checkpoint: str = "checkpoint") -> None:
    """Wait until a query whose state expires has read its input, and has a batch without rows."""
    while not _is_over(query, folder, checkpoint):
        assert query.isActive, query.exception()
        time.sleep(0.1)


def _is_over(query: StreamingQuery, folder: Path, checkpoint: str) -> bool:
    """Whether a batch without rows has come after the one of the last file."""
    logs = [each for each in (folder / checkpoint / "sources/0").glob("*") if each.name[0] != "."]
    files = sum(each.read_text(encoding="utf-8").count("\n{") for each in logs)
    progress = query.lastProgress
    if progress is None or files < len(list((folder / "input").glob("*.json"))):
        return False
    read = re.findall(r"\d+", progress["sources"][0]["endOffset"])  # PySpark 4.1 does not write it as JSON
    return not progress["numInputRows"] and int(read[0]) == max(int(each.stem) for each in logs)


def state(spark: SparkSession, folder: Path, name: str, *, checkpoint: str = "checkpoint") -> list[tuple[str, str]]:
    """What is in a variable, by grouping key, without the times at which it expires."""
    spark.streams.active  # noqa: B018 - PySpark 4.1 reads no state before that
    read = spark.read.format("statestore").option("stateVarName", name).load(str(folder / checkpoint))
    rows = [
        json.loads(row[0]) for row in read.select(F.to_json(F.struct(*read.drop("partition_id").columns))).collect()
    ]
    found = [(row.pop("key")["k"], json.dumps(_without_times(row))) for row in rows]
    return sorted(found)


def variables(spark: SparkSession, folder: Path) -> set[str]:
    """The names of all that the query has."""
    metadata = spark.read.format("state-metadata").load(str(folder / "checkpoint")).head()
    assert metadata is not None
    return {each["stateName"] for each in json.loads(metadata["operatorProperties"])["stateVariables"]}


def _without_times(value: Any) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(value, dict):
        return value
    if "ttlExpirationMs" in value:
        return _without_times(value["value"])
    return {name: _without_times(each) for name, each in value.items()}


if __name__ == "__main__":
    with open_session() as opened:
        run(opened, Path(sys.argv[1]), sys.argv[2], files=1)
