"""Opening stores: the old and the new one together for the adapter, or one by itself.

Foreign writes to the old store are not the adapter's: by the old code, or by replacing the store with a copy. A key may
then be in both stores, and it is not known which record is newer: the caller decides which store wins.
"""

from __future__ import annotations

import logging
import os
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from formats import Format
from migrate.dual.lazy_conversion import LazyConversion
from migrate.dual.store_pair import SeparateDatabases, SharedDatabase, StorePair
from migrate.dual.store_paths import StorePaths, check_can_start, check_default_is_empty, check_places, has_new_store
from migrate.dual.sweep import OnMigrated, present_keys
from migrate.errors import RefusedError, SpecError
from migrate.stores.cursor_file import (
    NO_TOKEN,
    AdapterCursor,
    announce,
    check_not_half_converged,
    is_announced,
    note_sequence_number,
    read_cursor,
)
from migrate.stores.files import make_directories
from migrate.stores.lock import check_unlocked
from migrate.stores.rocks_store import RocksStore
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, open_read_only
from migrate.stores.rocksdb.layout import database_files, is_rocksdb
from migrate.stores.rocksdb.live import Family, LiveDatabase, families_of, open_live, read_only_family
from migrate.stores.rocksdb.scan import refuse_columns
from migrate.stores.rocksdb.unreadable import check_no_backup
from migrate.stores.state_store import Listener
from migrate.systems import known_format
from migrate.systems.families import family_mappings
from migrate.systems.task_tree import locks_above

_LOG = logging.getLogger(__name__)
REFUSE, OLD_WINS, NEW_WINS = ON_FOREIGN_WRITES = ("refuse", "old-wins", "new-wins")
_RAISE, _QUARANTINE = _ON_REJECT = ("raise", "quarantine")
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class Policy:
    """The caller's choices. Raises SpecError for unknown ones, RefusedError where a crash would lose what was
    acknowledged: neither a write-ahead log nor a changelog can restore it."""

    migrates_on_read: bool
    on_reject: str
    on_migrated: OnMigrated | None
    on_foreign_writes: str
    sync: bool
    wal: bool
    has_changelog: bool

    def __post_init__(self) -> None:
        for name, known in (("on_foreign_writes", ON_FOREIGN_WRITES), ("on_reject", _ON_REJECT)):
            if (given := getattr(self, name)) not in known:
                raise SpecError(f"{name}={given!r} is not known", hint=", ".join(map(repr, known)))
        if not self.wal and not self.has_changelog:
            raise RefusedError(
                "without a write-ahead log a crash loses what was acknowledged",
                hint="name the changelog that restores it, changelog=..., or leave wal=True",
            )

    @property
    def quarantines(self) -> bool:
        """Whether `converge` leaves records behind that cannot be converted."""
        return self.on_reject == _QUARANTINE


@dataclass(frozen=True, slots=True)
class OpenedStores:
    """The new store, open, and the pair of both stores unless there is no old one any more."""

    database: LiveDatabase
    new: Family
    pair: StorePair | None = None
    cursor: AdapterCursor | None = None
    """The adapter cursor of the last session, where it is in force."""
    new_token: str | None = None
    """The token in the new store's directory; None: it is not related to the old store."""


def open_stores(
    places: StorePaths, conversion: LazyConversion, policy: Policy, resources: ExitStack, *, create: bool
) -> OpenedStores:
    """Open both stores; nothing of the new one is created before a sample of the old one was converted.

    Raises RefusedError, StoreLockedError.
    """
    has_old_store = check_places(places, create=create)
    _check_application_stopped(*places.directories)
    for loss in conversion.losses:
        _LOG.warning("%s: %s cannot hold the %s of the old store: lost", places.directory, places.target.id, loss)
    if not has_old_store:
        database = _open_new(places, policy, resources)
        return OpenedStores(database, database.family(places.target_family))
    _check_same_pair(places)
    note_sequence_number(places.old_directory)
    old_database = _open_old(places, policy, resources)
    has_old_family = places.source_family in families_of(places.old_directory)
    if has_old_family:
        old_database.family(places.source_family, places.source.on_columns)
    if has_old_family and not has_new_store(places):
        check_can_start(old_database, places, conversion, create=create)
        announce(places.directory)  # opened by itself, the new store would look empty
    cursors = read_cursors(places)
    if places.is_shared:
        database = old_database
        database.make_family(places.target_family, filters_everywhere=True)
    else:
        database = _open_new(places, policy, resources)
        _check_not_gone_back(places, cursors, database)
    new = database.family(places.target_family)
    if not has_old_family:
        return OpenedStores(database, new)
    old = old_database.family(places.source_family)
    kind = SharedDatabase if places.is_shared else SeparateDatabases
    pair: StorePair = kind(database, new, old_database, old)
    if settle_foreign_writes(cursors, pair, conversion, policy.on_foreign_writes):
        return OpenedStores(database, new, pair)
    return OpenedStores(database, new, pair, cursors.in_force(old_database), cursors.new_token)


def _check_application_stopped(*directories: Path) -> None:
    """Raises StoreLockedError where an application runs to which a directory belongs, even if it has no store open."""
    check_unlocked([lock for directory in directories for lock in locks_above(directory)], but=os.getpid())


def _open_old(places: StorePaths, policy: Policy, resources: ExitStack) -> LiveDatabase:
    return resources.enter_context(_open(places, policy) if places.is_shared else open_live(places.old_directory))


def _open_new(places: StorePaths, policy: Policy, resources: ExitStack) -> LiveDatabase:
    make_directories(places.directory)  # a power cut must not remove the directory that the old store was emptied into
    database = resources.enter_context(_open(places, policy))
    database.make_family(places.target_family, filters_everywhere=True)
    return database


def _open(places: StorePaths, policy: Policy) -> AbstractContextManager[LiveDatabase]:
    return open_live(places.directory, sync=policy.sync, wal=policy.wal, filtered=places.target_family)


def _check_same_pair(places: StorePaths) -> None:
    """Raises RefusedError where an adapter has worked on other stores than these, or with other formats."""
    cursors = read_cursors(places)
    for cursor in (cursors.old, cursors.new):
        if cursor is not None and (other := cursor.pair) != places.identity():
            raise RefusedError(
                f"{places.directory} is half converged from {other.source} ({other.source_family!r}) to "
                f"{other.target} ({other.target_family!r}), with another old store or other formats than these",
                hint="open it with the old store, the formats and the families that the conversion was started with, "
                "and let it converge; where the old store is a checkpoint from before the adapter, name another "
                "directory for the new store",
            )


def _check_not_gone_back(places: StorePaths, cursors: Cursors, new_database: LiveDatabase) -> None:
    """Raises RefusedError where the new store has lost records that were moved into it."""
    known = [cursor.new_sequence_number for cursor in (cursors.old, cursors.new) if cursor is not None]
    if new_database.sequence_number >= max(known, default=0):
        return
    raise RefusedError(
        f"{places.directory} is from before records were moved into it from {places.old_directory}, which does not "
        "have them any more",
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
    """Open one RocksDB directory as a store of bytes.

    Opened read-only, it changes nothing and works beside a running owner.

    Args:
        path: the RocksDB directory.
        format: the format id, such as "kafka-streams.key-value", which determines the column family.
        family: the column family, where the format holds any, and the directory has several.
        read_only: False opens it for writing, which no other process may have.
        create: create an empty store, open for writing, where there is none.
        on_state_change: called with the previous and the new `State`, in the thread that made the transition.

    Raises:
        SpecError: the format is not known.
        RefusedError: there is no store, its column families are not the format's, or it is half converged.
        StoreLockedError: another process has the store open that should be written.
    """
    directory, known = Path(path).resolve(), known_format(format)
    on_columns = None if known.on_columns is None else refuse_columns
    if create and not is_rocksdb(directory):
        return _create(directory, known, family, on_state_change)
    if not is_rocksdb(directory):
        check_no_backup(directory)
        raise RefusedError(
            f"there is no store: {directory} is not a RocksDB directory",
            hint="check the path; to create an empty store there, pass create=True, read_only=False",
        )
    database_files(directory)
    check_not_half_converged(directory)
    with ExitStack() as resources:
        if read_only:
            database = resources.enter_context(open_read_only(directory))
            name = _family(database.families, known, family, directory)
            records = read_only_family(database, name, on_columns)
            live = None
            with closing(read_only_family(database, DEFAULT_FAMILY)) as default:
                _check_whole(records, default, known, directory)
        else:
            _check_application_stopped(directory)
            name = _family(families_of(directory), known, family, directory)
            live = resources.enter_context(open_live(directory))
            records = live.family(name, on_columns)
            _check_whole(records, live.family(DEFAULT_FAMILY), known, directory)
        store = RocksStore(directory, records, live, resources.pop_all(), on_state_change=on_state_change)
    store.start()
    return store


def _create(directory: Path, known: Format, family: str | None, listener: Listener | None) -> RocksStore:
    name = family or (known.column_families or (DEFAULT_FAMILY,))[0]
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as resources:
        live = resources.enter_context(open_live(directory))
        live.make_family(name)
        store = RocksStore(directory, live.family(name), live, resources.pop_all(), on_state_change=listener)
    store.start()
    return store


def _check_whole(records: Family, default: Family, known: Format, directory: Path) -> None:
    if records.name != DEFAULT_FAMILY and known.column_families is not None:
        check_default_is_empty(default, records.name, directory)


def _family(families: tuple[str, ...], known: Format, wanted: str | None, directory: Path) -> str:
    found = [mapping.source for mapping in family_mappings(families, known, known, directory)]
    if wanted not in found and (wanted is not None or len(found) > 1):
        missing = "" if wanted is None else f", and no {wanted!r} of {known.id}"
        raise RefusedError(
            f"{directory} has the column families {', '.join(found)}{missing}", hint="name one of them: family=..."
        )
    return found[0] if wanted is None else wanted


@dataclass(frozen=True, slots=True)
class Cursors:
    """The adapter cursors in the two directories; in one database both are the same."""

    old: AdapterCursor | None
    new: AdapterCursor | None
    new_is_announced: bool

    @property
    def new_token(self) -> str | None:
        """The token in the new store's directory; None: there is no cursor, or a damaged one."""
        if self.new_is_announced:
            return NO_TOKEN
        return None if self.new is None else self.new.token

    def in_force(self, old_database: LiveDatabase) -> AdapterCursor | None:
        """The cursor that both directories hold, unless another process has opened the old store since."""
        is_in_both = self.old is not None and self.old.token == self.new_token != NO_TOKEN
        return self.old if self.old is not None and is_in_both and self.old.is_in_force(old_database) else None

    @property
    def belong_together(self) -> bool:
        """Whether one adapter wrote both; a crash may have come between the two writes."""
        if self.old is None or self.new_token is None:
            return False
        is_same = self.new is not None and (self.old.token, self.old.manifest) == (self.new.token, self.new.manifest)
        return is_same or self.old.previous_token == self.new_token


def read_cursors(places: StorePaths) -> Cursors:
    """The cursors of both directories, valid only while the old store is locked."""
    return Cursors(read_cursor(places.old_directory), read_cursor(places.directory), is_announced(places.directory))


def settle_foreign_writes(cursors: Cursors, pair: StorePair, conversion: LazyConversion, policy: str) -> bool:
    """Whether there were foreign writes. Raises RefusedError where the caller has to decide which store wins."""
    old, new = pair.old_database.directory, pair.new_database.directory
    what = _foreign_writes(cursors, pair)
    if what is None:
        return False
    if policy == REFUSE:
        raise RefusedError(
            f"{old} {what}: for a key that is also in the new store {new}, it is not known which record is newer",
            hint=f'decide which store wins, for this opening: on_foreign_writes="{OLD_WINS}" or "{NEW_WINS}"; '
            "or, where the old store is a copy from before the adapter, name another directory for the new store",
        )
    _LOG.warning("%s %s: %s", old, what, policy)
    if policy == OLD_WINS:
        _let_old_win(pair, conversion)
    return True


def _foreign_writes(cursors: Cursors, pair: StorePair) -> str | None:
    """Why the old store may have foreign writes; None: the adapter left it so, or no key can be in both."""
    if (cursors.new_is_announced and cursors.old is None) or _has_never_written(pair):
        return None
    if cursors.belong_together:
        assert cursors.old is not None
        if cursors.old.is_untouched(pair.old_database) or pair.old.first() is None:
            return None
        return "was written to by another program after the adapter closed it"
    if cursors.new is None and pair.old.first() is None:
        return None  # it has converged
    return "is not as an adapter left it (stateferry.json is missing, damaged, or not the one of the new store)"


def _has_never_written(pair: StorePair) -> bool:
    """Whether nothing has ever been moved to the new store, or deleted through it."""
    if pair.new_database is pair.old_database:
        return pair.new.is_blank
    return pair.new_database.sequence_number == 0


def _let_old_win(pair: StorePair, conversion: LazyConversion) -> None:
    """Delete every key of the old store from the new one, durably, so that the old record is read from then on."""
    deleted = 0
    with closing(pair.old.scan()) as scan:
        while (old := scan.columns(_BATCH)) is not None:
            keys = conversion.many(old).keys if conversion.changes_keys else old.keys
            conversion.check_order(keys)
            present = present_keys(pair.new, keys)
            batch = pair.new_database.new_batch()
            for key in present:
                batch.delete(key, pair.new.handle)
            pair.new_database.write_logged(batch)
            deleted += len(present)
    pair.flush()
    _LOG.warning("%s: %d records were replaced by those of the old store", pair.new.where, deleted)
