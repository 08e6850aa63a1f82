"""Totals by customer in Quix Streams: an application gets a new form of state, and goes on where it was.

Start a broker with `make broker`, and in another terminal `python -m examples.quix_totals`.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Thread

import click
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from quixstreams import Application, State
from quixstreams.dataframe import StreamingDataFrame

from migrate.processors.quix import DualState, Renamed

ROOT = Path(__file__).resolve().parents[1]
CUSTOMERS = [f"customer-{number:04d}" for number in range(2_000)]
QUIET_SECONDS = 3.0


def count_before(order: dict[str, int], state: State[str, int]) -> None:
    """The old code: one number."""
    state.set("total", state.get("total", 0) + order["amount"])


def count(order: dict[str, int], state: State[str, dict[str, int]]) -> None:
    """The new code: a name and a form of its own."""
    totals = state.get("totals", {"sum": 0})
    state.set("totals", {"sum": totals["sum"] + order["amount"]})


def convert(total: int) -> dict[str, int]:
    """From the old form to the new one."""
    return {"sum": total}


class Show:
    """One topic of orders, and one consumer group over three versions of its application."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.name = f"orders-{time.time_ns()}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(self.name, 2, 1)])[self.name].result(30)
        self.model: Counter[str] = Counter()
        self.wrong: list[str] = []

    def order(self, customers: list[str]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for customer in customers:
            amount = random.randint(1, 100)
            self.model[customer] += amount
            producer.produce(topic=self.name, key=customer, value=json.dumps({"amount": amount}))
        producer.flush()

    def application(self) -> tuple[Application, StreamingDataFrame]:
        application = Application(
            broker_address=self.bootstrap,
            consumer_group=self.name,
            state_dir=self.folder,
            auto_offset_reset="earliest",
            commit_interval=0.5,
            consumer_poll_timeout=0.1,
            loglevel="WARNING",
        )
        topic = application.topic(self.name, key_deserializer="str", value_deserializer="json")
        return application, application.dataframe(topic)

    def run_old(self) -> None:
        application, sdf = self.application()
        sdf.update(count_before, stateful=True)
        application.run(timeout=QUIET_SECONDS)
        print(f"old code: {len(self.model)} totals")

    def run_dual(self) -> None:
        application, sdf = self.application()
        dual = DualState(sdf, {"totals": Renamed("total", convert)})
        sdf.update(dual(count), stateful=True)  # afterwards: sdf.update(count, stateful=True)

        def stop_when_converged() -> None:
            while not dual.is_converged:  # over the partitions that this process has
                time.sleep(0.1)
            application.stop()

        Thread(target=stop_when_converged, daemon=True).start()
        application.run()
        print(f"new code with the adapter: {dual.progress}")

    def run_new(self) -> None:
        application, sdf = self.application()
        found: dict[str, int] = {}

        def see(_: object, customer: str, timestamp: int, headers: object, state: State[str, dict[str, int]]) -> None:
            found[customer] = state.get("totals", {"sum": 0})["sum"]

        sdf.update(count, stateful=True)
        sdf.update(see, stateful=True, metadata=True)
        application.run(timeout=QUIET_SECONDS)
        self.wrong = [customer for customer, total in self.model.items() if found.get(customer) != total]
        print(f"new code: {len(found)} totals, {len(self.wrong)} of them wrong")


@click.command()
@click.option("--bootstrap", default="localhost:9092", show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build/quix-totals", help="Is emptied first.")
def main(bootstrap: str, folder: Path) -> None:
    """Old code, new code with the adapter, new code. Exits with 1 where a total is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    show = Show(bootstrap, folder)
    show.order(random.choices(CUSTOMERS, k=10_000))
    show.run_old()
    show.order(random.choices(CUSTOMERS, k=1_000))
    show.run_dual()
    show.order(CUSTOMERS)
    show.run_new()
    if show.wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
