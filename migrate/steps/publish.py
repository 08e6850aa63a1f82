"""Publish: with `[target] path`, a complete new state directory appears there, all at once."""

from __future__ import annotations

from pathlib import Path

from migrate.errors import RefusedError
from migrate.gates import hold_back, signed
from migrate.ledger import Ledger, Step
from migrate.new_positions import write_new_positions
from migrate.plan_model import Plan
from migrate.publishing import build_directory, rename_into_place
from migrate.report_model import Concern
from migrate.source import is_another_system
from migrate.standing import Standing
from migrate.steps.context import Context
from migrate.steps.prepare import check_unchanged
from migrate.stores.files import fsync_directory, remove_tree
from migrate.stores.layout import identity_of


def publish(
    context: Context, plan: Plan, ledger: Ledger, folders: dict[str, Path], concerns: tuple[Concern, ...]
) -> Path | None:
    """The published directory, or None where `cutover` is to take the old store's place.

    Raises VerificationError, RefusedError or RejectedError where a concern is not accepted.
    """
    target = context.spec.target_path
    if target is None:
        hold_back((concern for concern in concerns if concern.kind == "mismatch"), "this run settles nothing")
        return None
    temporary = _temporary(target, context.run_id)
    if not _was_renamed(plan, Standing(context.home, ledger.rows), target):
        hold_back(concerns, "nothing was published, and the new stores are kept")
        if target.exists():
            raise _target_exists(target)
        check_unchanged(context, plan)
        context.notify("publish.started", target=target)
        try:
            _build(context, plan, folders, temporary)
            _intend(context, plan, ledger, temporary, signed(concerns))
            ledger.check_not_fenced()
            _rename(temporary, target)
        except BaseException:
            remove_tree(temporary)  # a full disk stays full, otherwise, and each further run would add to it
            raise
        context.notify("publish.renamed", target=target)
    else:
        fsync_directory(target.parent)  # the run that renamed it may have died before that was durable (I1)
    ledger.commit(ledger.row(Step.PUBLISHED, detail={"path": str(target)}))
    context.notify("publish.committed", target=target)
    return target


def _target_exists(target: Path) -> RefusedError:
    return RefusedError(
        f"[target] path {target} exists already",
        hint="did another run publish it? then run the command again, which finds that out; else move it away",
    )


def _build(context: Context, plan: Plan, folders: dict[str, Path], temporary: Path) -> None:
    """The complete directory, under a name of this run's."""
    new_stores = {plan.new_partition(partition).path: folders[partition.id] for partition in plan.store_partitions}
    build_directory(context.spec.source_path, new_stores, temporary, is_alone=is_another_system(context.spec))
    write_new_positions(context.spec, plan, temporary)
    check_unchanged(context, plan)
    context.notify("publish.built", temporary=temporary)


def _intend(context: Context, plan: Plan, ledger: Ledger, temporary: Path, accepted: tuple[Concern, ...]) -> None:
    """Commit that it is about to be renamed, and what it goes live with."""
    intent: dict[str, object] = {
        "path": str(context.spec.target_path),
        "stores": _identities(plan, temporary),
        "accepted": [concern.model_dump() for concern in accepted],
    }
    ledger.commit(ledger.row(Step.PUBLISHING, detail=intent))
    context.notify("publish.intended", target=context.spec.target_path)


def _rename(temporary: Path, target: Path) -> None:
    if not rename_into_place(temporary, target):
        raise _target_exists(target)


def temporary_directories(target: Path | None, runs: set[str] | None = None) -> list[Path]:
    """What these runs, or any, were building beside the target when they were killed."""
    if target is None or not target.parent.is_dir():
        return []
    prefix = _temporary(target, "").name
    found = [folder for folder in target.parent.iterdir() if folder.name.startswith(prefix)]
    return [folder for folder in found if runs is None or folder.name.removeprefix(prefix) in runs]


def _temporary(target: Path, run: str) -> Path:
    return target.with_name(f".{target.name}.stateferry-{run}")


def _was_renamed(plan: Plan, standing: Standing, target: Path) -> bool:
    """An earlier run died between the rename and its row: what stands there holds the very stores that it made."""
    intents = [(each["path"], each["stores"]) for each in standing.publications]
    return target.is_dir() and (str(target), _identities(plan, target)) in intents


def _identities(plan: Plan, application: Path) -> list[str]:
    """The name that RocksDB gave to each new store when it was made; empty where there is none."""
    partitions = map(plan.new_partition, plan.store_partitions)
    folders = [folder for partition in partitions for folder in partition.directories(application).values()]
    return [identity_of(folder) for folder in folders]
