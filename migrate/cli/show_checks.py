"""Checks as a list for a person: what is wrong, with its fix; what is well, in short."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from migrate.checks import CheckReport, Outcome
from migrate.cli.output import Output
from migrate.cli.plain import wrap
from migrate.doctoring import DoctorReport

_MARKS: dict[Outcome, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "waiting": ("waiting", "yellow"),
    "failed": ("FAILED", "bold red"),
    "not run": ("not run", "dim"),
}
_INDENT = 9


def show_doctor(report: DoctorReport, output: Output) -> None:
    """The checks, and what they come to."""
    console = output.console()
    print_checks(report.checks, console, output)
    console.print(Text.assemble("\n", (f"{report.name}: {report.verdict}", "bold")))
    console.print(Text(f"next: {report.next_step}"))


def print_checks(checks: Iterable[CheckReport], console: Console, output: Output) -> None:
    """One after the other; what each that passed has seen is told with --verbose.

    Those that were not run, for one reason, are one line.
    """
    for reason, group in groupby(checks, key=lambda check: check.detail if check.outcome == "not run" else None):
        if reason is not None and not output.verbosity:
            names = ", ".join(check.name for check in group)
            _print_row(console, "not run", Text(f"{names}  ({reason})", "dim"))
            continue
        for check in group:
            _print_check(check, console, output)


def _print_check(check: CheckReport, console: Console, output: Output) -> None:
    is_well = check.outcome in ("ok", "not run")
    _print_row(console, check.outcome, Text.assemble(check.claim, (f"  {check.name}", "dim")))
    if check.detail and (not is_well or output.verbosity):
        _print_below(check.detail, console)
    if check.fix and not is_well:
        _print_below(f"fix: {check.fix}", console)


def _print_row(console: Console, outcome: Outcome, text: Text) -> None:
    row = Table.grid()
    row.add_column(width=_INDENT)
    row.add_column()
    row.add_row(Text(*_MARKS[outcome]), text)
    console.print(row)


def _print_below(text: str, console: Console) -> None:
    for part in text.splitlines():
        for line in wrap(part, console.width - _INDENT):
            console.print(Text(" " * _INDENT + line), soft_wrap=True)
