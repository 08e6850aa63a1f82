"""The contract over DualReadStore: a store that a processor holds itself, in one database or in two."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from formats import StateRecord
from migrate import ConversionError, DualReadStore, Progress
from tests.dual.crash import copy_as_it_stands
from tests.processors.contract import Host, OnReject, convert
from tests.support import RAW, make_store, read_families

_ANCHOR = b"\0anchor"
"""A store of which nothing can be converted is refused; this record always can."""


def _converted(record: StateRecord) -> StateRecord | None:
    number = convert(int(record.value))
    return None if number is None else StateRecord(record.key, b"sum=%d" % number)


class OneDatabase(Host):
    """Two column families."""

    loses_uncommitted = False
    lets_old_code_run = False  # a foreign write, which is refused at the start
    _has_two = False

    def __init__(self, folder: Path, old: Mapping[str, int], *, on_reject: OnReject, may_drop: bool) -> None:
        self._folder = folder / "0"
        self._options: dict[str, Any] = {"on_reject": on_reject, "may_drop": may_drop}
        make_store(self._folder / "old", {_ANCHOR: b"1"} | {key.encode(): b"%d" % n for key, n in old.items()})
        self._store = self._open()

    def _open(self) -> DualReadStore:
        old, new = self._folder / "old", self._folder / "new"
        where: dict[str, Any] = {"old_path": old} if self._has_two else {"target_family": "v2"}
        path = new if self._has_two else old
        return DualReadStore.open(
            path, source=RAW, target=RAW, convert=_converted, migrate_on_read=False, **self._options, **where
        )

    def get(self, key: str) -> int | None:
        value = self._store.get(key.encode())
        return None if value is None else int(value.removeprefix(b"sum="))

    def exists(self, key: str) -> bool:
        try:
            return self._store.get(key.encode()) is not None
        except ConversionError:
            return True  # it has no `exists` of its own

    def set(self, key: str, value: int) -> None:
        self._store.put(key.encode(), b"sum=%d" % value)

    def delete(self, key: str) -> None:
        self._store.delete(key.encode())

    def converge(self) -> None:
        self._store.converge(max_millis=None)

    def commit(self) -> None:
        self._store.flush()

    def crash(self) -> None:
        left = self._folder.with_name(str(int(self._folder.name) + 1))
        copy_as_it_stands(self._folder, left)
        self._store.close()
        self._folder = left
        self._store = self._open()

    def reopen(self) -> None:
        self._store.close()
        self._store = self._open()

    def run_old_code(self, key: str, value: int) -> None:
        raise NotImplementedError

    def copies(self) -> tuple[dict[str, int], dict[str, int]]:
        left = self._folder.with_name("read")
        copy_as_it_stands(self._folder, left)
        families = read_families(left / "old")
        old, new = families.get("default", {}), families.get("v2", {})
        if self._has_two:
            new = read_families(left / "new").get("default", {})
        return (
            {key.decode(): int(value) for key, value in old.items() if key != _ANCHOR},
            {key.decode(): int(value.removeprefix(b"sum=")) for key, value in new.items() if key != _ANCHOR},
        )

    @property
    def progress(self) -> Progress:
        return self._store.progress

    @property
    def is_converged(self) -> bool:
        return self._store.is_converged

    def rejects(self) -> int:
        return len(self._store.rejects())

    def close(self) -> None:
        self._store.close()


class TwoDatabases(OneDatabase):
    """Two directories."""

    _has_two = True
