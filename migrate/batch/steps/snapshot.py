"""`snapshot`: taken in seconds while the application is stopped, for a run while the application works again."""

from __future__ import annotations

from migrate.batch.context import make_context
from migrate.batch.home import remove_unfinished
from migrate.batch.ledger.marker import claim, finish_abandoned
from migrate.batch.log import logged
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.run_lock import alone_in_its_folder, one_run_at_a_time
from migrate.batch.source.snapshot import find_snapshot
from migrate.batch.status.next_step import may_catch_up
from migrate.batch.steps.prepare import run_preflight, store_snapshot
from migrate.errors import SpecError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.reports import SnapshotReport
from migrate.spec.spec import Spec


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
