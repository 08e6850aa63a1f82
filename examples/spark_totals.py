"""Totals by customer in a streaming query of PySpark: its state gets a new form, and goes on where it was.

`python -m examples.spark_totals`
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from jobs.java import find_java_home
from migrate.processors.spark import DualValue

ROOT = Path(__file__).resolve().parents[1]
CUSTOMERS = [f"customer-{number:04d}" for number in range(500)]
ORDERS = "customer string, amount int"
SLICE = 300
"""Keys that one sweep has moved."""


class CountBefore(StatefulProcessor):
    """The old code: one number."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "sum int")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        total = (self.total.get() or (0,))[0] + sum(row.amount for row in rows)
        self.total.update((total,))
        yield Row(customer=key[0], sum=total, orders=None)

    def close(self) -> None: ...


class Count(StatefulProcessor):
    """The new code, as it will stay but for `init`: two numbers; of old totals the orders are not known."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        handle.deleteIfExists("total")
        self.totals = handle.getValueState("totals", "sum long, orders long")

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        amounts = [row.amount for row in rows if row.amount is not None]  # a marker has none
        if amounts:
            total, orders = self.totals.get() or (0, 0)
            self.totals.update((total + sum(amounts), orders + len(amounts)))
            yield Row(customer=key[0], sum=total + sum(amounts), orders=orders + len(amounts))

    def close(self) -> None: ...


class CountBoth(Count):
    """The new code while old totals are left."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.totals: DualValue = DualValue(  # type: ignore[assignment]
            handle, new=("totals", "sum long, orders long"), old=("total", "sum int"), convert=lambda old: (old[0], 0)
        )

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        yield from super().handleInputRows(key, rows, timerValues)
        self.totals.converge()


def marker(key: Row) -> str:
    """A row of the source for one customer, without an order: `stateferry sweep` writes it."""
    return json.dumps({"customer": key.customer, "amount": None})


class Show:
    """One directory of orders, and one checkpoint over three versions of its query."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.orders, self.checkpoint = folder / "orders", folder / "checkpoint"
        self.orders.mkdir(parents=True)
        self.model: Counter[str] = Counter()
        self.found: dict[str, int] = {}

    def order(self, name: str, customers: list[str]) -> None:
        orders = [(customer, random.randint(1, 100)) for customer in customers]
        for customer, amount in orders:
            self.model[customer] += amount
        lines = [json.dumps({"customer": customer, "amount": amount}) for customer, amount in orders]
        (self.orders / f".{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        (self.orders / f".{name}").rename(self.orders / f"{name}.json")  # the query sees a whole file, or none

    def run(self, processor: StatefulProcessor) -> None:
        """Run the query until it has read all orders."""
        orders = self.spark.readStream.schema(ORDERS).json(str(self.orders))
        totals = orders.groupBy("customer").transformWithState(
            processor, "customer string, sum long, orders long", "Update", "None"
        )
        writer = totals.writeStream.outputMode("update").option("checkpointLocation", str(self.checkpoint))
        writer.foreachBatch(self._see).trigger(availableNow=True).start().awaitTermination()

    def _see(self, totals: object, _: int) -> None:
        self.found |= {row.customer: row.sum for row in totals.collect()}  # type: ignore[attr-defined]

    def sweep(self) -> int:
        """One slice, by the command: its exit code."""
        of = ["--variable", "total", "--marker", "examples.spark_totals:marker", "--to", str(self.orders)]
        command = [sys.executable, "-m", "migrate", "sweep", str(self.checkpoint), *of, "--limit", str(SLICE)]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


def open_session() -> SparkSession:
    """Spark on this machine, with state in RocksDB."""
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java_home())}
    builder = SparkSession.builder.master("local[2]").appName("totals").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.showConsoleProgress", "false")
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return builder.config("spark.sql.streaming.stateStore.providerClass", provider).getOrCreate()


@click.command()
@click.option(
    "--folder", type=click.Path(path_type=Path), default=ROOT / "build/spark-totals", help="Is emptied first."
)
def main(folder: Path) -> None:
    """Old code, new code over both states with a sweep, new code. Exits with 1 where a total is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    with open_session() as spark:
        spark.sparkContext.setLogLevel("ERROR")
        show = Show(spark, folder)
        show.order("orders-1", random.choices(CUSTOMERS, k=5_000))
        show.run(CountBefore())
        print(f"old code: {len(show.model)} totals")
        show.order("orders-2", CUSTOMERS[:100])
        show.run(CountBoth())
        while show.sweep():
            show.run(CountBoth())
        show.order("orders-3", CUSTOMERS)
        show.run(Count())
        wrong = [customer for customer, total in show.model.items() if show.found.get(customer) != total]
        print(f"new code: {len(show.found)} totals, {len(wrong)} of them wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
