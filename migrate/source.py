"""The source: its store partitions, checked before anything is written, and its snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from formats import Format
from migrate.errors import RefusedError
from migrate.plan_model import Lane
from migrate.spec import Spec
from migrate.store_partition import StorePartition
from migrate.stores.files import copy_file, fsync_directory, fsync_file, link_file, make_directories, remove_tree
from migrate.stores.layout import check_readable, database_files
from migrate.stores.lock import check_unlocked
from migrate.stores.options_file import check_options, read_options
from migrate.stores.rocksdb import DEFAULT_FAMILY, open_read_only
from migrate.systems import System, get_system


@dataclass(frozen=True, slots=True)
class Source:
    """The application's directory and the store partitions to migrate."""

    path: Path
    format: Format
    system: System
    partitions: tuple[StorePartition, ...]

    def check_stopped(self) -> None:
        """Raises StoreLockedError while the owner runs."""
        check_unlocked(self.system.lock_files(self.path, self.partitions))

    def check_readable(self) -> None:
        """Raises RefusedError for what cannot be read, or not in its owner's order (I4, I7)."""
        for partition in self.partitions:
            for directory in partition.directories(self.path).values():
                files = database_files(directory)
                check_readable(files)
                check_options(directory, read_options(directory))

    def warnings(self) -> list[str]:
        """What an operator should know about the state as its owner left it."""
        return self.system.warnings(self.path, self.partitions)


def find_source(spec: Spec) -> Source:
    """Discover the source's store partitions. Raises RefusedError, which lists what is there."""
    source_format = spec.source_format
    system = get_system(source_format.system, has_stores=bool(spec.source.store_names))
    partitions = system.find(spec.source_path, spec.source.store_names)
    return Source(spec.source_path, source_format, system, tuple(partitions))


def lanes(families: tuple[str, ...], source: Format, target: Format, directory: Path) -> tuple[Lane, ...]:
    """Which family goes where. Raises RefusedError where the families are not those of the source's format (I10)."""
    data = [family for family in families if family not in source.metadata_families]
    if source.column_families is None:
        names = data
    else:
        names = list(source.column_families)
        unexpected = sorted(set(data) - {*names, DEFAULT_FAMILY})
        if missing := [name for name in names if name not in data]:
            raise _other_format(directory, source, f"has no column family {missing[0]!r}", families)
        if unexpected:
            raise _other_format(directory, source, f"has a column family {unexpected[0]!r}", families)
    if target.column_families is None:
        return tuple(Lane(source=name, target=name) for name in names)
    if len(names) != len(target.column_families):
        raise RefusedError(
            f"{directory} has {len(names)} column families of records ({', '.join(names)}), "
            f"{target.id} holds {len(target.column_families)}",
            hint="name a target format that holds any column family, such as rocksdb.raw",
        )
    return tuple(Lane(source=name, target=family) for name, family in zip(names, target.column_families, strict=True))


def _other_format(directory: Path, source: Format, what: str, families: tuple[str, ...]) -> RefusedError:
    return RefusedError(
        f"{directory} is not {source.id}: it {what} (it has: {', '.join(families)})",
        hint="name the format that the store has in [source] format; `stateferry inspect` shows what is there",
    )


def check_default_is_empty(directory: Path, lane: Lane) -> None:
    """A store whose records lie in another family keeps an empty `default`. Raises RefusedError where it is not.

    A half-upgraded store has records in both; converting one family alone would lose the other's.
    """
    with open_read_only(directory) as database:
        if database.sample(DEFAULT_FAMILY, None, 1).keys:
            raise RefusedError(
                f"{directory} has records in {DEFAULT_FAMILY!r} and in {lane.source!r}: its upgrade is not finished",
                hint="let the application read every key once, or finish the upgrade with the version that began it",
            )


def snapshot_directory(home: Path, partition: StorePartition, database: str) -> Path:
    """Where the snapshot of a RocksDB directory lies in the work_dir."""
    return home / "snapshot" / partition.id / database


def take_snapshot(source: Source, home: Path, *, mode: str) -> None:
    """Hard-link what never changes, copy what a restarted owner appends to; LOCK neither (I8).

    The whole snapshot appears under its name or not at all.
    """
    final = home / "snapshot"
    temporary = home / "snapshot.tmp"
    remove_tree(temporary)
    for partition in source.partitions:
        for database, directory in partition.directories(source.path).items():
            _snapshot_database(directory, temporary / partition.id / database, mode=mode)
    source.check_stopped()
    remove_tree(final)
    temporary.rename(final)
    fsync_directory(home)


def is_snapshot_current(source: Source, home: Path, *, mode: str) -> bool:
    """Whether the snapshot still is what the source holds: a file that was restored from a backup is another one."""
    for partition in source.partitions:
        for database, directory in partition.directories(source.path).items():
            snapshot = snapshot_directory(home, partition, database)
            files = database_files(directory)
            if not all((snapshot / path.name).exists() for path in files.every):
                return False
            if not all(_is_unchanged(path, snapshot / path.name, mode=mode) for path in files.immutable):
                return False
    return True


def _is_unchanged(original: Path, taken: Path, *, mode: str) -> bool:
    now, then = original.stat(), taken.stat()
    if mode == "link" or now.st_ino == then.st_ino:
        return original.samefile(taken)
    is_alike = (now.st_size, now.st_mtime_ns) == (then.st_size, then.st_mtime_ns)
    return is_alike and now.st_ctime_ns <= then.st_ctime_ns  # a backup restores all times but this one


def _snapshot_database(directory: Path, target: Path, *, mode: str) -> None:
    make_directories(target)
    files = database_files(directory)
    for path in files.immutable:
        if mode == "link":
            link_file(path, target / path.name)
        else:
            copy_file(path, target / path.name)
            fsync_file(target / path.name)
    for path in files.mutable:
        copy_file(path, target / path.name)
        fsync_file(target / path.name)
    fsync_directory(target)
