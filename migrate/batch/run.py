"""`run`: the batch migration from start to end, in this process or on Spark, with the same engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from formats import Conversion, Function
from migrate.batch.changelog.broker_access import half_done
from migrate.batch.changelog.compare_topics import adopt_changelogs, verify_changelogs
from migrate.batch.changelog.rebuild import rebuild_missing
from migrate.batch.changelog.restoring import restore_with
from migrate.batch.changelog.take_key_times import take_times
from migrate.batch.changelog.write_topics import announce, write_changelogs
from migrate.batch.chunk.executor import Executor, ExecutorOpener, executor_opener, in_process, is_on_spark
from migrate.batch.chunk.native_trace import remove_traces
from migrate.batch.context import Context
from migrate.batch.frame import command
from migrate.batch.home import remove_all, remove_if_empty
from migrate.batch.ledger.dead_letters import write_dead_letters
from migrate.batch.ledger.gates import Acceptance, concerns_of, not_accepted
from migrate.batch.ledger.receipts_in_force import Revision
from migrate.batch.log import log_end
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.source.changelog_ends import ChangelogEnds
from migrate.batch.status.run_report import Outcome, already_migrated, run_report
from migrate.batch.steps.assemble import assemble
from migrate.batch.steps.assemble_again import state_offsets
from migrate.batch.steps.damage import Repairs
from migrate.batch.steps.prepare import prepare
from migrate.batch.steps.publish import publish
from migrate.batch.steps.reconcile import reconcile, revise
from migrate.batch.steps.rewrite import check_left_out, rewrite
from migrate.batch.steps.verify import verify
from migrate.errors import MigrationError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.plan import newest_plan
from migrate.model.reports import RunReport
from migrate.spec.allowed import CHANGELOG, DROP, KEY_CHANGE, UNCLEAN_SOURCE
from migrate.spec.changelog_way import way_of
from migrate.spec.spec import Spec, parse_spec
from migrate.systems import known_format


def run(
    spec: Spec,
    *,
    master: str | None = None,
    jobs: int = 1,
    unverified: bool = False,
    accept_rejects: int | None = None,
    on_event: Listener = ignore,
    changelog_ends: ChangelogEnds | None = None,
    fence: bool = False,
) -> RunReport:
    """Migrate, resuming where an earlier run stopped. The application must be stopped, the source is not changed.

    With `[target] path`, new stores are published if they are verified and lack no record. A run that was killed, or
    ended with an error, is continued by the same call: finished chunks are kept.

    Args:
        spec: the migration, from `load_spec` or built in code.
        master: a Spark master, such as "local[4]" or "spark://host:7077"; None: in this process, without Spark.
        jobs: how many processes of this machine work, without a master (threads, where the engine is "native"); with
            more than one, a function needs a name.
        unverified: accept new stores that were not verified.
        accept_rejects: accept new stores that lack up to this many records, which could not be converted.
        on_event: called with each `Event`, before the work goes on.
        changelog_ends: by `<topic>-<partition>`, the offset after the last record that a consumer can read, where that
            has to be confirmed.
        fence: end the transactions that dead instances of the application on this host left open.

    Raises:
        SpecError: the spec's function cannot be imported, or cannot be sent to Spark's executors.
        RefusedError: a check found that the run must not start; the stores were not touched.
        ChunkFailedError: a chunk cannot be rewritten.
        RejectedError: more records than allowed cannot be converted.
        DroppedError: the function drops more records than the spec allows.
        VerificationError: a new store differs from the converted old one, or its changelog from it; nothing was
            published.
        ChangelogFailedError: a changelog cannot be written, or read back.
        InterruptedMigrationError: the time budget is used up.
    """
    context = Context(
        spec,
        on_event,
        acceptance=Acceptance(unverified, accept_rejects),
        changelog_ends=changelog_ends or {},
        fence=fence,
        jobs=jobs,
    )
    return run_with(executor_opener(spec, master, jobs), context)


@system_errors_explained()
def run_with(open_executor: ExecutorOpener, context: Context, *, is_cut_over_next: bool = False) -> RunReport:
    """`run` with the given executor. Workers start only once the plan is stored.

    `is_cut_over_next`: the caller cuts over next, so that the report asks nobody to do it.
    """
    checks: Callable[[], None] | None = Preflight(context.loaded(), "run").check_before_lock
    if context.spec.source.changelog and newest_plan(context.home) is None:
        restore_with(open_executor, context)
    elif context.spec.source.is_made and newest_plan(context.home) is not None:
        checks = None  # `finalize` removes the old store that we have made
    with command(context, before_lock=checks):
        done = already_migrated(context)
        report = carry_out(context, open_executor) if done is None else done
    if is_cut_over_next and done is None and not not_accepted(report.concerns):
        report = report.model_copy(update={"next_step": "the cut-over, which follows now"})
    log_end(report)
    return report


def carry_out(context: Context, open_executor: ExecutorOpener, revision: Revision | None = None) -> RunReport:
    """Take every step that is left, under the migration's lock; a `revision` is registered before any chunk."""
    clock = _Clock()
    context.is_on_spark = is_on_spark(open_executor)
    with clock.phase("plan"):
        prepare(context, revision)
        reconcile(context)
        if revision is not None:
            revise(context, revision)
            reconcile(context)
    before = context.receipts
    context.notify("run.begun", plan=context.plan, done=before)
    context.stop.check()
    with ExitStack() as resources:
        with clock.phase("start"):
            executor = resources.enter_context(context.executor(open_executor))
        made = _make(context, executor, clock)
    context.stop.check()
    concerns = concerns_of(context.spec, context.standing, context.acceptance)
    with clock.phase("publish"):
        published = publish(context, concerns)
    report = run_report(
        context, made, done_before=before, published=published, concerns=concerns, seconds=clock.seconds
    )
    return report.model_copy(update={"engine": context.engine})


def _make(context: Context, executor: Executor, clock: _Clock) -> Outcome:
    """The verified new stores. Files that the disk has damaged, before or during this run, are made again."""
    with clock.phase("times"):
        take_times(context, executor)
    repairs = Repairs(context)
    while True:
        try:
            with clock.phase("rewrite"):
                rewrite(context, executor)
                dead_letters = write_dead_letters(context.home, context.standing.every_receipt)
                context.notify("dead-letters.written", folder=dead_letters)
            with clock.phase("assemble"):
                assemble(context)
            with clock.phase("verify"):
                verification = verify(context, executor)
            if way_of(context.spec, context.conversion) != "none":
                with clock.phase("changelog"):
                    _migrate_changelogs(context, executor)
                    state_offsets(context, executor)
                    dead_letters = write_dead_letters(context.home, context.standing.every_receipt)
        except MigrationError as error:
            repairs.discard_damaged(error)
        else:
            remove_traces(context.home)
            return Outcome(context.standing, verification, dead_letters)


def _migrate_changelogs(context: Context, executor: Executor) -> None:
    """Write the changelogs, and read them back, unless nothing is verified."""
    with half_done():
        write_changelogs(context, executor)
        if context.spec.run.verify != "off":
            verify_changelogs(context, executor)
        announce(context)
        adopt_changelogs(context, executor)
        rebuild_missing(context, executor, check=partial(check_left_out, context))


def migrate_store(
    old_path: str | Path,
    new_path: str | Path,
    *,
    source: str,
    target: str,
    convert: Function | None = None,
    may_drop: bool = False,
    on_event: Listener = ignore,
) -> RunReport:
    """Migrate one RocksDB directory into a new one, in this process, and verify it. No spec, no Spark.

    A killed call is resumed by the same call. Losses and changed keys are allowed, as the caller has named both formats
    and the code. The files of the migration are in a folder beside `new_path`, which is removed at the end.

    Args:
        old_path: the old RocksDB directory, which no process may be writing to; it is not changed.
        new_path: the new RocksDB directory, which must not exist.
        source: the format id of the old store, such as "kafka-streams.key-value".
        target: the format id of the new store.
        convert: called with each record; it returns the converted one, or None to drop it, and must be pure.
        may_drop: whether `convert` may drop records, which is an error otherwise: a function may lack its `return`.
        on_event: called with each `Event`, before the work goes on.

    Raises:
        SpecError: a format is not known.
        RefusedError: a check found that the migration must not start; the stores were not touched.
        ChunkFailedError: the store cannot be rewritten.
        RejectedError: a record cannot be converted.
        DroppedError: `convert` returned None, and `may_drop` is not set.
        VerificationError: the new store differs from the converted old one.
    """
    new = Path(new_path).absolute()
    work_dir = new.with_name(f".stateferry-work.{new.name}")
    spec = parse_spec(
        {
            "name": "store",
            "work_dir": str(work_dir),
            "source": {"format": source, "path": str(Path(old_path).absolute())},
            "target": {"format": target, "path": str(new)},
            "conversion": {
                "function": convert,
                "allow": _allowed_by_code(source, target, may_drop=may_drop),
            },
        },
        base_dir=Path.cwd(),
    )
    report = run_with(in_process, Context(spec, on_event))
    remove_all(spec.home)
    remove_if_empty(work_dir)
    return report


def _allowed_by_code(source: str, target: str, *, may_drop: bool) -> list[str]:
    """Timestamps may be lost by the formats alone: one that the function gives must have its place."""
    losses = Conversion(known_format(source), known_format(target)).losses
    lost = [loss for loss in losses if loss == "loss:timestamp"]
    return [CHANGELOG, KEY_CHANGE, UNCLEAN_SOURCE, *lost, *([DROP] if may_drop else [])]


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - started, 3)
