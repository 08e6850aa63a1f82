"""Prepare: check the ground, take the snapshot, store the plan."""

from __future__ import annotations

from migrate.identity import check_identity, migration_identity
from migrate.plan_model import DatabasePlan, Plan, load_plan, store_plan
from migrate.planning import check_space, check_target, make_plan, plan_databases
from migrate.source import Source, find_source, take_snapshot
from migrate.steps.context import Context
from migrate.stores.files import make_directories, total_size
from migrate.stores.layout import database_files


def prepare(context: Context) -> Plan:
    """The stored plan of this migration, made now where there is none. Raises RefusedError."""
    spec = context.spec
    source = find_source(spec)
    source.check_stopped()
    source.check_readable()
    identity = migration_identity(spec, source, context.ref)
    context.notify("source.checked", source=source)
    stored = load_plan(context.home)
    if stored is not None:
        check_identity(stored, identity)
        if stored.chunk_size == spec.run.chunk_size:
            return stored
    check_target(spec, source)
    databases = plan_databases(source, context.conversion)
    if stored is None or not (context.home / "snapshot").exists():  # without a plan, nothing says what it was taken of
        _take_snapshot(context, source, databases)
    revision = 1 + (stored.revision if stored else 0)
    plan = make_plan(spec, source, identity, databases, context.conversion, revision)
    store_plan(context.home, plan)
    context.notify("plan.stored", plan=plan)
    return plan


def _take_snapshot(context: Context, source: Source, databases: tuple[DatabasePlan, ...]) -> None:
    make_directories(context.home)
    mode = context.spec.run.snapshot
    folders = [folder for partition in source.partitions for folder in partition.directories(source.path).values()]
    copied = sum(total_size(database_files(folder).immutable) for folder in folders) if mode == "copy" else 0
    check_space(context.spec, databases, copied)
    take_snapshot(source, context.home, mode=mode)
    context.notify("snapshot.taken")
