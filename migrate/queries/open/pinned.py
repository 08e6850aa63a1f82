"""A store partition in a directory: held open, looked at again, and noticed when another store takes its place.

An application that has it open may hold writes in memory that no file has yet (`Owners`).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from migrate.errors import InvalidStateStoreError, MigrationError, StateStoreMigratedError, StoreNotReadyError
from migrate.queries.open.partition import OpenDatabase, Opened, OpenSegment, Site, open_database
from migrate.stores.lock import holds_for_us, lock_holders
from migrate.stores.rocksdb.layout import database_files, rocksdb_identities
from migrate.stores.rocksdb.openings import HeldDirectory

_ATTEMPTS = 3
_OPENING_SHARE = 10
"""A store that changes all the time is opened again for at most this part of the time."""
Locate = Callable[[], Site]
"""Where the store partition lies now. Raises InvalidStateStoreError where it is nowhere."""


@dataclass(frozen=True, slots=True)
class _Held:
    opened: Opened
    databases: tuple[OpenDatabase, ...]
    cursors: tuple[Path, ...]


class PinnedPartition:
    """A store partition in one directory, as `Partition` says."""

    def __init__(self, site: Site, owners: Owners, locate: Locate | None = None) -> None:
        """`locate`: None: it never lies elsewhere.

        Raises StoreNotReadyError where it is not there or in use, and errors of opening its files.
        """
        self.id = site.partition.id
        self.number = site.number
        self._site = site
        self._locate = locate or (lambda: site)
        self._owners = owners
        self._renewing = threading.Lock()
        self._is_migrated = False
        self._is_outdated = False
        """Whether the last look failed: what is open may be too old to be read further."""
        try:
            self._directory = HeldDirectory(site.path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._absent() from error
        try:
            self._held = self._open(())
            self.check()
            self._check_site()
        except StateStoreMigratedError as error:
            raise self._absent() from error
        except MigrationError as error:
            if self._was_moved():  # another store was in its place
                raise self._absent() from error
            raise

    def opened(self) -> Opened:
        """The store partition as its files were `refresh` seconds ago or later."""
        self.check()
        if time.monotonic() >= self.next_look and self._renewing.acquire(blocking=self._is_outdated):
            try:
                self._look()
                self._is_outdated = False
            except MigrationError:
                self._is_outdated = True
                raise
            finally:
                self._renewing.release()
        return self._held.opened

    def recent(self) -> Opened:
        return self.opened() if time.monotonic() >= self.next_look else self._held.opened

    def check(self) -> None:
        if self._is_migrated:
            raise self._migrated()
        try:
            is_there = self._directory.has_its_name()
        except (FileNotFoundError, NotADirectoryError) as error:
            self._check_site()
            raise self._absent() from error
        if not is_there:
            raise self._migrated()
        successor = self._site.successor
        if successor is not None and successor.exists():
            raise self._migrated()
        for cursor in self._held.cursors:
            if not cursor.exists():  # the stores have converged
                raise self._migrated()

    def _migrated(self) -> StateStoreMigratedError:
        self._is_migrated = True
        return StateStoreMigratedError(
            f"the store partition {self.id} was replaced after this handle was made",
            hint="resolve it again by its name; a retry on this handle will fail again",
        )

    def _absent(self) -> StoreNotReadyError:
        return StoreNotReadyError(
            f"the store partition {self.id} is not in {self._site.path}: it is being moved, or was removed",
            hint="retry with backoff",
        )

    def _check_site(self) -> None:
        """Raise StateStoreMigratedError where the store partition lies elsewhere by now."""
        try:
            site = self._locate()
        except StoreNotReadyError:
            raise
        except InvalidStateStoreError as error:
            raise self._migrated() from error
        mine = self._site
        if (site.path, site.definition, site.foreign) != (mine.path, mine.definition, mine.foreign):
            raise self._migrated()

    def _was_moved(self) -> bool:
        """Whether the store partition, or the directory that was opened, lies elsewhere by now."""
        try:
            self._check_site()
            return not self._directory.has_its_name()
        except (StateStoreMigratedError, FileNotFoundError, NotADirectoryError):
            return True

    def _look(self) -> None:
        """Open again what has changed."""
        self._check_site()
        known = self._held.databases
        is_current = all(each.is_current for each in known) and len(known) == len(self._site.segments(self._directory))
        if is_current and self._held.opened.as_of_ms is None:  # else its owner may have ended meanwhile
            self._plan_next_look(0)
            return
        try:
            self._held = self._open(known)
        except MigrationError:
            self.check()  # what cannot be opened may be what was replaced
            raise

    def _plan_next_look(self, seconds: float) -> None:
        pause = max(self._owners.refresh, _OPENING_SHARE * seconds) if self._owners.refresh else 0
        self.next_look: float = time.monotonic() + pause

    def _open(self, known: tuple[OpenDatabase, ...]) -> _Held:
        started = time.monotonic()
        for left in reversed(range(_ATTEMPTS)):
            try:
                held = self._open_once(known)
            except (FileNotFoundError, MigrationError):
                if left and self._site.partition.has_segments:  # its owner may have removed one that expired
                    continue
                raise
            self._plan_next_look(time.monotonic() - started)
            return held
        raise AssertionError("the last attempt returns or raises")

    def _open_once(self, known: tuple[OpenDatabase, ...]) -> _Held:
        site = self._site
        if site.foreign and not site.foreign.isdisjoint(rocksdb_identities(self._directory.path)):
            raise self._absent()  # exchanged between the look at its place and its opening
        directories = site.segments(self._directory)
        locks = [directory.name / "LOCK" for _, directory in directories]
        has_owner = self._owners.has_owner(dict.fromkeys(locks + site.lock_files), self.id)
        position = site.offsets([directory for _, directory in directories])
        kept = {each.directory.identity: each for each in known if each.is_current}
        databases = tuple(
            kept.get(directory.identity) or open_database(site, start_ms, directory)
            for start_ms, directory in directories
        )
        files = (file for each in databases for file in database_files(each.directory.path).every)
        written_ms = max((file.stat().st_mtime_ns // 1_000_000 for file in files), default=None)
        content = repr([each.content for each in databases])
        opened = Opened(
            format=site.definition.stored,
            segments=tuple(OpenSegment(each.start_ms, each.entries) for each in databases),
            position=position,
            tag=hashlib.sha256(content.encode()).hexdigest()[:16],
            as_of_ms=written_ms if has_owner else None,
            written_ms=written_ms,
        )
        return _Held(opened, databases, tuple(each.cursor for each in databases if each.cursor is not None))


class Owners:
    """Looks for the holders of lock files, of many at once and not too often: each look starts a process."""

    def __init__(self, *, stale: bool, refresh: float) -> None:
        """`stale`: stores that are in use may be read as their files are; `refresh`: seconds between two looks."""
        self._stale = stale
        self.refresh = refresh
        self._lock = threading.Lock()
        self._watched: set[Path] = set()
        self._holders: dict[Path, int] = {}
        self._looked: float | None = None

    def watch(self, files: Iterable[Path]) -> None:
        """Look at these lock files too, at the next look."""
        with self._lock:
            if not self._watched.issuperset(added := set(files)):
                self._watched |= added
                self._looked = None

    def has_owner(self, files: Iterable[Path], name: str) -> bool:
        """Whether a process holds one of these lock files. Raises StoreNotReadyError unless `stale`."""
        files = list(files)
        self.watch(files)
        with self._lock:
            if self._looked is None or time.monotonic() - self._looked >= self.refresh:
                self._holders = self._look()
                self._looked = time.monotonic()
            file = next((file for file in files if file in self._holders), None)
        if file is None:
            return False
        if self._stale:
            return True
        pid = self._holders[file]
        who = f"process {pid}" if pid else "a process of another host"
        raise StoreNotReadyError(
            f"the store partition {name} is in use: {who} holds {file}, and may hold writes in memory",
            hint="stop that application, or read what it has written to its files: stale=True",
        )

    def _look(self) -> dict[Path, int]:
        found = {file: pid for file, pid in lock_holders(self._watched).items() if not holds_for_us(pid)}
        if found:  # one that ended after the look cannot be asked whether it was ours
            found = {file: pid for file, pid in lock_holders(found).items() if pid == found[file]}
        return found
