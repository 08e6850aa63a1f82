"""Checks as a list for a person: what is wrong, with its fix; what is well, in short."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from migrate.checks import CheckReport
from migrate.cli.console import wrap
from migrate.cli.options import Output
from migrate.doctoring import DoctorReport

_MARKS = {
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
    """One after the other; what each that passed has seen is told with --verbose."""
    for check in checks:
        mark, style = _MARKS[check.outcome]
        reason = f"  ({check.detail})" if check.outcome == "not run" else ""
        row = Table.grid()
        row.add_column(width=_INDENT)
        row.add_column()
        row.add_row(Text(mark, style), Text.assemble(check.claim, (f"  {check.name}{reason}", "dim")))
        console.print(row)
        is_well = check.outcome in ("ok", "not run")
        if check.detail and (not is_well or (check.outcome == "ok" and output.verbosity)):
            _print_below(check.detail, console)
        if check.fix and not is_well:
            _print_below(f"fix: {check.fix}", console)


def _print_below(text: str, console: Console) -> None:
    for part in text.splitlines():
        for line in wrap(part, console.width - _INDENT):
            console.print(Text(" " * _INDENT + line), soft_wrap=True)
