"""`snapshot`: what a later run converts while the application goes on, taken in seconds while it is stopped."""

from __future__ import annotations

from migrate.errors import SpecError
from migrate.events import Listener, ignore
from migrate.ground import Preflight
from migrate.marker import finish_abandoned
from migrate.report_model import SnapshotReport
from migrate.run_log import logged
from migrate.snapshots import find_snapshot
from migrate.spec import Spec
from migrate.steps.context import make_context
from migrate.steps.prepare import prepare_snapshot
from migrate.stores.lock import one_run_at_a_time
from migrate.system_errors import system_errors_explained


@system_errors_explained()
def snapshot(spec: Spec, *, on_event: Listener = ignore) -> SnapshotReport:
    """Take the snapshot that [run] source = "snapshot" converts, in place of one that was taken before.

    Raises SpecError where the spec converts the live directory; RefusedError where a snapshot would be unsound.
    """
    if spec.run.source != "snapshot":
        raise SpecError(
            "this migration converts the live directory, of which `run` takes the snapshot itself",
            hint='to let the application go on during the run: [run] source = "snapshot"',
        )
    context = make_context(spec, logged(spec.name, on_event))
    Preflight(context, "snapshot").check_before_lock()
    with one_run_at_a_time(spec.home):
        finish_abandoned(spec.home)
        folder = prepare_snapshot(context)
    taken = find_snapshot(spec)
    return SnapshotReport(
        name=spec.name,
        snapshot=folder,
        store_partitions=len(taken.partitions),
        taken_at_ms=taken.record.taken_at_ms,
        warnings=tuple(taken.warnings()),
        next_step="start the application again; stateferry run SPEC; stop the application; stateferry cutover SPEC",
    )
