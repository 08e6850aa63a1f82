"""Dual reading inside PySpark's transformWithState: messages to the state server, and a query that handles markers."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from benchmarks.results import Bar, Result
from benchmarks.rounds import measure
from benchmarks.setting import Setting
from jobs.session import gateway, spark_context
from migrate.processors.spark import DualValue

Facts = dict[str, Any]
NEW_BAR, OLD_BAR, MARKERS_BAR = 2, 5, 0.8
_KEYS = 2_000
_OLD, _NEW = ("count", "n int"), ("totals", "n long, sum double")
_OUT = "kind string, messages int"


class _Plain(StatefulProcessor):
    """Counts rows in the old form, and says how many messages a get and an update took."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count: Any = handle.getValueState(*_OLD)
        self._handle: Any = handle
        self._watch()

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: ANN401
        kinds = {row.kind for row in rows}
        self.messages = 0
        if "marker" in kinds:
            self.count.converge()
        else:
            count = (self.count.get() or (0,))[0]
            self.count.update(self.value(count + 1))
        yield Row(kind=min(kinds), messages=self.messages)

    def close(self) -> None: ...

    def value(self, count: int) -> tuple[Any, ...]:
        return (count,)

    def _watch(self) -> None:
        client = self._handle._statefulProcessorApiClient
        send = client._send_proto_message

        def counting(message: bytes) -> None:
            self.messages += 1
            send(message)

        self.messages = 0
        client._send_proto_message = counting


class _Dual(_Plain):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = DualValue(handle, new=_NEW, old=_OLD, convert=lambda row: (row[0], 0.0))
        self._handle = handle
        self._watch()

    def value(self, count: int) -> tuple[Any, ...]:
        return (count, 0.0)


def queries(folder: str, rounds: int) -> Facts:
    """Messages of each kind of key, and seconds of CPU of a batch of markers and of plain rows, for each round."""
    facts: Facts = {"markers": [], "plain": [], "messages": {}}
    with spark_context("benchmark", "local[2]", []) as context:
        spark = SparkSession(context)
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
        for number in range(rounds + 1):  # the first one warms up
            found = {}
            for name, kind, processor in (("markers", "marker", _Dual), ("plain", "plain", _Plain)):
                with tempfile.TemporaryDirectory(dir=folder) as place:
                    work = Path(place)
                    _run(spark, work, "plain", _Plain)
                    found[name], messages = _run(spark, work, kind, processor)
                    facts["messages"] |= {name: messages}
                    if processor is _Dual:
                        facts["messages"] |= {"new": _run(spark, work, "row", _Dual)[1]}
            if number:
                for name, seconds in found.items():
                    facts[name].append(seconds)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            _run(spark, Path(place), "plain", _Plain)
            facts["messages"] |= {"old": _run(spark, Path(place), "row", _Dual)[1]}
    return facts


def _run(spark: SparkSession, work: Path, kind: str, processor: Callable[[], StatefulProcessor]) -> tuple[float, int]:
    """(seconds of CPU, messages of a key) of a batch with a row of each key."""
    source = work / "input"
    source.mkdir(exist_ok=True)
    lines = [f'{{"k": "key-{number}", "kind": "{kind}"}}\n' for number in range(_KEYS)]
    (source / f"{len(list(source.iterdir()))}.json").write_text("".join(lines))
    messages: set[int] = set()
    rows = spark.readStream.schema("k string, kind string").json(str(source)).groupBy("k")
    out = rows.transformWithState(processor(), _OUT, "Update", "None").writeStream.outputMode("update")
    out = out.option("checkpointLocation", str(work / "checkpoint"))
    out = out.foreachBatch(lambda batch, _: messages.update(row.messages for row in batch.distinct().collect()))
    jvm = gateway().proc.pid
    before = _cpu_seconds(jvm)
    out.trigger(availableNow=True).start().awaitTermination()
    (of_a_key,) = messages
    return _cpu_seconds(jvm) - before, of_a_key


def _cpu_seconds(jvm: int) -> float:
    """Of the JVM and of its workers, those that have ended too."""
    times: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:  # it has just ended
                continue
            times[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    total, wanted = 0.0, {jvm}
    while wanted:
        total += sum(times[process][1] for process in wanted if process in times)
        wanted = {process for process, (parent, _) in times.items() if parent in wanted}
    return total


def spark_state(setting: Setting) -> list[Result]:
    """Messages for a get and an update, and the rate of a batch of markers beside that of a plain batch."""
    facts = measure("spark-queries", {"folder": str(setting.folder), "rounds": setting.rounds}).facts
    messages, times = facts["messages"], {name: facts[name] for name in ("plain", "markers")}
    result = Result("spark-state", f"a query over {_KEYS} keys", ["what", "messages", "CPU, s, median"])
    for name, what in (("plain", "plain"), ("new", "new form"), ("old", "old form"), ("markers", "marker")):
        seconds = f"{statistics.median(times[name]):.2f}" if name in times else ""
        result.rows.append([what, str(messages[name]), seconds])
    rate = statistics.median(plain / marked for plain, marked in zip(times["plain"], times["markers"], strict=True))
    result.raw = facts
    result.bars = [
        Bar(
            result.name,
            "messages for a get and an update, in the new form",
            NEW_BAR,
            messages["new"],
            "at most",
        ),
        Bar(result.name, "messages for a get and an update, still old", OLD_BAR, messages["old"], "at most"),
        Bar(result.name, "times a plain query's rate, for markers", MARKERS_BAR, rate),
    ]
    result.notes.append("CPU of the JVM and of the Python workers. Each key takes messages besides.")
    return [result]
