"""Checks with names: a run raises the first that fails, a dry run and `doctor` list them all, with their fixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from migrate.errors import MigrationError, system_errors_explained
from migrate.model.values import Value

Outcome = Literal["ok", "warning", "waiting", "failed", "not run"]
Purpose = Literal["run", "snapshot", "plan", "doctor"]
"""The command that asks for a check."""


class CheckReport(Value):
    """How one check went."""

    name: str
    """As in docs/cli.md: "source.stopped"."""
    claim: str
    """What is so where it passes: "the application is stopped"."""
    outcome: Outcome
    """`waiting`: will be so once the application is stopped; `warning`: does not keep a run from starting."""
    detail: str = ""
    """What was seen, or what is wrong."""
    fix: str = ""
    """What to do where it is not ok."""
    exit_code: int = 0
    """Of a run that would end here."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be so before a run starts."""

    name: str
    claim: str
    run: Callable[[], str | None]
    """Returns what was seen, in words. Raises MigrationError where it is not so."""
    needs: tuple[str, ...] = ()
    """Checks that must have passed, by name."""
    on_failure: Outcome = "failed"
    purposes: tuple[Purpose, ...] = ("run", "snapshot", "plan", "doctor")
    """Where it counts."""


def observe(checks: Iterable[Check]) -> Iterator[CheckReport]:
    """Every check, none of them in the way of the next, but for what it needs."""
    missing: set[str] = set()
    for check in checks:
        if needed := [name for name in check.needs if name in missing]:
            missing.add(check.name)
            yield CheckReport(name=check.name, claim=check.claim, outcome="not run", detail=f"needs {needed[0]}")
            continue
        report = _observe(check)
        if report.outcome == "failed":
            missing.add(check.name)
        yield report


def _observe(check: Check) -> CheckReport:
    try:
        with system_errors_explained():
            detail = check.run() or ""
    except MigrationError as error:
        return failed(check.name, check.claim, error, outcome=check.on_failure)
    return CheckReport(name=check.name, claim=check.claim, outcome="ok", detail=detail)


def failed(name: str, claim: str, error: MigrationError, *, outcome: Outcome = "failed") -> CheckReport:
    """A check that ended in this error."""
    return CheckReport(
        name=name,
        claim=claim,
        outcome=outcome,
        detail=error.message,
        fix=error.hint,
        exit_code=int(error.exit_code),
    )
