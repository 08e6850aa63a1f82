"""Changelogs: what the product adds to Kafka's own clients, with the same settings, at a broker of one node."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.results import ROUTE_COLUMNS, Bar, Result, raw_series, route_row
from benchmarks.rounds import Series, empty_folder, measure, ratio, rotated
from benchmarks.setting import PER_CORE, Setting
from benchmarks.stores import ensure_store_of
from formats import get_format
from migrate.batch.chunk.changelog_entries import NewEntries
from migrate.batch.chunk.produce import ProduceTask, produce
from migrate.batch.chunk.reread import RereadTask, in_order, reread
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.latest import Latest
from migrate.kafka.reader import read
from migrate.model.changelog import Changelog, Part
from migrate.model.key_range import KeyRange
from tests.broker.broker import running_broker

WRITE_BAR, REREAD_BAR = 0.5, 0.7
_FORMAT = "kafka-streams.timestamped-key-value"
_RECORDS = 1_000_000
_TRANSACTION_RECORDS = 350_000
"""About as many as the product has in one: 64 MiB."""

Facts = dict[str, Any]


def changelog_write(setting: Setting) -> list[Result]:
    """Writing a changelog, by the task of a run and by the producer alone, whose records are in memory before."""
    result = Result("changelog-write", "", ROUTE_COLUMNS)
    with _measured(setting, result, ("product", "producer alone")) as (arguments, series):
        for number in range(setting.rounds):
            for route in rotated([*series], number):
                mine = {**arguments, "topic": f"{route.replace(' ', '-')}-{number}"}
                series[route].samples.append(measure(f"changelog-write, {route}", mine))
    _add_bar(result, series["product"], series["producer alone"], WRITE_BAR)
    return [result]


def changelog_reread(setting: Setting) -> list[Result]:
    """Reading a changelog back: to the last record of each key, and to the comparison, beside the consumer alone.

    What one task has written is in order, and its last records are found as it is read; else they are sorted first.
    """
    result = Result("changelog-reread", "", ROUTE_COLUMNS)
    routes = ("in order", "consumer alone", "in order, compared", "reduced")
    with _measured(setting, result, routes) as (arguments, series):
        measure("changelog-write, product", {**arguments, "topic": "reread"})
        for number in range(setting.rounds):
            for route in rotated([*series], number):
                mine = {**arguments, "topic": "reread", "folder": str(setting.folder)}
                series[route].samples.append(measure(f"changelog-reread, {route}", mine))
    _add_bar(result, series["in order"], series["consumer alone"], REREAD_BAR)
    return [result]


@contextmanager
def _measured(
    setting: Setting, result: Result, routes: tuple[str, ...]
) -> Iterator[tuple[dict[str, str], dict[str, Series]]]:
    """A broker and a store; afterwards the table is filled."""
    store = ensure_store_of(setting.folder, get_format(_FORMAT), _RECORDS)
    result.title = f"{store.words}; one topic partition"
    series = {route: Series(route, store.records) for route in routes}
    with empty_folder(setting.folder) as folder, running_broker(folder) as broker:
        yield {"bootstrap": broker.bootstrap, "source": str(store.path)}, series
    result.rows += [route_row(each, series[routes[0]]) for each in series.values()]
    result.raw |= {name: raw_series(each) for name, each in series.items()}


def _add_bar(result: Result, product: Series, alone: Series, bar: float) -> None:
    result.notes.append(PER_CORE)
    what = f"times {alone.name}, of CPU, {product.name}"
    result.bars.append(Bar(result.name, what, bar, ratio(product, alone, "cpu")))


def _write(bootstrap: str, source: str, topic: str) -> Facts:
    connection = _with_topic(bootstrap, topic)
    part = Part(store_partition="0_0", database=".")
    task = ProduceTask(
        connection=connection,
        changelog=_changelog(topic),
        part=part,
        content="",
        transactional_id=topic,
        new=_entries(source),
        has_records=True,
        old=None,
        folder="",
        permit=__file__,
    )
    with _spent() as spent:
        made = produce(task)
    if made.records != _RECORDS:
        raise AssertionError(made)
    return spent


def _write_alone(bootstrap: str, source: str, topic: str) -> Facts:
    from confluent_kafka import Producer

    connection = _with_topic(bootstrap, topic)
    records = [
        record
        for batch in _entries(source).records(_never)
        for record in zip(batch.keys, batch.values, batch.timestamps, strict=True)
    ]
    settings = {"linger.ms": 50, "transactional.id": topic, "batch.size": 1_000_000, "message.max.bytes": 1_048_588}
    with _spent() as spent:
        producer = Producer(connection.settings(settings))
        producer.init_transactions(60)
        for start in range(0, len(records), _TRANSACTION_RECORDS):
            producer.begin_transaction()
            for key, value, timestamp in records[start : start + _TRANSACTION_RECORDS]:
                while True:
                    try:
                        producer.produce(topic=topic, partition=0, key=key, value=value, timestamp=timestamp)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.commit_transaction(60)
    return spent


def _in_order(bootstrap: str, source: str, topic: str, folder: str) -> Facts:
    connection, end = _end(bootstrap, topic)
    with _spent() as spent:
        found = sum(map(len, in_order(read(connection, topic, 0, 0, end))))
    if found != _RECORDS:
        raise AssertionError(found)
    return spent


def _reduce(bootstrap: str, source: str, topic: str, folder: str) -> Facts:
    connection, end = _end(bootstrap, topic)
    with _spent() as spent, Latest.build(read(connection, topic, 0, 0, end), Path(folder) / "latest") as latest:
        found = latest.records
    if found != _RECORDS:
        raise AssertionError(found)
    return spent


def _compare(bootstrap: str, source: str, topic: str, folder: str) -> Facts:
    connection, end = _end(bootstrap, topic)
    task = RereadTask(
        connection=connection,
        changelog=_changelog(topic),
        start=0,
        end=end,
        new=_entries(source),
        old=None,
        folder=str(Path(folder) / "latest"),
    )
    with _spent() as spent:
        found = reread(task)
    if not found.ok or found.records != _RECORDS:
        raise AssertionError(found)
    return spent


def _read_alone(bootstrap: str, source: str, topic: str, folder: str) -> Facts:
    from confluent_kafka import Consumer, TopicPartition

    connection, _ = _end(bootstrap, topic)
    settings = {
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 65_536,
        "fetch.queue.backoff.ms": 1,
        "group.id": "alone",
        "enable.auto.commit": False,
    }
    count = 0
    with _spent() as spent:
        consumer = Consumer(connection.settings(settings))
        consumer.assign([TopicPartition(topic, 0, 0)])
        while count < _RECORDS:
            for message in consumer.consume(1000, 0.1):
                message.key(), message.value(), message.timestamp()
                count += 1
        consumer.close()
    return spent


def _with_topic(bootstrap: str, topic: str) -> Connection:
    connection = Connection(bootstrap)
    with Cluster(connection) as cluster:
        cluster.create_topic(topic, partitions=1, replication=1, settings={"cleanup.policy": "compact"})
    return connection


def _end(bootstrap: str, topic: str) -> tuple[Connection, int]:
    connection = Connection(bootstrap)
    with Cluster(connection) as cluster:
        return connection, cluster.ends(topic, [0])[0].stable


def _changelog(topic: str) -> Changelog:
    return Changelog(store_partition="0_0", topic=topic, new_topic=topic, number=0)


def _entries(source: str) -> NewEntries:
    return NewEntries(format=_FORMAT, directories=(source,), families=("default",), keys=KeyRange())


def _never() -> None:
    """Stops nothing."""


@contextmanager
def _spent() -> Iterator[Facts]:
    """Filled with what the block took, in place of the whole job."""
    spent: Facts = {}
    wall, cpu = time.perf_counter(), _cpu()
    yield spent
    spent["wall"], spent["cpu"] = time.perf_counter() - wall, _cpu() - cpu


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


JOBS: dict[str, Callable[..., Facts]] = {
    "changelog-write, product": _write,
    "changelog-write, producer alone": _write_alone,
    "changelog-reread, in order": _in_order,
    "changelog-reread, in order, compared": _compare,
    "changelog-reread, reduced": _reduce,
    "changelog-reread, consumer alone": _read_alone,
}
