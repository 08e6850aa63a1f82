"""Prepare: check the ground, take the snapshot, store the plan."""

from __future__ import annotations

from pathlib import Path

from migrate.errors import RefusedError
from migrate.ground import Ground
from migrate.identity import check_identity, check_snapshot, store_identity
from migrate.ledger import Ledger
from migrate.marker import claim
from migrate.plan_model import Plan, load_plan, store_plan
from migrate.planning import make_plan, plan_databases
from migrate.preflight import bytes_to_copy, check_not_opened_since, check_position, check_space, check_target
from migrate.snapshots import take_snapshot
from migrate.source import Source, find_source
from migrate.steps.context import Context
from migrate.target_version import check_version


def look_around(context: Context) -> Ground:
    """Raises RefusedError where the ground is not ready."""
    ground = Ground(context)
    for check in ground.checks():
        check.run()
    context.notify("source.checked", source=ground.source)
    return ground


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
        ref=context.ref,
        revision=1 + (stored.revision if stored else 0),
    )
    if context.ref.key is not None or context.ref.value is not None:
        from migrate.kept_answers import store_answers  # brings an HTTP client

        store_answers(context.home, [each.answers for each in (context.ref.key, context.ref.value) if each is not None])
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
    check_version(spec)
    if load_plan(context.home) is not None:
        raise RefusedError(
            f"a migration of the snapshot in {context.home} has begun",
            hint="stateferry run SPEC goes on with it; to begin anew from a new snapshot: stateferry abandon SPEC",
        )
    check_target(spec, source)
    check_space(spec, plan_databases(spec, source, context.conversion), copied_bytes=bytes_to_copy(spec, source))
    identity = store_identity(source)
    context.notify("source.checked", source=source)
    claim(context.home, spec.source_path)
    _take_snapshot(context, source, identity, is_for_later=True)
    return context.home / "snapshot"


def check_unchanged(context: Context, plan: Plan) -> None:
    """Raises RefusedError where the application runs again, or has written since: what was converted is its past."""
    source = find_source(context.spec)
    source.check_stopped()
    check_identity(plan, store_identity(source))
    check_not_opened_since(context.spec, context.conversion, source)


def _take_snapshot(context: Context, source: Source, identity: dict[str, str], *, is_for_later: bool) -> None:
    take_snapshot(
        source,
        context.home,
        mode=context.spec.run.snapshot,
        run_id=context.run_id,
        is_for_later=is_for_later,
        check=lambda folder: check_snapshot(folder, source, identity),
    )
    context.notify("snapshot.taken")
