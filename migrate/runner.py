"""`run`: the batch migration from start to end, in this process or on Spark, by the same engine."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from formats import Function
from migrate.changelog_ends import ChangelogEnds
from migrate.dead_letters import write_dead_letters
from migrate.errors import InterruptedMigrationError, MigrationError
from migrate.events import Listener, ignore
from migrate.executor import Executor, InProcessExecutor
from migrate.finished import report_of_finished
from migrate.gates import NOTHING_ACCEPTED, Acceptance, concerns_of
from migrate.ground import Preflight
from migrate.home import remove_all, remove_if_empty
from migrate.identity import migration_id
from migrate.interruption import Stop
from migrate.ledger import Ledger, readable_ledger
from migrate.marker import claim, finish_abandoned
from migrate.plan_model import Plan
from migrate.progress_state import acceptable, totals_of
from migrate.receipt import Receipt
from migrate.report_model import RunReport, Verification
from migrate.run_log import log_end, logged
from migrate.run_report import report_of
from migrate.spec import Spec, parse_spec
from migrate.standing import Standing
from migrate.steps.assemble import assemble
from migrate.steps.context import Context, make_context
from migrate.steps.damage import Repairs
from migrate.steps.prepare import pass_preflight, prepare
from migrate.steps.publish import publish
from migrate.steps.reconcile import reconcile
from migrate.steps.rewrite import rewrite
from migrate.steps.verify import NewStores, verify
from migrate.stores.lock import one_run_at_a_time
from migrate.system_errors import system_errors_explained

SPARK_MODULE = "jobs.spark"
"""Imported by name and only when a master is named: nothing here may depend on Spark."""


class SparkModule(Protocol):
    """What `jobs` offers to this package."""

    def open_executor(self, spec: Spec, master: str | None) -> AbstractContextManager[Executor]:
        """An executor over a Spark session, which ends with it."""
        ...


ExecutorOpener = Callable[[Spec], AbstractContextManager[Executor]]


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

    With `[target] path` new stores are published that are verified and lack no record, unless `unverified` or so many
    `accept_rejects` say otherwise. `changelog_ends`: by `<topic>-<partition>`, the position after the last record that
    a consumer can read there, where that has to be confirmed.

    Raises MigrationError; its `exit_code` is the command's.
    """
    acceptance = Acceptance(unverified, accept_rejects)
    opener = executor_opener(master)
    return run_with(opener, spec, on_event=on_event, acceptance=acceptance, changelog_ends=changelog_ends)


def executor_opener(master: str | None) -> ExecutorOpener:
    """Where tasks will run, once they do."""
    return in_process if master is None else spark(master)


def in_process(_: Spec) -> AbstractContextManager[Executor]:
    """This process, without Spark."""
    return nullcontext(InProcessExecutor())


def spark(master: str | None) -> ExecutorOpener:
    """A Spark application; without a master it is the one that spark-submit named."""

    def open_spark(spec: Spec) -> AbstractContextManager[Executor]:
        module = cast("SparkModule", importlib.import_module(SPARK_MODULE))
        return module.open_executor(spec, master)

    return open_spark


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
) -> RunReport:
    """`run` where the opener says; `function` stands in for the spec's. Workers start only once the plan is stored.

    Raises InterruptedMigrationError once `stop` is asked for.
    """
    context = make_context(spec, logged(spec.name, on_event), function, stop, acceptance, changelog_ends=changelog_ends)
    Preflight(context, "run").check_before_lock()
    with one_run_at_a_time(context.home):
        finish_abandoned(context.home)
        standing = Standing(context.home, readable_ledger(context.home, context.warn))
        done = report_of_finished(context, standing)
        report = _run(context, open_executor) if done is None else done
    log_end(report)
    return report


def _run(context: Context, open_executor: ExecutorOpener) -> RunReport:
    clock = _Clock()
    with clock.phase("plan"):
        preflight = pass_preflight(context, "run")
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
        before = acceptable(reconcile(context, plan, ledger), context.spec.run.on_reject)
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
    return report_of(
        context,
        plan,
        made.receipts,
        done_before=before,
        seconds=clock.seconds,
        verification=made.verification,
        new_stores=made.folders,
        published=published,
        dead_letters=made.dead_letters,
        concerns=concerns,
    )


def _make(
    context: Context, executor: Executor, plan: Plan, ledger: Ledger, receipts: list[Receipt], *, clock: _Clock
) -> _Made:
    """The verified new stores; what a disk damages meanwhile, or has damaged since an earlier run, is made again."""
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
            receipts = repairs.left_after(error, ledger.rows, receipts)
        else:
            return _Made(receipts, folders, verification, dead_letters)


@dataclass(frozen=True, slots=True)
class _Made:
    receipts: list[Receipt]
    folders: dict[str, Path]
    verification: Verification
    dead_letters: Path | None


def migrate_store(
    old_path: str | Path,
    new_path: str | Path,
    *,
    source: str,
    target: str,
    convert: Function | None = None,
    on_event: Listener = ignore,
) -> RunReport:
    """One RocksDB directory into a new one, in this process; `source` and `target` are format ids.

    `convert` is StateRecord -> StateRecord | None and must be pure. A killed call is resumed by the same call.
    Losses and changed keys count as allowed: whoever calls this function has named both formats and the code.
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
    """Whatever fails once another run has taken over fails because of that."""
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
