"""Quix Streams' own partitions, transactions and checkpoints, without a broker: there is no changelog then."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from quixstreams.dataframe import StreamingDataFrame
from quixstreams.dataframe.registry import DataFrameRegistry
from quixstreams.internal_consumer import InternalConsumer
from quixstreams.internal_producer import InternalProducer
from quixstreams.processing import ProcessingContext
from quixstreams.sinks import SinkManager
from quixstreams.state import State, StateStoreManager
from quixstreams.state.rocksdb import RocksDBOptions, RocksDBStorePartition

from migrate import Progress
from migrate.processors.quix import DualState, Renamed, RenamedBy
from tests.dual.crash import copy_as_it_stands
from tests.processors.contract import KEYS, Host, OnReject, convert

STREAM = "orders"
OLD, NEW = "total", "totals"


class Context:
    """What an application has of one stream with state, and its loop, which a test goes through by hand."""

    def __init__(self, folder: Path, partitions: int = 1, options: RocksDBOptions | None = None) -> None:
        self.folder = folder
        self.manager = StateStoreManager("group", folder, options)
        self.manager.register_store(STREAM)
        self.registry = DataFrameRegistry()
        self.registry.register_stream_id(STREAM, [STREAM])
        idle = SimpleNamespace(flush=lambda: 0, offsets={})  # nothing is produced, and no offset committed
        self.processing = ProcessingContext(
            commit_interval=3600,
            producer=cast(InternalProducer, idle),
            consumer=cast(InternalConsumer, None),
            state_manager=self.manager,
            sink_manager=SinkManager(),  # type: ignore[no-untyped-call]
            dataframe_registry=self.registry,
        )
        self.sdf = cast(StreamingDataFrame, SimpleNamespace(processing_context=self.processing, stream_id=STREAM))
        self.manager.init()
        self.processing.init_checkpoint()  # type: ignore[no-untyped-call]
        for number in range(partitions):
            self.assign(number)

    def assign(self, number: int = 0) -> RocksDBStorePartition:
        found = self.manager.on_partition_assign(STREAM, number, {})["default"]
        assert isinstance(found, RocksDBStorePartition)
        return found

    def state(self, key: bytes, number: int = 0, timestamp: int | None = None) -> State[Any, Any]:
        """As a function gets it."""
        transaction = self.processing.checkpoint.get_store_transaction(STREAM, number)
        return transaction.as_state(key, timestamp)

    def call(self, function: Callable[..., Any], key: bytes, number: int = 0, timestamp: int | None = None) -> Any:  # noqa: ANN401
        """A message of this key."""
        return function(None, self.state(key, number, timestamp))

    def turn(self) -> None:
        """What the loop does after a message."""
        self.registry.run_periodic_tasks()

    def commit(self) -> None:
        self.processing.commit_checkpoint(force=True)

    def close(self) -> None:
        self.manager.close()


Names = dict[str, Renamed] | RenamedBy
NAMES = {"totals": Renamed("total", lambda old: {"sum": old})}


def adapter(context: Context, names: Names = NAMES, **options: Any) -> DualState:  # noqa: ANN401 - any options
    """One whose slices take as long as there is something to do, and come at each turn of the loop."""
    return DualState(context.sdf, names, **{"share": 1, "interval": 1e-9} | options)


def put(context: Context, keys: dict[bytes, Any], name: Any = "total", number: int = 0) -> None:  # noqa: ANN401
    """As old code did it."""
    for key, value in keys.items():
        context.state(key, number).set(name, value)
    context.commit()


def converge(context: Context, turns: int = 3) -> None:
    for _ in range(turns):
        context.turn()
        context.commit()


def stored(context: Context, number: int = 0) -> dict[bytes, bytes]:
    """The keys and values of the store, without those of Quix' own column families."""
    partition = context.manager.get_store(STREAM).partitions[number]
    return dict(partition.iter_items(b""))  # type: ignore[attr-defined] # of RocksDB's alone


def deletes(context: Context) -> set[bytes]:
    """Those of the checkpoint that is not committed yet."""
    return context.processing.checkpoint.get_store_transaction(STREAM, 0)._update_cache.get_deletes()


def with_sum(n: int) -> dict[str, int] | None:
    number = convert(n)
    return None if number is None else {"sum": number}


class QuixStreams(Host):
    """One partition; a key of the contract is a message key."""

    def __init__(self, folder: Path, old: Mapping[str, int], *, on_reject: OnReject, may_drop: bool) -> None:
        self._folder = folder / "0"
        self._options: dict[str, Any] = {"on_reject": on_reject, "may_drop": may_drop}
        self._context = Context(self._folder)
        for key, number in old.items():
            self._context.state(key.encode()).set(OLD, number)
        self._context.commit()
        self._start()

    def _start(self) -> None:
        names = {NEW: Renamed(OLD, with_sum)}
        self._dual = DualState(self._context.sdf, names, share=1, interval=1e-9, **self._options)

    def _call(self, function: Callable[[None, State[str, Any]], Any], key: str) -> Any:  # noqa: ANN401
        return self._context.call(self._dual(function), key.encode())

    def get(self, key: str) -> int | None:
        value = self._call(lambda _, state: state.get(NEW), key)
        return None if value is None else int(value["sum"])

    def exists(self, key: str) -> bool:
        return bool(self._call(lambda _, state: state.exists(NEW), key))

    def set(self, key: str, value: int) -> None:
        self._call(lambda _, state: state.set(NEW, {"sum": value}), key)

    def delete(self, key: str) -> None:
        self._call(lambda _, state: state.delete(NEW), key)

    def converge(self) -> None:
        self._context.turn()

    def commit(self) -> None:
        self._context.commit()

    def crash(self) -> None:
        left = self._folder.with_name(str(int(self._folder.name) + 1))
        copy_as_it_stands(self._folder, left)
        self._context.close()
        self._open(left)

    def reopen(self) -> None:
        self.commit()
        self._context.close()
        self._open(self._folder)

    def _open(self, folder: Path) -> None:
        self._folder = folder
        self._context = Context(folder)
        self._start()

    def run_old_code(self, key: str, value: int) -> None:
        self.commit()
        self._context.close()
        plain = Context(self._folder)
        plain.state(key.encode()).set(OLD, value)
        plain.commit()
        plain.close()
        self._open(self._folder)

    def copies(self) -> tuple[dict[str, int], dict[str, int]]:
        old, new = {}, {}
        for key in KEYS:
            plain = self._context.state(key.encode())
            if (number := plain.get(OLD)) is not None:
                old[key] = number
            if (value := plain.get(NEW)) is not None:
                new[key] = value["sum"]
        return old, new

    @property
    def progress(self) -> Progress:
        return self._dual.progress

    @property
    def is_converged(self) -> bool:
        return self._dual.is_converged

    def rejects(self) -> int:
        return len(self._dual.rejects())

    def close(self) -> None:
        self._context.close()
