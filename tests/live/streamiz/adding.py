"""What the application adds up: input for it, what its stores hold then, and the migration of its values."""

import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from confluent_kafka import Producer

from formats import StateRecord
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection

WINDOW_MS = 600_000
BEGIN_MS = int(time.time() * 1000) // WINDOW_MS * WINDOW_MS - 4 * 3_600_000
"""Recent: a broker removes what is older than the retention of a windowed store's changelog."""


@dataclass(frozen=True, slots=True)
class Input:
    """One record of the application's input."""

    key: str
    number: int
    at: int


def inputs(count: int, since: int = 0, begin_ms: int = BEGIN_MS) -> list[Input]:
    """Some, a minute apart."""
    return [Input(f"key-{at % 23:02d}", at * 7, begin_ms + at * 60_000) for at in range(since, since + count)]


def feed(
    bootstrap: str, topic: str, given: Iterable[Input], *, partitions: int = 2, partitioner: str = "murmur2_random"
) -> None:
    """Write input for the application, into a topic that is made if there is none; `partitioner`: one of librdkafka's.

    The one that Streamiz sets for its own producers, unless it is told another, is the default here.
    """
    with Cluster(Connection(bootstrap)) as cluster:
        if cluster.topic(topic) is None:
            cluster.create_topic(topic, partitions=partitions, replication=1, settings={})
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": partitioner})
    for each in given:
        producer.produce(topic, key=each.key, value=struct.pack(">q", each.number), timestamp=each.at)
    assert producer.flush(60) == 0


def rows(given: Iterable[Input], kind: str, *, counted: Iterable[Input] | None = None) -> list[str]:
    """What a store of this kind holds after it, as the program tells it.

    `counted`: what came since values have a count, which begins with 1 for every key that was there.
    """
    sums: dict[tuple[str, int | None], list[int]] = {}
    for is_counted, part in ((False, given), (True, counted or ())):
        for each in part:
            window = each.at - each.at % WINDOW_MS if kind in ("win", "twin") else None
            found = sums.setdefault((each.key, window), [0, 0 if is_counted else 1, 0])
            found[0], found[1], found[2] = found[0] + each.number, found[1] + is_counted, each.at
    lines = []
    for (key, window), (total, count, newest) in sums.items():
        stamp = newest if kind == "ts" else -2  # the program asks windowed stores for values alone
        number = "-" if counted is None else str(count)
        lines.append("\t".join([key, *([] if window is None else [str(window)]), str(total), number, str(stamp)]))
    return sorted(lines)


def with_count(record: StateRecord) -> StateRecord:
    """The value of the application's next version: the sum, and how often something was added to it."""
    return replace(record, value=record.value + struct.pack(">i", 1))
