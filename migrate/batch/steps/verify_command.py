"""`verify`: compare the new stores of a migration with the old ones again, in use or not."""

from __future__ import annotations

from functools import cache

from migrate.batch.changelog.compare_topics import verify_again
from migrate.batch.changelog.concerns import every_concern
from migrate.batch.changelog.take_key_times import use_times
from migrate.batch.chunk.executor import ExecutorOpener, executor_opener
from migrate.batch.context import Context, make_context
from migrate.batch.home import check_ours
from migrate.batch.identity import check_spec
from migrate.batch.ledger.changelog_standing import changelog_reports
from migrate.batch.ledger.gates import after_replay, not_accepted
from migrate.batch.ledger.standing import Standing, read_standing
from migrate.batch.ledger.table import Ledger, read_repaired
from migrate.batch.log import logged
from migrate.batch.plan.new_stores import AssembledStores
from migrate.batch.run_lock import alone_in_its_folder, one_run_at_a_time
from migrate.batch.source.source import Unpacked, target_system
from migrate.batch.status.next_step import next_step
from migrate.batch.status.status import asked
from migrate.batch.steps.damage import hinting_at_repair
from migrate.batch.steps.verify import Mode, compare, mismatch_error
from migrate.batch.stop import Stop
from migrate.errors import RefusedError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.journal import HALF_DONE, NEXT, STATES
from migrate.model.ledger_row import Step
from migrate.model.plan import Plan
from migrate.model.reports import VerifyReport
from migrate.spec.spec import Spec
from migrate.stores.lock import check_unlocked

_IN_USE = (
    "has an application written to the new stores since? if not, do not use them, and report this; stateferry status "
    "SPEC names the way back"
)


_RERUN = "stateferry run SPEC assembles the new stores again from their chunks"


@system_errors_explained()
@alone_in_its_folder
def verify(
    spec: Spec,
    *,
    mode: Mode = "full",
    master: str | None = None,
    jobs: int = 1,
    on_event: Listener = ignore,
    stop: Stop | None = None,
) -> VerifyReport:
    """Compare the new stores, read from disk, and write the result to the ledger; then their changelogs, if a run has
    written them.

    Stores that are in use are read where they are. A changelog in use is compared if nothing was written to it since.

    Args:
        spec: the migration, from `load_spec` or built in code.
        mode: "full" compares the stores with the snapshot, converted again; "digest" with the receipts, and these
            with the number of records in the snapshot.
        master: a Spark master, such as "local[4]"; None: in this process, without Spark.
        jobs: how many processes of this machine work, without a master; with more than one, a function needs a name.
        on_event: called with each `Event`, before the work goes on.
        stop: to stop it from another thread or a signal handler; None: it runs to its end.

    Raises:
        RefusedError: the stores are not assembled yet, or a run is at work.
        VerificationError: there is a difference; the message has the first key of each kind.
        BrokerError: the broker of the changelogs cannot be reached.
        ChangelogFailedError: a changelog cannot be read to its end.
        InterruptedMigrationError: `stop` was requested.
    """
    open_executor = executor_opener(spec, master, jobs)
    check_ours(spec.home)
    if Standing(spec.home, ()).plan is None:
        raise _not_rewritten(spec)
    with one_run_at_a_time(spec.home):
        context = make_context(spec, logged(spec.name, on_event), stop=stop)
        standing = Standing(spec.home, read_repaired(spec.home))
        return _compare(context, _checked_plan(context, standing), standing, mode, open_executor)


def _compare(
    context: Context, plan: Plan, standing: Standing, mode: Mode, open_executor: ExecutorOpener
) -> VerifyReport:
    folders = standing.new_stores(context.spec.source_path)
    root, system = standing.published, target_system(context.spec)
    packed = None if root is None else Unpacked(system, root, map(plan.new_partition, plan.store_partitions))
    found_in = folders if packed is None else folders | packed.folders
    stores = AssembledStores(plan, found_in, standing.receipts, standing.overlays)
    use_times(context, standing.rows)
    open_ledger = cache(lambda: _open_ledger(context, plan, standing))
    with open_executor(context.spec) as executor, hinting_at_repair(context.home):
        so_far = standing.compared_so_far
        found = compare(context, executor, stores, mode, so_far=so_far, open_ledger=open_ledger)
        if not found.ok:
            way_out = _RERUN if standing.revision is None else after_replay(standing)
            raise mismatch_error(found, hint=_IN_USE if standing.is_in_use else way_out)
        note = verify_again(context, executor, open_ledger, stores, standing)
    standing = read_standing(context.home)
    concerns = every_concern(context.spec, standing)
    behind, held = asked(context.spec, standing)
    return VerifyReport(
        name=context.spec.name,
        migration_id=plan.migration_id,
        verification=found,
        stores=tuple(folders.values()),
        concerns=concerns,
        changelogs=changelog_reports(standing.rows, note),
        next_step=next_step(
            context.spec, standing, standing.state, not_accepted(concerns), behind=behind, partitions=held
        ),
    )


def _open_ledger(context: Context, plan: Plan, standing: Standing) -> Ledger:
    """The ledger, with the first commit. Raises RefusedError where to open it would fence off a run of another host."""
    if len(read_standing(context.home).rows) != len(standing.rows):
        raise RefusedError(
            f"a run on another host has continued the migration {context.spec.name!r} meanwhile",
            hint="let it finish, then run the command again",
        )
    return Ledger(context.home, plan.migration_id, context.run_id, command="verify")


def _checked_plan(context: Context, standing: Standing) -> Plan:
    """The plan of the stores to compare. Raises RefusedError where they are incomplete, or open in another process."""
    spec = context.spec
    plan, published = standing.plan, standing.published
    _check_settled(spec, standing.step)
    if plan is None or standing.pending:
        raise _not_rewritten(spec)
    check_spec(spec, context.ref, standing)
    folders = standing.new_stores(spec.source_path)
    if published is not None and not published.is_dir():
        raise RefusedError(f"the published directory {published} is not there", hint="move it back to verify it there")
    if len(folders) < len(plan.store_partitions):
        raise RefusedError(f"the new stores of {spec.name!r} are not assembled yet", hint="stateferry run SPEC")
    partitions = map(plan.new_partition, plan.store_partitions)
    check_unlocked(folders[each.id] / database / "LOCK" for each in partitions for database in each.databases)
    return plan


def _not_rewritten(spec: Spec) -> RefusedError:
    return RefusedError(f"the migration {spec.name!r} is not rewritten yet", hint="stateferry run SPEC")


def _check_settled(spec: Spec, step: Step | None) -> None:
    """Raises RefusedError in the middle of a switch, and once the old stores were removed."""
    if step not in (None, Step.CUT_OVER, Step.ROLLED_BACK):
        state = f"half way: {STATES[step]}" if step in HALF_DONE else STATES[step]
        raise RefusedError(f"the migration {spec.name!r} cannot be verified: it is {state}", hint=NEXT[STATES[step]])
