"""Dual reading in Faust's tables: a mapping in the place of a table. See docs/processors.md.

A table has a database and a changelog topic for each partition, so both copies of a value are in two topics, and Kafka
orders nothing between those. An old copy goes only after the producer has confirmed the new one. A worker that was
killed leaves databases that are ahead of their changelogs.

What is private to Faust and used here: a RocksDB store's databases by partition (`_dbs`), and how a store reads, and
makes bytes of keys and values. Faust's own methods work in an event only, in the partition of that event.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, ItemsView, Iterator, MutableMapping, ValuesView
from contextlib import closing
from typing import Any, Final, Generic, TypeVar, cast

from faust.stores import memory, rocksdb
from faust.tables.sets import SetTable
from faust.tables.table import Table
from faust.types import FutureMessage, ProcessingGuarantee, TableT
from yarl import URL

from migrate.dual.converging import Progress
from migrate.errors import RefusedError, SpecError
from migrate.processors.cell import MISSING, DualCell, K, Missing, N, O, OnReject, check_version
from migrate.processors.passes import ConvergePace, Pass, Passes
from migrate.stores.rocksdb.scan import Scan

_LOG = logging.getLogger(__name__)
VERSIONS: Final = ("0.15",)
V = TypeVar("V")
_BATCH = 1000
_STOPS_WITHIN = 10.0
"""Seconds that a worker may take to stop."""
_TOGETHER = 50
"""Deletes of old copies that are sent together: a request to the broker for each costs more than the rest of it."""


class DualTable(MutableMapping[K, N], Generic[K, N, O]):
    """Two tables as one: the new one, and what it lacks from the old one, converted."""

    def __init__(
        self,
        new: TableT[K, N],
        old: TableT[K, O],
        convert: Callable[[O], N | None],
        *,
        on_reject: OnReject = "raise",
        may_drop: bool = False,
        share: float = 0.1,
        per_checkpoint: int = 10_000,
        interval: float = 0.1,
    ) -> None:
        """Both tables stay declared with the application until all has converged; agents use only this mapping.

        `convert`, `on_reject` and `may_drop`: see DualCell. `share` of the event loop's time is given to moving old
        values, each `interval` seconds, and at most `per_checkpoint` wait for the producer at a time.
        """
        check_version("faust-streaming", "faust", VERSIONS)
        self._new: _OneTable[K, N] = _OneTable(_checked(new))
        self._old: _OneTable[K, O] = _OneTable(_checked(old))
        _check_pair(self._new.table, self._old.table)
        self.name = new.name
        self._app = new.app
        self._convert = convert
        self._cell: DualCell[K, N, Any] = DualCell(self._converted, on_reject=on_reject, may_drop=may_drop)
        pace = ConvergePace(share, per_checkpoint, interval)
        self._passes: Passes[int] = Passes(f"the Faust table {old.name!r}", pace)
        self._leaving: dict[tuple[int, bytes], FutureMessage] = {}
        """By partition and key, the old copies that go once the new one is confirmed."""
        self._restored_in: int | None = None
        """The generation of the consumer group whose restore is over."""
        self._refusal: RefusedError | None = None
        self._new.table.on_recover(self._on_recover)
        self._app.timer(interval)(self._on_timer)

    def _converted(self, raw: Any) -> N | None:  # noqa: ANN401 - bytes, or in memory a value
        """Reading the old value, and writing the new one, may fail as the conversion may: all three are its reject."""
        value = self._convert(self._old.value(raw))
        self._new.value_bytes(value)
        return value

    # What agents use of a table.

    def __getitem__(self, key: K) -> N:
        if not self._passes.are_converged:
            found = self._cell.get(self._at(), key)
            if found is not MISSING:
                return found
        value: N = self._new.table[key]  # or its default, or KeyError
        return value

    def __contains__(self, key: object) -> bool:
        if self._passes.are_converged:
            return key in self._new.table
        return self._cell.exists(self._at(), key)  # type: ignore[arg-type]

    def __setitem__(self, key: K, value: N) -> None:
        if self._passes.are_converged:
            self._new.table[key] = value
        else:
            self._cell.put(self._at(), key, value)

    def __delitem__(self, key: K) -> None:
        """Delete both copies, also where neither is on this disk: a changelog may still have them."""
        self._cell.delete(self._at(), key)

    def pop(self, key: K, *default: Any) -> Any:  # noqa: ANN401 - as a table has it
        """As a table's, but it deletes where there is no value too: see `__delitem__`."""
        value = self.get(key, MISSING)
        del self[key]
        if value is not MISSING:
            return value
        if not default:
            raise KeyError(key)
        return default[0]

    def clear(self) -> None:
        """Raises NotImplementedError, as a table on RocksDB does."""
        raise NotImplementedError("Faust cannot clear a table on RocksDB: delete its keys, each in an event of its own")

    def __iter__(self) -> Iterator[K]:
        yield from self._new.table
        yield from (key for key, slots in self._only_old() if self._cell.exists(slots, key))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> ItemsView[K, N]:
        return _Items(self)

    def values(self) -> ValuesView[N]:
        return _Values(self)

    def on_recover(self, fun: Callable[[], Any]) -> Callable[[], Any]:
        return self._new.table.on_recover(fun)

    def _pairs(self) -> Iterator[tuple[K, N]]:
        yield from self._new.table.items()
        for key, slots in self._only_old():
            value = self._cell.get(slots, key)
            if value is not MISSING:
                yield key, value

    def _only_old(self) -> Iterator[tuple[K, _TwoTables[K, N, O]]]:
        """The keys that only the old table has, in the active partitions of this process."""
        for partition, key in self._old.placed_keys():
            slots = self._at(partition)
            if slots.new_value(key) is MISSING:
                yield key, slots

    # How far it is.

    @property
    def progress(self) -> Progress:
        return self._cell.progress(self._passes.left)

    @property
    def is_converged(self) -> bool:
        """Whether the partitions that are assigned to this process, at least one, have no old value any more."""
        return self._is_restored and self._passes.are_converged

    def rejects(self) -> list[tuple[bytes, str]]:
        """(key and name of the old table, reason) of the old values that could not be converted, by key."""
        return sorted(self._cell.rejects.items())

    def converge(self) -> None:
        """Move some old values of the active partitions. A timer calls it. Raises ConversionError."""
        if self._refusal is not None:
            raise self._refusal
        if not self._is_restored or self._passes.are_converged:
            return
        self._let_go()
        if not self._leaving:  # the producer's confirmation is Faust's checkpoint here
            self._passes.committed()
        self._passes.advance(self._sweep, has_rejects=bool(self._cell.rejects))

    def _sweep(self, partition: int, state: Pass, ends_at: float, limit: int) -> int:
        if self._old.is_in_memory:  # no key tells its partition: they are moved when they are written
            if not self._old.table.data:
                state.end()
            return 0
        # With more at a time, Faust stops the flow of messages until its producer has kept up.
        limit = min(limit, self._app.producer.buffer.max_messages - len(self._leaving))
        raws = self._old.next_keys(partition, state.next_key, limit)
        for done, raw in enumerate(raws, 1):
            if (partition, raw) in self._leaving:
                state.has_seen_old = True
            else:
                self._move(partition, raw, state)
            state.next_key = raw + b"\0"
            if time.monotonic() > ends_at:
                return done
        if len(raws) < limit:
            state.end()
        return len(raws)

    def _move(self, partition: int, raw: bytes, state: Pass) -> None:
        key, slots = self._old.key(raw), self._at(partition)
        value = slots.new_value(key)
        if value is not MISSING:
            slots.put(key, value)  # once more: after a kill it may be in the database and not in the changelog
        if self._cell.converge(slots, key):
            state.moved()
        else:
            state.has_seen_rejects = True

    def _at(self, partition: int | None = None) -> _TwoTables[K, N, O]:
        if self._refusal is not None:
            raise self._refusal
        return _TwoTables(self, partition)

    # When old copies go.

    @property
    def _is_restored(self) -> bool:
        """Whether the databases have all that is in their changelogs, for the present assignment.

        Faust may say so of an assignment while the next one has begun: hence the generation.
        """
        app = self._app
        return self._restored_in == app.consumer_generation_id and app.tables.actives_ready and not app.rebalancing

    async def _on_recover(self) -> None:
        """The restore of an assignment is over. Faust ignores what is raised here."""
        self._restored_in = self._app.consumer_generation_id
        active = self._old.active_partitions()
        self._passes.keep(
            {each: Pass(f"partition {each} of {self._passes.what}", self._old.estimate(each)) for each in active}
        )
        self._cell.rejects.clear()
        self._leaving = {each: sent for each, sent in self._leaving.items() if each[0] in active}
        old, new = (self._app.consumer.topic_partitions(each.topic) for each in (self._old, self._new))
        if old != new:
            self._refusal = RefusedError(
                f"the topic {self._old.topic} has {old} partitions and {self._new.topic} has {new}",
                hint="delete the new table's topic and declare the table with as many partitions as the old one has",
            )
            _LOG.error("%s", self._refusal)
            await self._app.crash(self._refusal)
            await asyncio.sleep(_STOPS_WITHIN)  # meanwhile Faust would give agents events, and count them as handled

    async def _on_timer(self) -> None:
        self.converge()

    def _go_after(self, sent: FutureMessage, partition: int, key: K) -> None:
        self._leaving[partition, self._old.key_bytes(key)] = sent
        if len(self._leaving) % _TOGETHER == 0:
            self._let_go()

    def _let_go(self) -> None:
        """Delete old copies of what is confirmed, as many as the producer has room for.

        While partitions come and go, they stay.
        """
        if not self._is_restored:
            return
        buffer = self._app.producer.buffer
        room = max(buffer.max_messages - buffer.size, 0)
        for (partition, raw), sent in [each for each in self._leaving.items() if each[1].done()][:room]:
            del self._leaving[partition, raw]
            if not sent.cancelled() and sent.exception() is None:
                self._old.delete(self._old.key(raw), partition)


class _TwoTables(Generic[K, N, O]):
    """Both copies, for one step: in the event's partition, or in the given one."""

    def __init__(self, tables: DualTable[K, N, O], partition: int | None) -> None:
        self._tables = tables
        self._new, self._old = tables._new, tables._old
        self._partition = partition
        self._sent: FutureMessage | None = None
        """What the old copy has to wait for."""

    def key_bytes(self, key: K) -> bytes:
        return (key if isinstance(key, bytes) else str(key).encode()) + f"|{self._old.table.name}".encode()

    def new_value(self, key: K) -> N | Missing:
        raw = self._new.raw(key, self._partition)
        return raw if raw is MISSING else self._new.value(raw)

    def old_value(self, key: K) -> Any:  # noqa: ANN401 - bytes, or in memory a value
        return self._old.raw(key, self._partition)

    def has_old(self, key: K) -> bool:
        leaving = self._tables._leaving
        if leaving and (self._place(key), self._old.key_bytes(key)) in leaving:
            return False
        return self.old_value(key) is not MISSING

    def put(self, key: K, value: N) -> None:
        self._sent = self._new.put(key, value, self._place(key))

    move = put

    def delete_new(self, key: K) -> None:
        self._new.delete(key, self._place(key))

    def delete_old(self, key: K) -> None:
        place = self._place(key)
        if self._sent is not None:
            self._tables._go_after(self._sent, place, key)
        else:
            self._old.delete(key, place)
            self._tables._leaving.pop((place, self._old.key_bytes(key)), None)

    def _place(self, key: K) -> int:
        """Raises TypeError outside an event, and PartitionsMismatch where its topic has other ones than the table."""
        if self._partition is not None:
            return self._partition
        of_event = self._new.table.partition_for_key(key)
        assert of_event is not None, "use_partitioner is refused"
        return of_event


class _OneTable(Generic[K, V]):
    """One table, in a given partition, which Faust's own methods do not take."""

    def __init__(self, table: Table[K, V]) -> None:
        self.table = table

    @property
    def topic(self) -> str:
        return self.table.changelog_topic_name

    @property
    def _store(self) -> Any:  # noqa: ANN401 - what is private to it is used here
        return self.table.data

    def raw(self, key: K, partition: int | None) -> Any:  # noqa: ANN401 - bytes, or in memory a value
        """Without a partition, as Faust reads it: in that of the event, or outside of one in all."""
        if self.is_in_memory:
            return self._store.data.get(key, MISSING)
        raw = self.key_bytes(key)
        if partition is None:
            found = self._store._get(raw)
        else:
            database = self._database(partition)
            found = None if database is None else database.get(raw)
        return MISSING if found is None else found

    def value(self, raw: Any) -> V:  # noqa: ANN401
        return cast(V, raw if self.is_in_memory else self._store._decode_value(raw))

    def value_bytes(self, value: V | None) -> bytes:
        return cast(bytes, self._store._encode_value(value))

    def key_bytes(self, key: K) -> bytes:
        return cast(bytes, self._store._encode_key(key))

    def key(self, raw: bytes) -> K:
        return cast(K, self._store._decode_key(raw))

    def put(self, key: K, value: V, partition: int) -> FutureMessage:
        """As a table does it, but the caller learns when it is confirmed."""
        sent = self.table.send_changelog(partition, key, value)
        if self.is_in_memory:
            self._store.data[key] = value
        else:
            self._store._db_for_partition(partition).put(self.key_bytes(key), self.value_bytes(value))
        self.table.app.sensors.on_table_set(self.table, key, value)
        return sent

    def delete(self, key: K, partition: int) -> None:
        self.table.send_changelog(partition, key, None, value_serializer="raw")
        if self.is_in_memory:
            self._store.data.pop(key, None)
        elif (database := self._database(partition)) is not None:
            database.delete(self.key_bytes(key))
        self.table.app.sensors.on_table_del(self.table, key)

    def active_partitions(self) -> list[int]:
        """Never standbys: those belong to another process."""
        return sorted(each.partition for each in self.table.app.assignor.assigned_actives() if each.topic == self.topic)

    def placed_keys(self) -> Iterator[tuple[int | None, K]]:
        """With their partitions, the keys of the active ones."""
        if self.is_in_memory:
            yield from ((None, key) for key in list(self._store.data))
            return
        for partition in self.active_partitions():
            start = b""
            while self._database(partition) is not None and (raws := self.next_keys(partition, start, _BATCH)):
                yield from ((partition, self.key(raw)) for raw in raws)
                start = raws[-1] + b"\0"

    def next_keys(self, partition: int, start: bytes, limit: int) -> list[bytes]:
        """At most so many; fewer at the end.

        No iterator outlives the call, nor a reference to the database: Faust closes it by letting it go.
        """
        found: list[bytes] = []
        with closing(Scan(self._database(partition), start or None, None, f"{self.table.name}-{partition}.db")) as scan:
            while len(found) < limit and (records := scan.pull(limit)):
                found += [key for key, _ in records if key != rocksdb.Store.offset_key]
        return found[:limit]

    def estimate(self, partition: int) -> int:
        """Of its keys, without Faust's own."""
        database = None if self.is_in_memory else self._database(partition)
        keys: int = 1 if database is None else database.property_int_value("rocksdb.estimate-num-keys") - 1
        return max(keys, 1)

    @property
    def is_in_memory(self) -> bool:
        return isinstance(self._store, memory.Store)

    def _database(self, partition: int) -> Any:  # noqa: ANN401 - rocksdict's, or None
        """It is not opened for us: Faust opens what is assigned."""
        return self._store._dbs.get(partition)


class _Items(ItemsView[K, N]):
    def __iter__(self) -> Iterator[tuple[K, N]]:
        return self._mapping._pairs()  # type: ignore[attr-defined, no-any-return]


class _Values(ValuesView[N]):
    def __iter__(self) -> Iterator[N]:
        return (value for _, value in self._mapping._pairs())  # type: ignore[attr-defined]


def _check_pair(new: Table[Any, Any], old: Table[Any, Any]) -> None:
    if new.name == old.name:
        raise SpecError(f"the table {new.name!r} is the old one and the new one", hint="declare a table of a new name")
    if (new.key_type, new.key_serializer, new.partitions) != (old.key_type, old.key_serializer, old.partitions):
        raise RefusedError(
            f"the tables {new.name!r} and {old.name!r} differ in key_type or partitions",
            hint="only values are converted: give both tables the same key_type and partitions",
        )
    conf = new.app.conf
    if conf.producer_threaded or cast(object, conf.processing_guarantee) is not ProcessingGuarantee.AT_LEAST_ONCE:
        raise RefusedError(
            "with producer_threaded or exactly_once nothing tells when a new value is confirmed, "
            "and no old one may go before it is",
            hint="turn that setting off, or convert the table with the batch job",
        )


def _checked(table: object) -> Table[Any, Any]:
    if not isinstance(table, Table):
        raise RefusedError(
            f"a {type(table).__name__} is no table that can be read dually",
            hint="give what app.Table() returns; windowed tables are not supported",
        )
    options = table.options or {}
    store = table.info()["store"]
    scheme = URL(table.app.conf.store if store is None else store).scheme
    reasons = {
        "is windowed": table.window is not None,
        "is a GlobalTable": table.is_global,
        "is a SetTable": isinstance(table, SetTable),
        "has use_partitioner": table.use_partitioner,
        "has a ttl": "ttl" in options,
        "is in the files of python-rocksdb": options.get("driver") == "python-rocksdb",
        f"is in a store of {scheme}": scheme not in ("rocksdb", "memory"),
    }
    for reason, applies in reasons.items():
        if applies:
            raise RefusedError(
                f"the table {table.name!r} {reason}: such tables are not supported",
                hint="leave it as it is; see docs/processors.md",
            )
    return table
