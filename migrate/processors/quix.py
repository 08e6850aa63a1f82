"""Dual reading in Quix Streams' `State`: two names in one store, moved by the transaction of Quix' own checkpoint.

Quix keeps `<message key>|<state name>` -> value in the column family `default` of one RocksDB for each partition
(`PartitionTransaction._serialize_key` in quixstreams/state/base/transaction.py): a message key that is not bytes, a
name and a value are JSON. Where times to live are in use, eight bytes before a value say when it expires
(quixstreams/state/rocksdb/ttl_codec.py). A checkpoint writes one WriteBatch.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

from migrate.dual.converging import Progress
from migrate.errors import RefusedError, SpecError, StoreCorruptedError
from migrate.processors.cell import MISSING, DualCell, Missing, OnReject, UnreadableError, check_version
from migrate.processors.passes import ConvergePace, Pass, Passes

check_version("quixstreams", "quix", ("3.27", "3.28"))  # others may lack what is imported next

from quixstreams.dataframe import StreamingDataFrame  # noqa: E402
from quixstreams.state.base import PartitionTransaction, TransactionState  # noqa: E402
from quixstreams.state.exceptions import StateSerializationError  # noqa: E402
from quixstreams.state.metadata import Marker  # noqa: E402
from quixstreams.state.rocksdb import RocksDBStorePartition  # noqa: E402

_LOG = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
_STORED = re.compile(rb'(?:(?P<key>.*)\|)?(?P<name>"(?:[^"\\]|\\.)*")', re.DOTALL)
"""Inside a JSON string, quotes are escaped: so only one quote can begin the name, whatever the message key holds."""
_UNREADABLE = (
    "it cannot be read as JSON, and convert was not called: what set_bytes wrote needs as_bytes=True, and stays bytes"
)
_STAMP = 8
_NEVER = b"\xff" * _STAMP


@dataclass(frozen=True, slots=True)
class Renamed:
    """The old name of a value in the state, and how that value becomes the new one."""

    old: str
    convert: Callable[[Any], Any]
    as_bytes: bool = False
    """The function uses `get_bytes` and `set_bytes` for it: `convert` takes bytes, and gives bytes."""


@dataclass(frozen=True, slots=True)
class RenamedBy:
    """The same by rules, for names that are made at run time."""

    old_name: Callable[[str], str | None]
    """Of a new name; None: it has none."""
    new_name: Callable[[str], str | None]
    """Of an old name; None: that is not an old one."""
    convert: Callable[[Any], Any]
    as_bytes: bool = False


@dataclass(frozen=True, slots=True)
class _Pair:
    new: str
    renamed: Renamed


class _OldValue(NamedTuple):  # which is made faster than a frozen dataclass
    transaction: PartitionTransaction[Any, Any]
    renamed: Renamed
    value: bytes

    def converted(self) -> Any:  # noqa: ANN401 - whatever the function keeps
        """The new value, of which is sure that it can be written: a write that fails fails all of a checkpoint."""
        if self.renamed.as_bytes:
            new = self.renamed.convert(self.value)
            if not isinstance(new, bytes | None):
                raise TypeError(f"it gives {type(new).__name__}, not bytes")
            return new
        try:
            old = self.transaction._deserialize_value(self.value)
        except StateSerializationError as error:
            raise UnreadableError(_UNREADABLE) from error
        new = self.renamed.convert(old)
        self.transaction._serialize_value(new)
        return new


class DualState:
    """Gives functions of a dataframe a state in which values of old names show through as new ones.

    It moves them beside the messages, with each checkpoint of Quix. What a function writes is as plain code would
    write it: take the adapter out once `is_converged` is true in each process of the group.
    """

    def __init__(
        self,
        sdf: StreamingDataFrame,
        names: Mapping[str, Renamed] | RenamedBy,
        *,
        share: float = 0.1,
        per_checkpoint: int = 10_000,
        interval: float = 0.1,
        on_reject: OnReject = "raise",
        may_drop: bool = False,
    ) -> None:
        """`sdf`: the dataframe whose function it is for; `names`: by new name, the old one and the conversion.

        `share` of the time, in slices that are `interval` seconds apart, and at most `per_checkpoint` values between
        two commits, are spent on moving old values. `on_reject`: "raise" ends the application at a value that cannot
        be converted; "quarantine" leaves such a value where it is. `may_drop`: a conversion may give None, and the old
        value is deleted then. Raises SpecError.
        """
        self._names = _Rules(names) if isinstance(names, RenamedBy) else _Names(names)
        self._cell: DualCell[_Pair, Any, _OldValue] = DualCell(
            _OldValue.converted, on_reject=on_reject, may_drop=may_drop
        )
        self._pace = ConvergePace(share, per_checkpoint, interval)
        self._context = sdf.processing_context
        self._stream = sdf.stream_id
        self._passes: Passes[RocksDBStorePartition] = Passes(f"the state of {self._stream}", self._pace)
        self._checkpoint: object = None
        self._context.dataframe_registry.register_periodic_task(self._tick)

    def __call__(self, function: F) -> F:
        """The function, for `apply`, `update` or `filter` with `stateful=True`."""

        @wraps(function)
        def with_both(value: Any, *more: Any) -> Any:  # noqa: ANN401 - as the function
            if len(more) == 1:  # without metadata; this is called for each message
                return function(value, self._state(more[0]))
            return function(value, *more[:-1], self._state(more[-1] if more else value))

        return with_both  # type: ignore[return-value]

    @property
    def progress(self) -> Progress:
        """What became of the old values that this process has met, and about how many are left."""
        return self._cell.progress(self._passes.left)

    @property
    def is_converged(self) -> bool:
        """Whether no old value is left in the partitions that are assigned to this process; False without any."""
        assigned = self._assigned()
        if not assigned or self._context.state_manager.recovery_required:
            return False
        return all(self._passes.has_converged(each) for each in assigned)

    def rejects(self) -> list[tuple[bytes, str]]:
        """(message key and old name as they are stored, reason) of the values that could not be moved."""
        return sorted(self._cell.rejects.items())

    def _state(self, state: Any) -> TransactionState:  # noqa: ANN401 - whatever is given
        if type(state) is not TransactionState:
            raise SpecError(
                f"the function got {type(state).__name__} where its state should be",
                hint="give stateful=True to apply, update or filter, and one DualState to each function",
            )
        partition = cast(RocksDBStorePartition, state._transaction._partition)
        passing = self._passes.find(partition)
        if passing is None:
            self._look()
            passing = self._passes.find(partition)
            if passing is None:
                raise SpecError(
                    f"the function got a state that is not of {self._stream}, which this DualState was made for",
                    hint="make it with the dataframe on which the function is used, after group_by or concat",
                )
        if passing.is_converged:
            return _StateAtRest(state, self._names)
        return _BothStates(state, self._names, self._cell)

    def _assigned(self) -> dict[RocksDBStorePartition, int]:
        store = self._context.state_manager.stores.get(self._stream, {}).get("default")
        found = [] if store is None else list(store.partitions.items())
        return {cast(RocksDBStorePartition, each): number for number, each in found}

    def _look(self) -> None:
        """See which partitions are here; what was known of those that have gone is forgotten, rejects too."""
        assigned = self._assigned()
        if self._passes.are_of(assigned):
            return
        passes = {}
        for each, number in assigned.items():
            _check_store(each)
            if each._adopt_provisional:  # moving them would settle that, and drop Quix' copy of what was there before
                _LOG.warning(
                    "%s: Quix takes values for ones that expire, for the time being: old values move once the "
                    "application has written one with a `ttl`",
                    each.path,
                )
            passes[each] = self._passes.find(each) or Pass(f"{self._stream}[{number}]", _count(each))
        self._passes.keep(passes)
        self._cell.rejects.clear()

    def _tick(self) -> None:
        """Quix calls it after each message, and between assigning partitions and restoring them: then, an empty store
        would look like a converged one."""
        if time.monotonic() < self._pace.due_at:
            return  # most turns of the loop end here
        if self._context.checkpoint is not self._checkpoint:
            self._checkpoint = self._context.checkpoint
            self._passes.committed()
        if self._context.state_manager.recovery_required:
            return
        self._look()
        self._passes.advance(self._advance, has_rejects=bool(self._cell.rejects))

    def _advance(self, partition: RocksDBStorePartition, passing: Pass, until: float, most: int) -> int:
        """Move old values of one partition, from where the last slice ended; how many."""
        number = self._assigned()[partition]
        transaction = self._context.checkpoint.get_store_transaction(self._stream, number)
        if transaction._partition is not partition or partition._adopt_provisional:
            return 0  # it is of an assignment that was lost, until the next checkpoint; or as `_look` has said
        moved = 0
        records = partition.get_or_create_column_family("default").iter()
        records.seek(passing.next_key)
        while records.valid():
            moved += self._move(transaction, passing, records.key(), records.value())
            records.next()
            if (moved == most or time.monotonic() >= until) and records.valid():
                passing.next_key = records.key()
                return moved
        try:
            records.status()
        except Exception as error:  # rocksdict has no class for it: a block cannot be read, and the end is not the end
            raise StoreCorruptedError(
                f"{partition.path} cannot be read to its end: {error}",
                hint="stop, remove that directory, and start again: Quix rebuilds it from its changelog",
            ) from error
        passing.end()
        return moved

    def _move(self, transaction: PartitionTransaction[Any, Any], passing: Pass, stored: bytes, value: bytes) -> bool:
        key, pair = self._names.stored(stored)
        if pair is None or transaction._serialize_key(pair.renamed.old, key) != stored:
            return False
        slots = _BothStates(TransactionState(key, transaction), self._names, self._cell, value)
        if not self._cell.converge(slots, pair):
            passing.has_seen_rejects = True
            return False
        slots.delete_old(pair)  # which may have expired: nobody sees it, but it is still there
        passing.moved()
        return True


class _StateAtRest(TransactionState):
    """Of a partition that has converged: as without an adapter, but for deletes.

    An old copy that was not on this disk may still be in the changelog, where its own commit failed.
    """

    __slots__ = ("_names",)

    def __init__(self, state: TransactionState, names: _Names) -> None:
        self._prefix = state._prefix
        self._transaction = state._transaction
        self._timestamp = state._timestamp
        self._names = names

    def delete(self, key: Any) -> None:  # noqa: ANN401 - as in Quix
        pair = self._names.pair(key)
        if pair is not None:
            super().delete(pair.renamed.old)
        super().delete(key)


class _BothStates(_StateAtRest):
    """Of a partition in which there may be old values: what a function gets, and both slots of each pair."""

    __slots__ = ("_cell", "_found", "_on_disk", "_stored", "_ttl")

    def __init__(
        self, state: TransactionState, names: _Names, cell: DualCell[_Pair, Any, _OldValue], stored: bytes = b""
    ) -> None:
        """`stored`: the old copy as it lies in the store."""
        super().__init__(state, names)
        self._cell = cell
        self._stored = stored
        self._ttl: timedelta | None = None
        self._found: dict[str, bool] = {}
        """By new name, whether a value was there, where that was looked for: one look is enough for a message."""
        self._on_disk: dict[str, bytes] = {}
        """By old name, the key of its value on the disk; empty: there is none."""

    def get(self, key: Any, default: Any = None) -> Any:  # noqa: ANN401 - as in Quix
        pair = self._names.pair(key, as_bytes=False)
        return super().get(key, default) if pair is None else self._read(pair, default)

    def get_bytes(self, key: Any, default: Any = None) -> Any:  # noqa: ANN401 - as in Quix
        pair = self._names.pair(key, as_bytes=True)
        return super().get_bytes(key, default) if pair is None else self._read(pair, default)

    def _read(self, pair: _Pair, default: Any) -> Any:  # noqa: ANN401 - as in Quix
        value = self._cell.get(self, pair)
        return default if value is MISSING else value

    def set(self, key: Any, value: Any, ttl: timedelta | None = None) -> None:  # noqa: ANN401 - as in Quix
        pair = self._names.pair(key, as_bytes=False)
        if pair is None:
            super().set(key, value, ttl)
        else:
            self._ttl = ttl
            self._cell.put(self, pair, value)

    def set_bytes(self, key: Any, value: bytes, ttl: timedelta | None = None) -> None:  # noqa: ANN401 - as in Quix
        pair = self._names.pair(key, as_bytes=True)
        if pair is None:
            super().set_bytes(key, value, ttl)
        else:
            self._ttl = ttl
            self._cell.put(self, pair, value)

    def delete(self, key: Any) -> None:  # noqa: ANN401 - as in Quix
        pair = self._names.pair(key)
        if pair is None:
            super().delete(key)
        else:
            self._cell.delete(self, pair)

    def exists(self, key: Any) -> bool:  # noqa: ANN401 - as in Quix
        pair = self._names.pair(key)
        return super().exists(key) if pair is None else self._cell.exists(self, pair)

    def key_bytes(self, pair: _Pair) -> bytes:
        return self._transaction._serialize_key(pair.renamed.old, self._prefix)

    def new_value(self, pair: _Pair) -> Any | Missing:  # noqa: ANN401 - whatever the function keeps
        if self._found.get(pair.new) is False:  # on the disk, where nothing comes before the commit
            key = self._transaction._serialize_key(pair.new, self._prefix)
            if self._transaction._update_cache.get(key, self._prefix) is Marker.UNDEFINED:
                return MISSING
        read: Callable[..., Any] = self._transaction.get_bytes if pair.renamed.as_bytes else self._transaction.get
        value = read(pair.new, self._prefix, MISSING, timestamp=self._timestamp)
        self._found[pair.new] = value is not MISSING
        return value

    def old_value(self, pair: _Pair) -> _OldValue | Missing:
        value = None
        if self._is_there(pair.renamed.old):
            value = self._transaction.get_bytes(pair.renamed.old, self._prefix, timestamp=self._timestamp)
        return MISSING if value is None else _OldValue(self._transaction, pair.renamed, value)

    def has_old(self, pair: _Pair) -> bool:
        """Not sought behind a new value that was seen: if it is there all the same, a pass finds it."""
        return not self._found.get(pair.new) and self._is_there(pair.renamed.old)

    def _is_there(self, old: str) -> bool:
        """The disk first, which costs least: what is not there is nowhere, as no code writes an old name any more."""
        key = self._on_disk.get(old)
        if key is None:
            key = self._transaction._serialize_key(old, self._prefix)
            self._on_disk[old] = key = key if self._transaction._partition.exists(key) else b""
        return key != b"" and self._transaction._update_cache.get(key, self._prefix) is not Marker.DELETED

    def put(self, pair: _Pair, value: Any) -> None:  # noqa: ANN401 - whatever the function keeps
        write = self._transaction.set_bytes if pair.renamed.as_bytes else self._transaction.set
        write(pair.new, value, self._prefix, timestamp=self._timestamp, ttl=self._ttl)

    def move(self, pair: _Pair, value: Any) -> None:  # noqa: ANN401 - whatever the function keeps
        """The eight bytes between the start of what is stored and the value say when it expires."""
        old = self._transaction.get_bytes(pair.renamed.old, self._prefix)
        assert old is not None
        stamp = self._stored[: len(self._stored) - len(old)][-_STAMP:]
        if stamp not in (b"", _NEVER):  # from the epoch on, so that the sum is the same moment
            self._ttl = timedelta(milliseconds=int.from_bytes(stamp, "big"))
            self._timestamp = 0
        self.put(pair, value)

    def delete_new(self, pair: _Pair) -> None:
        self._transaction.delete(pair.new, self._prefix)

    def delete_old(self, pair: _Pair) -> None:
        self._transaction.delete(pair.renamed.old, self._prefix)


class _Names:
    """Which names are old, and which are new."""

    def __init__(self, names: Mapping[str, Renamed]) -> None:
        self._new = {new: _Pair(new, renamed) for new, renamed in names.items()}
        self._old = {pair.renamed.old: pair for pair in self._new.values()}
        if not names or len(self._old) < len(self._new):
            raise SpecError(f"the names {[*names]} have {len(self._old)} old ones", hint="each has one of its own")
        for both in self._old.keys() & self._new.keys():
            raise _both(both)

    def of_new(self, name: str) -> _Pair | None:
        return self._new.get(name)

    def of_old(self, name: str) -> _Pair | None:
        return self._old.get(name)

    def pair(self, name: object, *, as_bytes: bool | None = None) -> _Pair | None:
        """Of a name that the function uses; None: it is the same in old and new code."""
        if not isinstance(name, str):
            return None
        pair = self.of_new(name)
        if pair is None:
            if (renamed := self.of_old(name)) is not None:
                raise SpecError(
                    f"the function uses the state {name!r}, which is an old name",
                    hint=f"let it use {renamed.new!r} alone: old values show through there, converted",
                )
        elif as_bytes not in (None, pair.renamed.as_bytes):
            raise SpecError(
                f"the function uses the state {name!r} as {'bytes' if as_bytes else 'values'}",
                hint="Renamed(..., as_bytes=True) is for get_bytes and set_bytes, as_bytes=False for get and set",
            )
        return pair

    def stored(self, key: bytes) -> tuple[bytes, _Pair | None]:
        """The message key in a key of the store, and its state where that has an old name."""
        match = _STORED.fullmatch(key)
        if match is None:
            return b"", None
        try:
            name = json.loads(match["name"])
        except ValueError:
            return b"", None  # a name that is bytes
        return match["key"] or b"", self.of_old(name)


class _Rules(_Names):
    def __init__(self, rules: RenamedBy) -> None:
        self._rules = rules

    def of_new(self, name: str) -> _Pair | None:
        old = self._rules.old_name(name)
        return None if old is None else self._checked(name, old)

    def of_old(self, name: str) -> _Pair | None:
        new = self._rules.new_name(name)
        return None if new is None else self._checked(new, name)

    def _checked(self, new: str, old: str) -> _Pair:
        rules = self._rules
        if rules.old_name(new) != old or rules.new_name(old) != new:
            raise SpecError(
                f"the rules do not agree: the old name of {new!r} is {rules.old_name(new)!r}, and the new one of "
                f"{old!r} is {rules.new_name(old)!r}",
                hint="old_name and new_name undo each other, or give None",
            )
        if rules.old_name(old) is not None or rules.new_name(new) is not None:
            raise _both(old)
        return _Pair(new, Renamed(old, rules.convert, rules.as_bytes))


def _both(name: str) -> SpecError:
    return SpecError(
        f"the state {name!r} would be an old name and a new one", hint="choose a new name that no old code has used"
    )


def _check_store(partition: object) -> None:
    if not isinstance(partition, RocksDBStorePartition):
        raise RefusedError(
            f"the state is kept in {type(partition).__name__}, not in RocksDB",
            hint="it is rebuilt from its changelog at each start: let the function itself try the old name there",
        )
    if partition._dumps("name") != b'"name"':
        raise RefusedError(
            "the application writes the names of its states in a form of its own (`dumps`), not as JSON",
            hint="old values cannot be found by their names then: let the function itself try the old name",
        )


def _count(partition: RocksDBStorePartition) -> int:
    estimate = partition.get_or_create_column_family("default").property_int_value("rocksdb.estimate-num-keys")
    return max(estimate or 0, 1)
