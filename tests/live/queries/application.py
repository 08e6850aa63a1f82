"""A running application of two partitions with a broker: what it answers before it is stopped."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from formats.partitioners import default_partition
from tests.broker.topics import make_topic
from tests.live.kafka_streams import kinds
from tests.live.kafka_streams.events import Event, json_line
from tests.live.kafka_streams.program import ask_running
from tests.live.queries.questions import ORDERS, Question, random_questions, skewed_events

VERSION = "4.3.1"
PARTITIONS = 2
KEYS = 3000
HOST = "kafka-host:7654"

TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    kinds.KEY_VALUE: ("key_value",),
    kinds.TIMESTAMPED_KEY_VALUE: ("key_value", "timestamped_key_value"),
    kinds.TIMESTAMPED_WINDOW: ("window", "timestamped_window"),
    kinds.SESSION: ("session",),
    kinds.VERSIONED: (),
}
"""The types that a store of each kind may be asked for as."""

Line = dict[str, Any]


def ask_application(bootstrap: str, folder: Path, count: int) -> list[tuple[Line, Line]]:
    """Questions and answers, with a store of each kind of TYPES, named after it; its directory is `folder / "app"`."""
    events = {kind: skewed_events(kind, seed=f"application/{kind}") for kind in TYPES}
    for store, written in events.items():
        _send(bootstrap, f"{store}-events", written)
    questions = [*_of_stores(events, count), *_of_types(), *_of_keys(KEYS)]
    (folder / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in questions), encoding="utf-8")
    total = sum(map(len, events.values()))
    stores = {kind: kind for kind in TYPES}
    ask_running(VERSION, folder / "app", kinds=stores, bootstrap=bootstrap, count=total, asked=folder)
    with (folder / "answers.jsonl").open(encoding="utf-8") as answers:
        return list(zip(questions, map(json.loads, answers), strict=True))


def question_of(line: Line) -> Question:
    """The question of a line; what is written as digits are keys."""
    args = (bytes.fromhex(each) if isinstance(each, str) and each not in ORDERS else each for each in line["args"])
    return Question(line["call"], tuple(args))


def _of_stores(events: Mapping[str, Sequence[Event]], count: int) -> Iterator[Line]:
    """Of every type that a store has, of both partitions, of one, and of one that is not."""
    rng = random.Random(count)
    for store, types in TYPES.items():
        for question in random_questions(store, events[store], count, seed=store):
            if question.is_query or types:
                chosen = rng.choice(types or ("",))
                partition = rng.choices((None, 0, 1, PARTITIONS), (10, 4, 4, 1))[0]
                yield question.content() | {"store": store, "type": chosen, "partition": partition}


def _of_types() -> Iterator[Line]:
    """Every store, and one that is not, as every type."""
    for store in (*TYPES, "absent"):
        for chosen in sorted({each for types in TYPES.values() for each in types}):
            call, args = (
                ("fetch", ["00", 0]) if "window" in chosen else ("fetch" if chosen == "session" else "get", ["00"])
            )
            yield {"store": store, "type": chosen, "call": call, "args": args, "partition": None}


def _of_keys(count: int) -> Iterator[Line]:
    """Which partition and host a string, a number and bytes belong to."""
    rng = random.Random(count)
    for number in range(count):
        raw = rng.randbytes(number % 40)
        makers: tuple[Any, ...] = (
            "".join(chr(rng.choice((0x41, 0xE9, 0x20AC, 0x1F600)) + each % 26) for each in raw),
            rng.choice((number, -number, rng.getrandbits(63))),
            {"bytes": raw.hex()},
        )
        yield {"store": rng.choice(tuple(TYPES)), "call": "key_metadata", "args": [makers[number % 3]]}


def _send(bootstrap: str, topic: str, events: Sequence[Event]) -> None:
    make_topic(bootstrap, topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 3})
    for event in events:
        producer.produce(
            topic=topic,
            partition=default_partition(event.key, PARTITIONS),
            key=event.key,
            value=json_line(event).encode(),
            timestamp=event.timestamp,
            headers=list(event.headers),
        )
    assert producer.flush(60) == 0
