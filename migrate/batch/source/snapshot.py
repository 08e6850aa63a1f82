"""Snapshots: hard links of what never changes and copies of the rest, taken while the application is stopped."""

from __future__ import annotations

import filecmp
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from migrate.batch.home import parse_record, remove_folder
from migrate.batch.source.source import Source, application_of, find_source, source_system
from migrate.errors import RefusedError
from migrate.model.display import moment
from migrate.model.store_partition import ChangelogOffsets, StorePartition, place_name
from migrate.model.values import Stored, with_seal
from migrate.spec.spec import Spec
from migrate.stores.files import (
    ExchangeUnsupportedError,
    copy_file,
    exchange,
    fsync_all,
    fsync_directory,
    link_file,
    make_directories,
    remove_tree,
    write_durably,
)
from migrate.stores.rocksdb.layout import database_files, metadata_digest

SNAPSHOT_SCHEMA: Final = 1
_RECORD = "snapshot.json"
Copies = dict[str, dict[str, str]]
"""Digests of copied files, by store partition and RocksDB directory."""
_TAKEN_AGAIN = (
    'with [run] source = "live", stateferry run SPEC takes it again; else stateferry abandon SPEC gives it up'
)
_GIVE_UP = f"{_TAKEN_AGAIN}, or use the newer Stateferry that wrote it"
_GONE = f"put it back, or, before a cut-over, {_TAKEN_AGAIN}"
_TAKE_ONE = "stop the application, run `stateferry snapshot SPEC`, start the application again, then run this"


class SnapshotRecord(Stored):
    """The record of what a snapshot was taken of, stored beside it."""

    schema_version: Literal[1] = SNAPSHOT_SCHEMA
    is_for_later: bool
    """Whether `snapshot` took it, and checked the positions; else a run took it, only for itself."""
    taken_at_ms: int
    """Milliseconds since the epoch."""
    store_partitions: tuple[StorePartition, ...]
    positions: dict[str, ChangelogOffsets]
    """Changelog positions by store partition: where the owner continues with these files."""
    warnings: tuple[str, ...]
    copies: Copies
    changelog_ends: dict[str, int] = Field(default_factory=dict)
    """Where changelogs ended, by `<topic>-<partition>`, as far as the operator confirmed it."""


@dataclass(frozen=True, slots=True)
class SnapshotSource(Source):
    """A snapshot that is read in place of the application's directory, to which the application may write again."""

    home: Path
    record: SnapshotRecord

    def directories(self, partition: StorePartition) -> dict[str, Path]:
        return snapshot_directories(self.home, partition)

    def stated_positions(self, partition: StorePartition) -> ChangelogOffsets:
        return self.record.positions[partition.id]

    def check_stopped(self) -> None:
        """Does nothing: no application opens a snapshot."""

    def warnings(self) -> list[str]:
        age = (
            f"the snapshot was taken at {moment(self.record.taken_at_ms)}: cut over within delete.retention.ms of the "
            "changelog topics (a day by default; and retention.ms, where a topic has one), or keys that were deleted "
            "since may come back"
        )
        return [*self.record.warnings, age]


def has_snapshot(spec: Spec) -> bool:
    """Whether there is a snapshot; `find_snapshot` checks it."""
    return (spec.home / "snapshot" / _RECORD).exists()


def find_snapshot(spec: Spec) -> SnapshotSource:
    """The snapshot that `stateferry snapshot` took. Raises RefusedError where there is none."""
    taken = recorded_snapshot(spec)
    check_copies(spec.home)
    if not taken.record.is_for_later:
        raise RefusedError(f"the snapshot in {spec.home} was taken by a run, only for itself", hint=_TAKE_ONE)
    return taken


def recorded_snapshot(spec: Spec) -> SnapshotSource:
    """The snapshot of this migration, whoever took it. Raises RefusedError where there is none."""
    record = snapshot_record(spec.home)
    return SnapshotSource(
        spec.source_path,
        application_of(spec),
        spec.source_format,
        source_system(spec),
        record.store_partitions,
        spec.home,
        record,
    )


def snapshot_record(home: Path) -> SnapshotRecord:
    """The record of the snapshot. Raises RefusedError where it is missing or cannot be read."""
    try:
        return _read_record(home / "snapshot" / _RECORD)
    except FileNotFoundError:
        raise RefusedError(f"there is no snapshot in {home}", hint=_TAKE_ONE) from None


def _read_record(file: Path) -> SnapshotRecord:
    """The record in `file`. Raises RefusedError for a damaged one."""
    return parse_record(SnapshotRecord, file, file.read_bytes(), _GIVE_UP)


def check_copies(home: Path) -> None:
    """Raises RefusedError where a copied file has changed; SST files, which are linked, have checksums of their own."""
    file = home / "snapshot" / _RECORD
    if not file.exists():
        return
    record = _read_record(file)
    for partition in record.store_partitions:
        for database, directory in snapshot_directories(home, partition).items():
            expected = record.copies.get(partition.id, {}).get(database)
            if expected is not None and expected != _copied(directory):
                raise RefusedError(f"the snapshot {directory} is damaged: its files are not as copied", hint=_GIVE_UP)


def _copied(directory: Path) -> str | None:
    try:
        return metadata_digest(directory)
    except (RefusedError, FileNotFoundError, NotADirectoryError):
        return None


def snapshot_directories(home: Path, partition: StorePartition) -> dict[str, Path]:
    """The snapshots of a store partition's RocksDB directories, by database."""
    return partition.below(home / "snapshot" / partition.id)


def snapshots_by_place(home: Path, olds: Iterable[StorePartition]) -> dict[str, Path]:
    """The snapshots of several store partitions' RocksDB directories, by the names of their places."""
    return {
        place_name(old.id, database): directory
        for old in olds
        for database, directory in snapshot_directories(home, old).items()
    }


def present_snapshot(home: Path, partition: StorePartition) -> dict[str, Path]:
    """The snapshots of a store partition's RocksDB directories. Raises RefusedError where one is missing."""
    directories = snapshot_directories(home, partition)
    for directory in directories.values():
        if not directory.is_dir():
            raise RefusedError(f"the snapshot {directory} is missing", hint=_GONE)
    return directories


def take_snapshot(
    source: Source,
    home: Path,
    *,
    mode: str,
    run_id: str,
    is_for_later: bool,
    check: Callable[[Path, Copies], None],
    changelog_ends: Mapping[str, int],
) -> None:
    """Hard-link files that never change, copy those that a restarted owner appends to, and skip LOCK (I8).

    The snapshot appears under its name only once it is complete, and if `check` does not raise for it.
    """
    final = home / "snapshot"
    temporary = home / f"snapshot-{run_id}.tmp"
    make_directories(temporary)
    copied = [
        path
        for partition in source.partitions
        for database, directory in source.directories(partition).items()
        for path in _snapshot_database(
            directory, temporary / partition.id / database, mode=source.snapshot_mode(partition, mode)
        )
    ]
    fsync_all([*copied, *(Path(folder) for folder, _, _ in os.walk(temporary))])
    record = _record(source, temporary, is_for_later=is_for_later, changelog_ends=changelog_ends)
    write_durably(temporary / _RECORD, with_seal(record.model_dump_json(indent=1)).encode())
    source.check_stopped()
    check(temporary, record.copies)
    _replace(final, temporary)
    fsync_directory(home)


def _replace(final: Path, temporary: Path) -> None:
    if final.exists():
        with suppress(ExchangeUnsupportedError):
            exchange(final, temporary)
            remove_folder(final.parent, temporary.name)
            return
        remove_tree(final)
    temporary.rename(final)


def _record(source: Source, taken: Path, *, is_for_later: bool, changelog_ends: Mapping[str, int]) -> SnapshotRecord:
    return SnapshotRecord(
        is_for_later=is_for_later,
        taken_at_ms=int(time.time() * 1000),
        store_partitions=source.partitions,
        positions={partition.id: source.system.offsets.read(source.path, partition) for partition in source.partitions},
        warnings=tuple(source.warnings()),
        copies={
            partition.id: {name: metadata_digest(path) for name, path in partition.below(taken / partition.id).items()}
            for partition in source.partitions
        },
        changelog_ends=dict(changelog_ends),
    )


def is_snapshot_current(source: Source, home: Path, *, mode: str) -> bool:
    """Whether the source still has the files of the snapshot: one that was restored from a backup counts as changed."""
    try:
        check_copies(home)
    except RefusedError:  # damaged: it is taken again
        return False
    for partition in source.partitions:
        snapshots = snapshot_directories(home, partition)
        taken_as = source.snapshot_mode(partition, mode)
        for database, directory in source.directories(partition).items():
            snapshot = snapshots[database]
            files = database_files(directory)
            if not all((snapshot / path.name).exists() for path in files.every):
                return False
            if not all(_is_unchanged(path, snapshot / path.name, mode=taken_as) for path in files.immutable):
                return False
    return True


def _is_unchanged(original: Path, taken: Path, *, mode: str) -> bool:
    if mode == "unpacked":  # again, just now
        return filecmp.cmp(original, taken, shallow=False)
    now, then = original.stat(), taken.stat()
    if mode == "link" or now.st_ino == then.st_ino:
        return original.samefile(taken)
    is_alike = (now.st_size, now.st_mtime_ns) == (then.st_size, then.st_mtime_ns)
    return is_alike and now.st_ctime_ns <= then.st_ctime_ns  # the one time that a backup does not restore


def _snapshot_database(directory: Path, target: Path, *, mode: str) -> list[Path]:
    """Link and copy the files; returns those that are new, and not yet durable."""
    target.mkdir(parents=True)
    files = database_files(directory)
    linked, copied = (files.immutable, files.mutable) if mode == "link" else ((), files.every)
    for path in linked:
        link_file(path, target / path.name)
    for path in copied:
        copy_file(path, target / path.name)
    return [target / path.name for path in copied]


def open_source(spec: Spec) -> Source:
    """The source to convert: the application's directory, or the snapshot of it. Raises RefusedError."""
    return find_snapshot(spec) if spec.run.source == "snapshot" else find_source(spec)
