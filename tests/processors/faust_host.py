"""The contract over Faust's real tables and stores: a worker without a broker, whose changelogs are lists.

A kill keeps of each changelog what had arrived, and Kafka orders nothing between two of them; the databases have all,
or the disk is lost. Events after the last commit are then handled again, as Faust does it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import faust
from faust.assignor.client_assignment import ClientAssignment
from faust.events import Event
from faust.tables.table import Table
from faust.types import TP, FutureMessage, Message, RecordMetadata

from migrate import ConversionError, Progress
from migrate.processors.faust import DualTable
from tests.live.faust.tables import event_in
from tests.processors.contract import Host, OnReject, convert

PARTITIONS = (0, 1)
Log = list[tuple[bytes, bytes | None]]


def _as_sum(old: int) -> dict[str, int] | None:
    number = convert(old)
    return None if number is None else {"sum": number}


def partition_of(key: str) -> int:
    return crc32(key.encode()) % len(PARTITIONS)


class Metadata:
    """In the place of a consumer: how many partitions topics have."""

    def topic_partitions(self, topic: str) -> int:
        return 3 if topic == "sums-of_three-changelog" else len(PARTITIONS)


class Worker:
    """An application that has its partitions, and is restored."""

    def __init__(
        self, folder: Path, logs: Mapping[TP, Log], declare: Callable[[faust.App], Any], *, restored: bool = True
    ) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.app = faust.App("sums", broker="kafka://localhost:1", store="rocksdb://", datadir=str(folder))
        self.app.conf.tabledir.mkdir(parents=True, exist_ok=True)
        self.app.consumer = Metadata()  # type: ignore[assignment]
        self.made = declare(self.app)
        self.logs = logs
        self.assign(PARTITIONS)
        if restored:
            self.restore()

    def assign(self, active: tuple[int, ...], standby: tuple[int, ...] = ()) -> None:
        topics = [table.changelog_topic_name for table in self.app.tables.values()]
        assignor: Any = self.app.assignor
        assignor._assignment = ClientAssignment(
            actives={topic: list(active) for topic in topics}, standbys={topic: list(standby) for topic in topics}
        )
        assigned = {TP(topic, each) for topic in topics for each in (*active, *standby)}
        self.app.on_rebalance_start()
        self.app.consumer_generation_id += 1
        revoked, new = self.app._update_assignment(assigned)
        for table in self.app.tables.values():
            self.loop.run_until_complete(table.on_rebalance(assigned, revoked, new, 1))

    def restore(self) -> None:
        actives, standbys = self.app.assignor.assigned_actives(), self.app.assignor.assigned_standbys()
        for table in self.app.tables.values():
            for tp in actives | standbys:
                if tp.topic == table.changelog_topic_name:
                    self._restore(table, tp)
        for table in self.app.tables.values():
            self.loop.run_until_complete(table.on_recovery_completed(actives, standbys))
        self.ready()

    def ready(self) -> None:
        tables: Any = self.app.tables
        tables.on_actives_ready()
        self.app.on_rebalance_end()

    def _restore(self, table: Table[Any, Any], tp: TP) -> None:
        offset = table.persisted_offset(tp)
        records = list(enumerate(self.logs.get(tp, ())))[0 if offset is None else offset + 1 :]
        events = []
        for at, (key, value) in records:
            message = Message(*tp, at, 0.0, 0, None, key, value, None, tp=tp)
            decoded = None if value is None else json.loads(value)  # which stores in memory take
            events.append(Event(self.app, json.loads(key), decoded, None, message))
        table.apply_changelog_batch(events)

    @property
    def pending(self) -> list[FutureMessage]:
        """What is sent and not confirmed."""
        queue = self.app.producer.buffer.pending
        return [queue.get_nowait() for _ in range(queue.qsize())]

    def confirm(self, sent: FutureMessage) -> None:
        tp = deliver(sent, self.logs)
        sent.set_result(RecordMetadata(*tp, tp, len(self.logs[tp]) - 1))
        assert sent.message.callback is not None
        sent.message.callback(sent)

    def settle(self) -> None:
        """Until nothing is left to send."""
        while pending := self.pending:
            for each in pending:
                self.confirm(each)
            self.turn()

    def turn(self) -> None:
        """One of the event loop."""
        self.loop.run_until_complete(asyncio.sleep(0))

    def stop(self) -> None:
        if self.loop.is_closed():
            return
        for table in self.app.tables.values():
            self.loop.run_until_complete(table.data.stop())
        self.loop.close()


def deliver(sent: FutureMessage, logs: Mapping[TP, Log]) -> TP:
    message: Any = sent.message
    tp = TP(message.channel.get_topic_name(), message.partition)
    logs[tp].append((message.key, message.value))
    return tp


def both(app: faust.App) -> tuple[Any, Any]:
    return (
        app.Table("totals", key_type=str, partitions=len(PARTITIONS)),
        app.Table("counts", key_type=str, value_type=int, partitions=len(PARTITIONS)),
    )


def _shown(old: dict[str, int], new: dict[str, Any]) -> dict[str, Any]:
    converted = {key: value if value < 0 else _as_sum(value) for key, value in old.items()}
    return {key: value for key, value in (converted | new).items() if value is not None}


class FaustTables(Host):
    """Two tables."""

    loses_uncommitted = False  # the events are handled again

    def __init__(self, folder: Path, old: Mapping[str, int], *, on_reject: OnReject, may_drop: bool) -> None:
        self._folder = folder / "faust"
        self._options: dict[str, Any] = {"on_reject": on_reject, "may_drop": may_drop}
        self._random = Random(repr((old, on_reject, may_drop)))
        self._logs: dict[TP, Log] = defaultdict(list)
        self._events: list[Callable[[], None]] = []
        self._run_old(old)
        self._start()

    def _start(self) -> None:
        self._worker = Worker(self._folder, self._logs, self._declare)
        self._table: DualTable[str, dict[str, int], int] = self._worker.made

    def _declare(self, app: faust.App) -> DualTable[str, dict[str, int], int]:
        return DualTable(*both(app), _as_sum, share=1, **self._options)

    def get(self, key: str) -> int | None:
        with event_in(self._worker.app, partition_of(key)):
            found = self._table.get(key)
        return None if found is None else found["sum"]

    def exists(self, key: str) -> bool:
        with event_in(self._worker.app, partition_of(key)):
            return key in self._table

    def set(self, key: str, value: int) -> None:
        self._handle(key, lambda: self._table.__setitem__(key, {"sum": value}))

    def delete(self, key: str) -> None:
        def pop_or_delete() -> None:
            try:
                self._table.pop(key, None)
            except ConversionError:
                del self._table[key]

        self._handle(key, pop_or_delete)

    def _handle(self, key: str, step: Callable[[], None]) -> None:
        def event() -> None:
            with event_in(self._worker.app, partition_of(key)):
                step()

        self._events.append(event)
        event()

    def converge(self) -> None:
        self._table.converge()

    def commit(self) -> None:
        self._worker.settle()
        self._events.clear()

    def crash(self) -> None:
        pending = self._worker.pending
        arrived = {sent.message.channel.get_topic_name(): self._random.randint(0, len(pending)) for sent in pending}
        for number, sent in enumerate(pending):
            if number < arrived[sent.message.channel.get_topic_name()]:
                deliver(sent, self._logs)
        self._worker.stop()
        if self._random.random() < 0.3:
            shutil.rmtree(self._folder)
        self._start()
        for event in self._events:
            event()

    def reopen(self) -> None:
        self.commit()
        self._worker.stop()
        self._start()

    def run_old_code(self, key: str, value: int) -> None:
        self.commit()
        self._worker.stop()
        self._run_old({key: value})
        self._start()

    def _run_old(self, values: Mapping[str, int]) -> None:
        worker = Worker(self._folder, self._logs, both)
        for key, value in values.items():
            with event_in(worker.app, partition_of(key)):
                worker.made[1][key] = value
        worker.settle()
        worker.stop()

    def copies(self) -> tuple[dict[str, int], dict[str, int]]:
        """Of the databases. Of the changelogs, whose copies may be others, one would see the same values."""
        tables: Any = self._worker.app.tables
        old, new = dict(tables["counts"].items()), dict(tables["totals"].items())
        assert _shown(self._rebuilt("counts"), self._rebuilt("totals")) == _shown(old, new)
        return old, {key: value["sum"] for key, value in new.items()}

    def _rebuilt(self, table: str) -> dict[str, Any]:
        values = {}
        for partition in PARTITIONS:
            latest = dict(self._logs[TP(f"sums-{table}-changelog", partition)])
            for key, value in latest.items():
                if value is not None:
                    assert partition_of(json.loads(key)) == partition
                    values[json.loads(key)] = json.loads(value)
        return values

    @property
    def progress(self) -> Progress:
        return self._table.progress

    @property
    def is_converged(self) -> bool:
        return self._table.is_converged

    def rejects(self) -> int:
        return len(self._table.rejects())

    def close(self) -> None:
        self._worker.stop()
