"""What the application is given, and what it must hold then: a list of orders for each key, or each key and window."""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Producer

from tests.broker.topics import make_topic

PARTITIONS = 2
WINDOW_MS = 60_000
RETENTION_MS = 1_800_000
EXAMPLE = Path(__file__).parents[3] / "examples/changelog"
SCHEMAS: Mapping[int, Any] = {
    number: json.loads((EXAMPLE / f"orders-v{number}.avsc").read_text(encoding="utf-8")) for number in (1, 2)
}
"""By id, the schemas of values: the new one renames a field, makes it a long, and adds one with a default."""

_ITEMS = ("pen", "ink", "paper", "Tinte für Füller", "")


@dataclass(frozen=True, slots=True)
class Input:
    """An order of a customer; none: the customer's orders are deleted."""

    key: str
    order: Mapping[str, Any] | None
    timestamp_ms: int
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """What a store holds under a key: the timestamp and the headers only where its kind keeps them."""

    orders: tuple[Mapping[str, Any], ...]
    timestamp_ms: int | None
    headers: tuple[tuple[str, str], ...] = ()


Rows = dict[tuple[str, int | None], Row]
"""By key and start of the window, if there are windows."""


def random_inputs(keys: int, more: int, *, seed: int, now_ms: int, spread_ms: int = 30_000) -> list[Input]:
    """An order of every key, then more of random keys, some of which are deleted; timestamps are not in order."""
    rng = Random(seed)
    names = [f"customer-{number:06}" for number in range(keys)]
    chosen = [*rng.sample(names, keys), *rng.choices(names, k=more)]
    return [
        Input(
            key,
            None
            if number >= keys and rng.random() < 0.1
            else {"item": rng.choice(_ITEMS), "quantity": rng.randrange(99)},
            now_ms - spread_ms + number * spread_ms // len(chosen) - rng.randrange(1000),
            (("origin", rng.choice(("web", "shop"))),) if rng.random() < 0.5 else (),
        )
        for number, key in enumerate(chosen)
    ]


def rows_after(kind: str, inputs: Iterable[Input], *, schema_id: int = 1, before: Rows | None = None) -> Rows:
    """What the store holds after these inputs, all of them within its retention."""
    rows = dict(before or {})
    for given in inputs:
        window = given.timestamp_ms // WINDOW_MS * WINDOW_MS if "window" in kind else None
        place = (given.key, window)
        if given.order is None:
            rows.pop(place, None)
            continue
        orders = (*(rows[place].orders if place in rows else ()), _in_schema(given.order, schema_id))
        timestamp = None if kind in ("key-value", "window") else given.timestamp_ms
        rows[place] = Row(orders, timestamp, given.headers if kind.startswith("headers") else ())
    return rows


def migrated(rows: Rows, schema_id: int = 2) -> Rows:
    """The same in another schema."""
    return {
        place: replace(row, orders=tuple(_in_schema(order, schema_id) for order in row.orders))
        for place, row in rows.items()
    }


def _in_schema(order: Mapping[str, Any], schema_id: int) -> dict[str, Any]:
    pieces = order.get("pieces", order.get("quantity"))
    if schema_id == 1:
        return {"item": order["item"], "quantity": pieces}
    return {"item": order["item"], "pieces": pieces, "gift": order.get("gift", False)}


def read_rows(folder: Path) -> Rows:
    """What the application's tasks have dumped to files; a key lies in the task of its partition."""
    rows: Rows = {}
    for file in folder.iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            assert file.stem == f"0_{partition(row['key'])}", f"{row['key']} is in {file.stem}"
            headers = tuple((name, value) for name, value in row["headers"])
            rows[row["key"], row["window"]] = Row(tuple(row["orders"]), row["timestamp"], headers)
    return rows


def first_difference(found: Rows, expected: Rows) -> str | None:
    """The first row that differs; None: all are equal."""
    for place in sorted(found.keys() | expected.keys(), key=str):
        if found.get(place) != expected.get(place):
            return f"{place}: {found.get(place)}, expected {expected.get(place)}; {len(found)} of {len(expected)} rows"
    return None


def partition(key: str) -> int:
    """The partition of a key, in the input and in the changelog."""
    return zlib.crc32(key.encode()) % PARTITIONS


def make_input_topic(bootstrap: str, topic: str) -> None:
    """Make an empty topic."""
    make_topic(bootstrap, topic, PARTITIONS, **{"retention.ms": "-1"})


def send(bootstrap: str, topic: str, inputs: Iterable[Input]) -> None:
    """Produce them in order, and wait until the broker has them."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 3})
    for number, given in enumerate(inputs):
        producer.produce(
            topic=topic,
            partition=partition(given.key),
            key=given.key,
            value=None if given.order is None else json.dumps(given.order),
            timestamp=given.timestamp_ms,
            headers=[(name, value.encode()) for name, value in given.headers],
        )
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
