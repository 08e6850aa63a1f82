"""`verify`: compare the new stores of a migration with the old ones again, in use or not."""

from __future__ import annotations

from migrate.batch.changelog.compare_topics import verify_again
from migrate.batch.changelog.concerns import every_concern
from migrate.batch.chunk.executor import ExecutorOpener, executor_opener
from migrate.batch.context import Context
from migrate.batch.frame import command
from migrate.batch.identity import check_spec
from migrate.batch.ledger.changelog_standing import changelog_reports
from migrate.batch.ledger.gates import after_replay, not_accepted
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
from migrate.model.reports import VerifyReport
from migrate.spec.spec import Spec
from migrate.stores.lock import check_unlocked

_IN_USE = (
    "has an application written to the new stores since? if not, do not use them, and report this; stateferry status "
    "SPEC names the way back"
)
_RERUN = "stateferry run SPEC assembles the new stores again from their chunks"


@system_errors_explained()
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
    with command(Context(spec, on_event, "verify", stop=stop or Stop(), gives_way=True)) as context:
        _check(context)
        return _compare(context, mode, open_executor)


def _compare(context: Context, mode: Mode, open_executor: ExecutorOpener) -> VerifyReport:
    if (root := context.standing.published) is not None:
        partitions = map(context.plan.new_partition, context.plan.store_partitions)
        context.unpacked = Unpacked(target_system(context.spec), root, partitions)
    with context.executor(open_executor) as executor, hinting_at_repair(context.home):
        found = compare(context, executor, mode)
        standing = context.standing
        if not found.ok:
            way_out = _RERUN if standing.revision is None else after_replay(standing)
            raise mismatch_error(found, hint=_IN_USE if standing.is_in_use else way_out)
        note = verify_again(context, executor)
    standing = context.standing
    concerns = every_concern(context.spec, standing)
    behind, held = asked(context.spec, standing)
    return VerifyReport(
        name=context.spec.name,
        migration_id=standing.migration_id,
        verification=found,
        stores=tuple(standing.new_stores(context.application).values()),
        concerns=concerns,
        changelogs=changelog_reports(standing.changelogs, note),
        next_step=next_step(
            context.spec, standing, standing.state, not_accepted(concerns), behind=behind, partitions=held
        ),
    )


def _check(context: Context) -> None:
    """Raises RefusedError where the stores to compare are incomplete, being switched, or open in another process."""
    spec, standing, folders = context.spec, context.standing, context.new_stores
    plan, published = standing.plan, standing.published
    if (step := standing.step) not in (None, Step.CUT_OVER, Step.ROLLED_BACK):
        state = f"half way: {STATES[step]}" if step in HALF_DONE else STATES[step]
        raise RefusedError(f"the migration {spec.name!r} cannot be verified: it is {state}", hint=NEXT[STATES[step]])
    if plan is None or standing.pending:
        raise RefusedError(f"the migration {spec.name!r} is not rewritten yet", hint="stateferry run SPEC")
    check_spec(spec, context.ref, standing)
    if published is not None and not published.is_dir():
        raise RefusedError(f"the published directory {published} is not there", hint="move it back to verify it there")
    if len(folders) < len(plan.store_partitions):
        raise RefusedError(f"the new stores of {spec.name!r} are not assembled yet", hint="stateferry run SPEC")
    partitions = map(plan.new_partition, plan.store_partitions)
    check_unlocked(folders[each.id] / database / "LOCK" for each in partitions for database in each.databases)
