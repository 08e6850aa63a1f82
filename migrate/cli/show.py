"""Reports as text for a person."""

from __future__ import annotations

import time

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from migrate.report import (
    AbandonReport,
    InspectReport,
    RunReport,
    SnapshotReport,
    StatusReport,
    SwitchReport,
    Totals,
    Verification,
    VerifyReport,
)

_MIB = 2**20


def show_run(report: RunReport) -> None:
    """What a run did, and where the result stands."""
    seconds = report.seconds.get("rewrite", 0.0)
    rows = {
        "migration": f"{report.name}: {report.source_format} -> {report.target_format}",
        "source": f"{report.source} ({report.store_partitions} store partitions)",
        "chunks": f"{report.totals.chunks} of {report.chunks_planned} planned"
        + (f", {report.chunks_done_before} of them by earlier runs" if report.chunks_done_before else ""),
        **_totals(report.totals),
        "rewriting": f"{seconds:,.2f} s, {report.records_per_second:,.0f} records/s" if report.seconds else "",
        "phases": ", ".join(f"{name} {spent:,.2f} s" for name, spent in report.seconds.items()),
        "verification": _verification(report.verification),
        "dead letters": "" if report.dead_letters is None else str(report.dead_letters),
        "result": str(report.published or "\n".join(map(str, report.new_stores))),
        "changelog": report.changelog,
        "warnings": "\n".join(report.warnings),
        "next": report.next_step,
    }
    _table(rows)


def show_status(report: StatusReport) -> None:
    """Where a migration stands."""
    rows = {
        "migration": report.name,
        "state": report.state,
        "chunks": f"{report.chunks_planned - report.chunks_left} of {report.chunks_planned} ({report.share_done:.1%})",
        **_totals(report.totals),
        "runs": str(report.runs),
        "last commit": "" if report.last_commit_ms is None else _when(report.last_commit_ms),
        "verification": "not yet" if report.verification is None else _verification(report.verification),
        "published": "" if report.published is None else str(report.published),
        "next": report.next_step,
    }
    _table(rows if report.migration_id else {key: rows[key] for key in ("migration", "state", "next")})


def show_switch(report: SwitchReport) -> None:
    """What a switch left."""
    _table(
        {
            "migration": report.name,
            "state": report.state,
            "stores": "\n".join(map(str, report.stores)),
            "old stores": "" if report.old_stores is None else str(report.old_stores),
            "changelog": report.changelog,
            "warnings": "\n".join(report.warnings),
            "next": report.next_step,
        }
    )


def show_snapshot(report: SnapshotReport) -> None:
    """What was taken."""
    _table(
        {
            "migration": report.name,
            "snapshot": f"{report.snapshot} ({report.store_partitions} store partitions)",
            "taken": _when(report.taken_at_ms),
            "warnings": "\n".join(report.warnings),
            "next": report.next_step,
        }
    )


def show_abandon(report: AbandonReport) -> None:
    """What was removed."""
    removed = "nothing was there" if report.removed is None else str(report.removed)
    _table({"migration": report.name, "removed": removed, "untouched": str(report.source)})


def show_verify(report: VerifyReport) -> None:
    """What a verification found."""
    stores = "\n".join(map(str, report.stores))
    _table({"migration": report.name, "verification": _verification(report.verification), "stores": stores})


def show_inspect(report: InspectReport) -> None:
    """What lies in a directory."""
    table = Table(box=None, header_style="bold")
    for column in ("RocksDB directory", "column family", "records", "MiB", "format", "digest"):
        table.add_column(column, justify="right" if column in ("records", "MiB") else "left", overflow="fold")
    for database in report.databases:
        for number, family in enumerate(database.families):
            table.add_row(
                database.path if number == 0 else "",
                escape(family.name),
                f"{family.records:,}" if family.exact else f"~{family.records:,}",
                f"{database.size / _MIB:,.1f}" if number == 0 else "",
                "\n".join(database.formats) if number == 0 else "",
                family.digest or "",
            )
    console = _console()
    console.print(f"{report.path}")
    console.print(table)
    for database in report.databases:
        if database.half_converged is not None:
            console.print(escape(f"{database.path} is {database.half_converged}: open it with DualReadStore"))


def _totals(totals: Totals) -> dict[str, str]:
    left_out = [f"{totals.dropped:,} dropped by the function"] if totals.dropped else []
    left_out += [f"{totals.rejected:,} rejected"] if totals.rejected else []
    records = f"{totals.records_in:,} read, {totals.records_out:,} written"
    return {
        "records": ", ".join([records, *left_out]),
        "bytes": f"{totals.bytes_in:,} read, {totals.bytes_out:,} written",
    }


def _verification(found: Verification) -> str:
    if found.mode == "off":
        return "off, as [run] verify says"
    if found.ok:
        return f"{found.mode}: {found.records:,} records equal, in {found.seconds:,.2f} s"
    return f"{found.mode}: {found.missing:,} missing, {found.differing:,} differing, {found.extra:,} extra"


def _when(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))


def _table(rows: dict[str, str]) -> None:
    table = Table(box=None, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows.items():
        if text:
            table.add_row(name, escape(text))
    _console().print(table)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=120)
