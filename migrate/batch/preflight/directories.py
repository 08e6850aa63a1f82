"""Checks of changelogs, paths, disk space and versions, before anything is written."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from formats import Conversion, Format
from formats.format import in_order
from migrate.batch.context import check_home
from migrate.batch.plan.target_layout import new_partition
from migrate.batch.source.changelog_ends import ChangelogEnds, check_ends
from migrate.batch.source.snapshot import is_snapshot_current
from migrate.batch.source.source import Reading, Source, is_another_system
from migrate.errors import RefusedError, SourceChangedError
from migrate.model.display import plural, size
from migrate.model.plan import DatabasePlan
from migrate.model.reports import InconclusiveCheck
from migrate.spec.allowed import APPLICATION_ID, UNCLEAN_SOURCE, allowing
from migrate.spec.changelog_way import is_rewritten
from migrate.spec.spec import Spec
from migrate.stores.carry_over import check_can_be_carried_over
from migrate.stores.files import can_rename, cannot_link, delta_uri, existing_parent, raise_open_files, total_size
from migrate.stores.regular_files import walk
from migrate.stores.rocksdb.layout import database_files, foreign_entries
from migrate.stores.rocksdb.options_file import newest_options, reads_new_stores

SPACE_MARGIN = 1.2
_CLOCK_SLACK_SECONDS = 60
_NO_SNAPSHOT = 'stop the application for the whole run instead: [run] source = "live", or leave it out'
_OTHER_FILES = 48


def check_position(source: Source) -> None:
    """Raises RefusedError where the position from which the owner would replay onto a snapshot is unknown."""
    for partition in source.partitions:
        if (reason := source.position_problem(partition)) is not None:
            raise RefusedError(
                f"{partition.id}: {reason}",
                hint=_NO_SNAPSHOT
                if source.system.offsets.counts_stops
                else "start the application and stop it cleanly, then take the snapshot; a killed one, or one that "
                "runs exactly-once, leaves no position",
            )


def check_clean(
    spec: Spec, conversion: Conversion, source: Source, ends: ChangelogEnds, *, has_begun: bool = False
) -> str | InconclusiveCheck:
    """A sentence about where the application stopped.

    Raises RefusedError where the owner may replay its changelog into a store that the changelog no longer fits.
    `has_begun`: the source is unchanged since an earlier run passed this check.
    """
    is_renamed_alone = spec.changelog is None and bool(spec.target.store_names)
    if is_renamed_alone or not (conversion.source.has_changelog and is_rewritten(spec, conversion)):
        fits = "the changelog fits the new store, into which the application replays what its files lack"
        return "the old changelog is not replayed into a store of another name" if is_renamed_alone else fits
    if spec.run.source == "snapshot":
        return "the snapshot was taken after a clean stop; stateferry catch-up SPEC brings what was written since"
    if spec.changelog is not None and not ends:
        return "the broker is asked where the changelogs end"
    if UNCLEAN_SOURCE in spec.conversion.allow:
        return "what the application wrote after its files' positions is replayed in the old form (allowed by name)"
    if warnings := source.warnings():
        raise RefusedError(
            f"the application did not stop cleanly, and would replay old records into the new store: {warnings[0]}",
            hint="start and stop the old application once, cleanly; or, if nothing will be replayed, accept that: "
            f"{allowing(UNCLEAN_SOURCE)}",
        )
    if has_begun and not ends:
        return "the old store was not opened since the run began"
    return check_ends(source, ends)


def check_not_opened_since(spec: Spec, conversion: Conversion, source: Source) -> None:
    """Raises SourceChangedError where the owner has opened the store since, and its changelog no longer fits.

    Even with unchanged files it may have written more to the changelog: a kill loses what was not flushed.
    """
    is_same_topic = spec.changelog is None and not spec.target.store_names
    is_replayed = is_same_topic and conversion.source.has_changelog and conversion.changes_changelog
    if not is_replayed or UNCLEAN_SOURCE in spec.conversion.allow:
        return
    if not is_snapshot_current(source, spec.home, mode=spec.run.snapshot):
        raise SourceChangedError(
            "the old store was opened since it was converted: where its changelog ends now is not known",
            hint="stateferry run SPEC, with --changelog-end for each changelog as it ends now; then the same command",
        )


def check_target(spec: Spec, source: Source) -> None:
    """Raises RefusedError where the target's path or the work_dir cannot be used."""
    check_work_dir(spec)
    check_target_path(spec, source)
    check_writable(spec)


def check_target_path(spec: Spec, source: Source) -> None:
    """Raises RefusedError where the new store could not be put in its final place."""
    target = spec.target_path
    for partition in source.partitions if spec.target.store_names and not is_another_system(spec) else ():
        check_free(source.path / new_partition(spec, partition, ()).path)
    if target is None:
        check_can_be_exchanged(spec, source)
        return
    if target.exists():
        raise RefusedError(f"[target] path {target} exists already", hint="name a path that does not exist yet")
    if target.is_relative_to(source.path) or source.path.is_relative_to(target):
        raise RefusedError(
            f"[target] path {target} and the source contain each other", hint="name a path beside the source"
        )
    _check_may_write(existing_parent(target), "name another [target] path")
    check_can_be_carried_over(source.path)


def check_free(live: Path) -> None:
    """Raises RefusedError where something is in the place that a new store is moved to."""
    if live.exists() or live.is_symlink():
        raise RefusedError(
            f"{live} is there already, where the new store goes",
            hint="has an application of the new version been started? stop it, and move that directory away; or give "
            "the new store another name in [target] store, which is another migration",
        )


def check_target_name(spec: Spec, source: Source) -> str | InconclusiveCheck:
    """Raises RefusedError where the new directory's name is another id than the application's, which decides on topics.

    An InconclusiveCheck where nothing tells the id.
    """
    found, target = source.system.changelog.application_ids(source.path), spec.target_path
    if found is None or target is None:
        return ""
    given, name = None if spec.changelog is None else spec.changelog.application_id, target.name
    ids = (given,) if given is not None else tuple(found)
    if name in ids:
        return f"its name is the application's id: {name}"
    known = " or ".join(sorted(ids))
    if not ids and spec.source.rows:
        return f"its name must be the id of the application that opens it: {name}"
    if not ids:
        unknown = f"no file in {source.path} names a changelog, so that the application's id is not known"
        if name == source.path.name:
            return f"{unknown}; the new directory keeps the old one's name"
        return InconclusiveCheck(
            f"{unknown}: only one with the id {name} finds {target}", "else let [target] path end in its id"
        )
    if APPLICATION_ID in spec.conversion.allow:
        return f"its name is {name}, and the application's id is {known} (allowed by name)"
    ends = {topic.removeprefix(each) for each in ids for topic in found.get(each, ())}
    own = {source.system.changelog.topic(name, each) for each in source.partitions}
    topics = sorted({f"{name}{end}" for end in ends} or own)
    raise RefusedError(
        f"[target] path {target} ends in {name}, and the application's id is {known}: one whose id is {name} would "
        f"read {', '.join(topics[:3])}{f' and {len(topics) - 3} more' if topics[3:] else ''}, and all inputs again",
        hint=f'let the path end in the id: [target] path = "{target / sorted(ids)[0]}"; or, if you make these topics '
        f"and commit that group's offsets yourself, {allowing(APPLICATION_ID)}",
    )


def check_work_dir(spec: Spec) -> None:
    """Raises RefusedError where the work_dir is in a place that is not allowed."""
    check_home(spec)
    delta_uri(spec.home)  # which the ledger needs
    if spec.home.is_relative_to(spec.source_path):
        raise RefusedError(
            f"work_dir {spec.home.parent} lies inside the application's state directory",
            hint="put it beside that directory: a foreign directory inside can hide stores from the application",
        )


def check_writable(spec: Spec) -> None:
    """Raises RefusedError where the work_dir cannot be created or written to."""
    parent = existing_parent(spec.home)
    if not parent.is_dir():
        raise RefusedError(f"work_dir {spec.home}: {parent} is not a directory", hint="name another work_dir")
    _check_may_write(parent, "choose another work_dir")


def _check_may_write(folder: Path, otherwise: str) -> None:
    """Raises RefusedError where nothing can be named or renamed in a directory, as on a read-only mount."""
    if not os.access(folder, os.W_OK):
        raise RefusedError(f"cannot write to {folder}", hint=f"{otherwise}, or run as the application's user")


def check_linkable(spec: Spec, source: Source) -> None:
    """Raises RefusedError where a snapshot could not hard-link the old store's files."""
    parent = existing_parent(spec.home)
    for partition in source.partitions:
        is_linked = source.snapshot_mode(partition, spec.run.snapshot) == "link"
        for directory in source.directories(partition).values() if is_linked else ():
            if not can_rename(parent, directory):  # a link neither, over mounts of one disk
                raise cannot_link(directory, spec.home)


def check_can_be_exchanged(spec: Spec, source: Source) -> None:
    """Raises RefusedError where a cut-over could not exchange directories, which must be plain, on one file system."""
    parent = existing_parent(spec.home)
    for partition in source.partitions:
        live = source.path / partition.path
        if (archive := source.archive(partition)) is not None:
            raise RefusedError(
                f"{partition.id} lies in the archive {archive}, which cannot be exchanged with the new store",
                hint="name a [target] path",
            )
        if not live.exists():
            continue
        if live.is_symlink() or live.is_mount():
            kind = "symbolic link" if live.is_symlink() else "mount point"
            raise RefusedError(
                f"{live} is a {kind}, which cannot be exchanged with the new store",
                hint="put a plain directory there, or name a [target] path",
            )
        if not can_rename(parent, live.parent):
            raise RefusedError(
                f"work_dir {spec.home.parent} and {live} are on different file systems or mounts, so that they "
                "cannot be exchanged",
                hint="put work_dir on the file system of the state directory, or name a [target] path",
            )
        _check_may_write(live.parent, "name a [target] path")
        for directory in partition.directories(source.path).values():
            if directory.is_dir():  # a segment may have expired since
                _check_can_be_moved(directory)


def _check_can_be_moved(directory: Path) -> None:
    if foreign := foreign_entries(directory):
        raise RefusedError(
            f"{directory} holds {foreign[0]}, which is not RocksDB's: it would be moved with the old store",
            hint="move it elsewhere, or name a [target] path: the old directory then stays as it is",
        )
    with os.scandir(directory) as entries:
        links = [Path(entry.path) for entry in entries if entry.is_symlink()]
    for path in links:
        if not path.readlink().is_absolute():
            raise RefusedError(
                f"{path} is a relative symbolic link, which breaks once the old store is moved",
                hint=f'make it absolute (ln -sfn "$(realpath {path.name})" {path.name}), or put the file itself there',
            )


def space_needed(databases: tuple[DatabasePlan, ...], *, copied_bytes: int) -> int:
    """The free bytes that the new stores and the copied part of a snapshot need."""
    return int(SPACE_MARGIN * sum(database.data_bytes for database in databases if database.is_kept)) + copied_bytes


def bytes_to_copy(spec: Spec, source: Source) -> int:
    """The bytes that a snapshot copies: of the files that it does not link."""
    return sum(
        total_size(database_files(folder).immutable)
        for partition in source.partitions
        if source.snapshot_mode(partition, spec.run.snapshot) != "link"
        for folder in source.directories(partition).values()
    )


def check_space(spec: Spec, databases: tuple[DatabasePlan, ...], copied_bytes: int) -> str:
    """A sentence about the free space. Raises RefusedError where the work_dir's or the target's disk is too small."""
    home = existing_parent(spec.home)
    free = _check_free(
        f"work_dir {spec.home}",
        home,
        space_needed(databases, copied_bytes=copied_bytes),
        hint="make space, or put work_dir on a larger disk of the same file system as the state directory",
    )
    if spec.target_path is None:
        return free
    parent = existing_parent(spec.target_path)
    copied = 0 if can_rename(parent, home) else space_needed(databases, copied_bytes=0)
    if not can_rename(parent, spec.source_path):
        copied += total_size(
            path
            for folder, _, names in walk(spec.source_path)
            for path in map(folder.joinpath, names)
            if path.is_file()
        )
    hint = "make space, or let [target] path be on the file system of the state directory: SST files are linked there"
    _check_free(f"[target] path {spec.target_path}", parent, copied, hint=hint)
    return free


def _check_free(what: str, folder: Path, needed: int, *, hint: str) -> str:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise RefusedError(
            f"{what} has {free / 2**20:,.1f} MiB free, the new stores may need {needed / 2**20:,.1f} MiB", hint=hint
        )
    return f"{size(free)} free, up to {size(needed)} needed"


def check_version(spec: Spec, source: Source) -> str | None:
    """The system and version that will open the new store. Raises RefusedError where it could not."""
    version, target = spec.target.version, spec.target_format
    if version is None:
        if not is_another_system(spec):
            _check_owner_reads(source, target)
        return None
    known = target.checked_version(version)
    if target.since is not None and in_order(version) < in_order(target.since):
        raise RefusedError(
            f"{known.name} has {target.id} since {target.since}, and [target] version is {version}",
            hint=f'let {target.since} or newer open the new store: [target] version = "{target.since}"; or name a '
            "format without headers",
        )
    return f"{known.name} {version}"


def _check_owner_reads(source: Source, target: Format) -> None:
    """Raises RefusedError where the RocksDB that wrote the old store is too old to open the new one."""
    for directory in source.every_directory():
        found = newest_options(directory).rocksdb_version
        if found is not None and not reads_new_stores(found):
            known = target.versions
            named = "" if known is None else f', or name that version: [target] version = "{known.example}"'
            raise RefusedError(
                f"{directory} was written by RocksDB {found}, which cannot read the new store",
                hint=f"RocksDB 6.6 and newer can: let a newer version of the application open the store once{named}",
            )


def check_open_files(source: Source, read: Callable[[Path], Reading]) -> str:
    """Raises RefusedError where a scan has more files open than this process may."""
    allowed = raise_open_files()
    found = ((read(each).sorted_runs, each) for each in source.every_directory())
    needed, directory = max(found, default=(0, source.path))  # a store may have no segment
    if needed + _OTHER_FILES > allowed:
        raise RefusedError(
            f"a scan of {directory} has {needed:,} tables open at a time, and this process may open {allowed:,} files",
            hint=f"raise the limit of open files (ulimit -n {needed + _OTHER_FILES}), or let its owner compact it",
        )
    return f"up to {plural(needed, 'table')} at a time, of {allowed:,} files"


def check_owner(source: Source) -> None:
    """Raises RefusedError where the new files cannot be given to the old store's user."""
    owners = {(directory / "CURRENT").stat().st_uid for directory in source.every_directory()}
    if os.geteuid() != 0 and owners - {os.geteuid()}:
        raise RefusedError(
            f"the old store belongs to user {min(owners)}, and this is user {os.geteuid()}: only root may give files "
            "away",
            hint="run as the application's user, or as root",
        )


def check_clock(source: Source) -> None:
    """Raises RefusedError where a file of the old store is of the future."""
    files = (path for directory in source.every_directory() for path in database_files(directory).every)
    newest = max((path.stat().st_mtime for path in files), default=0.0)
    if newest > time.time() + _CLOCK_SLACK_SECONDS:
        raise RefusedError(
            f"a file of the old store was written {newest - time.time():,.0f} s from now: this clock is behind",
            hint="set the clock: the ledger's times and the age of a snapshot depend on it",
        )
