"""Finding, checking and opening the two stores."""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from formats import get_format
from migrate.dual.conversion import LazyConversion
from migrate.dual.foreign_writes import Marks, read_marks, settle_foreign_writes
from migrate.dual.places import Places, check_begin, check_places, has_new_store
from migrate.dual.store_pair import Arrangement, OneDatabase, TwoDatabases
from migrate.errors import RefusedError
from migrate.stores.cursor_file import Mark, Pair, announce, check_not_half_converged, note_sequence_number
from migrate.stores.files import make_directories
from migrate.stores.lifecycle import Listener
from migrate.stores.rocks_store import RocksStore
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, open_read_only
from migrate.stores.rocksdb.layout import database_files, identity_of, is_rocksdb
from migrate.stores.rocksdb.live import Family, LiveDatabase, families_of, open_live, read_only_family
from migrate.systems.families import check_default_is_empty, family_mappings

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


def open_store(
    path: str | Path,
    *,
    format: str,
    family: str | None = None,
    read_only: bool = True,
    create: bool = False,
    on_state_change: Listener | None = None,
) -> RocksStore:
    """Open one RocksDB directory; `format` is a format id and says which column family holds the records.

    `family`: where the format holds any, and the directory has several. `create`: begin an empty store, open for
    writing, where there is none. Read-only touches nothing and works beside a running owner.

    Raises RefusedError where the families are not the format's or where the store is half converged,
    StoreLockedError where another process holds a store that is to be written.
    """
    directory = Path(path).resolve()
    if create and not is_rocksdb(directory):
        return _create(directory, format, family, on_state_change)
    if not is_rocksdb(directory):
        raise RefusedError(
            f"there is no store: {directory} is not a RocksDB directory",
            hint="check the path; to begin an empty store there, say create=True, read_only=False",
        )
    database_files(directory)
    check_not_half_converged(directory)
    with ExitStack() as resources:
        if read_only:
            database = resources.enter_context(open_read_only(directory))
            records = read_only_family(database, _family(database.families, format, family, directory))
            live = None
            with closing(read_only_family(database, DEFAULT_FAMILY)) as default:
                _check_whole(records, default, format, directory)
        else:
            name = _family(families_of(directory), format, family, directory)
            live = resources.enter_context(open_live(directory))
            records = live.family(name)
            _check_whole(records, live.family(DEFAULT_FAMILY), format, directory)
        store = RocksStore(directory, records, live, resources.pop_all(), on_state_change=on_state_change)
    store.start()
    return store


_MAX_SKIPS = 10_000


def _create(directory: Path, format_id: str, family: str | None, listener: Listener | None) -> RocksStore:
    known = get_format(format_id)
    name = family or (known.column_families or (DEFAULT_FAMILY,))[0]
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as resources:
        live = resources.enter_context(open_live(directory))
        live.make_family(name)
        store = RocksStore(directory, live.family(name), live, resources.pop_all(), on_state_change=listener)
    store.start()
    return store


def _check_whole(records: Family, default: Family, format_id: str, directory: Path) -> None:
    if records.name != DEFAULT_FAMILY and get_format(format_id).column_families is not None:
        check_default_is_empty(default, records.name, directory, max_skips=_MAX_SKIPS)


def _family(families: tuple[str, ...], format_id: str, wanted: str | None, directory: Path) -> str:
    known = get_format(format_id)
    found = [mapping.source for mapping in family_mappings(families, known, known, directory)]
    if wanted is not None:
        if wanted not in found:
            raise RefusedError(
                f"{directory} has no column family {wanted!r} of {known.id}: it has {', '.join(found)}",
                hint="name one that it has",
            )
        return wanted
    if len(found) != 1:
        raise RefusedError(
            f"{directory} holds several column families: {', '.join(found)}", hint="name one: family=..."
        )
    return found[0]
