"""Named checks: a run raises the first that fails, others list all with fixes. Reads beside an owner are retried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from migrate.errors import BrokerError, MigrationError, RefusedError, StoreLockedError, system_errors_explained
from migrate.model.reports import InconclusiveCheck
from migrate.model.values import Value

Outcome = Literal["ok", "warning", "waiting", "failed", "not run"]
Purpose = Literal["run", "snapshot", "plan", "doctor"]
"""The command that asks for a check."""
ATTEMPTS = 5
"""Of a read while the owner of the files runs."""
T = TypeVar("T")


class CheckReport(Value):
    """The outcome of one check."""

    name: str
    """The name in docs/cli.md, for example "source.stopped"."""
    claim: str
    """What holds where the check passes, for example "the application is stopped"."""
    outcome: Outcome
    """`waiting`: passes once the application is stopped; `warning`: a run starts nevertheless."""
    detail: str = ""
    """What was found, or what is wrong."""
    fix: str = ""
    """What to do unless it passed."""
    exit_code: int = 0
    """The exit code of a run that would fail at this check."""


@dataclass(frozen=True, slots=True)
class Check:
    """A condition for the start of a run."""

    name: str
    claim: str
    run: Callable[[], str | InconclusiveCheck | None]
    """Returns what was found, as text, or what could not be. Raises MigrationError where the check fails."""
    needs: tuple[str, ...] = ()
    """The names of checks that must have passed."""
    on_failure: Outcome = "failed"
    purposes: tuple[Purpose, ...] = ("run", "snapshot", "plan", "doctor")
    """The commands that make the check."""


SPARK_CHECKS: dict[str, str] = {
    "spark.java": "a Java that can start Spark is there",
    "spark.session": "a Spark application starts on the master",
    "spark.tasks": "the executors take tasks, in the driver's version of Python",
    "spark.packages": "the executors have what a task imports, in the driver's versions",
    "spark.source": "every executor sees the old store, at the driver's path",
    "spark.work_dir": "every executor reads and writes the work_dir that the driver has, at the driver's path",
    "spark.shared": "what the driver or an executor writes, syncs and renames in the work_dir, the other sees whole",
    "spark.clock": "the executors' clocks agree with the driver's",
    "spark.memory": "the executors' hosts have the memory that their workers need",
}
"""The claim of each check that needs Spark, by name, in the order in which they run."""


def observe(checks: Iterable[Check]) -> Iterator[CheckReport]:
    """Make every check, also after others failed, except those whose needs have not passed."""
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
            found = check.run() or ""
    except MigrationError as error:
        is_unknown = isinstance(error, BrokerError)  # what it waits for was not asked
        return failed(check.name, check.claim, error, outcome="failed" if is_unknown else check.on_failure)
    if isinstance(found, InconclusiveCheck):
        return CheckReport(name=check.name, claim=check.claim, outcome="warning", detail=found.detail, fix=found.fix)
    return CheckReport(name=check.name, claim=check.claim, outcome="ok", detail=found)


def failed(name: str, claim: str, error: MigrationError, *, outcome: Outcome = "failed") -> CheckReport:
    """The report of a check that failed with this error."""
    return CheckReport(
        name=name,
        claim=claim,
        outcome=outcome,
        detail=error.message,
        fix=error.hint,
        exit_code=int(error.exit_code),
    )


def with_retries(read: Callable[[], T], *, is_in_use: bool, attempts: int = ATTEMPTS) -> T:
    """The result of `read`, retried where the owner runs, which may remove a file during an attempt.

    Raises the MigrationError of the last attempt.
    """
    for left in reversed(range(attempts if is_in_use else 1)):
        try:
            return read()
        except StoreLockedError:
            raise
        except (MigrationError, FileNotFoundError) as error:
            if not left:
                raise as_migration_error(error) from error
    raise AssertionError("the last attempt returns or raises")


def as_migration_error(error: MigrationError | FileNotFoundError) -> MigrationError:
    """The error for the operator, also for a file that was removed."""
    if isinstance(error, MigrationError):
        return error
    return RefusedError(f"{error.filename} was removed by its owner", hint="run the command again")
