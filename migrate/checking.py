"""`verify`: compare the new stores with the old ones once more, whenever asked."""

from __future__ import annotations

from migrate.errors import RefusedError
from migrate.events import Listener, ignore
from migrate.identity import check_identity, spec_identity
from migrate.interruption import Stop
from migrate.ledger import Row, Step, read_ledger
from migrate.ledger_facts import assembled_folders, published_path
from migrate.plan_model import load_plan
from migrate.progress_state import committed_receipts, pending_chunks
from migrate.report_model import VerifyReport
from migrate.runner import executor_opener
from migrate.spec import Spec
from migrate.steps.context import make_context
from migrate.steps.verify import Mode, NewStores, compare, mismatch_error
from migrate.stores.lock import check_unlocked
from migrate.switching.journal import last_switch
from migrate.switching.states import HALF_DONE, NEXT, STATES
from migrate.system_errors import system_errors_explained

_MOVED_ON = "has an application written to the new stores since? else do not use it, and report this"
_RERUN = "stateferry run SPEC assembles the new stores again from their chunks"


@system_errors_explained()
def verify(
    spec: Spec,
    *,
    mode: Mode = "full",
    master: str | None = None,
    on_event: Listener = ignore,
    stop: Stop | None = None,
) -> VerifyReport:
    """Compare the new stores, from disk.

    With `full` against the snapshot, converted again; with `digest` against the receipts, and these with the number of
    records in the snapshot. Looks at the published directory where there is one. Commits nothing.

    Raises RefusedError before the stores are assembled, VerificationError naming the first key of each kind.
    """
    plan = load_plan(spec.home)
    rows = read_ledger(spec.home)
    step = _settled_step(spec, rows)
    receipts = committed_receipts(rows, spec.home)
    if plan is None or pending_chunks(plan, receipts):
        raise RefusedError(f"the migration {spec.name!r} is not rewritten yet", hint="stateferry run SPEC")
    context = make_context(spec, on_event, stop=stop)
    check_identity(plan, spec_identity(spec, context.ref))
    folders = assembled_folders(rows, spec.home)
    partitions = [plan.new_partition(partition) for partition in plan.store_partitions]
    if step is Step.CUT_OVER:
        folders = {partition.id: spec.source_path / partition.path for partition in partitions}
    published = published_path(rows)
    if published is not None and not published.is_dir():
        raise RefusedError(f"the published directory {published} is not there", hint="move it back to verify it there")
    if published is not None:
        folders = {partition.id: published / partition.path for partition in partitions}
    if len(folders) < len(plan.store_partitions):
        raise RefusedError(f"the new stores of {spec.name!r} are not assembled yet", hint="stateferry run SPEC")
    stores = NewStores(folders, receipts)
    stored = [(folders[partition.id], partition.databases) for partition in partitions]
    locks = [folder / database / "LOCK" for folder, databases in stored for database in databases]
    check_unlocked(locks)
    with executor_opener(master)(spec) as executor:
        context.notify("verify.started", mode=mode, records=sum(receipt.records_out for receipt in receipts))
        found = compare(context, executor, plan, stores, mode)
    if not found.ok:
        is_in_use = published is not None or step is Step.CUT_OVER
        raise mismatch_error(found, hint=_MOVED_ON if is_in_use else _RERUN)
    return VerifyReport(
        name=spec.name, migration_id=plan.migration_id, verification=found, stores=tuple(folders.values())
    )


def _settled_step(spec: Spec, rows: list[Row]) -> Step | None:
    """Raises RefusedError where stores are on the move, or gone."""
    step, _ = last_switch(rows)
    if step not in (None, Step.CUT_OVER, Step.ROLLED_BACK):
        state = f"half way: {STATES[step]}" if step in HALF_DONE else STATES[step]
        raise RefusedError(f"the migration {spec.name!r} cannot be verified: it is {state}", hint=NEXT[STATES[step]])
    return step
