"""`run`: the batch migration from start to end, in this process or on Spark, with the same engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from formats import Function
from migrate.batch.chunk.executor import Executor, ExecutorOpener, executor_opener, in_process
from migrate.batch.context import Context, make_context
from migrate.batch.home import remove_all, remove_if_empty
from migrate.batch.identity import migration_id
from migrate.batch.ledger.dead_letters import write_dead_letters
from migrate.batch.ledger.gates import NOTHING_ACCEPTED, Acceptance, concerns_of, not_accepted
from migrate.batch.ledger.intervals import totals_of, under_reject_policy
from migrate.batch.ledger.marker import claim, finish_abandoned
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger, read_repaired
from migrate.batch.log import log_end, logged
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.run_lock import one_run_at_a_time
from migrate.batch.source.changelog_ends import ChangelogEnds
from migrate.batch.status.run_report import Outcome, already_migrated, run_report
from migrate.batch.steps.assemble import assemble
from migrate.batch.steps.damage import Repairs
from migrate.batch.steps.prepare import prepare, run_preflight
from migrate.batch.steps.publish import publish
from migrate.batch.steps.reconcile import reconcile
from migrate.batch.steps.rewrite import rewrite
from migrate.batch.steps.verify import NewStores, verify
from migrate.batch.stop import Stop
from migrate.errors import InterruptedMigrationError, MigrationError, system_errors_explained
from migrate.model.events import Listener, ignore
from migrate.model.plan import Plan
from migrate.model.receipt import Receipt
from migrate.model.reports import RunReport
from migrate.spec.loading import parse_spec
from migrate.spec.spec import Spec


def run(
    spec: Spec,
    *,
    master: str | None = None,
    unverified: bool = False,
    accept_rejects: int | None = None,
    on_event: Listener = ignore,
    changelog_ends: ChangelogEnds | None = None,
) -> RunReport:
    """Migrate, resuming where an earlier run stopped. `master=None`: in this process, without Spark.

    With `[target] path`, new stores are published if they are verified and lack no record; `unverified` accepts stores
    that are not verified, `accept_rejects` that many missing records. `changelog_ends`: by `<topic>-<partition>`, the
    offset after the last record that a consumer can read, where that has to be confirmed.

    Raises MigrationError, whose `exit_code` is the exit code of the command.
    """
    acceptance = Acceptance(unverified, accept_rejects)
    opener = executor_opener(master)
    return run_with(opener, spec, on_event=on_event, acceptance=acceptance, changelog_ends=changelog_ends)


@system_errors_explained()
def run_with(
    open_executor: ExecutorOpener,
    spec: Spec,
    *,
    on_event: Listener = ignore,
    function: Function | None = None,
    stop: Stop | None = None,
    acceptance: Acceptance = NOTHING_ACCEPTED,
    changelog_ends: ChangelogEnds | None = None,
    is_cut_over_next: bool = False,
) -> RunReport:
    """`run` with the given executor; `function` replaces the spec's. Workers start only once the plan is stored.

    `is_cut_over_next`: the caller cuts over next, so that the report asks nobody to do it.
    Raises InterruptedMigrationError once `stop` is requested.
    """
    context = make_context(spec, logged(spec.name, on_event), function, stop, acceptance, changelog_ends=changelog_ends)
    Preflight(context, "run").check_before_lock()
    with one_run_at_a_time(context.home):
        finish_abandoned(context.home)
        standing = Standing(context.home, read_repaired(context.home, context.warn))
        done = already_migrated(context, standing)
        report = _run(context, open_executor) if done is None else done
    if is_cut_over_next and done is None and not not_accepted(report.concerns):
        report = report.model_copy(update={"next_step": "the cut-over, which follows now"})
    log_end(report)
    return report


def _run(context: Context, open_executor: ExecutorOpener) -> RunReport:
    clock = _Clock()
    with clock.phase("plan"):
        preflight = run_preflight(context, "run")
        claim(context.home, context.spec.source_path)
        ledger = Ledger(context.home, migration_id(preflight.identity), context.run_id)
        context.notify("ledger.opened")
    with _fencing_explained(ledger):
        return _work(context, open_executor, preflight, ledger, clock)


def _work(
    context: Context, open_executor: ExecutorOpener, preflight: Preflight, ledger: Ledger, clock: _Clock
) -> RunReport:
    with clock.phase("plan"):
        plan = prepare(context, preflight, ledger)
        before = under_reject_policy(reconcile(context, plan, ledger), context.spec.run.on_reject)
        context.notify("run.begun", plan=plan, done=before)
    context.stop.check()
    with ExitStack() as resources:
        with clock.phase("start"):
            executor = resources.enter_context(open_executor(context.spec))
        made = _make(context, executor, plan, ledger, before, clock=clock)
    context.stop.check()
    standing = Standing(context.home, ledger.rows)
    concerns = concerns_of(context.spec, standing, totals_of(made.receipts), context.acceptance)
    with clock.phase("publish"):
        published = publish(context, plan, ledger, made.folders, concerns)
    return run_report(
        context, plan, made, standing, done_before=before, published=published, concerns=concerns, seconds=clock.seconds
    )


def _make(
    context: Context, executor: Executor, plan: Plan, ledger: Ledger, receipts: list[Receipt], *, clock: _Clock
) -> Outcome:
    """The verified new stores. Files that the disk has damaged, before or during this run, are made again."""
    repairs = Repairs(context, plan)
    while True:
        try:
            with clock.phase("rewrite"):
                receipts = rewrite(context, executor, plan, ledger, before=receipts)
                dead_letters = write_dead_letters(context.home, receipts)
                context.notify("dead-letters.written", folder=dead_letters)
            with clock.phase("assemble"):
                folders = assemble(context, plan, ledger, receipts)
            with clock.phase("verify"):
                verification = verify(context, executor, ledger, plan, NewStores(folders, receipts))
        except MigrationError as error:
            receipts = repairs.discard_damaged(error, ledger.rows, receipts)
        else:
            return Outcome(receipts, folders, verification, dead_letters)


def migrate_store(
    old_path: str | Path,
    new_path: str | Path,
    *,
    source: str,
    target: str,
    convert: Function | None = None,
    on_event: Listener = ignore,
) -> RunReport:
    """Migrate one RocksDB directory into a new one, in this process; `source` and `target` are format ids.

    `convert` is StateRecord -> StateRecord | None and must be pure. A killed call is resumed by the same call.
    Losses and changed keys are allowed, as the caller has named both formats and the code.
    """
    new = Path(new_path).absolute()
    work_dir = new.with_name(f".stateferry-work.{new.name}")
    spec = parse_spec(
        {
            "name": "store",
            "work_dir": str(work_dir),
            "source": {"format": source, "path": str(Path(old_path).absolute())},
            "target": {"format": target, "path": str(new)},
            "conversion": {"allow": ["changelog", "key-change", "loss:timestamp", "unclean-source"]},
        },
        base_dir=Path.cwd(),
    )
    report = run_with(in_process, spec, on_event=on_event, function=convert)
    remove_all(spec.home)
    remove_if_empty(work_dir)
    return report


@contextmanager
def _fencing_explained(ledger: Ledger) -> Iterator[None]:
    """Raises FencedError in place of any error that comes after another run has taken over."""
    try:
        yield
    except InterruptedMigrationError:
        raise
    except Exception:
        ledger.check_not_fenced()
        raise


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
