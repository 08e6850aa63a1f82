"""Prepare, for `run` and for `snapshot` while the application is stopped: checks, the snapshot, the stored plan."""

from __future__ import annotations

from migrate.batch.changelog.take_key_times import SampledTimes
from migrate.batch.context import Context
from migrate.batch.frame import command
from migrate.batch.home import claim, remove_unfinished, store_plan
from migrate.batch.identity import check_identity, check_snapshot, present_identity
from migrate.batch.ledger.receipts_in_force import Revision
from migrate.batch.ledger.standing import Standing
from migrate.batch.plan.make_plan import make_plan
from migrate.batch.preflight.check import Purpose
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.preflight.directories import check_not_opened_since
from migrate.batch.source.snapshot import find_snapshot, take_snapshot
from migrate.batch.source.source import find_source
from migrate.batch.status.next_step import may_catch_up
from migrate.errors import SpecError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.reports import SnapshotReport
from migrate.spec.changelog_way import sees_times
from migrate.spec.spec import Spec
from migrate.spec.user_function import name_warnings


def run_preflight(context: Context, purpose: Purpose, standing: Standing | None = None) -> Preflight:
    """Make every check of a run or of a snapshot. Raises RefusedError for the first that fails."""
    preflight = Preflight(context, purpose, standing or context.standing)
    preflight.check()
    context.notify("source.checked", source=preflight.source)
    return preflight


def prepare(context: Context, revision: Revision | None) -> None:
    """Make every check of a run, open the ledger, and make the snapshot and the plan where there is none.

    `revision`: the one to be registered. Raises RefusedError for the first check that fails.
    """
    preflight = run_preflight(context, "run", None if revision is None else context.standing.as_revised(revision))
    claim(context.home, context.spec.source_path)
    context.open_ledger(preflight.migration_id)
    context.notify("ledger.opened")
    for sentence in name_warnings(context.ref):
        context.warn(sentence)
    if not preflight.is_snapshot_current:
        context.ledger.check_not_fenced()
        store_snapshot(context, preflight, is_for_later=False)
    if preflight.stored is None or preflight.is_cut_otherwise:
        _make_plan(context, preflight)


def _make_plan(context: Context, preflight: Preflight) -> None:
    stored = preflight.stored
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
            is_sorted=preflight.is_sorted,
            jobs=context.jobs,
            times_of=times.of if sees_times(context.spec, context.conversion) else None,
        )
    if context.ref.key is not None or context.ref.value is not None:
        from migrate.spec.schema_registry import store_responses

        store_responses(
            context.home, [each.responses for each in (context.ref.key, context.ref.value) if each is not None]
        )
    store_plan(context.home, plan)
    context.standing = context.standing.with_plan(plan)
    context.notify("plan.stored", plan=plan)


def check_unchanged(context: Context) -> None:
    """Raises RefusedError where the application runs again, or has written since the snapshot was taken."""
    source = find_source(context.spec)
    source.check_stopped()
    check_identity(context.plan.identity, present_identity(source, context.plan, context.home))
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
    context = Context(spec, on_event).loaded()
    with command(context, before_lock=Preflight(context, "snapshot").check_before_lock):
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
