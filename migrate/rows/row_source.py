"""The rows of one store: ranges of its RocksDB directories, read beside its owner, each as of its own opening.

A range is what one task reads. Ranges are cut by the indexes of SST files, hold about the same bytes, and cover every
possible key; small segments of a window store share one. A damaged table, a directory that is gone and one that
another store has taken since are errors, never fewer rows. What a plan cannot know is read all the same: the segments
that come later, by the last range of their store partition, and none of those that their owner removes as expired.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from formats import Format
from migrate.batch.plan.cut import cut
from migrate.batch.preflight.check import with_retries
from migrate.batch.source.snapshot import find_snapshot
from migrate.batch.source.source import files_of
from migrate.engine.chunk_source import ChunkSource, Inputs
from migrate.engine.native.native import can_gather
from migrate.errors import RefusedError, StoreNotReadyError, system_errors_explained
from migrate.model.engine_choice import EngineSetting
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.queries.open.partition import Site, StoreDefinition
from migrate.queries.open.store_sources import (
    DirectoryStores,
    MigrationStores,
    check_one_directory_each,
    chosen_store,
)
from migrate.queries.views.windowed_views import Asked
from migrate.spec.spec import Spec
from migrate.stores.batch import Batch, joined
from migrate.stores.cursor_file import check_not_half_converged
from migrate.stores.lock import holds_for_us, lock_holders
from migrate.stores.rocksdb.c_api import NativeDatabase, open_native_pooled
from migrate.stores.rocksdb.database import Database, family_names, open_read_only
from migrate.stores.rocksdb.layout import database_files, identity_of, is_rocksdb
from migrate.stores.rocksdb.openings import HeldDirectory, open_pooled, pooled
from migrate.stores.rocksdb.scan import refuse_columns
from migrate.systems import get_system
from migrate.systems.families import family_mappings

if TYPE_CHECKING:
    import pyarrow as pa

    from migrate.engine.rows.row_reader import RowReader
    from migrate.engine.rows.spans import Gathered

Opened = TypeVar("Opened", Database, NativeDatabase)
RowSide = Literal["old", "new", "snapshot"]
RANGE_BYTES = 64 << 20
"""Of keys and values before compression, which one task reads in about a second."""
_WHOLE = 1 << 62
"""A store partition that is in use is one range: what two openings find is of two times."""
LITTLE_BYTES = 16 << 20
"""Of a range, which is read before compiled code has been loaded."""
_BATCH_RECORDS = 16 << 10
_BATCH_BYTES = 8 << 20
_AGAIN = "load it again; a snapshot holds still: stateferry snapshot SPEC, then side = snapshot"


@dataclass(frozen=True, slots=True)
class RowSelection:
    """What is read of a store, and decoded."""

    columns: tuple[str, ...] = ()
    """In this order; none: all that the format has."""
    from_key: bytes | None = None
    """The first serialized key, and the one behind the last; None: unbounded."""
    to_key: bytes | None = None
    window_size_ms: int | None = None
    """The size of each window, which a window store does not hold; None: windows have no end."""
    is_permissive: bool = False
    """Whether a record that cannot be decoded is a row with the reason in `_error`, and no error."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of one column family of a RocksDB directory."""

    directory: str
    family: str
    keys: KeyRange
    identity: str
    """RocksDB's own of the directory, as the range was cut."""


@dataclass(frozen=True, slots=True)
class RangeTask:
    """What one task reads."""

    store_partition: str
    task: str
    partition: int | None
    number: int
    """Of the range in its store partition, from 0 on."""
    pieces: tuple[Piece, ...]
    size: int
    """Bytes of keys and values, about, before compression."""
    is_in_use: bool
    """Whether an application has the store open, which may remove files of it."""
    place: str
    """The directory of the store partition."""
    segments: frozenset[str] | None = None
    """Of a windowed store's last range, those that there were; it reads the others."""


@dataclass(frozen=True)
class RangeReading:
    """How ranges of one store become rows. Pickles."""

    definition: StoreDefinition
    selection: RowSelection
    engine: EngineSetting = "auto"
    """`portable`: without compiled code."""

    @cached_property
    def rows(self) -> RowReader:
        """What makes rows of entries. Raises SpecError for an unknown column."""
        chosen = self.selection
        from migrate.engine.rows.row_reader import RowReader  # loads pyarrow

        return RowReader(
            self.definition.stored,
            columns=chosen.columns,
            window_size_ms=chosen.window_size_ms or self.definition.window_size_ms,
            permissive=chosen.is_permissive,
        )

    def is_threaded(self, tasks: Sequence[RangeTask]) -> bool:
        """Whether threads read these ranges side by side: but for a little, nothing passes through Python one by one.

        Raises as `read`.
        """
        gathered = [each for each in tasks if self._may_be_gathered(each)]
        others = sum(each.size for each in tasks) - sum(each.size for each in gathered)
        if self.engine == "portable" or others > LITTLE_BYTES or not self.rows.is_by_columns:
            return False
        if not self.definition.stored.older_families:
            return True
        keys = _stored_range(self.definition.stored, self.selection)
        whole = {each.directory: (replace(each, keys=keys), task) for task in gathered for each in task.pieces}
        with ExitStack() as stack:
            return all(isinstance(self._open(*each, stack), NativeDatabase) for each in whole.values())

    @system_errors_explained()
    def read(self, task: RangeTask) -> Iterator[pa.RecordBatch]:
        """The rows of a range, as its files are now.

        Raises CorruptionError for a damaged table, StoreNotReadyError where the directory is gone or another store's,
        and ConversionError for a record that cannot be decoded, unless that is permitted.
        """
        for piece in chain(task.pieces, self._since(task)):
            with ExitStack() as stack:
                if self._has_expired(piece, task):
                    continue
                opened = with_retries(partial(self._open, piece, task, stack), is_in_use=task.is_in_use)
                for batch in self._batches(opened, piece):
                    yield self.rows.rows(batch, task.task, task.partition, piece.family)
                    del batch

    def _since(self, task: RangeTask) -> Iterator[Piece]:
        """Segments that came since the ranges were cut."""
        if task.segments is None:
            return
        if not Path(task.place).is_dir():
            raise _gone(task.place, task)
        keys, store = _stored_range(self.definition.stored, self.selection), Path(task.store_partition).name
        start = get_system(self.definition.stored.system).segments.start
        for directory in sorted(Path(task.place).iterdir()):
            is_new = directory.name not in task.segments and start(store, directory.name) is not None
            if is_new and is_rocksdb(directory):
                for family in _families(_names_of(directory), self.definition.stored, directory):
                    yield Piece(str(directory), family, keys, identity_of(directory))

    def _has_expired(self, piece: Piece, task: RangeTask) -> bool:
        """Whether it is a segment that the owner has removed."""
        is_segment = self.definition.stored.is_segmented and piece.directory != task.place
        return is_segment and task.is_in_use and not Path(piece.directory).exists() and Path(task.place).is_dir()

    def _open(self, piece: Piece, task: RangeTask, stack: ExitStack) -> Database | NativeDatabase:
        stack.close()  # what an earlier attempt opened
        if self._may_be_gathered(task):
            found = self._checked(open_native_pooled, piece, task, stack)
            if _is_by_itself(found, piece, self.definition.stored):
                return found
            stack.close()
        open_ = partial(pooled, _open_every_file) if task.is_in_use else open_pooled
        return self._checked(open_, piece, task, stack)

    def _may_be_gathered(self, task: RangeTask) -> bool:
        """Whether compiled code can copy such records, and is worth its start."""
        stored, chosen = self.definition.stored, self.selection
        if self.engine == "portable" or task.is_in_use or task.size < LITTLE_BYTES:
            return False
        is_picked_out = stored.kind != "key-value" and not chosen.from_key is chosen.to_key is None
        is_pairs = stored.kind != "versioned" and not stored.metadata_keys and stored.on_columns is None
        return is_pairs and not is_picked_out and can_gather()

    def _checked(
        self, open_: Callable[[Path], AbstractContextManager[Opened]], piece: Piece, task: RangeTask, stack: ExitStack
    ) -> Opened:
        directory = Path(piece.directory)
        if directory.is_dir():
            database = stack.enter_context(open_(directory))
            if identity_of(directory) == piece.identity:  # not before: another store may take the place meanwhile
                check_not_half_converged(directory)
                _families(database.families, self.definition.stored, directory)
                return database
        raise _gone(piece.directory, task)

    def _batches(self, database: Database | NativeDatabase, piece: Piece) -> Iterator[Batch] | Iterator[Gathered]:
        if isinstance(database, Database):
            return _larger(self._entries(database, piece))
        from migrate.engine.rows.gathered import gather  # loads what runs compiled code

        return gather(database, piece.family, piece.keys, _BATCH_RECORDS, _BATCH_BYTES)

    def _entries(self, database: Database, piece: Piece) -> Iterator[Batch]:
        stored = self.definition.stored
        older = tuple(each.name for each in stored.older_families)
        mapping = FamilyMapping(source=piece.family, target=piece.family, older=older)
        source = ChunkSource(Inputs((piece.directory,)), stored, [database])
        for batch in source.batches(mapping, piece.keys):
            if stored.has_columns(batch.values):
                refuse_columns(batch.keys[0], [])
            yield self._asked_for(batch)

    def _asked_for(self, batch: Batch) -> Batch:
        """The entries of keys in the wanted range, where a range of stored keys holds others too."""
        stored, low, high = self.definition.stored, self.selection.from_key, self.selection.to_key
        if stored.kind == "key-value" or (low is None and high is None):
            return batch
        payloads = map(stored.key_payload, batch.keys)
        return batch.where([(low is None or low <= each) and (high is None or each < high) for each in payloads])


class RowSource:
    """The rows of one store: of a side of a migration, or of a directory."""

    def __init__(self, find: Callable[[], list[Site]], store: str, side: RowSide | None, reading: RangeReading) -> None:
        """`find`: the store partitions on this host, as they are now; see `rows_of_spec` and `rows_of_path`."""
        self.store = store
        self.side = side
        self.reading = reading
        self.definition = reading.definition
        self.read = reading.read
        self._find = find

    def choosing(self, selection: RowSelection) -> RowSource:
        """The same store, of which this is read."""
        return RowSource(self._find, self.store, self.side, replace(self.reading, selection=selection))

    @property
    def schema(self) -> pa.Schema:
        """The chosen columns. Raises SpecError for an unknown one."""
        return self.reading.rows.schema

    @system_errors_explained()
    def tasks(self, range_bytes: int = RANGE_BYTES) -> list[RangeTask]:
        """The ranges of the store as it is now, of about so many bytes, by store partition and key.

        Raises UnknownStateStoreError where it is not there, RefusedError where it is not of its format or an adapter
        still converts it, StoreNotReadyError where it is being moved.
        """
        sites = self._find()
        check_one_directory_each(sites)
        found = [(site, self._directories(site)) for site in sites]
        locks = {site.partition.id: {*site.lock_files, *(each / "LOCK" for each in there)} for site, there in found}
        holders = lock_holders({file for files in locks.values() for file in files})
        held = {file for file, pid in holders.items() if not holds_for_us(pid)}
        tasks = []
        for site, there in found:
            is_in_use = not held.isdisjoint(locks[site.partition.id])
            tasks += self._tasks_of(site, there, _WHOLE if is_in_use else range_bytes, is_in_use=is_in_use)
        return tasks

    def state_of(self, task: RangeTask) -> str:
        """A digest of the files behind a range, as they are now: the same files give the same rows."""
        files = [files_of(Path(directory)) for directory in dict.fromkeys(each.directory for each in task.pieces)]
        return hashlib.sha256(repr(files).encode()).hexdigest()

    def _directories(self, site: Site) -> list[Path]:
        if site.definition != self.definition:
            raise StoreNotReadyError(
                f"{site.partition.id} is in another format than other tasks: a cut-over is in progress",
                hint="finish the cut-over, or name one side of the migration: old or new",
            )
        try:
            return [each.name for _, each in site.segments(HeldDirectory(site.path))]
        except (FileNotFoundError, NotADirectoryError) as error:
            raise StoreNotReadyError(
                f"the store partition {site.partition.id} is not in {site.path}: it is being moved, or was removed",
                hint="bring its directory back, or load it again",
            ) from error

    def _tasks_of(self, site: Site, directories: list[Path], range_bytes: int, *, is_in_use: bool) -> list[RangeTask]:
        shares: list[tuple[tuple[Piece, ...], int]] = [((), 0)]
        for piece, weight in (each for directory in directories for each in self._pieces(directory, range_bytes)):
            pieces, size = shares[-1]
            if pieces and size + weight > range_bytes:
                shares.append(((piece,), weight))
            else:
                shares[-1] = ((*pieces, piece), size + weight)
        partition, place = site.partition, str(site.path)
        found = [
            RangeTask(partition.id, partition.task, site.number, number, *share, is_in_use, place)
            for number, share in enumerate(shares)
        ]
        if partition.has_segments:
            found[-1] = replace(found[-1], segments=frozenset(each.name for each in directories))
        return found

    def _pieces(self, directory: Path, range_bytes: int) -> Iterator[tuple[Piece, int]]:
        check_not_half_converged(directory)
        stored, identity = self.definition.stored, identity_of(directory)
        wanted = _stored_range(stored, self.reading.selection)
        tables = [(file, b"") for file in database_files(directory).immutable if file.suffix == ".sst"]
        cuts = cut(tables, range_bytes)
        for family in _families(_names_of(directory), stored, directory):
            for keys, size in zip(cuts.ranges, cuts.sizes, strict=True):
                if not (inside := _both(keys, wanted)).is_empty:
                    yield Piece(str(directory), family, inside, identity), size


def _is_by_itself(database: NativeDatabase, piece: Piece, stored: Format) -> bool:
    """Whether no family of before an upgrade has a record in the range, which its newer family may have too."""
    for family in {each.name for each in stored.older_families}.intersection(database.families):
        with database.iterator(family, piece.keys) as records:
            if records.valid() or records.error():
                return False
    return True


def _gone(directory: str, task: RangeTask) -> StoreNotReadyError:
    what = f"{directory} of the store partition {task.store_partition}"
    return StoreNotReadyError(f"{what} was removed or replaced while it was read", hint=_AGAIN)


def _names_of(directory: Path) -> tuple[str, ...]:
    """Its column families. Raises RefusedError where it cannot be opened."""
    try:
        return family_names(directory)
    except Exception:  # noqa: BLE001 - rocksdict raises nothing narrower; an opening tries again and knows the reason
        with open_read_only(directory) as database:
            return database.families


def _families(there: tuple[str, ...], stored: Format, directory: Path) -> list[str]:
    """The column families of records. Raises RefusedError where the directory is not of the format."""
    try:
        return [each.source for each in family_mappings(there, stored, stored, directory)]
    except RefusedError as error:
        hint = "name the format that the store has; `stateferry inspect` shows what is there"
        raise RefusedError(error.message, hint=hint) from error


def _open_every_file(directory: Path) -> AbstractContextManager[Database]:
    return open_read_only(directory, all_files=True)


def _both(one: KeyRange, other: KeyRange) -> KeyRange:
    starts = [each for each in (one.start, other.start) if each is not None]
    ends = [each for each in (one.end, other.end) if each is not None]
    return KeyRange(start=max(starts, default=None), end=min(ends, default=None))


def _stored_range(stored: Format, chosen: RowSelection) -> KeyRange:
    """The stored keys among which are all that were asked for; of a versioned store, whose keys begin with a segment,
    all."""
    low, high = chosen.from_key, chosen.to_key
    if low is not None and high is not None and low >= high:
        return KeyRange(start=b"\0", end=b"\0")
    if stored.is_segmented:
        low, high = Asked(stored.kind == "session", low, high).bounds()
    return KeyRange() if stored.kind == "versioned" else KeyRange(start=low, end=high)


def _larger(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Batches put together to larger ones, for which each column is made once."""
    kept: list[Batch] = []
    records = size = 0
    for batch in batches:
        if len(batch):
            kept.append(batch)
            records += len(batch)
            size += batch.size
        if records >= _BATCH_RECORDS or size >= _BATCH_BYTES:
            yield joined(kept, columns_too=True)
            kept, records, size = [], 0, 0
    if kept:
        yield joined(kept, columns_too=True)


@system_errors_explained()
def rows_of_path(path: Path, store: str, definition: StoreDefinition, selection: RowSelection) -> RowSource:
    """The rows of a store in an application's directory, or of a RocksDB directory by itself.

    Raises SpecError for an unknown format.
    """
    stores = DirectoryStores(path, {store: definition}, convert={}, old_key={}, stale=True, refresh=0)
    return RowSource(partial(stores.sites, store), store, None, RangeReading(definition, selection))


@system_errors_explained()
def rows_of_spec(
    spec: Spec, store: str | None = None, *, side: RowSide | None = None, selection: RowSelection | None = None
) -> RowSource:
    """The rows of a migration's store, by its old or its new name; None: the only one.

    `side`: None: what the application uses now. Raises SpecError where the spec has several stores, and
    UnknownStateStoreError where it has none of this name.
    """
    stores = MigrationStores(spec, "old" if side == "snapshot" else side or "live", stale=True, refresh=0)
    name = chosen_store(spec, store)
    definition = stores.definition(name)
    find = partial(_snapshot_sites, spec, name, definition) if side == "snapshot" else partial(stores.sites, name)
    found: RowSide = side or ("new" if stores.is_new(definition) else "old")
    return RowSource(find, name, found, RangeReading(definition, selection or RowSelection(), spec.run.engine))


def _snapshot_sites(spec: Spec, store: str, definition: StoreDefinition) -> list[Site]:
    taken = find_snapshot(spec)
    return [
        Site(
            path=taken.home / "snapshot" / each.id,
            application=taken.path,
            partition=each,
            system=taken.system,
            definition=definition,
        )
        for each in taken.partitions
        if each.store == store
    ]
