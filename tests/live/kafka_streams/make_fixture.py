"""Regenerates tests/fixtures/kafka-streams-4.0.1: `python -m tests.live.kafka_streams.make_fixture`."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.live.kafka_streams.events import Event
from tests.live.kafka_streams.program import KEY_VALUE, TIMESTAMPED_KEY_VALUE, make_state_of

VERSION = "4.0.1"
APPLICATION = "orders-app"
KINDS = {"orders": KEY_VALUE, "refunds": KEY_VALUE, "customers": TIMESTAMPED_KEY_VALUE}
FIXTURE = Path(__file__).parents[2] / "fixtures" / f"kafka-streams-{VERSION}"

_TASKS = 3
_SEED = 20
_FIRST_TIMESTAMP = 1_735_689_600_000  # 2025-01-01T00:00:00Z
_CITIES = ("Bergen", "Łódź", "Porto", "Zürich", "Kyoto")


def make_fixture(fixture: Path = FIXTURE) -> None:
    """Make the state directory anew, with what it must hold in `expected`; the README stays."""
    for old in (fixture / APPLICATION, fixture / "expected"):
        if old.exists():
            shutil.rmtree(old)
    events: dict[str, dict[str, list[Event]]] = {f"0_{task}": {store: [] for store in KINDS} for task in range(_TASKS)}
    for store, store_events in _all_events().items():
        for event in store_events:
            events[f"0_{partition(event.key, _TASKS)}"][store].append(event)
    expected = make_state_of(VERSION, fixture / APPLICATION, kinds=KINDS, events=events)
    expected.rename(fixture / "expected")
    for log in (fixture / APPLICATION).glob("*/rocksdb/*/LOG*"):
        log.unlink()


def partition(key: bytes, partitions: int) -> int:
    """Return the partition Kafka's default partitioner gives a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2, unsigned (org.apache.kafka.common.utils.Utils.murmur2)."""
    mix, mask = 0x5BD1E995, 0xFFFFFFFF
    value = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * mix & mask
        word = (word ^ word >> 24) * mix & mask
        value = (value * mix & mask) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * mix & mask
    value = (value ^ value >> 13) * mix & mask
    return value ^ value >> 15


def _all_events() -> dict[str, list[Event]]:
    rng = random.Random(_SEED)
    return {
        "orders": _events("order", 6200, _order, rng),
        "refunds": _events("refund", 620, _refund, rng),
        "customers": _events("customer", 620, _customer, rng),
    }


def _events(word: str, count: int, value: Callable[[random.Random], object], rng: random.Random) -> list[Event]:
    """Write each number once, a tenth of them again, and delete about one in thirty."""
    keys = [f"{word}-{number:06d}".encode() for number in range(count)]
    writes: list[bytes] = keys + rng.sample(keys, count // 10)
    deleted = rng.sample(keys, count // 31)
    events = []
    for at, key in enumerate(writes + deleted):
        text = json.dumps(value(rng), ensure_ascii=False, separators=(",", ":"))
        events.append(Event(key, text.encode() if at < len(writes) else None, _FIRST_TIMESTAMP + at * 977))
    return events


def _order(rng: random.Random) -> object:
    status = rng.choice(("new", "paid", "shipped", "returned"))
    return {"customer": rng.randrange(620), "total": rng.randrange(100, 99_999) / 100, "status": status}


def _refund(rng: random.Random) -> object:
    return {"order": f"order-{rng.randrange(6200):06d}", "amount": rng.randrange(100, 9_999) / 100}


def _customer(rng: random.Random) -> object:
    return {"city": rng.choice(_CITIES), "since": rng.randrange(2008, 2025)}


if __name__ == "__main__":
    make_fixture()
