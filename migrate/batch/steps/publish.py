"""Publish: with `[target] path`, a complete new state directory appears there in one step."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence, Set
from functools import partial
from pathlib import Path

from migrate.batch.changelog.broker_access import cluster_of
from migrate.batch.changelog.held_topics import check_none_missing, left_behind
from migrate.batch.changelog.store_changelogs import every_rewritten_line
from migrate.batch.context import Context
from migrate.batch.home import temporary_directory
from migrate.batch.ledger.gates import require_acceptance, signed_off
from migrate.batch.plan.target_layout import write_new_positions
from migrate.batch.source.source import is_another_system, source_system, target_system
from migrate.batch.steps.prepare import check_unchanged
from migrate.errors import RefusedError
from migrate.model.ledger_row import Step
from migrate.model.reports import Concern, Held
from migrate.model.store_partition import StorePartition
from migrate.stores.carry_over import carry_over, copy_attributes
from migrate.stores.files import fsync_all, fsync_directory, fsync_tree, make_directories, own_like, remove_tree
from migrate.stores.rocksdb.layout import identity_of


def publish(context: Context, concerns: tuple[Concern, ...]) -> Path | None:
    """Publish the new stores, and return the directory; None: `cutover` exchanges stores in place.

    Raises what `require_acceptance` raises where a concern is not accepted.
    """
    target = context.spec.target_path
    if target is None:
        require_acceptance((concern for concern in concerns if concern.kind == "mismatch"), "this run settles nothing")
        return None
    temporary = temporary_directory(target, context.run_id)
    if not _was_renamed(context, target):
        require_acceptance(concerns, "nothing was published, and the new stores are kept")
        _check_free(target)
        missing = _missing(context)
        check_unchanged(context)
        context.notify("publish.started", target=target)
        try:
            _build(context, temporary)
            _intend(context, temporary, signed_off(concerns), missing)
            context.ledger.check_not_fenced()
            rename_into_place(temporary, target)
        except BaseException:
            remove_tree(temporary)  # otherwise a full disk would stay full, and each further run would add to it
            raise
        context.notify("publish.renamed", target=target)
    else:
        fsync_directory(target.parent)  # the run that renamed it may have died before that was durable (I1)
    context.record(Step.PUBLISHED, detail={"path": str(target)})
    context.notify("publish.committed", target=target)
    return target


def _check_free(target: Path) -> None:
    if target.exists():
        raise RefusedError(
            f"[target] path {target} exists already",
            hint="if another run has published it, run the command again, which recognizes it; otherwise move it away",
        )


def _build(context: Context, temporary: Path) -> None:
    """Build the complete directory under a name of this run's."""
    plan, folders, target = context.plan, context.standing.assembled, target_system(context.spec)
    new_stores = [(plan.new_partition(each), folders[each.id]) for each in plan.store_partitions]
    source, system = context.spec.source_path, source_system(context.spec)
    left_out = {archive for each in plan.store_partitions if (archive := system.archives.of(source, each)) is not None}
    left_out |= {source / each.path for each in plan.store_partitions}  # a new store may have another name
    left_out |= {source / each.task for each in plan.old_partitions}  # the new tasks are others
    is_alone = is_another_system(context.spec)
    known = context.conversion.target
    pack = partial(target.archives.pack, application=temporary, known=known)
    build_directory(source, new_stores, temporary, pack, left_out=left_out, is_alone=is_alone)
    write_new_positions(context.spec, plan, temporary, every_rewritten_line(context))
    path = context.spec.target_path or temporary
    fsync_all(target.layout.complete(temporary, path, [partition for partition, _ in new_stores], known))
    check_unchanged(context)
    context.notify("publish.built", temporary=temporary)


def _missing(context: Context) -> tuple[Held, ...]:
    """The partitions that are left behind, as the spec says. Raises RefusedError where it does not."""
    topics = context.standing.changelogs.topics
    if topics is None:
        return ()
    with cluster_of(context.spec) as cluster:
        missing = check_none_missing(cluster, context.spec, topics)
    if missing:
        context.warn(left_behind(missing))
    return missing


def _intend(context: Context, temporary: Path, accepted: Sequence[Concern], missing: Sequence[Held]) -> None:
    """Commit that the directory is about to be renamed, and what was accepted."""
    intent: dict[str, object] = {
        "path": str(context.spec.target_path),
        "stores": _identities(context, temporary),
        "accepted": [concern.model_dump() for concern in accepted],
        "missing": [each.model_dump() for each in missing],
    }
    context.record(Step.PUBLISHING, detail=intent)
    context.notify("publish.intended", target=context.spec.target_path)


def _was_renamed(context: Context, target: Path) -> bool:
    """Whether an earlier run died between the rename and its row: `target` has the stores that it made."""
    intents = [(each["path"], each["stores"]) for each in context.standing.publications]
    return target.is_dir() and (str(target), _identities(context, target)) in intents


def _identities(context: Context, application: Path) -> list[str]:
    """RocksDB's identity of each new store, empty where it has none; of an archive the number of its inode."""
    found, archives = list[str](), target_system(context.spec).archives
    for partition in map(context.plan.new_partition, context.plan.store_partitions):
        if (archive := archives.of(application, partition)) is not None:
            found.append(str(archive.stat().st_ino))
        else:
            found += map(identity_of, partition.directories(application).values())
    return found


def build_directory(
    source: Path,
    new_stores: Sequence[tuple[StorePartition, Path]],
    temporary: Path,
    pack: Callable[[Path, StorePartition], bool],
    *,
    left_out: Set[Path] = frozenset(),
    is_alone: bool = False,
) -> None:
    """Make `temporary` a copy of the application's directory `source` with the new stores in place of the old.

    `new_stores`: each new store partition, and where it was made; `pack`: packs one, or says that it does not.
    `left_out`: the old stores, and archives of such. `is_alone`: only the new stores, for another system. SST files are
    hard-linked where possible, files that are appended to are copied. Durable on return.
    """
    if temporary.exists():
        shutil.rmtree(temporary)
    make_directories(temporary.parent)
    temporary.mkdir(mode=0o700)  # until its content has its owner and mode
    if not is_alone:
        carry_over(source, temporary, leave_out={source / each.path for each, _ in new_stores} | left_out)
    for partition, new_store in new_stores:
        target, old = temporary / partition.path, source / partition.path
        make_directories(target.parent)
        if not pack(new_store, partition):
            carry_over(new_store, target)
        is_replaced = not is_alone and old.exists()  # or it is in the place of an archive
        own_like(old if is_replaced else source, target)
    copy_attributes(source, temporary)
    fsync_tree(temporary)


def rename_into_place(temporary: Path, target: Path) -> None:
    """Make the directory visible in one step. Raises RefusedError where something else is there."""
    _check_free(target)  # rename() would replace an empty directory
    temporary.rename(target)
    fsync_directory(target.parent)
