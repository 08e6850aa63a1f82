"""Reports as text for a person."""

from __future__ import annotations

from pathlib import Path

from migrate.model.comparison import Totals, Verification
from migrate.model.reports import (
    AbandonReport,
    Column,
    Concern,
    RunReport,
    SnapshotReport,
    StatusReport,
    SwitchReport,
    VerifyReport,
)
from migrate.model.units import moment
from migrate.show.output import Output
from migrate.show.plain import ATTENTION


def show_run(report: RunReport, output: Output) -> list[str]:
    """What a run did, and where the result stands."""
    seconds = report.seconds.get("rewrite", 0.0)
    rows = {
        "migration": f"{report.name}: {report.source_format} -> {report.target_format}",
        "source": f"{report.source} ({report.store_partitions} store partitions)",
        "chunks": f"{report.totals.chunks} of {report.chunks_planned} planned"
        + (f", {report.chunks_done_before} of them by earlier runs" if report.chunks_done_before else ""),
        **facts_of_totals(report.totals),
        "rewriting": f"{seconds:,.2f} s, {report.records_per_second:,.0f} records/s" if report.seconds else "",
        "phases": ", ".join(f"{name} {spent:,.2f} s" for name, spent in report.seconds.items()),
        "verification": verification_in_words(report.verification),
        ATTENTION: concerns_in_words(report.concerns),
        "dead letters": dead_letters_in_words(report.dead_letters, report.dead_letter_columns),
        "result": str(report.published or "\n".join(map(str, report.new_stores))),
        "changelog": report.changelog,
        "warnings": "\n".join(report.warnings),
        "next": report.next_step,
    }
    return output.layout.facts(rows | _ids(report.migration_id, f"run {report.run_id}", output))


def show_status(report: StatusReport, output: Output) -> list[str]:
    """Where a migration stands."""
    return output.layout.facts(status_facts(report, output))


def status_facts(report: StatusReport, output: Output) -> dict[str, str]:
    """Where a migration stands, as names and what there is to say of each."""
    rows = {
        "migration": report.name,
        "state": report.state,
        "chunks": f"{report.chunks_planned - report.chunks_left} of {report.chunks_planned} ({report.share_done:.1%})",
        **facts_of_totals(report.totals),
        "runs": str(report.runs),
        "last commit": "" if report.last_commit_ms is None else moment(report.last_commit_ms),
        "verification": "not yet" if report.verification is None else verification_in_words(report.verification),
        ATTENTION: concerns_in_words(report.concerns),
        "published": "" if report.published is None else str(report.published),
        "next": report.next_step,
    }
    if report.migration_id is None:
        rows = {key: rows[key] for key in ("migration", "state", "next")}
    return rows | _ids(report.migration_id, f"plan revision {report.plan_revision}", output)


def show_switch(report: SwitchReport, output: Output) -> list[str]:
    """What a switch left."""
    return output.layout.facts(
        {
            "migration": report.name,
            "state": report.state,
            "stores": "\n".join(map(str, report.stores)),
            "old stores": "" if report.old_stores is None else str(report.old_stores),
            ATTENTION: concerns_in_words(report.concerns),
            "not seen": "\n".join(report.moved_away),
            "not ours": "\n".join(map(str, report.left_over)),
            "changelog": report.changelog,
            "warnings": "\n".join(report.warnings),
            "next": report.next_step,
        }
    )


def show_snapshot(report: SnapshotReport, output: Output) -> list[str]:
    """What was taken."""
    return output.layout.facts(
        {
            "migration": report.name,
            "snapshot": f"{report.snapshot} ({report.store_partitions} store partitions)",
            "taken": moment(report.taken_at_ms),
            "warnings": "\n".join(report.warnings),
            "next": report.next_step,
        }
    )


def show_abandon(report: AbandonReport, output: Output) -> list[str]:
    """What was removed."""
    removed = "nothing was there" if report.removed is None else str(report.removed)
    left = "\n".join(map(str, report.left_over))
    rows = {"migration": report.name, "removed": removed, "not ours": left, "untouched": str(report.source)}
    return output.layout.facts(rows)


def show_verify(report: VerifyReport, output: Output) -> list[str]:
    """What a verification found."""
    stores = "\n".join(map(str, report.stores))
    rows = {"migration": report.name, "verification": verification_in_words(report.verification), "stores": stores}
    return output.layout.facts(rows | _ids(report.migration_id, "", output))


def _ids(migration_id: str | None, more: str, output: Output) -> dict[str, str]:
    """What a person who looks for a fault wants to know."""
    told = ", ".join(filter(None, (migration_id, more)))
    return {"identity": told} if output.verbosity and migration_id is not None else {}


def facts_of_totals(totals: Totals) -> dict[str, str]:
    """Records and bytes."""
    left_out = [f"{totals.dropped:,} dropped"] if totals.dropped else []
    left_out += [f"{totals.expired:,} older than the new retention"] if totals.expired else []
    left_out += [f"{totals.shadowed:,} of an unfinished upgrade, written since"] if totals.shadowed else []
    left_out += [f"{totals.rejected:,} rejected"] if totals.rejected else []
    records = f"{totals.records_in:,} read, {totals.records_out:,} written"
    return {
        "records": ", ".join([records, *left_out]),
        "bytes": f"{totals.bytes_in:,} read, {totals.bytes_out:,} written",
    }


def verification_in_words(found: Verification) -> str:
    """How the new stores were compared, and what came of it."""
    if found.mode == "off":
        return "off, as [run] verify says"
    if found.ok:
        return f"{found.mode}: {found.records:,} records equal, in {found.seconds:,.2f} s"
    return f"{found.mode}: {found.missing:,} missing, {found.differing:,} differing, {found.extra:,} extra"


def concerns_in_words(concerns: tuple[Concern, ...]) -> str:
    """What speaks against going live, and what accepted it."""
    return "\n".join(
        concern.sentence + (f" (accepted: {concern.accepted})" if concern.accepted else "") for concern in concerns
    )


def dead_letters_in_words(folder: Path | None, columns: tuple[Column, ...]) -> str:
    """Where rejected records are kept, and as what."""
    if folder is None:
        return ""
    return f"{folder}\na Delta table: {', '.join(f'{column.name} {column.type}' for column in columns)}"
