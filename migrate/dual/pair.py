"""Finding, checking and opening the two stores."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from formats import Format
from migrate.dual.arrangements import Arrangement, OneDatabase, TwoDatabases
from migrate.dual.lazy_conversion import LazyConversion
from migrate.dual.mark import Mark, Pair, announce, read_mark
from migrate.errors import RefusedError, SpecError
from migrate.stores.layout import database_files, is_rocksdb
from migrate.stores.options_file import check_options, read_options
from migrate.stores.rocksdb import DEFAULT_FAMILY
from migrate.stores.rocksdb_live import (
    Family,
    LiveDatabase,
    families_of,
    identity_of,
    manifest_of,
    open_live,
)
from migrate.stores.rocksdb_scan import TooManyTombstonesError

_LOG = logging.getLogger(__name__)
SAMPLE = 100
MAX_SKIPS = 10_000
"""Deleted records that a look into the old store may pass: some 2 ms."""


@dataclass(frozen=True, slots=True)
class Places:
    """Which directory and which column family hold the old and the new store."""

    directory: Path
    old_directory: Path
    source: Format
    target: Format
    source_family: str
    target_family: str

    @property
    def is_one_database(self) -> bool:
        """Both in one RocksDB directory."""
        return self.directory == self.old_directory

    @property
    def directories(self) -> list[Path]:
        """The new store's first."""
        return [self.directory] if self.is_one_database else [self.directory, self.old_directory]


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


def find_places(
    path: Path, old_path: Path | None, source: tuple[Format, str | None], target: tuple[Format, str | None]
) -> Places:
    """`source`, `target`: the column family is named for formats that hold any.

    Raises SpecError where the two stores would be one and the same.
    """
    places = Places(
        directory=path,
        old_directory=path if old_path is None else old_path,
        source=source[0],
        target=target[0],
        source_family=_family(*source, "source_family"),
        target_family=_family(*target, "target_family"),
    )
    if old_path is not None and path.resolve() == old_path.resolve():
        raise SpecError(f"the old and the new store are both in {path}", hint="leave old_path out: one database")
    if places.is_one_database and places.source_family == places.target_family:
        raise SpecError(
            f"{places.source.id} and {places.target.id} both keep their records in {places.source_family!r}",
            hint="name another for the new store, target_family=..., or another directory for the old, old_path=...",
        )
    return places


def _family(known: Format, named: str | None, argument: str) -> str:
    own = known.column_families
    if own is None:
        return named or DEFAULT_FAMILY
    if len(own) != 1 or (named is not None and named != own[0]):
        raise SpecError(f"{known.id} keeps its records in {', '.join(own)}", hint=f"leave {argument} out")
    return own[0]


def open_pair(
    places: Places, conversion: LazyConversion, durability: Durability, resources: ExitStack, *, create: bool
) -> OpenPair:
    """Open both; nothing of the new store is made before a sample of the old one was converted.

    Raises RefusedError, StoreLockedError.
    """
    is_there = _check_places(places, create=create)
    for loss in conversion.losses:
        _LOG.warning("%s: %s cannot hold the %s of the old store: it goes", places.directory, places.target.id, loss)
    mark = read_mark(places.old_directory) or read_mark(places.directory)  # it speaks of the old store: its own first
    manifest = manifest_of(places.old_directory)
    if not is_there:
        database = _open_new(places, durability, resources)
        return OpenPair(database, database.family(places.target_family), None, _pair(places), None)
    old_database = _open_old(places, durability, resources)
    has_old_family = places.source_family in families_of(places.old_directory)
    if has_old_family and mark is None:
        _check_old_records(old_database, places, conversion)
    if has_old_family and not _has_new_store(places):
        announce(places.directory)  # who opened the new store alone would find it empty
    database = old_database if places.is_one_database else _open_new(places, durability, resources)
    database.make_family(places.target_family)
    pair = _pair(places)
    if mark is not None:
        _check_mark(mark, pair, database, places)
    new = database.family(places.target_family)
    if not has_old_family:
        return OpenPair(database, new, None, pair, None)
    old = old_database.family(places.source_family)
    arrangement: Arrangement = (
        OneDatabase(database, new, old) if places.is_one_database else TwoDatabases(database, new, old_database, old)
    )
    in_force = mark if mark is not None and mark.is_in_force(manifest, old_database) else None
    return OpenPair(database, new, arrangement, pair, in_force)


def _has_new_store(places: Places) -> bool:
    return is_rocksdb(places.directory) and places.target_family in families_of(places.directory)


def _check_places(places: Places, *, create: bool) -> bool:
    """Whether there is an old store. Raises RefusedError."""
    for folder in places.directories:
        if is_rocksdb(folder):
            check_options(folder, read_options(folder))
    if is_rocksdb(places.old_directory):
        database_files(places.old_directory)
        _check_families(places)
        if not places.is_one_database and not is_rocksdb(places.directory):
            _check_is_untouched(places)
        return True
    if not places.is_one_database and is_rocksdb(places.directory):
        if read_mark(places.directory) is None:
            _LOG.info(
                "%s: the old store %s is gone: nothing is left to convert", places.directory, places.old_directory
            )
            return False
    elif create:
        _LOG.info("%s: there is no store yet: a new one of %s begins", places.directory, places.target.id)
        return False
    raise RefusedError(
        f"there is no old store: {places.old_directory} is not a RocksDB directory",
        hint="check the path; on a host that has no state yet, say create=True",
    )


def _check_is_untouched(places: Places) -> None:
    """Raises RefusedError where the new store is missing, and the old one has been emptied into it."""
    if read_mark(places.old_directory) is not None:
        raise RefusedError(
            f"{places.old_directory} is half converged, but its new store is not in {places.directory}",
            hint="name the directory of the new store that was begun with it: it has the records that were moved",
        )


def _check_families(places: Places) -> None:
    """Raises RefusedError where the families of the old store's directory are not what the formats say (I10)."""
    directory = places.old_directory
    families = families_of(directory)
    known = {places.source_family, DEFAULT_FAMILY, *places.source.metadata_families}
    if places.is_one_database:
        known |= {places.target_family, *places.target.metadata_families}
    fits_any = places.source.column_families is None
    unknown = sorted(set(families) - known)
    is_moved = places.is_one_database and places.target_family in families
    if (unknown and not fits_any) or (places.source_family not in families and not is_moved):
        raise RefusedError(
            f"{directory} is not {places.source.id}: it has the column families {', '.join(families)}",
            hint="name the format that the old store has; `stateferry inspect` shows what is there",
        )


def _open_old(places: Places, durability: Durability, resources: ExitStack) -> LiveDatabase:
    own = durability if places.is_one_database else Durability(sync=False, wal=True)
    return resources.enter_context(open_live(places.old_directory, sync=own.sync, wal=own.wal))


def _open_new(places: Places, durability: Durability, resources: ExitStack) -> LiveDatabase:
    places.directory.mkdir(parents=True, exist_ok=True)
    opened = open_live(places.directory, sync=durability.sync, wal=durability.wal)
    database = resources.enter_context(opened)
    database.make_family(places.target_family)
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


def _check_mark(mark: Mark, pair: Pair, database: LiveDatabase, places: Places) -> None:
    """Raises RefusedError where this is not what an adapter left half converged."""
    if mark.pair != pair:
        raise RefusedError(
            f"{places.directory} is half converged from {mark.pair.source} ({mark.pair.source_family!r}) to "
            f"{mark.pair.target} ({mark.pair.target_family!r}), of another old store or by other formats than these",
            hint="open it with the old store, the formats and the families that it was begun with, and let it converge",
        )
    if not places.is_one_database and database.sequence_number < mark.new_sequence_number:
        raise RefusedError(
            f"{places.directory} has gone back to before records were moved into it from {places.old_directory}, which "
            "does not have them any more",
            hint="restore both from the same backup, or the new store from a later one",
        )


def _check_old_records(database: LiveDatabase, places: Places, conversion: LazyConversion) -> None:
    """Raises RefusedError where the old store does not hold what the formats say, or holds it elsewhere too."""
    _check_sample(database.family(places.source_family), places, conversion)
    if DEFAULT_FAMILY in (places.source_family, places.target_family) or places.source.column_families is None:
        return
    scan = database.family(DEFAULT_FAMILY).scan(max_skips=MAX_SKIPS)
    try:
        has_records = scan.pull(1) is not None
    except TooManyTombstonesError:
        has_records = False
    finally:
        scan.close()
    if has_records:
        raise RefusedError(
            f"{places.old_directory} has records in {DEFAULT_FAMILY!r} and in {places.source_family!r}: its upgrade is "
            "not finished",
            hint="let the application read every key once, or finish the upgrade with the version that began it",
        )


def _check_sample(old: Family, places: Places, conversion: LazyConversion) -> None:
    """Raises RefusedError where no record of a sample can be converted, or where keys change their order."""
    scan = old.scan(max_skips=MAX_SKIPS)
    try:
        batch = scan.pull(SAMPLE)
    except TooManyTombstonesError:
        return
    finally:
        scan.close()
    if batch is None:
        return
    converted = conversion.many(batch)
    conversion.check_order(converted.keys)
    if len(converted.failed) == len(batch):
        key, reason = next(iter(converted.failed.items()))
        raise RefusedError(
            f"none of {len(batch)} sampled records of {places.old_directory} can be converted from "
            f"{places.source.id} to {places.target.id}; the first one, 0x{key[:32].hex()}: {reason}",
            hint="is this the format that the old store has? does the function fit its records?",
        )
