"""The source: its store partitions and task directories, and their files, options and content, read by one opening."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path

from formats import Format
from migrate.batch.source.restored_source import check_made
from migrate.errors import RefusedError, SpecError
from migrate.model.reports import InconclusiveCheck
from migrate.model.store_partition import ChangelogOffsets, Line, StorePartition
from migrate.spec.spec import Spec
from migrate.stores.cursor_file import check_not_half_converged
from migrate.stores.lock import check_unlocked
from migrate.stores.rocksdb.database import StoreContent, open_read_only
from migrate.stores.rocksdb.layout import check_readable, database_files, file_states, metadata_digest
from migrate.stores.rocksdb.options_file import OPTIONS_CHECKS, OptionsCheck, check_options, read_options
from migrate.stores.rocksdb.unreadable import check_no_backup
from migrate.systems import STANDALONE, System, get_system
from migrate.systems.base import not_a_segment


class Unpacked:
    """The RocksDB directories of archived store partitions, in a temporary folder that is removed with this object."""

    def __init__(self, system: System, path: Path, partitions: Iterable[StorePartition]) -> None:
        """Unpack those of these store partitions below `path` that are in archives."""
        self.folders: dict[str, Path] = {}
        """By store partition."""
        for partition in partitions:
            if (archive := system.archives.of(path, partition)) is not None:
                folder = self._temporary / partition.id
                folder.mkdir(parents=True)
                system.archives.unpack(archive, partition, folder)
                self.folders[partition.id] = folder

    @cached_property
    def _temporary(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="stateferry-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder


@dataclass(frozen=True, slots=True)
class Source:
    """The application's directory and the store partitions to migrate."""

    path: Path
    application: str
    """Its id, by which topics are named."""
    format: Format
    system: System
    partitions: tuple[StorePartition, ...]
    unpacked: Unpacked | None = field(default=None, kw_only=True)

    def archive(self, partition: StorePartition) -> Path | None:
        """The file that a store partition is packed into, if it is."""
        return self.system.archives.of(self.path, partition)

    def directories(self, partition: StorePartition) -> dict[str, Path]:
        """The RocksDB directories to read, by database."""
        folder = None if self.unpacked is None else self.unpacked.folders.get(partition.id)
        return partition.directories(self.path) if folder is None else partition.below(folder)

    def stated_positions(self, partition: StorePartition) -> ChangelogOffsets:
        """The changelog offsets of a store partition in files beside its RocksDB directories, or under keys in them."""
        return self.system.offsets.read(self.path, partition)

    def changelog_lines(self, partition: StorePartition) -> tuple[Line, ...]:
        """The changelog offsets of a store partition, wherever its owner keeps them."""
        newest_first = reversed(self.directories(partition).values())
        return (
            self.stated_positions(partition).lines
            or self.system.offsets.within(self.application, partition, newest_first).lines
        )

    def position_problem(self, partition: StorePartition) -> str | None:
        """Why the position of a store partition is unknown, so that nothing can be replayed onto it."""
        return self.system.offsets.problem(self.path, partition, self.changelog_lines(partition))

    def position(self, partition: StorePartition) -> int | None:
        """The offset of the next changelog record that its owner would apply; None: nothing states it."""
        lines = self.changelog_lines(partition)
        return self.system.offsets.next_record(lines[0][2]) if lines else None

    def snapshot_mode(self, partition: StorePartition, mode: str) -> str:
        """How a snapshot takes its files: as [run] snapshot says, unless they were unpacked."""
        return mode if self.archive(partition) is None else "unpacked"

    def check_stopped(self) -> None:
        """Raises StoreLockedError while the owner runs."""
        check_unlocked(self.system.layout.lock_files(self.path, self.partitions))

    def every_directory(self) -> list[Path]:
        return [path for partition in self.partitions for path in self.directories(partition).values()]

    def check_files(self) -> None:
        """Raises RefusedError for missing or unreadable files, and for half-converged stores (I4, I7)."""
        for directory in self.every_directory():
            files = database_files(directory)
            check_not_half_converged(directory)
            check_readable(files)
            read_options(directory)
            if (kind := self.system.discovery.kind_within(directory)) is not None:
                raise RefusedError(
                    f"{directory} is {kind.name}, which cannot be converted: {kind.reason}", hint=kind.instead
                )

    def check_options(self, checks: Iterable[OptionsCheck] = OPTIONS_CHECKS) -> None:
        """Raises RefusedError where a column family's options do not pass these checks."""
        for directory in self.every_directory():
            check_options(directory, read_options(directory), checks)

    def warnings(self) -> list[str]:
        return self.system.offsets.warnings(self.path, self.partitions)


def find_source(spec: Spec) -> Source:
    """Discover the source's store partitions. Raises RefusedError, which lists what is there."""
    system = source_system(spec)
    check_made(spec)
    partitions, _ = find_partitions(spec)
    for partition in partitions:
        system.segments.of(spec.source_path, partition)  # raises for a foreign name
        for name, directory in partition.directories(spec.source_path).items() if partition.has_segments else ():
            if not directory.is_dir():
                raise not_a_segment(spec.source_path, partition, name)
    unpacked = Unpacked(system, spec.source_path, partitions)
    return Source(
        spec.source_path, application_of(spec), spec.source_format, system, tuple(partitions), unpacked=unpacked
    )


def find_partitions(
    spec: Spec, stores: Sequence[str] | None = None
) -> tuple[list[StorePartition], list[StorePartition]]:
    """The source's store partitions, and those that `[source] leave_out` leaves out. Raises RefusedError.

    `stores`: only those of these stores.
    """
    names, left_out = spec.source.store_names if stores is None else stores, spec.source.leave_out
    try:
        found = [each for some in _of_one_layout(spec, names) for each in _find(spec, some)]
    except RefusedError:
        check_made(spec)
        check_no_backup(spec.source_path)
        raise
    kept = [each for each in found if each.task not in left_out]
    if gone := {each.store for each in found} - {each.store for each in kept}:
        raise RefusedError(
            f"[source] leave_out leaves no task directory of the store {min(gone)!r}",
            hint=f"name only those that the application no longer uses; there are: "
            f"{', '.join(dict.fromkeys(each.task for each in found))}",
        )
    return kept, [each for each in found if each.task in left_out]


def _of_one_layout(spec: Spec, names: Sequence[str]) -> Iterator[Sequence[str]]:
    """The stores, in order, in runs that lie in directories of one layout."""
    if not spec.source.moved_stores:
        yield names
        return
    for _, mine in groupby(names, lambda name: spec.of_store(name).source_format.is_segmented):
        yield [*mine]


def _find(spec: Spec, names: Sequence[str]) -> list[StorePartition]:
    known = spec.of_store(names[0]).source_format if names else spec.source_format
    return source_system(spec).layout.find(spec.source_path, names, is_segmented=known.is_segmented)


def source_system(spec: Spec) -> System:
    """The system that owns the old store."""
    return get_system(spec.source_format.system) if spec.source.store_names else STANDALONE


def application_of(spec: Spec) -> str:
    """The application's id, which its group and its topics are named by. Raises SpecError where nothing tells it."""
    given = None if spec.changelog is None else spec.changelog.application_id
    found = given or source_system(spec).changelog.application_id(spec.source_path)
    if found is None and spec.changelog is not None:
        raise SpecError(
            f"[changelog]: {spec.source_path} does not tell the id of its application, which topics are named by",
            hint='name it: application_id = "..."',
        )
    return found or "<application.id>"


def target_system(spec: Spec) -> System:
    """The system that will own the new store: for a format of any bytes, the old store's."""
    if spec.target_format.column_families is None or not spec.source.store_names:
        return source_system(spec)
    return get_system(spec.target_format.system)


def is_another_system(spec: Spec) -> bool:
    """Whether another stream processor will own the new store."""
    return target_system(spec) is not source_system(spec)


@dataclass(frozen=True, slots=True)
class Files:
    """The state of a directory's files. If it is the same, so is the content: there is no need to open it."""

    states: tuple[tuple[str, int, int], ...]
    metadata: str
    """A digest of all files but SST and blob files."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a RocksDB directory."""

    content: StoreContent
    files: Files | None
    """The files that it was read from; None: they changed meanwhile."""
    sorted_runs: int = 0
    """The tables that one scan has open at a time: of level 0 all, of each other level one."""


def read_store(directory: Path) -> Reading:
    """Open a RocksDB directory, and read its content. Raises RefusedError where it cannot be opened."""
    with open_read_only(directory) as opened:
        content, files = opened.content(), files_of(directory)
        runs = {table.level or table.name for table in opened.live_files}
        return Reading(content, files if opened.view.is_current() else None, len(runs))


def files_of(directory: Path, metadata: str | None = None) -> Files:
    """The present files. `metadata`: their digest, where the caller has it. Raises RefusedError without a manifest."""
    files = database_files(directory)
    return Files(tuple(file_states(directory, files)), metadata or metadata_digest(directory, files))


def check_tasks(spec: Spec, source: Source) -> str | InconclusiveCheck:
    """Raises RefusedError where two task directories have one changelog partition: both would be written to it."""
    by_changelog: dict[tuple[str, int], list[StorePartition]] = {}
    for partition in source.partitions:
        if (key := _changelog(source, partition)) is not None:
            by_changelog.setdefault(key, []).append(partition)
    if shared := [each for each in by_changelog.values() if len(each) > 1]:
        raise _left_behind(source, shared)
    if not spec.source.leave_out:
        return ""
    _, left_out = find_partitions(spec)
    named = ", ".join(each.id for each in left_out) or "none of them is on this host"
    if alone := [each.id for each in left_out if _changelog(source, each) not in by_changelog]:
        return InconclusiveCheck(
            f"{', '.join(alone)}: left out, and no other task directory here has its changelog partition",
            "make sure that another host has it; else take it out of [source] leave_out",
        )
    return f"left out: {named}"


def _changelog(source: Source, partition: StorePartition) -> tuple[str, int] | None:
    """What tells a changelog partition, whatever the task's name is; None: the task has no number."""
    number = source.system.layout.number(partition)
    return None if number is None else (source.system.changelog.topic("", partition), number)


def _left_behind(source: Source, shared: Sequence[Sequence[StorePartition]]) -> RefusedError:
    sentences, behind, ahead = [], set[str](), set[str]()
    for found in shared:
        at = {each: source.position(each) for each in found}
        known = [offset for offset in at.values() if offset is not None]
        which = "nothing tells which is behind"
        if len(known) == len(found) and known.count(max(known)) == 1:
            older = [each.task for each, offset in at.items() if offset != max(known)]
            behind.update(older)
            ahead |= {each.task for each in found if each.task not in older}
            which = f"{' and '.join(older)} is behind"
        sentences.append(
            " and ".join(f"{each.id} ({_at(offset)})" for each, offset in at.items())
            + f" are directories of one changelog partition: {which}"
        )
    hint = "leave out the one that the application no longer uses: [source] leave_out"
    if behind and not behind & ahead:
        names = ", ".join(f'"{task}"' for task in sorted(behind))
        hint = f"the subtopologies were renumbered; leave out what was left behind: [source] leave_out = [{names}]"
    return RefusedError("; ".join(sentences), hint=hint)


def _at(offset: int | None) -> str:
    return "which states no position" if offset is None else f"at offset {offset:,}"
