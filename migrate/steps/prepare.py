"""Prepare: check the ground, take the snapshot, store the plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate.errors import RefusedError
from migrate.identity import check_identity, check_snapshot, migration_identity, store_identity
from migrate.ledger import Ledger
from migrate.plan_model import DatabasePlan, Plan, load_plan, store_plan
from migrate.planning import make_plan, plan_databases
from migrate.preflight import check_clean, check_position, check_space, check_target
from migrate.snapshots import find_snapshot, is_snapshot_current, take_snapshot
from migrate.source import Source, find_source
from migrate.spec import Spec
from migrate.steps.context import Context
from migrate.stores.files import make_directories, total_size
from migrate.stores.layout import database_files


def open_source(spec: Spec) -> Source:
    """What is converted: the application's directory, or the snapshot taken of it. Raises RefusedError."""
    return find_snapshot(spec) if spec.run.source == "snapshot" else find_source(spec)


@dataclass(frozen=True, slots=True)
class Ground:
    """What a run finds, checked, before it writes anything."""

    source: Source
    identity: dict[str, str]
    stored: Plan | None
    is_snapshot_current: bool
    databases: tuple[DatabasePlan, ...]
    """Of the plan that is to be made; none where the stored one serves."""


def look_around(context: Context) -> Ground:
    """Raises RefusedError where the ground is not ready."""
    spec = context.spec
    source = open_source(spec)
    source.check_stopped()
    source.check_readable()
    check_clean(spec, context.conversion, source.warnings())
    identity = migration_identity(spec, source, context.ref)
    context.notify("source.checked", source=source)
    stored = load_plan(context.home)
    if stored is None:
        check_target(spec, source)
    else:
        check_identity(stored, identity)
    # Without a plan nothing says what a snapshot that is there was taken of.
    is_current = spec.run.source == "snapshot" or (
        stored is not None and is_snapshot_current(source, context.home, mode=spec.run.snapshot)
    )
    serves = stored is not None and is_current and stored.chunk_size == spec.run.chunk_size
    databases = () if serves else plan_databases(source, context.conversion)
    if stored is None or not is_current:
        check_space(spec, databases, copied_bytes=0 if is_current else _bytes_to_copy(spec, source))
    return Ground(source, identity, stored, is_current, databases)


def prepare(context: Context, ground: Ground, ledger: Ledger) -> Plan:
    """The stored plan of this migration, made now where there is none. Raises RefusedError."""
    stored = ground.stored
    if not ground.is_snapshot_current:
        ledger.check_not_fenced()
        _take_snapshot(context, ground.source, ground.identity, is_for_later=False)
    if stored is not None and stored.chunk_size == context.spec.run.chunk_size:
        return stored
    plan = make_plan(
        context.spec,
        ground.source,
        ground.identity,
        ground.databases,
        conversion=context.conversion,
        revision=1 + (stored.revision if stored else 0),
    )
    store_plan(context.home, plan)
    context.notify("plan.stored", plan=plan)
    return plan


def prepare_snapshot(context: Context) -> Path:
    """The snapshot that a later run is to convert, taken now. Raises RefusedError."""
    spec = context.spec
    source = find_source(spec)
    source.check_stopped()
    source.check_readable()
    check_position(source)
    if load_plan(context.home) is not None:
        raise RefusedError(
            f"a migration of the snapshot in {context.home} has begun",
            hint="stateferry run SPEC goes on with it; to begin anew from a new snapshot: stateferry abandon SPEC",
        )
    check_target(spec, source)
    check_space(spec, plan_databases(source, context.conversion), copied_bytes=_bytes_to_copy(spec, source))
    identity = store_identity(source)
    context.notify("source.checked", source=source)
    _take_snapshot(context, source, identity, is_for_later=True)
    return context.home / "snapshot"


def check_unchanged(context: Context, plan: Plan) -> None:
    """Raises RefusedError where the application runs again, or has written since: what was converted is its past."""
    source = find_source(context.spec)
    source.check_stopped()
    check_identity(plan, store_identity(source))


def _take_snapshot(context: Context, source: Source, identity: dict[str, str], *, is_for_later: bool) -> None:
    make_directories(context.home)
    take_snapshot(
        source,
        context.home,
        mode=context.spec.run.snapshot,
        run_id=context.run_id,
        is_for_later=is_for_later,
        check=lambda folder: check_snapshot(folder, source, identity),
    )
    context.notify("snapshot.taken")


def _bytes_to_copy(spec: Spec, source: Source) -> int:
    if spec.run.snapshot == "link":
        return 0
    folders = [folder for partition in source.partitions for folder in source.directories(partition).values()]
    return sum(total_size(database_files(folder).immutable) for folder in folders)
