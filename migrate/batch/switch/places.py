"""Where the old and the new store of a store partition stand, told by RocksDB's own identities, and moving them.

    live    the application's directory      old store before the cut-over, new one after it
    slot    work_dir/<name>/new/<run>/...    new store before it
    old     work_dir/<name>/old/...          old store after it

The exchange leaves the old store in the slot; a rename then puts it where its name says what it is.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from migrate.errors import RefusedError
from migrate.model.journal import Exchange
from migrate.model.store_partition import StorePartition
from migrate.stores.exchange import ExchangeUnsupportedError, exchange
from migrate.stores.files import fsync_directory, keep_owner
from migrate.stores.rocksdb.layout import rocksdb_identities

Which = Literal["old", "new", "other", "none"]


@dataclass(frozen=True, slots=True)
class Places:
    """One store partition's places, as absolute paths, and the exchange that the journal names."""

    entry: Exchange
    application: Path
    live: Path
    slot: Path
    old: Path

    @classmethod
    def of(cls, application: Path, home: Path, entry: Exchange) -> Places:
        """In this application's directory and this migration's folder."""
        return cls(entry, application, application / entry.partition.path, home / entry.staged, home / entry.old)

    def at(self, place: Path) -> Which:
        """Which store stands there. A store of segments may have lost or got some since."""
        if not place.is_dir():
            return "none"
        names = rocksdb_identities(place)
        if not names.isdisjoint(self.entry.new_names):
            return "new"
        return "other" if names.isdisjoint(self.entry.old_names) else "old"

    @property
    def is_in_use(self) -> bool:
        """Whether the new store, or what became of it, is seen where the application looks."""
        return is_seen(self.live, self.entry.new_partition or self.entry.partition, frozenset(self.entry.new_names))

    @property
    def old_store(self) -> Path:
        """Where the old store is now. Raises RefusedError where it is nowhere."""
        for place in (self.old, self.slot, self.live):
            if self.at(place) == "old":
                return place
        raise RefusedError(
            f"the old store of {self.entry.partition.id} stands neither in {self.live} nor in {self.old}",
            hint="put it back where it was moved from, or restore it there from a backup; then run the command again",
        )

    @property
    def is_switched(self) -> bool:
        """The application finds the new store, or what became of it."""
        return self.old_store != self.live

    @property
    def new_store(self) -> Path:
        """Where the new store is now, or what became of it."""
        if self._aside.exists():
            return self._aside
        return self.live if self.is_switched and self.at(self.slot) != "new" else self.slot

    @property
    def _aside(self) -> Path:
        """Where a rollback in two renames puts what stood in live."""
        return self.old.with_name(f".{self.old.name}.new")

    def bring_new(self) -> None:
        """The new store goes where the application looks, the old one into the slot; nothing where that is done."""
        if self.at(self.slot) == "new":
            self._swap(self.old)

    def bring_old(self) -> None:
        """The old store goes where the application looks, and what stands there into the slot."""
        if self.at(self.slot) == "old":
            self._swap(self._aside)
        elif self.at(self.old) == "old" and not self.live.exists():  # a cut-over died between two renames
            self._make_room()
            self.old.rename(self.live)
        if self._aside.exists() and not self.slot.exists():
            self._aside.rename(self.slot)

    def _swap(self, aside: Path) -> None:
        """Exchange slot and live; where the file system cannot, in two renames, by way of `aside`."""
        if self.live.exists():
            try:
                exchange(self.slot, self.live)
            except ExchangeUnsupportedError:
                aside.parent.mkdir(parents=True, exist_ok=True)
                self.live.rename(aside)
            else:
                return
        self._make_room()
        self.slot.rename(self.live)

    def _make_room(self) -> None:
        """The directories above, where the application has removed them: as its own are."""
        missing = [folder for folder in self.live.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir()
            shutil.copymode(self.application, folder)
            keep_owner(self.application, folder)
            fsync_directory(folder.parent)

    def shelve_old(self) -> None:
        """From the slot to the place that says what it is."""
        if self.at(self.slot) == "old":
            self.old.parent.mkdir(parents=True, exist_ok=True)
            self.slot.rename(self.old)

    def unshelve_old(self) -> None:
        """Back into the slot, from where it can be exchanged; nothing where the new store never left it."""
        if self.at(self.old) == "old" and not self.slot.exists():
            self.slot.parent.mkdir(parents=True, exist_ok=True)
            self.old.rename(self.slot)

    def parents(self, home: Path) -> set[Path]:
        """The directories that hold the names, up to the migration's folder."""
        ours = {folder for place in (self.slot, self.old) for folder in place.parents if folder.is_relative_to(home)}
        return {folder for folder in (self.live.parent, *ours) if folder.is_dir()}


def is_seen(live: Path, partition: StorePartition, names: frozenset[str]) -> bool:
    """Whether a store partition made of databases of these names stands there, or what became of it.

    All of its segments may have expired, if later ones alone are there: a store that was made anew begins with those
    that have not.
    """
    if not names.isdisjoint(rocksdb_identities(live)):
        return True
    there = {file.parent.relative_to(live).as_posix() for file in live.rglob("IDENTITY")}
    return partition.has_segments and bool(there) and there.isdisjoint(partition.databases)


def sync_names(places: list[Places], home: Path) -> None:
    """Make every move durable."""
    for folder in sorted({folder for each in places for folder in each.parents(home)}):
        fsync_directory(folder)
