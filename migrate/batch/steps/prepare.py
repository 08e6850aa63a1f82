"""Prepare: make the checks, take the snapshot and store the plan."""

from __future__ import annotations

from migrate.batch.changelog.take_key_times import SampledTimes
from migrate.batch.context import Context, make_context
from migrate.batch.home import claim, finish_abandoned, remove_unfinished, store_plan
from migrate.batch.identity import check_identity, check_snapshot, present_identity
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger
from migrate.batch.log import logged
from migrate.batch.plan.make_plan import make_plan
from migrate.batch.preflight.check import Purpose
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.preflight.directories import check_not_opened_since
from migrate.batch.run_lock import alone_in_its_folder, one_run_at_a_time
from migrate.batch.source.snapshot import find_snapshot, take_snapshot
from migrate.batch.source.source import find_source
from migrate.batch.status.next_step import may_catch_up
from migrate.errors import SpecError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.plan import Plan
from migrate.model.reports import SnapshotReport
from migrate.spec.changelog_way import sees_times
from migrate.spec.spec import Spec


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
        from migrate.spec.schema_registry import store_responses

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


@system_errors_explained()
@alone_in_its_folder
def snapshot(spec: Spec, *, on_event: Listener = ignore) -> SnapshotReport:
    """Take the snapshot that [run] source = "snapshot" converts; it replaces an earlier one.

    The application must be stopped, and may start again when the call has returned.

    Args:
        spec: the migration, from `load_spec` or built in code.
        on_event: called with each `Event`, before the work goes on.

    Raises:
        SpecError: the spec converts the live directory.
        RefusedError: a snapshot would be unsound.
    """
    if spec.run.source != "snapshot":
        raise SpecError(
            "this migration converts the live directory, of which `run` takes the snapshot itself",
            hint='to let the application work during the run: [run] source = "snapshot"',
        )
    context = make_context(spec, logged(spec.name, on_event))
    Preflight(context, "snapshot").check_before_lock()
    with one_run_at_a_time(spec.home):
        finish_abandoned(spec.home)
        preflight = run_preflight(context, "snapshot")
        claim(spec.home, spec.source_path)
        remove_unfinished(spec.home)
        store_snapshot(context, preflight, is_for_later=True)
    taken = find_snapshot(spec)
    return SnapshotReport(
        name=spec.name,
        snapshot=spec.home / "snapshot",
        store_partitions=len(taken.partitions),
        taken_at_ms=taken.record.taken_at_ms,
        warnings=tuple(taken.warnings()),
        next_step="start the application again; stateferry run SPEC; stop the application; "
        + ("stateferry catch-up SPEC; " if may_catch_up(spec) else "")
        + "stateferry cutover SPEC",
    )
