"""Prepare: make the checks, take the snapshot and store the plan."""

from __future__ import annotations

from migrate.batch.changelog.times import SampledTimes
from migrate.batch.context import Context
from migrate.batch.identity import check_identity, check_snapshot, present_identity
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.stored_plan import store_plan
from migrate.batch.ledger.table import Ledger
from migrate.batch.plan.make import make_plan
from migrate.batch.preflight.check import Purpose
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.preflight.places import check_not_opened_since
from migrate.batch.source.snapshot import take_snapshot
from migrate.batch.source.source import find_source
from migrate.model.plan import Plan
from migrate.spec.ways import sees_times


def run_preflight(context: Context, purpose: Purpose, standing: Standing | None = None) -> Preflight:
    """Make every check of a run or of a snapshot. Raises RefusedError for the first that fails."""
    preflight = Preflight(context, purpose, standing)
    preflight.check()
    context.notify("source.checked", source=preflight.source)
    return preflight


def prepare(context: Context, preflight: Preflight, ledger: Ledger) -> Plan:
    """The stored plan of this migration, which is made where there is none. Raises RefusedError."""
    stored = preflight.stored
    if not preflight.is_snapshot_current:
        ledger.check_not_fenced()
        store_snapshot(context, preflight, is_for_later=False)
    if stored is not None and stored.chunk_size == context.spec.run.chunk_size:
        return stored
    with SampledTimes(context.spec, context.conversion, preflight.source) as times:
        plan = make_plan(
            context.spec,
            preflight.source,
            preflight.identity if stored is None else stored.identity,
            preflight.databases,
            conversion=context.conversion,
            ref=context.ref,
            revision=1 + (stored.revision if stored else 0),
            key_places=preflight.key_places.of_partitions,
            jobs=context.jobs,
            times_of=times.of if sees_times(context.spec, context.conversion) else None,
        )
    if context.ref.key is not None or context.ref.value is not None:
        from migrate.spec.pinned_responses import store_responses

        store_responses(
            context.home, [each.responses for each in (context.ref.key, context.ref.value) if each is not None]
        )
    store_plan(context.home, plan)
    context.notify("plan.stored", plan=plan)
    return plan


def check_unchanged(context: Context, plan: Plan) -> None:
    """Raises RefusedError where the application runs again, or has written since the snapshot was taken."""
    source = find_source(context.spec)
    source.check_stopped()
    check_identity(plan.identity, present_identity(source, plan, context.home))
    check_not_opened_since(context.spec, context.conversion, source)


def store_snapshot(context: Context, preflight: Preflight, *, is_for_later: bool) -> None:
    """Take the snapshot; `is_for_later`: for a later run. Raises RefusedError where the source has changed."""
    take_snapshot(
        preflight.source,
        context.home,
        mode=context.spec.run.snapshot,
        run_id=context.run_id,
        is_for_later=is_for_later,
        check=lambda folder, copies: check_snapshot(
            folder, copies, preflight.source, preflight.identity, preflight.read
        ),
        changelog_ends=context.changelog_ends,
    )
    context.notify("snapshot.taken")
