"""Prepare: check the ground, take the snapshot, store the plan."""

from __future__ import annotations

from migrate.identity import check_identity, check_snapshot, migration_identity, store_identity
from migrate.plan_model import DatabasePlan, Plan, load_plan, store_plan
from migrate.planning import make_plan, plan_databases
from migrate.preflight import check_clean, check_space, check_target
from migrate.source import Source, find_source, is_snapshot_current, take_snapshot
from migrate.steps.context import Context
from migrate.stores.files import make_directories, total_size
from migrate.stores.layout import database_files


def prepare(context: Context) -> Plan:
    """The stored plan of this migration, made now where there is none. Raises RefusedError."""
    spec = context.spec
    source = find_source(spec)
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
    is_current = stored is not None and is_snapshot_current(source, context.home, mode=spec.run.snapshot)
    is_same_cut = stored is not None and stored.chunk_size == spec.run.chunk_size
    if stored is not None and is_current and is_same_cut:
        return stored
    databases = plan_databases(source, context.conversion)
    if not is_current:
        _take_snapshot(context, source, databases)
        check_snapshot(context.home, source, identity)
    if stored is not None and is_same_cut:
        return stored
    revision = 1 + (stored.revision if stored else 0)
    plan = make_plan(spec, source, identity, databases, conversion=context.conversion, revision=revision)
    store_plan(context.home, plan)
    context.notify("plan.stored", plan=plan)
    return plan


def check_unchanged(context: Context, plan: Plan) -> None:
    """Raises RefusedError where the application runs again, or has written since: what was converted is its past."""
    source = find_source(context.spec)
    source.check_stopped()
    check_identity(plan, store_identity(source))


def _take_snapshot(context: Context, source: Source, databases: tuple[DatabasePlan, ...]) -> None:
    make_directories(context.home)
    mode = context.spec.run.snapshot
    folders = [folder for partition in source.partitions for folder in partition.directories(source.path).values()]
    copied = sum(total_size(database_files(folder).immutable) for folder in folders) if mode == "copy" else 0
    check_space(context.spec, databases, copied)
    take_snapshot(source, context.home, mode=mode)
    context.notify("snapshot.taken")
