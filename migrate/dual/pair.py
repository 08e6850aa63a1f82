"""Finding, checking and opening the two stores."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass

from migrate.dual.arrangements import Arrangement, OneDatabase, TwoDatabases
from migrate.dual.checks import check_begin, check_places, has_new_store
from migrate.dual.foreign_writes import Marks, read_marks, settle_foreign_writes
from migrate.dual.lazy_conversion import LazyConversion
from migrate.dual.mark import Mark, Pair, announce, note_sequence_number
from migrate.dual.places import Places
from migrate.errors import RefusedError
from migrate.stores.files import make_directories
from migrate.stores.layout import identity_of
from migrate.stores.rocksdb_live import (
    Family,
    LiveDatabase,
    families_of,
    open_live,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Durability:
    """How writes are made durable."""

    sync: bool
    wal: bool
    has_changelog: bool = False

    def __post_init__(self) -> None:
        """Raises RefusedError."""
        if not self.wal and not self.has_changelog:
            raise RefusedError(
                "without a write-ahead log a crash loses what was acknowledged",
                hint="name the changelog that restores it, changelog=..., or leave wal=True",
            )


@dataclass(frozen=True, slots=True)
class OpenPair:
    """The stores, open. `arrangement`: None where there is no old store any more."""

    database: LiveDatabase
    new: Family
    arrangement: Arrangement | None
    pair: Pair
    mark: Mark | None
    """The last session's, where it is in force."""
    new_token: str | None = None
    """The token in the new store's directory; None: it says nothing of the old one."""


def open_pair(
    places: Places,
    conversion: LazyConversion,
    durability: Durability,
    resources: ExitStack,
    on_foreign_writes: str,
    *,
    create: bool,
) -> OpenPair:
    """Open both; nothing of the new store is made before a sample of the old one was converted.

    Raises RefusedError, StoreLockedError.
    """
    is_there = check_places(places, create=create)
    for loss in conversion.losses:
        _LOG.warning("%s: %s cannot hold the %s of the old store: it goes", places.directory, places.target.id, loss)
    if not is_there:
        database = _open_new(places, durability, resources)
        return OpenPair(database, database.family(places.target_family), None, _pair(places), None)
    _check_same_pair(places)
    note_sequence_number(places.old_directory)
    old_database = _open_old(places, durability, resources)
    has_old_family = places.source_family in families_of(places.old_directory)
    if has_old_family and not has_new_store(places):
        check_begin(old_database, places, conversion, create=create)
        announce(places.directory)  # who opened the new store alone would find it empty
    marks = read_marks(places)
    if places.is_one_database:
        database = old_database
        database.make_family(places.target_family, filters_everywhere=True)
    else:
        database = _open_new(places, durability, resources)
        _check_not_gone_back(places, marks, database)
    new = database.family(places.target_family)
    if not has_old_family:
        return OpenPair(database, new, None, _pair(places), None)
    old = old_database.family(places.source_family)
    arrangement: Arrangement = (
        OneDatabase(database, new, old) if places.is_one_database else TwoDatabases(database, new, old_database, old)
    )
    if settle_foreign_writes(marks, arrangement, conversion, on_foreign_writes):
        return OpenPair(database, new, arrangement, _pair(places), None)
    return OpenPair(database, new, arrangement, _pair(places), marks.in_force(old_database), marks.new_token)


def _open_old(places: Places, durability: Durability, resources: ExitStack) -> LiveDatabase:
    own = durability if places.is_one_database else Durability(sync=False, wal=True)
    filtered = places.target_family if places.is_one_database else None
    return resources.enter_context(open_live(places.old_directory, sync=own.sync, wal=own.wal, filtered=filtered))


def _open_new(places: Places, durability: Durability, resources: ExitStack) -> LiveDatabase:
    make_directories(places.directory)  # or a power cut takes the new store, and the old one was emptied into it
    opened = open_live(places.directory, sync=durability.sync, wal=durability.wal, filtered=places.target_family)
    database = resources.enter_context(opened)
    database.make_family(places.target_family, filters_everywhere=True)
    return database


def _pair(places: Places) -> Pair:
    return Pair(
        source=places.source.id,
        target=places.target.id,
        source_family=places.source_family,
        target_family=places.target_family,
        old_identity=identity_of(places.old_directory),
        new_identity=identity_of(places.directory),
    )


def _check_same_pair(places: Places) -> None:
    """Raises RefusedError where an adapter worked on other stores than these, or by other formats."""
    marks, pair = read_marks(places), _pair(places)
    mark = next((mark for mark in (marks.old, marks.new) if mark is not None and mark.pair != pair), None)
    if mark is None:
        return
    raise RefusedError(
        f"{places.directory} is half converged from {mark.pair.source} ({mark.pair.source_family!r}) to "
        f"{mark.pair.target} ({mark.pair.target_family!r}), of another old store or by other formats than these",
        hint="open it with the old store, the formats and the families that it was begun with, and let it converge; "
        "where the old store is a checkpoint from before the adapter, name another directory for the new store",
    )


def _check_not_gone_back(places: Places, marks: Marks, new_database: LiveDatabase) -> None:
    """Raises RefusedError where the new store has lost what was moved into it."""
    known = [mark.new_sequence_number for mark in (marks.old, marks.new) if mark is not None]
    if new_database.sequence_number >= max(known, default=0):
        return
    raise RefusedError(
        f"{places.directory} has gone back to before records were moved into it from {places.old_directory}, which "
        "does not have them any more",
        hint="restore both from the same backup, or the new store from a later one",
    )
