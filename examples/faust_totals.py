"""Totals by customer in Faust: an application gets a new form of its table, and goes on where it was.

Start a broker with `make broker`, and in another terminal `python -m examples.faust_totals`.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import click
import faust
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from migrate.processors.faust import DualTable

ROOT = Path(__file__).resolve().parents[1]
CUSTOMERS = [f"customer-{number:04d}" for number in range(2_000)]
PARTITIONS = 2
Totals = MutableMapping[str, Any]


def count_before(counts: Totals, customer: str, amount: int) -> None:
    """The old code: a number."""
    counts[customer] = counts.get(customer, 0) + amount


def count(totals: Totals, customer: str, amount: int) -> None:
    """The new code: a form of its own."""
    total = totals.get(customer, {"sum": 0})
    totals[customer] = {"sum": total["sum"] + amount}


def convert(number: int) -> dict[str, int]:
    """From the old form to the new one."""
    return {"sum": number}


def old_table(app: faust.App) -> Totals:
    """At first."""
    return app.Table("counts", key_type=str, value_type=int)


def both_tables(app: faust.App) -> Totals:
    """Until it has converged, in each worker."""
    return DualTable(app.Table("totals", key_type=str), app.Table("counts", key_type=str, value_type=int), convert)


def new_table(app: faust.App) -> Totals:
    """Afterwards."""
    return app.Table("totals", key_type=str)


class Show:
    """One topic of orders, and one application in three versions."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.name = f"orders-{time.time_ns()}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(self.name, PARTITIONS, 1)])[self.name].result(30)
        self.model: Counter[str] = Counter()

    def order(self, customers: list[str]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random"})
        for customer in customers:
            amount = random.randint(1, 100)
            self.model[customer] += amount
            producer.produce(topic=self.name, key=customer, value=json.dumps({"amount": amount}))
        producer.flush()

    async def run(
        self, declare: Callable[[faust.App], Totals], handle: Callable[[Totals, str, int], None], customers: list[str]
    ) -> Totals:
        """A version of the application, until it has handled so many orders, and until its adapter has converged."""
        app = faust.App(
            self.name,
            broker=f"kafka://{self.bootstrap}",
            store="rocksdb://",
            datadir=str(self.folder),
            topic_partitions=PARTITIONS,
            web_enabled=False,
        )
        table: Any = declare(app)
        recovered, handled = asyncio.Event(), 0

        @app.agent(app.topic(self.name, key_type=str))
        async def orders(stream: Any) -> None:  # noqa: ANN401 - of Faust
            nonlocal handled
            async for customer, order in stream.items():
                handle(table, customer, order["amount"])
                handled += 1

        async def on_recover() -> None:
            recovered.set()

        table.on_recover(on_recover)
        await app.start()
        await recovered.wait()
        self.order(customers)  # not before: Faust may handle what waits while it recovers twice, or not at all
        while handled < len(customers) or not getattr(table, "is_converged", True):
            await asyncio.sleep(0.1)
        found = dict(table.items())
        print(f"{handled} orders, {len(found)} totals{self._progress(table)}")
        await app.stop()
        return found

    def _progress(self, table: Totals) -> str:
        return f": {table.progress}" if isinstance(table, DualTable) else ""

    def run_old(self) -> None:
        print("old code: ", end="")
        asyncio.run(self.run(old_table, count_before, random.choices(CUSTOMERS, k=10_000)))

    def run_dual(self) -> None:
        print("new code with the adapter: ", end="")
        asyncio.run(self.run(both_tables, count, random.choices(CUSTOMERS, k=1_000)))

    def run_new(self) -> int:
        print("new code: ", end="")
        found = asyncio.run(self.run(new_table, count, CUSTOMERS))
        return sum(found.get(customer) != {"sum": total} for customer, total in self.model.items())


@click.command()
@click.option("--bootstrap", default="localhost:9092", show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build/faust", help="Is emptied first.")
def main(bootstrap: str, folder: Path) -> None:
    """Old code, new code with the adapter, new code. Exits with 1 where a total is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    show = Show(bootstrap, folder)
    show.run_old()
    show.run_dual()
    wrong = show.run_new()
    print(f"{wrong} totals are wrong")
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
