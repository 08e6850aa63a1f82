"""Where the old and the new store of a store partition are, recognized by RocksDB's identities, and moving them.

    live    the application's directory      old store before the cut-over, new one after it
    staged  work_dir/<name>/new/<run>/...    new store before it
    old     work_dir/<name>/old/...          old store after it

The exchange leaves the old store in the staged place; a rename then moves it to `old`. A new store with a name of its
own is moved in beside the old one (`MovedIn`), which stays where it is.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from migrate.batch.preflight.directories import check_free
from migrate.errors import RefusedError
from migrate.model.journal import Exchange
from migrate.model.store_partition import StorePartition
from migrate.stores.files import (
    ExchangeUnsupportedError,
    exchange,
    files_named,
    fsync_all,
    fsync_directory,
    keep_owner,
    touch,
)
from migrate.stores.rocksdb.layout import rocksdb_identities
from migrate.systems.task_tree import task_of

Which = Literal["old", "new", "other", "none"]


@dataclass(frozen=True, slots=True)
class StoreLocations:
    """The absolute paths of one store partition's places, and the exchange that the journal names."""

    entry: Exchange
    application: Path
    live: Path
    staged: Path
    old: Path

    @classmethod
    def of(cls, application: Path, home: Path, entry: Exchange) -> StoreLocations:
        live, staged = application / entry.partition.path, home / entry.staged
        if entry.is_moved_in:
            return MovedIn(entry, application, application / entry.new_partition.path, staged, live)
        return cls(entry, application, live, staged, home / entry.old)

    @property
    def ours(self) -> tuple[Path, ...]:
        """The places in the migration's folder."""
        return self.staged, self.old

    def at(self, place: Path) -> Which:
        """Which store is there. A segmented store may have lost or gained segments since."""
        if not place.is_dir():
            return "none"
        try:
            names = rocksdb_identities(place)
        except FileNotFoundError:  # the stores are just being exchanged
            return self.at(place)
        if not names.isdisjoint(self.entry.new_names):
            return "new"
        return "other" if names.isdisjoint(self.entry.old_names) else "old"

    @property
    def is_in_use(self) -> bool:
        """Whether the application's directory holds the new store, or what became of it."""
        return is_seen(self.live, self.entry.new_partition, frozenset(self.entry.new_names))

    @property
    def old_store(self) -> Path:
        """Where the old store is now. Raises RefusedError where it is in none of the places."""
        for place in (self.old, self.staged, self.live):
            if self.at(place) == "old":
                return place
        raise RefusedError(
            f"the old store of {self.entry.partition.id} is neither in {self.live} nor in {self.old}",
            hint="put it back where it was moved from, or restore it there from a backup; then run the command again",
        )

    @property
    def is_switched(self) -> bool:
        """The application finds the new store, or what became of it."""
        return self.old_store != self.live

    @property
    def is_lost(self) -> bool:
        """Whether the new store is in none of the places."""
        return self.is_switched and not self.new_store.is_dir()

    @property
    def new_store(self) -> Path:
        """Where the new store is now, or what became of it."""
        if self._aside.exists():
            return self._aside
        return self.live if self.is_switched and self.at(self.staged) != "new" else self.staged

    @property
    def _aside(self) -> Path:
        """Where a rollback in two renames puts what was in the live place."""
        return self.old.with_name(f".{self.old.name}.new")

    def make_new_live(self) -> None:
        """Exchange the staged new store with the live old one, unless that is done already."""
        if self.at(self.staged) == "new":
            self._swap(self.old)

    def make_old_live(self) -> None:
        """Move the old store to the live place, and what is there to the staged one."""
        if self.at(self.staged) == "old":
            self._swap(self._aside)
        elif self.at(self.old) == "old" and not self.live.exists():  # a cut-over died between two renames
            self._make_room()
            self.old.rename(self.live)
        if self._aside.exists() and not self.staged.exists():
            self._aside.rename(self.staged)

    def _swap(self, aside: Path) -> None:
        """Exchange staged and live; where the file system cannot, in two renames, by way of `aside`."""
        if self.live.exists():
            try:
                exchange(self.staged, self.live)
            except ExchangeUnsupportedError:
                aside.parent.mkdir(parents=True, exist_ok=True)
                self.live.rename(aside)
            else:
                return
        self._make_room()
        self.staged.rename(self.live)

    def _make_room(self) -> None:
        """Make the directories above that the application has removed, with the owner and mode of its own."""
        missing = [folder for folder in self.live.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir()
            shutil.copymode(self.application, folder)
            keep_owner(self.application, folder)
            fsync_directory(folder.parent)

    def set_old_aside(self) -> None:
        """Move the old store from the staged place to `old`."""
        if self.at(self.staged) == "old":
            self.old.parent.mkdir(parents=True, exist_ok=True)
            self.staged.rename(self.old)

    def bring_old_back(self) -> None:
        """Move the old store back to the staged place, from where it can be exchanged, unless the new one is there."""
        if self.at(self.old) == "old" and not self.staged.exists():
            self.staged.parent.mkdir(parents=True, exist_ok=True)
            self.old.rename(self.staged)


class MovedIn(StoreLocations):
    """A new store with a name of its own: `live` is its place beside the old store, which stays in `old`."""

    __slots__ = ()

    @property
    def ours(self) -> tuple[Path, ...]:
        return (self.staged,)

    @property
    def old_store(self) -> Path:
        """Where the old store is, or was: its owner can remove it and restore it from its changelog."""
        return self.old

    @property
    def is_switched(self) -> bool:
        return self.live.exists() and self.at(self.staged) != "new"

    @property
    def is_lost(self) -> bool:
        return not self.live.exists() and not self.staged.exists()

    @property
    def new_store(self) -> Path:
        return self.live if self.is_switched else self.staged

    def make_new_live(self) -> None:
        """Move the new store in, unless that is done already. Raises RefusedError where its place is taken."""
        if self.at(self.staged) == "new":
            check_free(self.live)
            self._make_room()
            self.staged.rename(self.live)

    def make_old_live(self) -> None:
        """Move the new store, or what became of it, out again."""
        if self.is_switched and not self.staged.exists():
            self.staged.parent.mkdir(parents=True, exist_ok=True)
            self.live.rename(self.staged)

    def set_old_aside(self) -> None:
        """The old store stays where it is."""

    def bring_old_back(self) -> None:
        """The old store stayed where it is."""


def is_seen(live: Path, partition: StorePartition, names: frozenset[str]) -> bool:
    """Whether `live` holds a store partition made of databases of these names, or what became of it.

    If there are only later segments, all of its own may have expired: a store that was created again would begin with
    those that have not.
    """
    if not names.isdisjoint(rocksdb_identities(live)):
        return True
    there = {file.parent.relative_to(live).as_posix() for file in files_named("IDENTITY", live)}
    return partition.has_segments and bool(there) and there.isdisjoint(partition.databases)


def sync_names(every: list[StoreLocations], home: Path, *, live: bool = True) -> None:
    """Make every move durable; `live`: also those in the application's directory, whose tasks are modified then.

    Their owner may remove tasks that were not modified for long, and only the directory below is by an exchange.
    """
    changed = {place.parent for each in every for place in each.ours}
    for folder in list(changed):
        while folder != home and (folder := folder.parent) not in changed:
            changed.add(folder)
    if live:
        tasks = {found[1] for each in every if (found := task_of(each.live)) is not None and found[1].is_dir()}
        touch(tasks)
        changed |= tasks | {each.live.parent for each in every}
    fsync_all(filter(Path.is_dir, changed))
