"""`doctor`: what a run checks before it writes anything, and what only Spark can tell, as a list with fixes."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import Protocol, cast

from migrate.changelog_ends import ChangelogEnds
from migrate.checks import Check, CheckReport, observe
from migrate.errors import ExitCode
from migrate.finished import report_of_finished
from migrate.ground import Preflight
from migrate.marker import is_usable
from migrate.report_model import Report
from migrate.spark_checks import not_run
from migrate.spec import Spec
from migrate.standing import read_standing
from migrate.steps.context import make_context
from migrate.system_errors import system_errors_explained

PROBING_MODULE = "jobs.probing"
"""Imported by name and only when a master is named: nothing here may depend on Spark."""


class DoctorReport(Report):
    """Whether all is ready for a run, check by check."""

    name: str
    master: str | None
    """Where the checks of Spark ran; None: they did not."""
    checks: tuple[CheckReport, ...]
    verdict: str
    """One sentence."""
    next_step: str
    exit_code: int
    """0: nothing failed; 6: a run would be refused."""


class ProbingModule(Protocol):
    """What `jobs` offers to this one."""

    def spark_checks(self, spec: Spec, master: str) -> AbstractContextManager[tuple[Check, ...]]:
        """The checks that need Spark; the session that one of them starts ends with the block."""
        ...


@system_errors_explained()
def doctor(spec: Spec, *, master: str | None = None, changelog_ends: ChangelogEnds | None = None) -> DoctorReport:
    """Make every check of a run; `master=None`: without Spark. Nothing is left behind.

    Raises SpecError where the spec's function cannot be imported, RefusedError where a switch is half done.
    """
    context = make_context(spec, changelog_ends=changelog_ends)
    done = report_of_finished(context, read_standing(context.home)) if is_usable(context.home) else None
    if done is not None:
        return DoctorReport(
            name=spec.name, master=None, checks=(), verdict="nothing to do", next_step=done.next_step, exit_code=0
        )
    preflight = Preflight(context, "doctor")
    if master is None:
        return _report(spec, master, (*preflight.observe(), *not_run("--no-spark")))
    module = cast("ProbingModule", importlib.import_module(PROBING_MODULE))
    with module.spark_checks(spec, master) as of_spark:
        return _report(spec, master, (*preflight.observe(), *observe(of_spark)))


def _report(spec: Spec, master: str | None, checks: tuple[CheckReport, ...]) -> DoctorReport:
    failed = [check for check in checks if check.outcome == "failed"]
    waiting = [check for check in checks if check.outcome == "waiting"]
    warnings = [check for check in checks if check.outcome == "warning"]
    if failed:
        verdict = f"not ready: {_counted(len(failed), 'check')} failed, a run would be refused"
        next_step = "mend what failed, then run stateferry doctor SPEC again"
    elif waiting:
        verdict = "ready, once the application is stopped"
        next_step = waiting[0].fix
    else:
        verdict = "ready" + (f", with {_counted(len(warnings), 'warning')}" if warnings else "")
        next_step = "stateferry plan SPEC tells what a run would do; stateferry run SPEC does it"
    return DoctorReport(
        name=spec.name,
        master=master,
        checks=checks,
        verdict=verdict,
        next_step=next_step,
        exit_code=int(ExitCode.REFUSED if failed else ExitCode.DONE),
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
