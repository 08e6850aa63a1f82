"""`verify`: compare the new stores with the old ones once more, whenever asked."""

from __future__ import annotations

from dataclasses import dataclass

from migrate.errors import RefusedError
from migrate.events import Listener, ignore
from migrate.identity import check_identity, spec_identity
from migrate.interruption import Stop
from migrate.ledger import Ledger, Row, Step, read_ledger, readable_ledger
from migrate.ledger_facts import assembled_folders, published_path
from migrate.marker import check_ours, is_given_up
from migrate.plan_model import Plan, load_plan
from migrate.progress_state import committed_receipts, pending_chunks
from migrate.report_model import VerifyReport
from migrate.run_log import logged
from migrate.runner import ExecutorOpener, executor_opener
from migrate.spec import Spec
from migrate.steps.context import Context, make_context
from migrate.steps.damage import saying_who_repairs
from migrate.steps.verify import Mode, NewStores, compare, mismatch_error, record
from migrate.stores.lock import check_unlocked, one_run_at_a_time
from migrate.switching.journal import last_switch
from migrate.switching.states import HALF_DONE, NEXT, STATES
from migrate.system_errors import system_errors_explained

_MOVED_ON = (
    "has an application written to the new stores since? else do not use them, and report this; stateferry status SPEC "
    "says the way back"
)
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
    """Compare the new stores, from disk, and write to the ledger what came of it.

    With `full` against the snapshot, converted again; with `digest` against the receipts, and these with the number of
    records in the snapshot. Looks where the new stores are in use, once they are.

    Raises RefusedError before the stores are assembled and while a run is at work, VerificationError naming the first
    key of each kind.
    """
    check_ours(spec.home)
    if is_given_up(spec.home) or load_plan(spec.home) is None:
        raise _not_rewritten(spec)
    with one_run_at_a_time(spec.home):
        comparison = _prepare(make_context(spec, logged(spec.name, on_event), stop=stop))
        return comparison.carry_out(mode, executor_opener(master))


@dataclass(frozen=True, slots=True)
class _Comparison:
    context: Context
    plan: Plan
    rows: list[Row]
    stores: NewStores
    are_in_use: bool

    def carry_out(self, mode: Mode, open_executor: ExecutorOpener) -> VerifyReport:
        context, stores = self.context, self.stores
        with open_executor(context.spec) as executor, saying_who_repairs(context.home):
            records = sum(receipt.records_out for receipt in stores.receipts)
            context.notify("verify.started", mode=mode, records=records)
            found = compare(context, executor, self.plan, stores, mode)
        if len(read_ledger(context.home)) != len(self.rows):  # or to open it would fence that run off
            raise RefusedError(
                f"a run of another host has moved the migration {context.spec.name!r} on meanwhile",
                hint="let it finish, then run the command again",
            )
        record(context, Ledger(context.home, self.plan.migration_id, context.run_id), found)
        if not found.ok:
            raise mismatch_error(found, hint=_MOVED_ON if self.are_in_use else _RERUN)
        name, migration_id = context.spec.name, self.plan.migration_id
        return VerifyReport(
            name=name, migration_id=migration_id, verification=found, stores=tuple(stores.folders.values())
        )


def _prepare(context: Context) -> _Comparison:
    spec = context.spec
    plan = load_plan(spec.home)
    rows = readable_ledger(spec.home)
    step = _settled_step(spec, rows)
    receipts = committed_receipts(rows, spec.home)
    if plan is None or pending_chunks(plan, receipts):
        raise _not_rewritten(spec)
    check_identity(plan, spec_identity(spec, context.ref, plan))
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
    stored = [(folders[partition.id], partition.databases) for partition in partitions]
    check_unlocked(folder / database / "LOCK" for folder, databases in stored for database in databases)
    is_in_use = published is not None or step is Step.CUT_OVER
    return _Comparison(context, plan, rows, NewStores(folders, receipts), is_in_use)


def _not_rewritten(spec: Spec) -> RefusedError:
    return RefusedError(f"the migration {spec.name!r} is not rewritten yet", hint="stateferry run SPEC")


def _settled_step(spec: Spec, rows: list[Row]) -> Step | None:
    """Raises RefusedError where stores are on the move, or gone."""
    step, _ = last_switch(rows)
    if step not in (None, Step.CUT_OVER, Step.ROLLED_BACK):
        state = f"half way: {STATES[step]}" if step in HALF_DONE else STATES[step]
        raise RefusedError(f"the migration {spec.name!r} cannot be verified: it is {state}", hint=NEXT[STATES[step]])
    return step
