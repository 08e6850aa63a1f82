"""Where the old and the new store lie, and the checks that both are what the caller named, before either is changed."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from formats import Format, conversion_problem
from migrate.dual.lazy_conversion import LazyConversion
from migrate.errors import RefusedError, SpecError
from migrate.stores.cursor_file import CURSOR_FILE, PairIdentity, has_started
from migrate.stores.rocksdb.database import DEFAULT_FAMILY
from migrate.stores.rocksdb.layout import database_files, identity_of, is_half_made, is_rocksdb
from migrate.stores.rocksdb.live import Family, LiveDatabase, families_of
from migrate.stores.rocksdb.options_file import check_options, read_options
from migrate.stores.rocksdb.scan import TooManyTombstonesError
from migrate.stores.rocksdb.unreadable import check_no_backup

_LOG = logging.getLogger(__name__)
_SAMPLE = 100
MAX_SKIPS = 10_000
"""Deleted records that a check of the old store may pass: about 2 ms."""


@dataclass(frozen=True, slots=True)
class StorePaths:
    """The directory and the column family of the old and of the new store."""

    directory: Path
    old_directory: Path
    source: Format
    target: Format
    source_family: str
    target_family: str

    @property
    def is_shared(self) -> bool:
        return self.directory == self.old_directory

    @property
    def directories(self) -> list[Path]:
        """The RocksDB directories, the new store's first."""
        return [self.directory] if self.is_shared else [self.directory, self.old_directory]

    def identity(self) -> PairIdentity:
        """What identifies the two stores in the adapter cursor, wherever their directories are moved."""
        return PairIdentity(
            source=self.source.id,
            target=self.target.id,
            source_family=self.source_family,
            target_family=self.target_family,
            old_identity=identity_of(self.old_directory),
            new_identity=identity_of(self.directory),
        )


def find_places(
    path: Path, old_path: Path | None, source: tuple[Format, str | None], target: tuple[Format, str | None]
) -> StorePaths:
    """Resolve where both stores lie. `source`, `target`: with a column family for the formats that do not fix it.

    Raises SpecError where the two stores would be the same one, or one cannot be converted to the other.
    """
    _check_formats(source[0], target[0])
    directory = path.resolve()
    places = StorePaths(
        directory=directory,
        old_directory=directory if old_path is None else old_path.resolve(),
        source=source[0],
        target=target[0],
        source_family=_family(*source, "source_family"),
        target_family=_family(*target, "target_family"),
    )
    if old_path is not None and places.is_shared:
        raise SpecError(f"the old and the new store are both in {path}", hint="leave old_path out: one database")
    if places.is_shared and places.source_family == places.target_family:
        raise SpecError(
            f"{places.source.id} and {places.target.id} both keep their records in {places.source_family!r}",
            hint="name another for the new store, target_family=..., or another directory for the old, old_path=...",
        )
    return places


def _check_formats(source: Format, target: Format) -> None:
    problem = conversion_problem(source, target)
    if problem is None and "versioned" in (source.kind, target.kind):
        problem = "a versioned store keeps a key's values in several records, which the adapter does not follow"
    for known in (source, target):
        if problem is None and known.metadata_keys:
            problem = f"{known.id} has its system's own entries among the records, which the adapter does not know"
    if problem is not None:
        raise SpecError(
            problem, hint="name formats of one kind; the batch migration (stateferry run SPEC) knows more of them"
        )


def _family(known: Format, named: str | None, argument: str) -> str:
    own = known.column_families
    if own is None:
        return named or DEFAULT_FAMILY
    if len(own) != 1 or (named is not None and named != own[0]):
        raise SpecError(f"{known.id} keeps its records in {', '.join(own)}", hint=f"leave {argument} out")
    return own[0]


def has_new_store(places: StorePaths) -> bool:
    """Whether the new store's column family exists."""
    is_made = is_rocksdb(places.directory) and not is_half_made(places.directory)
    return is_made and places.target_family in families_of(places.directory)


def check_places(places: StorePaths, *, create: bool) -> bool:
    """Whether there is an old store. Raises RefusedError where a directory does not hold what was named."""
    for folder in places.directories:
        if folder.exists() and not folder.is_dir():
            raise RefusedError(f"{folder} is not a directory", hint="name a RocksDB directory")
        if is_rocksdb(folder) and not (folder == places.directory and _may_be_made(places)):
            database_files(folder)
            check_options(folder, read_options(folder))
    if not places.is_shared:
        _check_new_directory(places)
    if not is_rocksdb(places.old_directory):
        return _may_start_empty(places, create=create)
    _check_families(places)
    if not has_new_store(places):
        _check_not_started(places)
    return True


def _may_start_empty(places: StorePaths, *, create: bool) -> bool:
    """Always False: there is no old store, and none is needed. Raises RefusedError where one is."""
    if not places.is_shared and has_new_store(places):
        if not (places.directory / CURSOR_FILE).exists():
            _LOG.info("%s: no old store in %s: nothing is left to convert", places.directory, places.old_directory)
            return False
    elif create:
        _LOG.info("%s: there is no store yet: creating an empty one of %s", places.directory, places.target.id)
        return False
    check_no_backup(places.old_directory)
    raise RefusedError(
        f"there is no old store: {places.old_directory} is not a RocksDB directory",
        hint="check the path; on a host that has no state yet, pass create=True",
    )


def _check_new_directory(places: StorePaths) -> None:
    """Raises RefusedError where the new store's directory holds something else."""
    directory = places.directory
    if _may_be_made(places):
        return
    if is_rocksdb(directory):
        families = set(families_of(directory))
        own = {DEFAULT_FAMILY, places.target_family, *places.target.metadata_families}
        if places.target.column_families is not None and (unknown := sorted(families - own)):
            raise RefusedError(
                f"{directory} is not {places.target.id}: it has a column family {unknown[0]!r}",
                hint="name a directory for the new store that does not exist yet",
            )
    elif directory.is_dir():
        raise RefusedError(
            f"{directory} is neither empty nor a RocksDB directory",
            hint="name a directory for the new store that does not exist yet",
        )


def _may_be_made(places: StorePaths) -> bool:
    """Whether the new store's directory is empty, or holds only what a crash left of its first opening."""
    return not places.is_shared and is_half_made(places.directory)


def _check_not_started(places: StorePaths) -> None:
    """Raises RefusedError where the new store is missing, and the old one may have been emptied into it."""
    if any(map(has_started, places.directories)):
        raise RefusedError(
            f"{places.old_directory} is half converged, but its new store is not in {places.directory}, column family "
            f"{places.target_family!r}",
            hint="name the directory and the family of the new store that the conversion was started with",
        )


def _check_families(places: StorePaths) -> None:
    """Raises RefusedError where the families of the old store's directory do not fit the formats (I10)."""
    directory = places.old_directory
    families = families_of(directory)
    known = {places.source_family, DEFAULT_FAMILY, *places.source.metadata_families}
    if places.is_shared:
        known |= {places.target_family, *places.target.metadata_families}
    fits_any = places.source.column_families is None
    unknown = sorted(set(families) - known)
    is_moved = places.is_shared and places.target_family in families
    if (unknown and not fits_any) or (places.source_family not in families and not is_moved):
        raise RefusedError(
            f"{directory} is not {places.source.id}: it has the column families {', '.join(families)}",
            hint="name the format that the old store has; `stateferry inspect` shows what is there",
        )


def check_can_start(database: LiveDatabase, places: StorePaths, conversion: LazyConversion, *, create: bool) -> None:
    """Raises RefusedError where a new store must not be created: the old one does not have the named format, has
    records in other column families too, or was emptied before."""
    old = database.family(places.source_family)
    if old.is_blank and database.sequence_number > 0 and not create:
        raise RefusedError(
            f"{places.old_directory} has no record in {places.source_family!r} any more, and there is no new store in "
            f"{places.directory}, column family {places.target_family!r}: was it converged into another one?",
            hint="name the new store that it was converged into; where there is none, pass create=True",
        )
    _check_sample(old, places, conversion)
    others = set(families_of(places.old_directory)) - {places.source_family, DEFAULT_FAMILY}
    if not places.is_shared and (left := sorted(others - {*places.source.metadata_families})):
        _LOG.warning("%s: the column families %s are not converted", places.old_directory, ", ".join(left))
    if places.source.column_families is None or places.source_family == DEFAULT_FAMILY:
        return
    if not (places.is_shared and places.target_family == DEFAULT_FAMILY):
        check_default_is_empty(database.family(DEFAULT_FAMILY), places.source_family, places.old_directory)


def check_default_is_empty(default: Family, family: str, directory: Path) -> None:
    """Raises RefusedError where `default` holds records although the store's records lie in another family.

    A store in the middle of an upgrade has records in both; to convert one family would lose the other's records.
    """
    try:
        found = default.first(max_skips=MAX_SKIPS)
    except TooManyTombstonesError:
        return  # it is taken for empty
    if found is not None:
        raise RefusedError(
            f"{directory} has records in {DEFAULT_FAMILY!r} and in {family!r}: its upgrade is not finished",
            hint="let the application read every key once, or finish the upgrade with the version that started it",
        )


def _check_sample(old: Family, places: StorePaths, conversion: LazyConversion) -> None:
    """Raises RefusedError where no record of a sample can be converted, or where keys change their order."""
    try:
        with closing(old.scan(max_skips=MAX_SKIPS)) as scan:
            batch = scan.columns(_SAMPLE)
    except TooManyTombstonesError:
        return
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
