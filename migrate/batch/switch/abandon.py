"""`abandon`: give a migration up. It and `finalize` say before what they remove: our files, never the application's."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from migrate.batch.changelog.topics import names_of_made
from migrate.batch.changelog.undo import NO_TOPICS, ReleasedTopics, appended_topics, give_up_changelogs
from migrate.batch.context import Context, check_home
from migrate.batch.frame import command
from migrate.batch.home import (
    ABANDONED,
    MARKER,
    NEW,
    OLD,
    claim,
    is_abandoned,
    is_run_folder,
    remove_all,
    temporary_directories,
)
from migrate.batch.identity import RetiredStores
from migrate.batch.ledger.changelog_standing import ChangelogStanding
from migrate.batch.ledger.standing import Standing, read_standing
from migrate.batch.run_lock import pid_at_work
from migrate.batch.source.snapshot import snapshot_record
from migrate.batch.switch.finalize import FREED
from migrate.errors import DamagedLedgerError, MigrationError, RefusedError, system_errors_explained
from migrate.model.display import plural, size
from migrate.model.events import Listener, ignore
from migrate.model.journal import Journal
from migrate.model.ledger_row import Row, Step
from migrate.model.plan import Plan
from migrate.model.reports import AbandonReport
from migrate.model.store_partition import StorePartition
from migrate.spec.spec import Spec
from migrate.stores.files import fsync_directory, present, remove_tree
from migrate.stores.rocksdb.layout import rocksdb_identities


@system_errors_explained()
def abandon(spec: Spec, *, on_event: Listener = ignore) -> AbandonReport:
    """Remove our files from the migration's folder, so that another migration may start under the same name.

    Other files stay, and are named. Topics that the migration has made are removed; to a changelog that converted
    records were appended to, the old values are appended again.

    Args:
        spec: the migration, from `load_spec` or built in code.
        on_event: called with each `Event`, before the work goes on.

    Raises:
        RefusedError: after a cut-over, which `rollback` or `finalize` ends, and where a store in the folder may be the
            only copy of an old one.
    """
    check_home(spec)
    is_there = spec.home.is_dir() and any(spec.home.iterdir())
    left, topics = _remove(Context(spec, on_event, "abandon")) if is_there else ((), NO_TOPICS)
    return AbandonReport(
        name=spec.name,
        removed=spec.home if is_there else None,
        source=spec.source_path,
        left_over=left,
        removed_topics=topics.removed,
        undone_topics=topics.undone,
        kept_topics=topics.kept,
    )


def _remove(context: Context) -> tuple[tuple[Path, ...], ReleasedTopics]:
    spec, home, topics = context.spec, context.home, NO_TOPICS
    left: list[Path] = []
    with command(context, rows=_rows):
        if not is_abandoned(home):
            _check_nothing_was_switched(spec, context.standing)
            context.notify("abandon.started")
            topics = give_up_changelogs(context)
            if topics != NO_TOPICS:
                context.notify("abandon.topics-removed")
            left += _remove_unpublished(spec, context.standing.rows)
            claim(home, spec.source_path)
            (home / MARKER).rename(home / ABANDONED)  # from here on no other command takes it for a migration
            fsync_directory(home)
            context.notify("abandon.renamed")
        left += remove_all(home)
    context.notify("abandon.removed")
    return tuple(left), topics


def _rows(context: Context) -> list[Row]:
    """The ledger's rows, unrepaired; none where an earlier `abandon` was killed: this one goes on with it."""
    try:
        return [] if is_abandoned(context.home) else context.log.rows()
    except DamagedLedgerError:
        if context.spec.changelog is not None and context.spec.changelog.way == "append":
            raise  # it alone knows what has to be undone at the broker
        return []  # otherwise it does not keep a migration from being abandoned


def _remove_unpublished(spec: Spec, rows: Sequence[Row]) -> list[Path]:
    """Remove directories that killed runs left beside the target; returns those of runs that no row names."""
    ours = temporary_directories(spec.target_path, {row.run_id for row in rows})
    for temporary in ours:
        remove_tree(temporary)
    return [folder for folder in temporary_directories(spec.target_path) if folder not in ours]


def _check_nothing_was_switched(spec: Spec, standing: Standing) -> None:
    step = standing.step
    shelf = spec.home / OLD
    if any(path.is_file() for path in shelf.rglob("*")):
        raise RefusedError(
            f"{shelf} holds old stores, which are the application's",
            hint=_without_ledger(spec)
            if step is None
            else "stateferry rollback SPEC puts them back; stateferry finalize SPEC gives them up",
        )
    _check_no_old_store(spec, standing)
    if standing.is_live:
        raise RefusedError(
            f"the migration {spec.name!r} cannot be abandoned: the new stores are in use",
            hint="stateferry status SPEC names the next step",
        )


def _check_no_old_store(spec: Spec, standing: Standing) -> None:
    """Raises RefusedError where a switch that the ledger no longer records may have left old stores in our folder."""
    old = frozenset(name for exchange in standing.journal.exchanges for name in exchange.old_names)
    retired = RetiredStores(spec.source_path, standing, old)
    plan, partitions = _planned(standing)
    for run in filter(lambda folder: is_run_folder(folder.name), sorted((spec.home / NEW).glob("*"))):
        known = frozenset[str]().union(*(rocksdb_identities(run / partition.id) for partition in partitions))
        unknown = rocksdb_identities(run) - known
        found = [partition for partition in partitions if retired.may_hold(run.name, partition, plan)]
        if found or (unknown and run.name not in retired.runs):
            raise RefusedError(
                f"{run} holds old stores, which are the application's, or may hold one: "
                f"{', '.join(partition.id for partition in found) or 'no plan names it'}",
                hint=_without_ledger(spec) if standing.step is None else "stateferry rollback SPEC puts them back",
            )


def _without_ledger(spec: Spec) -> str:
    return (
        "the ledger records no switch, so that no command can undo one: move each old store to its place in "
        f"{spec.source_path}, or, to keep the new ones, out of {spec.home}; then run the command again"
    )


def _planned(standing: Standing) -> tuple[Plan | None, tuple[StorePartition, ...]]:
    """The plan and its store partitions; without a readable plan, the partitions of the snapshot."""
    with suppress(MigrationError):
        if standing.plan is not None:
            return standing.plan, standing.plan.store_partitions
    with suppress(MigrationError):
        return None, snapshot_record(standing.home).store_partitions
    return None, ()


def removed_by_finalize(spec: Spec, *, delete_topic: bool = False) -> str:
    """The sentence about `finalize`; empty where it would remove nothing, or is refused."""
    standing = read_standing(spec.home)
    freed, topics = size(_freed(spec.home / name for name in FREED)), ""
    if delete_topic and (written := standing.changelogs.topics) is not None:
        old = ", ".join(dict.fromkeys(written.names.values()))
        topics = f" It deletes the old changelogs at the broker: {old}."
    if standing.step in (Step.CUT_OVER, Step.FINALIZING):
        return f"This {_after_cut_over(standing.journal, freed)}, and ends the possibility of rollback.{topics}"
    if standing.published is None or standing.step is not None:
        return topics.strip() if standing.step is Step.FINALIZED else ""
    return (
        f"This removes the snapshot and the working files, {freed}. The old state directory {spec.source_path} stays."
        f"{topics}"
    )


def _after_cut_over(journal: Journal, freed: str) -> str:
    stores = plural(len(journal.exchanges), "store partition")
    if any(entry.is_moved_in for entry in journal.exchanges):
        return f"removes the working files, {freed}, leaves the old stores of {stores} beside the new ones"
    return f"removes the old stores of {stores}, {freed}"


def removed_by_abandon(spec: Spec) -> str:
    """The sentence about `abandon`; empty where it would remove nothing, or is refused."""
    home, stores, topics = spec.home, "", ""
    with suppress(MigrationError):  # a migration that is damaged can be abandoned too
        standing = read_standing(home)
        if standing.is_in_use or (home / OLD).exists():
            return ""
        if assembled := standing.assembled:
            stores = f" with the new stores of {plural(len(assembled), 'store partition')}"
        topics = _topics_of(standing.changelogs)
    if not home.is_dir() or pid_at_work(home):
        return ""
    return (
        f"This removes {home}{stores}, {size(_freed([home]))}.{topics} The application's own stores stay as they are."
    )


def _topics_of(written: ChangelogStanding) -> str:
    appended = appended_topics(written)
    if appended is not None:
        return f" It appends the old values again to {', '.join(appended.names)}."
    made = names_of_made(written)
    return f" It deletes the topics that were made for the new stores: {', '.join(made)}." if made else ""


def _freed(folders: Iterable[Path]) -> int:
    """Bytes of the files below these folders that have no hard link elsewhere."""
    files = present(path for folder in folders for path in folder.rglob("*")).values()
    links = Counter((file.st_dev, file.st_ino) for file in files if stat.S_ISREG(file.st_mode))
    whole = {(file.st_dev, file.st_ino): file for file in files if links[file.st_dev, file.st_ino] == file.st_nlink}
    return sum(file.st_size for file in whole.values())
