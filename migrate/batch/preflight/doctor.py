"""`doctor`: every check that a run makes before it writes anything, and those that need Spark, with fixes."""

from __future__ import annotations

from contextlib import nullcontext

from migrate.batch.chunk.executor import executor_opener, plugged
from migrate.batch.context import Context
from migrate.batch.home import is_usable
from migrate.batch.preflight.check import SPARK_CHECKS, CheckReport, observe
from migrate.batch.preflight.checklist import Preflight
from migrate.batch.source.changelog_ends import ChangelogEnds
from migrate.batch.status.run_report import already_migrated
from migrate.errors import ExitCode, system_errors_explained
from migrate.model.display import plural
from migrate.model.engine_choice import EngineChoice
from migrate.model.values import Report
from migrate.spec.spec import Spec


class DoctorReport(Report):
    """Whether a run can start, check by check."""

    name: str
    master: str | None
    """The Spark master of the checks that need Spark; None: they did not run."""
    checks: tuple[CheckReport, ...]
    engine: EngineChoice | None = None
    """Which engine would do the work; None: a check failed before that was known, or there is nothing to do."""
    verdict: str
    """One sentence."""
    next_step: str
    exit_code: int
    """0: nothing failed; 6: a run would be refused."""


@system_errors_explained()
def doctor(spec: Spec, *, master: str | None = None, changelog_ends: ChangelogEnds | None = None) -> DoctorReport:
    """Make every check of a run, and list each with a fix. Nothing is left behind.

    Args:
        spec: the migration, from `load_spec` or built in code.
        master: the Spark master to check, such as "local[4]"; None: leave out the checks that need Spark.
        changelog_ends: by `<topic>-<partition>`, the offset after the last record that a consumer can read, where that
            has to be confirmed.

    Raises:
        SpecError: the spec's function cannot be imported, or cannot be sent to Spark's executors.
        RefusedError: a switch is half done.
    """
    executor_opener(spec, master)  # as a run does it
    context = Context(spec, changelog_ends=changelog_ends or {}).loaded()
    done = already_migrated(context) if is_usable(context.home) else None
    if done is not None:
        return DoctorReport(
            name=spec.name, master=None, checks=(), verdict="nothing to do", next_step=done.next_step, exit_code=0
        )
    preflight = Preflight(context, "doctor")
    with nullcontext() if master is None else plugged("spark").checks(spec, master) as of_spark:
        found = (*preflight.observe(), *(not_run("--no-spark") if of_spark is None else observe(of_spark)))
        report = _report(spec, master, found, is_behind=preflight.needs_catch_up)
        return report.model_copy(update={"engine": preflight.engine_found(found)})


def _report(spec: Spec, master: str | None, checks: tuple[CheckReport, ...], *, is_behind: bool) -> DoctorReport:
    failed = [check for check in checks if check.outcome == "failed"]
    waiting = [check for check in checks if check.outcome == "waiting"]
    warnings = [check for check in checks if check.outcome == "warning"]
    if failed:
        verdict = f"not ready: {plural(len(failed), 'check')} failed, a run would be refused"
        next_step = "fix what failed, then run stateferry doctor SPEC again"
    elif waiting:
        verdict = "ready, once the application is stopped"
        next_step = waiting[0].fix
    else:
        verdict = "ready" + (f", with {plural(len(warnings), 'warning')}" if warnings else "")
        next_step = "stateferry plan SPEC shows what a run would do; stateferry run SPEC does it"
        if is_behind:
            next_step += "; before the cut-over, stateferry catch-up SPEC brings what the stores lack"
    return DoctorReport(
        name=spec.name,
        master=master,
        checks=checks,
        verdict=verdict,
        next_step=next_step,
        exit_code=int(ExitCode.REFUSED if failed else ExitCode.DONE),
    )


def not_run(reason: str) -> tuple[CheckReport, ...]:
    """The reports of the checks that need Spark, where they did not run."""
    return tuple(
        CheckReport(name=name, claim=claim, outcome="not run", detail=reason) for name, claim in SPARK_CHECKS.items()
    )
