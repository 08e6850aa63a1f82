"""Names of stores, and handles by which other threads read them, as in Kafka Streams' interactive queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Required, TypedDict, TypeVar, Unpack, overload

from formats import Function
from migrate.dual.dual_store import DualReadStore
from migrate.dual.lazy_conversion import KeyFunction
from migrate.dual.sweep import OnMigrated
from migrate.errors import RefusedError, StateStoreMigratedError, StoreClosedError, StoreNotReadyError
from migrate.stores.rocks_store import RocksStore
from migrate.stores.state_store import Listener, Records

S = TypeVar("S", bound=RocksStore)


class DualReadArguments(TypedDict, total=False):
    """The parameters of `DualReadStore.open`, for type checkers."""

    source: Required[str]
    target: Required[str]
    old_path: str | Path | None
    convert: Function | None
    changelog: str | bool | None
    sync: bool
    migrate_on_read: bool | None
    on_migrated: OnMigrated | None
    on_reject: str
    may_drop: bool
    on_foreign_writes: str
    wal: bool
    old_key: KeyFunction | None
    source_family: str | None
    target_family: str | None
    create: bool
    on_state_change: Listener | None


@dataclass(slots=True)
class _Entry:
    """One name. `store`: None while it is being opened or handed over."""

    name: str
    directories: frozenset[Path]
    path: Path
    generation: int = 0
    store: RocksStore | None = None
    why_not: str = "is being opened"

    def renew(self) -> None:
        """Invalidate the handles that were given out."""
        self.generation += 1


class ReadHandle:
    """A store to read from. Every method raises StateStoreMigratedError once the store behind it was replaced."""

    def __init__(self, entry: _Entry, store: RocksStore) -> None:
        self._entry = entry
        self._generation = entry.generation
        self._store = store

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        with self._reading() as store:
            return store.get(key)

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, or None."""
        with self._reading() as store:
            return store.multi_get(keys)

    def range(self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False) -> Records:
        """The records in [start, end), None: unbounded. An iterator stays valid when the handle does not."""
        with self._reading() as store:
            return store.range(start, end, reverse=reverse)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Records:
        """The records whose keys begin so."""
        with self._reading() as store:
            return store.prefix_scan(prefix, reverse=reverse)

    def all(self) -> Records:
        """Every record, in the order of keys."""
        return self.range()

    def reverse_all(self) -> Records:
        """Every record, from the last key to the first."""
        return self.range(reverse=True)

    def approximate_num_entries(self) -> int:
        """An estimate of the number of records."""
        with self._reading() as store:
            return store.approximate_num_entries()

    @contextmanager
    def _reading(self) -> Iterator[RocksStore]:
        self.check()
        try:
            yield self._store
        except StoreClosedError:
            self.check()
            raise

    def check(self) -> None:
        """Raises StateStoreMigratedError where the store was replaced."""
        if self._entry.generation != self._generation:
            raise StateStoreMigratedError(
                f"the store {self._entry.name!r} was replaced after this handle was made",
                hint="resolve it again by its name; a retry on this handle will fail again",
            )


class Stores:
    """The stores of one process, by name. Safe to share between threads; a context manager that closes them all."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._entries: dict[str, _Entry] = {}

    def __enter__(self) -> Stores:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def open(self, name: str, path: str | Path, **arguments: Unpack[DualReadArguments]) -> DualReadStore: ...

    @overload
    def open(self, name: str, path: str | Path, *, opener: Callable[..., S], **arguments: Any) -> S: ...  # noqa: ANN401

    def open(
        self, name: str, path: str | Path, *, opener: Callable[..., RocksStore] = DualReadStore.open, **arguments: Any
    ) -> RocksStore:
        """Open the store in the directory `path` by `opener(path, **arguments)`, and register it under a name.

        The opener is `DualReadStore.open`, or another function that opens a store, such as `open_store`.

        Raises RefusedError where the name, or a directory, is taken, and every error of the opener.
        """
        named = (path, arguments.get("old_path"))
        directories = frozenset(Path(directory).resolve() for directory in named if directory is not None)
        entry = _Entry(name, directories, Path(path))
        with self._changed:
            self._check_free(entry)
            self._entries[name] = entry
        try:
            return self._open(entry, opener, arguments)
        except BaseException:
            with self._changed:
                del self._entries[name]
            raise

    @overload
    def hand_over(self, name: str, **arguments: Unpack[DualReadArguments]) -> DualReadStore: ...

    @overload
    def hand_over(self, name: str, *, opener: Callable[..., S], **arguments: Any) -> S: ...  # noqa: ANN401

    def hand_over(
        self, name: str, *, opener: Callable[..., RocksStore] = DualReadStore.open, **arguments: Any
    ) -> RocksStore:
        """Close the store and open the same directory with another opener or arguments; existing handles are invalid.

        If that fails, the name stays, and its store is closed.
        """
        with self._changed:
            entry = self._entry(name)
            store = self._running(entry)
            entry.store, entry.why_not = None, "is being handed over"
            entry.renew()
        try:
            store.close()
            return self._open(entry, opener, arguments)
        except BaseException as error:
            with self._changed:
                entry.store, entry.why_not = store, f"could not be opened again: {error}"
            raise

    def resolve(self, name: str) -> ReadHandle:
        """A read handle. Raises StoreNotReadyError while the store is being opened, StoreClosedError after `close`."""
        with self._changed:
            entry = self._entry(name)
            return ReadHandle(entry, self._running(entry))

    def wait_until_running(self, name: str, timeout: float) -> ReadHandle:
        """A handle as soon as the store runs. Raises StoreNotReadyError with the reason after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                try:
                    return self.resolve(name)
                except StoreNotReadyError as error:
                    if not self._changed.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                        raise StoreNotReadyError(
                            f"after {timeout:g} seconds {error.message}", hint="wait longer, or check its log"
                        ) from error

    def close(self) -> None:
        """Close every store; the names are free again."""
        with self._changed:
            entries = list(self._entries.values())
            self._entries.clear()
        for entry in entries:
            if entry.store is not None:
                entry.store.close()

    def _open(self, entry: _Entry, opener: Callable[..., RocksStore], arguments: dict[str, Any]) -> RocksStore:
        store = opener(entry.path, **arguments)
        if isinstance(store, DualReadStore):
            store.on_converged(entry.renew)
        with self._changed:
            entry.store = store
            self._changed.notify_all()
        return store

    def _entry(self, name: str) -> _Entry:
        if name not in self._entries:
            known = ", ".join(sorted(self._entries)) or "none"
            raise StoreNotReadyError(f"there is no store {name!r} (there are: {known})", hint="open it first")
        return self._entries[name]

    @staticmethod
    def _running(entry: _Entry) -> RocksStore:
        if entry.store is None:
            raise StoreNotReadyError(f"the store {entry.name!r} {entry.why_not}", hint="wait_until_running")
        entry.store.check_running()
        return entry.store

    def _check_free(self, wanted: _Entry) -> None:
        taken = self._entries.get(wanted.name)
        if taken is not None:
            raise RefusedError(
                f"the name {wanted.name!r} is already used for {taken.path}, and cannot be used for {wanted.path}",
                hint="hand_over() opens the same store with other arguments; another store needs another name",
            )
        for other in self._entries.values():
            if shared := wanted.directories & other.directories:
                paths = ", ".join(sorted(map(str, shared)))
                raise RefusedError(
                    f"{paths} is already open as the store {other.name!r}, and cannot be {wanted.name!r} too",
                    hint="resolve it by that name",
                )
