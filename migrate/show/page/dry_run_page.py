"""The report of `plan` as an HTML page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from migrate.batch.preflight.check import CheckReport, Outcome
from migrate.dry_run.dry_run_report import (
    Cost,
    DryRunReport,
    Inventory,
    SampleConversion,
    Segmentation,
    Verdict,
)
from migrate.model.display import duration, moment, number, plural, size
from migrate.model.store_partition import place_name
from migrate.show.page.plots import (
    Bar,
    Plot,
    bands,
    parts_of,
    size_histogram,
    sorted_bars,
    span_of,
)
from migrate.show.page.rendering import render
from migrate.show.text.plan_text import partition_rows, sorting_rows
from migrate.show.text.report_text import changelog_rows

_FINDINGS: tuple[Outcome, ...] = ("failed", "warning", "waiting")
_ORDER: tuple[Outcome, ...] = (*_FINDINGS, "not run", "ok")
_OLDER = "older than the new retention"
_NOT_CARRIED = "not carried by the new format"
_ROLES = {
    "records": "records: converted",
    "older": "pre-upgrade records: converted",
    "metadata": "metadata of the system: not converted",
    "other": "other: not converted",
}
Rows = list[tuple[str, ...]]
_FIRST_WORD = re.compile(r"(go|no go|nothing to do)\b\s*[,:.]?\s*", re.IGNORECASE)


def dry_run_page(report: DryRunReport) -> str:
    """The whole report as one HTML page."""
    word, sentence = _verdict(report.verdict)
    return render(
        "dry_run.html.j2",
        report=report,
        kind="good" if report.verdict.go else "bad",
        word=word,
        sentence=sentence,
        findings=[check for outcome in _FINDINGS for check in report.checks if check.outcome == outcome],
        notes=_notes(report),
        passed=[check for check in report.checks if check.outcome == "ok"],
        not_run=_not_run(report.checks),
        outcomes=_outcomes(report.checks),
        common=_common_facts(report.found) if report.found else (),
        plots=_plots(report),
        bands=bands(span_of(chunk, chunk.estimated_bytes) for chunk in report.cost.chunks) if report.cost else [],
        outcome_parts=_outcome_parts(report.tried) if report.tried else (),
        time_parts=_time_parts(report.cost) if report.cost else (),
        disk_parts=_disk_parts(report.cost) if report.cost else (),
        rows=_rows(report),
        partition_facts=[(name.capitalize(), text) for name, text in partition_rows(report.partitions).items()],
        sorting_facts=[(name.capitalize(), text) for name, text in sorting_rows(report.sorting).items()],
        changelog_facts=[(name.capitalize(), text) for name, text in changelog_rows(report.changelogs).items()],
    )


def _verdict(verdict: Verdict) -> tuple[str, str]:
    """The first word and the rest of the verdict, each capitalized."""
    found = _FIRST_WORD.match(verdict.sentence)
    word = found.group(1) if found else "go" if verdict.go else "no go"
    rest = verdict.sentence[found.end() :] if found else verdict.sentence
    end = "." if rest[-1:].isalnum() else ""
    return word[:1].upper() + word[1:], rest[:1].upper() + rest[1:] + end


def _notes(report: DryRunReport) -> list[str]:
    """Findings that are no reason to refuse the run."""
    tried, notes = report.tried, []
    is_known = any(check.name == "conversion.rejects" and check.outcome in _FINDINGS for check in report.checks)
    if tried is not None and tried.rejected and not is_known:
        notes.append(f"{number(tried.rejected)} of {plural(tried.records, 'record')} cannot be converted")
    if tried is not None:
        notes += [f"lost by the conversion: {loss}" for loss in tried.losses_in_words]
    return [*notes, *report.warnings]


def _not_run(checks: Iterable[CheckReport]) -> list[tuple[str, str, list[CheckReport]]]:
    by_reason: dict[str, list[CheckReport]] = {}
    for check in checks:
        if check.outcome == "not run":
            by_reason.setdefault(check.detail, []).append(check)
    found = []
    for reason, group in by_reason.items():
        subject = " of Spark" if all(check.name.startswith("spark.") for check in group) else ""
        found.append((f"{plural(len(group), 'check')}{subject}", reason, group))
    return found


def _rows(report: DryRunReport) -> dict[str, Rows]:
    rows = {}
    if report.found:
        rows = {
            "databases": _databases(report.found),
            "families": _families(report.found),
            "positions": _positions(report.found),
            "segments": _segments(report.segments),
        }
    return rows | {"chunks": _chunks(report.cost)} if report.cost else rows


def _outcomes(checks: Iterable[CheckReport]) -> str:
    counted = Counter(check.outcome for check in checks)
    return ", ".join(f"{counted[outcome]:,} {outcome}" for outcome in _ORDER if counted[outcome])


def _common_facts(found: Inventory) -> list[tuple[str, str]]:
    databases = found.databases
    newest = [database.newest_file_ms for database in databases if database.newest_file_ms is not None]
    facts = [
        ("Table format", _tally(str(version) for database in databases for version in database.table_formats)),
        ("Compression", _tally(name for database in databases for name in database.compressions)),
        ("Written by", _tally(database.owner or "unknown" for database in databases)),
        ("RocksDB", _tally(database.rocksdb_version or "unknown" for database in databases)),
        ("Newest file", moment(max(newest)) if newest else "unknown"),
        ("SST files", f"{sum(database.sst_files for database in databases):,}"),
        ("Not flushed yet", f"{size(sum(database.wal_bytes for database in databases))} in write-ahead logs"),
    ]
    return [(name, text) for name, text in facts if text]


def _tally(values: Iterable[str]) -> str:
    counted = Counter(values).most_common()
    if len(counted) == 1:
        return counted[0][0]
    return ", ".join(f"{value} ({plural(times, 'directory', 'directories')})" for value, times in counted)


def _plots(report: DryRunReport) -> dict[str, Plot]:
    wanted = {}
    for age, part in (("old", report.found), ("new", report.tried)):
        for kind, sizes in (("keys", part.key_sizes), ("values", part.value_sizes)) if part else ():
            if sizes and len(sizes.buckets) > 1:
                wanted[f"{age}_{kind}"] = size_histogram(sizes, what=f"sizes of {age} {kind}")
    if report.cost and len(report.cost.chunks) > 1:
        wanted["chunk_sizes"] = sorted_bars(
            [chunk.estimated_bytes for chunk in report.cost.chunks],
            what="sizes",
            show=size,
            ends=("largest", "smallest"),
            mark=(report.cost.chunk_size, "[run] chunk_size"),
        )
    return wanted


def _outcome_parts(tried: SampleConversion) -> list[Bar]:
    parts = (
        ("match [source] format", tried.decoded, tried.sampled, "accent"),
        ("converted", tried.converted, tried.records, "accent"),
        ("unchanged", tried.unchanged, tried.records, "accent-2"),
        ("dropped by the function", tried.dropped, tried.records, "warn"),
        (_NOT_CARRIED, tried.not_carried, tried.records, "warn"),
        (_OLDER, tried.expired, tried.records + tried.expired, "warn"),
        ("rejected", tried.rejected, tried.records, "bad"),
    )
    return [
        Bar(label, f"{records:,} of {whole:,}", records / max(whole, 1), tone)
        for label, records, whole, tone in parts
        if records or label not in (_OLDER, _NOT_CARRIED)
    ]


def _time_parts(cost: Cost) -> list[Bar]:
    parts = (
        ("rewrite", cost.rewrite_seconds, "accent"),
        ("verify", cost.verify_seconds, "accent"),
        *([("changelog", cost.changelog_seconds, "accent")] if cost.changelog_seconds else []),
        ("the rest", cost.other_seconds, "accent"),
        ("downtime", cost.downtime_seconds, "accent-2"),
    )
    return parts_of(parts, duration, whole=max(cost.total_seconds, cost.downtime_seconds))


def _disk_parts(cost: Cost) -> list[Bar]:
    parts = [
        ("new stores", cost.new_bytes, "accent"),
        ("copied for the snapshot", cost.copied_bytes, "accent"),
        ("most at one time", cost.peak_bytes, "accent-2"),
        ("needed to start", cost.required_bytes, "accent-2"),
    ]
    # On the scale of a very large disk the other bars would be invisible.
    whole = max(1, 2 * cost.required_bytes, 2 * cost.peak_bytes)
    if cost.free_bytes is not None:
        label = "free now" if cost.free_bytes <= whole else "free now (off the scale)"
        parts.append((label, cost.free_bytes, "good" if cost.free_bytes >= cost.required_bytes else "bad"))
    return parts_of(parts, size, whole=whole)


def _databases(found: Inventory) -> Rows:
    return [
        (
            place_name(database.store_partition, database.database),
            size(database.size),
            size(database.record_bytes),
            number(database.sst_files),
            size(database.wal_bytes),
            ", ".join(map(str, database.table_formats)),
            ", ".join(database.compressions),
            database.rocksdb_version or "unknown",
            database.owner or "unknown",
            "unknown" if database.newest_file_ms is None else moment(database.newest_file_ms),
            str(database.path),
        )
        for database in found.databases
    ]


def _families(found: Inventory) -> Rows:
    return [
        (
            place_name(database.store_partition, database.database),
            family.name,
            _ROLES[family.role],
            number(family.records),
            "counted" if family.exact else f"{number(family.at_least)} to {number(family.at_most)}",
            "; ".join(family.entries),
        )
        for database in found.databases
        for family in database.families
    ]


def _positions(found: Inventory) -> Rows:
    return [
        (
            place_name(database.store_partition, database.database),
            position.topic,
            str(position.partition),
            "unknown: the whole topic is replayed" if position.offset is None else number(position.position),
            position.where,
        )
        for database in found.databases
        for position in database.positions
    ]


def _segments(found: Iterable[Segmentation]) -> Rows:
    return [
        (
            each.store_partition,
            segment.name,
            "unknown" if segment.start_ms is None else moment(segment.start_ms),
            ", ".join(segment.made_of),
        )
        for each in found
        for segment in each.new
    ]


def _chunks(cost: Cost) -> Rows:
    return [
        (
            place_name(chunk.store_partition, chunk.database),
            str(chunk.number),
            str(chunk.keys),
            size(chunk.estimated_bytes),
        )
        for chunk in cost.chunks
    ]
