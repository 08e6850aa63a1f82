"""Changelogs: what the product adds to Kafka's own clients, with the same settings, at a broker of one node."""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import randbytes
from typing import Any

from benchmarks.results import Bar, Result, route_result
from benchmarks.rounds import Sample, empty_folder, measure, ratio, take_turns
from benchmarks.setting import PER_CORE, Setting
from benchmarks.stores import ensure_store_of, key_of
from formats import get_format
from migrate.batch.chunk.reread_changelog import RereadTask, reread
from migrate.batch.chunk.restore_store import RestoreTask
from migrate.batch.chunk.write_changelog import NewEntries, ProduceTask, produce, write_records
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.latest import MEMORY, Latest
from migrate.kafka.reader import read
from migrate.model.changelogs import Changelog, TopicPart
from migrate.model.key_range import KeyRange
from migrate.model.restored import Pinned
from migrate.model.store_partition import StorePartition
from migrate.stores.batch import ChangelogBatch
from migrate.stores.merge import in_order
from tests.broker.broker import running_broker

WRITE_BAR, REREAD_BAR, MEMORY_BAR, RESTORE_BAR = 0.5, 0.7, 1.3, 0.25
_FORMAT = "kafka-streams.timestamped-key-value"
_RECORDS = 1_000_000
_TRANSACTION_RECORDS = 350_000
"""About as many as the product has in one: 64 MiB."""
_GROWTH = (200_000, 2_000_000)
_LARGE, _FEWER = 256 << 10, 200
"""A thousand values at the least: before some 250 MiB have been read, the buffers of a reader are not full."""
_MEMORY = 32 << 20
"""Of a reduction, which then has to write sorted runs."""

Facts = dict[str, Any]


def is_unmeasured(*results: Result) -> bool:
    """Whether no broker can be started here, which the results then say."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    for result in results if missing else ():
        result.notes.append(f"Not measured: there is no {' and no '.join(missing)} on the PATH.")
    return bool(missing)


def changelog_write(setting: Setting) -> list[Result]:
    """Writing a changelog, by the task of a run and by the producer alone, whose records are in memory before."""
    return _compare_routes(setting, "changelog-write", ("product", "producer alone"), WRITE_BAR)


def changelog_reread(setting: Setting) -> list[Result]:
    """Reading a changelog back: to the last record of each key, and to the comparison, beside the consumer alone.

    What one task has written is in order, and its last records are found as it is read; else they are sorted first.
    """
    routes = ("in order", "consumer alone", "in order, compared", "reduced")
    return _compare_routes(setting, "changelog-reread", routes, REREAD_BAR, topic="written-before")


def changelog_restore(setting: Setting) -> list[Result]:
    """Making a store from its changelog alone, beside the consumer alone, which keeps nothing."""
    routes = ("product", "consumer alone")
    (result,) = _compare_routes(setting, "changelog-restore", routes, None, topic="written-before")
    return [result]


def _compare_routes(
    setting: Setting, name: str, routes: tuple[str, ...], bar: float | None, *, topic: str = ""
) -> list[Result]:
    """The first route against the second one, and the others beside them; `topic`: written before, where it is read."""
    unmeasured = Result(name, "One topic partition", ["route"])
    if is_unmeasured(unmeasured):
        return [unmeasured]
    store = ensure_store_of(setting.folder, get_format(_FORMAT), _RECORDS)
    with empty_folder(setting.folder) as folder, running_broker(folder) as broker:
        given: dict[str, object] = {"bootstrap": broker.bootstrap, "source": str(store.path), "records": _RECORDS}
        if topic:
            given |= {"topic": topic}
            measure("changelog-write, product", given)
            given |= {"folder": str(setting.folder)}

        def sample(route: str, number: int) -> Sample:
            own = {} if topic else {"topic": f"{route}-{number}".replace(" ", "-")}
            return measure(f"{name}, {route}", {**given, **own})

        series = take_turns(setting.rounds, routes, store.records, sample)
    result = route_result(name, f"{store.words}; one topic partition", series)
    result.notes.append(PER_CORE)
    product, alone = (series[route] for route in routes[:2])
    if bar is None:
        result.bars.append(Bar(name, f"M records/s, {product.name}", RESTORE_BAR, product.rate("wall") / 1e6))
        return [result]
    what = f"times {alone.name}, of CPU, {product.name}"
    result.bars.append(Bar(name, what, bar, ratio(product, alone, "cpu")))
    return [result]


def changelog_memory(setting: Setting) -> list[Result]:
    """Ten times the records: a worker's peak, librdkafka's buffers included."""
    title = (
        f"Peak resident memory of a worker, MiB; large values: {_LARGE >> 10} KiB, of {_FEWER:,} times fewer records"
    )
    few, many = (f"{count:,} records" for count in _GROWTH)
    result = Result("changelog-memory", title, ["task", few, many, "times"])
    if is_unmeasured(result):
        return [result]
    peaks: dict[str, list[float]] = {}
    with empty_folder(setting.folder) as folder, running_broker(folder) as broker:
        for records in _GROWTH:
            store = ensure_store_of(setting.folder, get_format(_FORMAT), records)
            arguments = {"bootstrap": broker.bootstrap, "records": records, "topic": f"of-{records}"}
            reading = {**arguments, "source": str(store.path), "folder": str(folder)}
            jobs = {
                "changelog-write, product": {**arguments, "source": str(store.path)},
                "changelog-reread, in order, compared": reading,
                "changelog-reread, reduced": {**reading, "memory": _MEMORY},
                "changelog-restore, product": {**reading, "memory": _MEMORY},
                "changelog-memory, large values": {**arguments, "topic": f"large-{records}", "folder": str(folder)},
            }
            for job, given in jobs.items():
                peaks.setdefault(job, []).append(measure(job, given).peak_mib)
    for job, (small, large) in peaks.items():
        result.rows.append([job, f"{small:.0f}", f"{large:.0f}", f"{large / small:.2f}"])
        result.bars.append(Bar(result.name, f"times the memory, {job}", MEMORY_BAR, large / small, "at most"))
    result.raw = {**peaks}
    return [result]


def _write(bootstrap: str, source: str, records: int, topic: str) -> Facts:
    connection = _with_topic(bootstrap, topic)
    part = TopicPart(store_partition="0_0", database=".")
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
    if made.records != records:
        raise AssertionError(made)
    return spent


def _write_alone(bootstrap: str, source: str, records: int, topic: str) -> Facts:
    from confluent_kafka import Producer

    connection = _with_topic(bootstrap, topic)
    entries = [
        entry
        for batch in _entries(source).records(_never)
        for entry in zip(batch.keys, batch.values, batch.timestamps, strict=True)
    ]
    settings = {"linger.ms": 50, "transactional.id": topic, "batch.size": 1_000_000, "message.max.bytes": 1_048_588}
    with _spent() as spent:
        producer = Producer(connection.settings(settings))
        producer.init_transactions(60)
        for start in range(0, records, _TRANSACTION_RECORDS):
            producer.begin_transaction()
            for key, value, timestamp in entries[start : start + _TRANSACTION_RECORDS]:
                while True:
                    try:
                        producer.produce(topic=topic, partition=0, key=key, value=value, timestamp=timestamp)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.commit_transaction(60)
    return spent


def _in_order(bootstrap: str, source: str, records: int, topic: str, folder: str) -> Facts:
    connection, end = _end(bootstrap, topic)
    with _spent() as spent:
        found = sum(map(len, in_order(read(connection, topic, 0, 0, end))))
    if found != records:
        raise AssertionError(found)
    return spent


def _reduce(bootstrap: str, source: str, records: int, topic: str, folder: str, *, memory: int = MEMORY) -> Facts:
    connection, end = _end(bootstrap, topic)
    batches = read(connection, topic, 0, 0, end)
    with _spent() as spent, Latest.build(batches, Path(folder) / "latest", memory=memory) as latest:
        found = latest.records
    if found != records:
        raise AssertionError(found)
    return spent


def _compare(bootstrap: str, source: str, records: int, topic: str, folder: str) -> Facts:
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
    if not found.ok or found.records != records:
        raise AssertionError(found)
    return spent


def _read_alone(bootstrap: str, source: str, records: int, topic: str, folder: str) -> Facts:
    from confluent_kafka import Consumer, TopicPartition

    connection, _ = _end(bootstrap, topic)
    settings = {
        "queued.max.messages.kbytes": 16_384,
        "fetch.queue.backoff.ms": 1,
        "fetch.wait.max.ms": 10,
        "group.id": "alone",
        "enable.auto.commit": False,
    }
    count = 0
    with _spent() as spent:
        consumer = Consumer(connection.settings(settings))
        consumer.assign([TopicPartition(topic, 0, 0)])
        while count < records:
            for message in consumer.consume(250, 0.05):
                message.key(), message.value(), message.timestamp()
                count += 1
        consumer.close()
    return spent


def _restore(bootstrap: str, source: str, records: int, topic: str, folder: str, **sizes: int) -> Facts:
    connection, end = _end(bootstrap, topic)
    partition = StorePartition(id="0_0/orders", store="orders", task="0_0", path=Path("0_0/rocksdb/orders"))
    pinned = Pinned(partition=partition, topic=topic, number=0, start=0, end=end)
    Path(folder, "restored").mkdir(exist_ok=True)
    with _spent() as spent:
        task = RestoreTask(folder, "restored", connection, pinned, format=_FORMAT, segments=None, **sizes)
        found = task.work()
    shutil.rmtree(Path(folder, found.folder))
    if found.keys != records:
        raise AssertionError(found)
    return spent


def _large_values(bootstrap: str, records: int, topic: str, folder: str) -> Facts:
    """Written, read and reduced."""
    connection = _with_topic(bootstrap, topic)
    numbers = range(records // _FEWER)
    batches = (ChangelogBatch([key_of(each)], [randbytes(_LARGE)], [1]) for each in numbers)
    write_records(connection, _changelog(topic), topic, __file__, batches)
    return _reduce(bootstrap, "", len(numbers), topic, folder, memory=_MEMORY)


def _with_topic(bootstrap: str, topic: str) -> Connection:
    connection = Connection(bootstrap)
    with Cluster(connection) as cluster:
        cluster.create_topic(topic, partitions=1, replication=1, settings={"cleanup.policy": "compact"})
    return connection


def _end(bootstrap: str, topic: str) -> tuple[Connection, int]:
    connection = Connection(bootstrap)
    with Cluster(connection) as cluster:
        return connection, cluster.ends_of(topic, 0).end


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
    "changelog-restore, product": _restore,
    "changelog-restore, consumer alone": _read_alone,
    "changelog-memory, large values": _large_values,
    "changelog-reread, consumer alone": _read_alone,
}
