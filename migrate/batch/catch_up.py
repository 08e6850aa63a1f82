"""`catch_up`: what the application has written since its snapshot is converted, and applied to the new stores.

Each changelog is read from where the snapshot is, or the last tail ends, to its last stable offset, and makes a tail.
The tails' files are durable before their rows; then the new stores are assembled again, with the tails, beside those of
before, compared, and their tails are written to the new changelogs and read back. A rerun does what is left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from migrate.batch.changelog.application_group import check_group, end_transactions
from migrate.batch.changelog.broker_access import cluster_of, half_done
from migrate.batch.changelog.store_changelogs import changelogs
from migrate.batch.changelog.tails import tail_tasks, write_tails
from migrate.batch.changelog.write_topics import announce
from migrate.batch.chunk.executor import Executor, InProcessExecutor, executor_opener, run_all
from migrate.batch.chunk.tail import TailTask
from migrate.batch.context import Context
from migrate.batch.frame import command
from migrate.batch.identity import check_spec
from migrate.batch.ledger.dead_letters import write_dead_letters
from migrate.batch.ledger.standing import Standing
from migrate.batch.source.source import application_of, find_source, target_system
from migrate.batch.status.run_report import BrokerSummary, catch_up_report
from migrate.batch.steps.assemble_again import assemble_again, state_offsets
from migrate.batch.steps.damage import hinting_at_repair, without_damaged_tails
from migrate.batch.steps.reconcile import remove_superseded
from migrate.batch.steps.rewrite import check_left_out
from migrate.batch.stop import Stop
from migrate.errors import BrokerError, RefusedError, system_errors_explained
from migrate.kafka.cluster import Cluster, Ends
from migrate.model.changelogs import Tail
from migrate.model.events import Listener, ignore
from migrate.model.ledger_row import Row, Step
from migrate.model.reports import CatchUpReport, InconclusiveCheck
from migrate.spec.changelog_way import check_catch_up, way_of
from migrate.spec.spec import Spec

_RUN = "stateferry run SPEC"
_AT_ONCE = 8
"""Changelogs that are written or read side by side in this process: mostly, they wait for the broker."""


@system_errors_explained()
def catch_up(
    spec: Spec,
    *,
    master: str | None = None,
    fence: bool = False,
    on_event: Listener = ignore,
    stop: Stop | None = None,
) -> CatchUpReport:
    """Bring the new stores and their changelogs to where the old changelogs end, before the cut-over.

    It may be called as often as one likes while the application goes on: each call reads what was written since the one
    before. The last one follows the application's stop. What was killed is continued by the same call.

    Args:
        spec: the migration, from `load_spec` or built in code; a run of it must have ended.
        master: a Spark master, such as "local[4]"; None: in this process, without Spark.
        fence: end the transactions that dead instances of the application on this host left open.
        on_event: called with each `Event`, before the work goes on.
        stop: to stop it from another thread or a signal handler; None: it runs to its end.

    Raises:
        RefusedError: the new stores are not made yet, or in use; or the changelog no longer tells all that was written.
        BrokerError: the broker cannot be reached; nothing was done.
        ChangelogFailedError: a changelog cannot be read or written to its end.
        ChunkFailedError: the conversion cannot be applied to keys alone.
        RejectedError: more records than allowed cannot be converted.
        DroppedError: the function drops more records than the spec allows.
        VerificationError: a new store, or its changelog, does not hold what was written.
        InterruptedMigrationError: `stop` was requested.
    """
    open_executor = executor_opener(spec, master)
    started = time.monotonic()
    with command(Context(spec, on_event, "catch-up", stop=stop or Stop(), fence=fence)) as context:
        _check(context)
        if way_of(spec, context.conversion) == "none":
            return catch_up_report(context, seconds=time.monotonic() - started)
        check_catch_up(spec, context.conversion, can_rename=target_system(spec).can_rename)
        if context.standing.changelogs.topics is None or not context.standing.recorded:
            raise RefusedError("the new changelog is not written yet", hint=_RUN)
        with cluster_of(spec) as cluster:
            application = _application(context, cluster)
            ends = {each.store_partition: cluster.ends_of(each.topic, each.number) for each in changelogs(spec)}
            tasks = _tasks(context, cluster, ends)
        context.stop.check()
        found: tuple[Tail, ...] = ()
        if tasks or not _is_settled(context.standing):
            context.open_ledger(context.plan.migration_id)
            with context.executor(open_executor) as executor, hinting_at_repair(context.home):
                found = _work(context, executor, tasks)
        at_broker = BrokerSummary(*application, behind=sum(each.end - each.stable for each in ends.values()))
        return catch_up_report(context, at_broker, found, seconds=time.monotonic() - started)


def _tasks(context: Context, cluster: Cluster, ends: Mapping[str, Ends]) -> list[TailTask]:
    """The tails to make; where the files of earlier ones are needed, those that are damaged are made again."""
    standing = context.standing
    tasks = list(tail_tasks(context, standing, cluster, ends))
    if not standing.tails or (not tasks and _is_settled(standing)):
        return tasks
    return list(tail_tasks(context, without_damaged_tails(context), cluster, ends))


def _work(context: Context, executor: Executor, tasks: Sequence[TailTask]) -> tuple[Tail, ...]:
    found = _take_tails(context, executor, tasks)
    context.notify("dead-letters.written", folder=write_dead_letters(context.home, context.standing.every_receipt))
    assemble_again(context, executor)
    remove_superseded(context)
    beside = InProcessExecutor(_AT_ONCE) if isinstance(executor, InProcessExecutor) else executor
    with half_done():
        write_tails(context, beside)
        announce(context)
    state_offsets(context, executor)
    return found


def _application(context: Context, cluster: Cluster) -> tuple[str, bool | None]:
    """A sentence about the application's group, and whether it runs, asked before its changelogs are read.

    None: unknown. With `fence`, its transactions end. Raises RefusedError where a transaction cannot be ended.
    """
    spec = context.spec
    try:
        group: str | InconclusiveCheck = check_group(cluster, application_of(spec), spec)
    except BrokerError as error:
        group = InconclusiveCheck(error.message, error.hint)
    except RefusedError as error:
        return error.message, True
    if context.fence:
        end_transactions(cluster, spec, find_source(spec), changelogs(spec), ours={})
    if isinstance(group, InconclusiveCheck):
        return f"{group.detail}: {group.fix}", None
    return group, False


def _check(context: Context) -> None:
    """Raises RefusedError for a migration whose run has not ended."""
    spec, standing = context.spec, context.standing
    if spec.changelog is None:
        raise RefusedError(
            "a catch-up reads the changelog, and the spec has no section [changelog]",
            hint="where the conversion leaves the changelog as it is, and the store its name, the application replays "
            "what it wrote since; else start again with a section [changelog]",
        )
    if standing.plan is None or standing.pending:
        raise RefusedError(f"the migration {spec.name!r} is not rewritten yet", hint=_RUN)
    if standing.is_live:
        raise RefusedError(
            f"the new stores of {spec.name!r} are in use, or were begun to be ({standing.state}): a catch-up comes "
            "before that",
            hint="stateferry status SPEC names the next step",
        )
    if standing.plan.is_sorted:
        raise RefusedError(
            f"the new keys of {spec.name!r} were sorted, and what came since cannot be added to them",
            hint="start and stop the old application once, cleanly, and migrate under another `name`; then let it stay "
            "stopped",
        )
    check_spec(spec, context.ref, standing)
    if standing.mismatch is not None:
        raise RefusedError(f"a comparison found the new stores of {spec.name!r} wrong", hint=_RUN)


def _is_settled(standing: Standing) -> bool:
    """Whether everything that the tails need is done; those of copies are written by other hosts."""
    written = standing.changelogs
    is_made = standing.is_assembled and not standing.awaits_comparison
    return is_made and not written.unwritten_tails(standing.tails) and not written.unread_tails


def _take_tails(context: Context, executor: Executor, tasks: Sequence[TailTask]) -> tuple[Tail, ...]:
    remove_superseded(context)
    found: list[Tail] = []
    started = lambda task: context.notify("tail.started", task=task)  # noqa: E731 - one line, used once
    for finished in run_all(executor, tasks, on_start=started, name=context.spec.name, stop=context.stop):
        made = [result for _, result in finished if isinstance(result, Tail) and result.records]  # else markers only
        found += made
        if made:
            context.notify("tail.made", tails=made)
    context.stop.check()
    if found:
        rows = [_row(context, tail) for tail in found]
        check_left_out(context, context.standing.extended(rows).totals)
        context.commit(*rows)
        context.notify("tail.committed", tails=found)
    return tuple(found)


def _row(context: Context, tail: Tail) -> Row:
    return context.ledger.row(
        Step.TAIL,
        store_partition=tail.store_partition,
        detail=tail,
        records_in=tail.records,
        rejected=tail.rejected,
        dropped=tail.dropped,
        seconds=tail.seconds,
    )
