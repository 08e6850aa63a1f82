"""Snapshots: hard links of what never changes and copies of the rest, taken while the application is stopped."""

from __future__ import annotations

import filecmp
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from migrate.batch.home import remove_folder
from migrate.batch.source.source import Source, find_source, source_system
from migrate.errors import RefusedError
from migrate.model.seal import read_sealed, with_seal
from migrate.model.store_partition import Positions, StorePartition
from migrate.model.units import moment
from migrate.model.values import Stored
from migrate.spec.spec import Spec
from migrate.stores.exchange import ExchangeUnsupportedError, exchange
from migrate.stores.files import (
    copy_file,
    fsync_directory,
    fsync_file,
    link_file,
    make_directories,
    remove_tree,
    write_durably,
)
from migrate.stores.rocksdb.layout import database_files, metadata_digest

SNAPSHOT_SCHEMA: Final = 1
_RECORD = "snapshot.json"
_TAKEN_AGAIN = (
    'with [run] source = "live", stateferry run SPEC takes it again; else give it up (stateferry abandon SPEC)'
)
_GIVE_UP = f"{_TAKEN_AGAIN}, or use the newer Stateferry that wrote it"
_GONE = f"put it back, or, before a cut-over, {_TAKEN_AGAIN}"
_TAKE_ONE = "stop the application, run `stateferry snapshot SPEC`, start the application again, then run this"


class SnapshotRecord(Stored):
    """What a snapshot is of, beside it."""

    schema_version: Literal[1] = SNAPSHOT_SCHEMA
    is_for_later: bool
    """Taken by `snapshot`, which made sure that the positions are the stores'; else by a run, for itself alone."""
    taken_at_ms: int
    """Milliseconds since the epoch."""
    store_partitions: tuple[StorePartition, ...]
    positions: dict[str, Positions]
    """Of each store partition, by id: where the owner goes on when this is what it finds."""
    warnings: tuple[str, ...]
    copies: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Of each store partition, by id, and each of its RocksDB directories: the digest of the files that were copied;
    none: of an earlier release."""


@dataclass(frozen=True, slots=True)
class SnapshotSource(Source):
    """The snapshot in place of the application's directory, where the application may write again."""

    home: Path
    record: SnapshotRecord

    def directories(self, partition: StorePartition) -> dict[str, Path]:
        """In the work_dir."""
        return snapshot_directories(self.home, partition)

    def check_stopped(self) -> None:
        """Nobody but us opens a snapshot."""

    def warnings(self) -> list[str]:
        """As they were when it was taken, and what follows from its age."""
        return [*self.record.warnings, _age_note(self.record.taken_at_ms)]


def _age_note(taken_at_ms: int) -> str:
    """What the operator must know of a migration that is made from a snapshot, in one sentence."""
    return (
        f"the snapshot was taken at {moment(taken_at_ms)}: cut over "
        "within delete.retention.ms of the changelog topics (a day by default; and retention.ms, where a topic has "
        "one), or keys that were deleted since may come back"
    )


def has_snapshot(spec: Spec) -> bool:
    """Whether one was taken for later: `find_snapshot` says what is wrong with it."""
    return (spec.home / "snapshot" / _RECORD).exists()


def find_snapshot(spec: Spec) -> SnapshotSource:
    """The snapshot that `stateferry snapshot` took. Raises RefusedError where there is none."""
    record = snapshot_record(spec.home)
    check_copies(spec.home)
    if not record.is_for_later:
        raise RefusedError(f"the snapshot in {spec.home} was taken by a run, for itself alone", hint=_TAKE_ONE)
    return SnapshotSource(
        spec.source_path, spec.source_format, source_system(spec), record.store_partitions, spec.home, record
    )


def snapshot_record(home: Path) -> SnapshotRecord:
    """What the snapshot is of. Raises RefusedError where there is none, or none that can be read."""
    try:
        return _read_record(home / "snapshot" / _RECORD)
    except FileNotFoundError:
        raise RefusedError(f"there is no snapshot in {home}", hint=_TAKE_ONE) from None


def _read_record(file: Path) -> SnapshotRecord:
    """Raises RefusedError for one that is damaged."""
    text, is_whole = read_sealed(file.read_bytes())
    try:
        if is_whole:
            return SnapshotRecord.model_validate_json(text)
        reason = "it does not have the digest that it names"
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
    raise RefusedError(f"{file} is damaged, or of a newer Stateferry: {reason}", hint=_GIVE_UP)


def check_copies(home: Path) -> None:
    """Raises RefusedError where a file of the snapshot is not what was copied; SST files bear checksums."""
    file = home / "snapshot" / _RECORD
    record = _read_record(file) if file.exists() else None
    for partition in record.store_partitions if record is not None else ():
        for database, directory in snapshot_directories(home, partition).items():
            expected = record.copies.get(partition.id, {}).get(database) if record is not None else None
            if expected is not None and expected != _copied(directory):
                raise RefusedError(f"the snapshot {directory} is damaged: its files are not as copied", hint=_GIVE_UP)


def _copied(directory: Path) -> str | None:
    try:
        return metadata_digest(directory)
    except (RefusedError, FileNotFoundError, NotADirectoryError):
        return None


def snapshot_directory(home: Path, partition: StorePartition, database: str) -> Path:
    """Where the snapshot of a RocksDB directory lies in the work_dir."""
    return snapshot_directories(home, partition)[database]


def snapshot_directories(home: Path, partition: StorePartition) -> dict[str, Path]:
    """All those of a store partition, by database."""
    return partition.below(home / "snapshot" / partition.id)


def present_snapshot(home: Path, partition: StorePartition) -> dict[str, Path]:
    """All those of a store partition, by database. Raises RefusedError where one has gone."""
    directories = snapshot_directories(home, partition)
    for directory in directories.values():
        if not directory.is_dir():
            raise RefusedError(f"the snapshot {directory} is not there any more", hint=_GONE)
    return directories


def take_snapshot(
    source: Source, home: Path, *, mode: str, run_id: str, is_for_later: bool, check: Callable[[Path], None]
) -> None:
    """Hard-link what never changes, copy what a restarted owner appends to; LOCK neither (I8).

    The whole snapshot appears under its name or not at all; `check` looks at it before and raises where it is not to.
    """
    final = home / "snapshot"
    temporary = home / f"snapshot-{run_id}.tmp"
    for partition in source.partitions:
        taken_as = source.snapshot_mode(partition, mode)
        for database, directory in source.directories(partition).items():
            _snapshot_database(directory, temporary / partition.id / database, mode=taken_as)
    make_directories(temporary)  # a windowed store may have no segment yet
    record = _record(source, temporary, is_for_later=is_for_later)
    write_durably(temporary / _RECORD, with_seal(record.model_dump_json(indent=1)).encode())
    source.check_stopped()
    check(temporary)
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


def _record(source: Source, taken: Path, *, is_for_later: bool) -> SnapshotRecord:
    return SnapshotRecord(
        is_for_later=is_for_later,
        taken_at_ms=int(time.time() * 1000),
        store_partitions=source.partitions,
        positions={partition.id: source.system.positions(source.path, partition) for partition in source.partitions},
        warnings=tuple(source.warnings()),
        copies={
            partition.id: {name: metadata_digest(path) for name, path in partition.below(taken / partition.id).items()}
            for partition in source.partitions
        },
    )


def is_snapshot_current(source: Source, home: Path, *, mode: str) -> bool:
    """Whether the snapshot still is what the source holds: a file that was restored from a backup is another one."""
    try:
        check_copies(home)
    except RefusedError:  # a disk has damaged it: it is taken again
        return False
    for partition in source.partitions:
        taken_as = source.snapshot_mode(partition, mode)
        for database, directory in source.directories(partition).items():
            snapshot = snapshot_directory(home, partition, database)
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


def open_source(spec: Spec) -> Source:
    """What is converted: the application's directory, or the snapshot taken of it. Raises RefusedError."""
    return find_snapshot(spec) if spec.run.source == "snapshot" else find_source(spec)
