"""Checks as a list: those that failed with their fixes, those that passed in short."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from migrate.batch.preflight.check import CheckReport, Outcome
from migrate.batch.preflight.doctor import DoctorReport
from migrate.show.output import Output
from migrate.show.plain import Layout

_MARKS: dict[Outcome, tuple[str, dict[str, Any]]] = {
    "ok": ("ok", {"fg": "green"}),
    "warning": ("warning", {"fg": "yellow"}),
    "waiting": ("waiting", {"fg": "yellow"}),
    "failed": ("FAILED", {"fg": "red", "bold": True}),
    "not run": ("not run", {"dim": True}),
}
_INDENT = 9


def show_doctor(report: DoctorReport, output: Output) -> list[str]:
    """All checks, and the verdict."""
    layout = output.layout
    return [
        *show_checks(report.checks, output),
        *layout.title(f"{report.name}: {report.verdict}"),
        *layout.wrapped(f"next: {report.next_step}"),
    ]


def show_checks(checks: Iterable[CheckReport], output: Output) -> list[str]:
    """One check per line, with details and the fix unless it passed; --verbose shows details of all.

    Consecutive checks that were not run for the same reason share a line.
    """
    layout, lines = output.layout, []
    for reason, group in groupby(checks, key=lambda check: check.detail if check.outcome == "not run" else None):
        if reason is not None and not output.verbosity:
            names = ", ".join(check.name for check in group)
            lines += _row(f"{names} ({reason})", "not run", layout)
            continue
        for check in group:
            lines += _check(check, layout, has_details=bool(output.verbosity))
    return lines


def _check(check: CheckReport, layout: Layout, *, has_details: bool) -> list[str]:
    is_good = check.outcome in ("ok", "not run")
    *lines, last = _row(f"{check.claim}  {check.name}", check.outcome, layout)
    lines.append(last.removesuffix(check.name) + layout.styled(check.name, dim=True))
    if check.detail and (not is_good or has_details):
        lines += layout.wrapped(check.detail, indent=_INDENT)
    if check.fix and not is_good:
        lines += layout.wrapped(f"fix: {check.fix}", indent=_INDENT)
    return lines


def _row(text: str, outcome: Outcome, layout: Layout) -> list[str]:
    mark, style = _MARKS[outcome]
    first, *rest = layout.wrapped(text, indent=_INDENT)
    return [layout.styled(mark, **style) + first[len(mark) :], *rest]
