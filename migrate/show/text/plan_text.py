"""The report of `plan` as text: old store, sample, cost, checks and verdict; and that of `restore`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from migrate.batch.preflight.check import CheckReport, Outcome
from migrate.batch.preflight.doctor import DoctorReport
from migrate.dry_run.dry_run_report import (
    BeforeAfter,
    Cost,
    DatabaseInventory,
    DryRunReport,
    Inventory,
    PartitionsPlan,
    SampleConversion,
    Segmentation,
    Sizes,
    SortingPlan,
)
from migrate.engine.left_out import dropped_in_words
from migrate.model.display import duration, moment, moments, plural, size
from migrate.model.preview import DOTS, RejectReason, cut_beside, hex_beside
from migrate.model.reports import RestoreReport
from migrate.show.output import Output
from migrate.show.plain import Layout
from migrate.show.text.report_text import changelog_rows

_MOST_PARTITIONS = 8
_MOST_SEGMENTED = 4
_LABEL = 14
_LONGEST = 600
_ONE_SCREEN = 24
Rows = dict[str, str]
_MARKS: dict[Outcome, tuple[str, dict[str, Any]]] = {
    "ok": ("ok", {"fg": "green"}),
    "warning": ("warning", {"fg": "yellow"}),
    "waiting": ("waiting", {"fg": "yellow"}),
    "failed": ("FAILED", {"fg": "red", "bold": True}),
    "not run": ("not run", {"dim": True}),
}
_INDENT = 9


def show_plan(report: DryRunReport, output: Output) -> list[str]:
    """The whole report: the verdict and what failed come first; a long one repeats the verdict at its end."""
    layout, is_complete = output.layout, bool(output.verbosity)
    verdict = [layout.styled(report.verdict.sentence, bold=True, fg="green" if report.verdict.go else "red")]
    verdict += [f"next: {report.verdict.next_step}"]
    failed = [check for check in report.checks if check.outcome == "failed"]
    lines = [layout.styled(f"{report.name}: {report.source_format} -> {report.target_format}", bold=True), *verdict]
    lines += ["", *show_checks(failed, output)] if failed else []
    if report.is_estimate:
        lines.append(layout.styled("The application is running: everything below is an estimate.", fg="yellow"))
    lines += _section(layout, "Migration", _spec(report))
    if report.found is not None:
        lines += _section(layout, "Old store", _found(report.found))
        lines += layout.facts(_partitions(report.found, is_complete=is_complete), indent=2, label=_LABEL)
    lines += _conversion(report, layout)
    if report.segments and report.found is not None:
        lines += _section(layout, "Segments", _segments(report.segments, report.found, is_complete=is_complete))
    if report.cost is not None:
        lines += _section(layout, "Cost (estimated)", _cost(report.cost))
    lines += _section(layout, "Changelog", changelog_rows(report.changelogs))
    lines += _section(layout, "Partitions", partition_rows(report.partitions))
    lines += _section(layout, "Sorting", sorting_rows(report.sorting))
    if report.warnings:
        lines += [*layout.title("Warnings"), *layout.wrapped("\n".join(report.warnings), indent=2)]
    if others := [check for check in report.checks if check not in failed]:
        lines += [*layout.title("Checks"), *show_checks(others, output)]
    return lines if len(lines) <= _ONE_SCREEN else [*lines, "", *verdict]


def _conversion(report: DryRunReport, layout: Layout) -> list[str]:
    changelog = {"changelog": "" if report.changelogs else report.changelog}
    if report.tried is None:
        return _section(layout, "Conversion", changelog) if report.imported and report.cost else []
    lines = _section(layout, "Conversion", _tried(report.tried) | changelog)
    return [*lines, *(line for example in report.tried.examples for line in _example(example, layout))]


def _section(layout: Layout, title: str, rows: Rows) -> list[str]:
    facts = layout.facts(rows, indent=2, label=_LABEL)
    return [*layout.title(title), *facts] if facts else []


def partition_rows(plan: PartitionsPlan | None) -> Rows:
    """Labels and texts of what changes with another number of store partitions."""
    if plan is None:
        return {}
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(plan.steps, start=1))
    return {
        "number": f"{plan.old} -> {plan.new}, by {plan.partitioner}",
        "stores": ", ".join(plan.stores),
        "steps": steps,
    }


def sorting_rows(plan: SortingPlan | None) -> Rows:
    """Labels and texts of what it takes to sort the new keys."""
    if plan is None:
        return {}
    start = f"{duration(plan.start_seconds)} until Spark's SQL is at work"
    waves = f"{plural(plan.waves, 'wave')} of at most {size(plan.wave_size)} ([run] wave_size)"
    return {
        "why": plan.why,
        "price": f"Spark sorts {size(plan.bytes)} of keys and values in {waves}, each of which reads the whole store; "
        f"about {plan.times_slower:g} times as long as without, and {start}",
        "room": f"{size(min(plan.bytes, plan.wave_size))} in Spark's local directories (spark.local.dir)",
    }


def _spec(report: DryRunReport) -> Rows:
    is_beside = report.changelogs is not None and report.changelogs.way == "new-topic"
    place = "is put beside the old one" if is_beside else "takes the place of the old one"
    in_place = f"{place} at stateferry cutover; built in {report.work_dir}"
    old = f"{report.source}" + (f" ({', '.join(report.stores)})" if report.stores else "")
    return {
        **({"old store": old} if report.imported is None else {"rows": str(report.imported)}),
        "new store": in_place if report.target is None else str(report.target),
        "state": "" if report.state == "not started" else report.state,
        "engine": "" if report.engine is None else str(report.engine),
    }


def _found(found: Inventory) -> Rows:
    owners = {
        each.owner or ("unknown" if each.rocksdb_version is None else f"RocksDB {each.rocksdb_version}")
        for each in found.databases
    }
    formats = sorted({version for database in found.databases for version in database.table_formats})
    compressions = sorted({name for database in found.databases for name in database.compressions})
    newest = max((database.newest_file_ms or 0 for database in found.databases), default=0)
    return {
        "records": f"{_records(found)} in {plural(found.store_partitions, 'store partition')}",
        "upgrade mode": _unfinished(found),
        "size": f"{size(found.size)} on disk, {size(found.record_bytes)} of keys and values",
        "keys": _sizes(found.key_sizes),
        "values": _sizes(found.value_sizes),
        "written by": "\n".join(sorted(owners)),
        "tables": f"format {', '.join(map(str, formats))}; {', '.join(compressions)}"
        if formats
        else "none yet: all records are in write-ahead logs",
        "newest file": moment(newest) if newest else "",
    }


def _unfinished(found: Inventory) -> str:
    """The records that an upgrade of the store has not moved to its new column family."""
    if not found.unfinished:
        return ""
    about = "" if found.exact else "about "
    replaced = f"; {about}{found.shadowed:,} of them have been replaced since" if found.shadowed else ""
    records = f"{plural(found.unfinished, 'record')} in the pre-upgrade column family"
    return f"{about}{records} {'is' if found.unfinished == 1 else 'are'} converted too{replaced}"


def _records(found: Inventory) -> str:
    if found.exact:
        return f"{found.records:,}"
    if found.at_least == found.at_most:
        return f"about {found.records:,}"
    return f"about {found.records:,} (between {found.at_least:,} and {found.at_most:,})"


def _sizes(sizes: Sizes | None) -> str:
    if sizes is None:
        return ""
    return f"{sizes.p50:,} bytes median, 99 % up to {sizes.p99:,}, largest {sizes.largest:,}"


def _partitions(found: Inventory, *, is_complete: bool) -> Rows:
    """One row for each store partition, or with `is_complete` for each RocksDB directory."""
    groups: dict[str, list[DatabaseInventory]] = {}
    for database in found.databases:
        name = database.database if is_complete and database.database != "." else ""
        groups.setdefault(f"{database.store_partition} {name}".rstrip(), []).append(database)
    rows = {name: _content(databases) for name, databases in groups.items()}
    if is_complete:
        for name, (database, *_) in groups.items():
            entries = (f"{family.name}: {entry}" for family in database.families for entry in family.entries)
            rows[name] = "\n".join([rows[name], *entries])
        return rows
    shown = dict(list(rows.items())[:_MOST_PARTITIONS])
    left = len(rows) - len(shown)
    return shown | ({"...": f"and {left} more: --verbose lists them"} if left else {})


def _shortened(program: str | None) -> str | None:
    """The beginning of a program: over wide schemas it can have hundreds of thousands of characters."""
    if program is None or len(program) <= _LONGEST:
        return program
    return f"{program[:_LONGEST]}... (complete with --json)"


def _content(databases: list[DatabaseInventory]) -> str:
    data = [each for database in databases for each in database.families if each.role in ("records", "older")]
    exact = "" if all(family.exact for family in data) else "~"
    records = plural(sum(family.records for family in data), "record")
    content = f"{exact}{records}, {size(sum(each.size for each in databases))}"
    if len(databases) > 1:
        content += f" in {len(databases):,} segments"
    positions = {
        f"{each.topic}-{each.partition}": each.position for database in databases for each in database.positions
    }
    return "; ".join([content, *(f"position {position} of {topic}" for topic, position in positions.items())])


def _tried(tried: SampleConversion) -> Rows:
    of_sample = "" if tried.is_full else f"{plural(tried.records, 'record')}: "
    counts = [f"{tried.converted:,} converted"]
    others = {"cannot be converted": tried.rejected, **tried.left_out, "unchanged": tried.unchanged}
    others["with the same new key as another record"] = tried.colliding_keys
    counts += [f"{number:,} {word}" for word, number in others.items() if number]
    lost = (*tried.losses_in_words, dropped_in_words(tried.dropped, tried.converted, tried.dropped_keys))
    paths = "THE COMPILED AND THE REFERENCE PATH DIFFER" if tried.differences else "compiled and reference path agree"
    return {
        "all records" if tried.is_full else "sample": f"{of_sample}{', '.join(counts)}",
        "format": f"{tried.decoded:,} of {plural(tried.sampled, 'record')} match [source] format",
        "conversion": _shortened(tried.program) or "record by record, on the reference path",
        "paths": f"{paths} on {plural(tried.both_paths, 'record')}" if tried.both_paths else "",
        "times": tried.times,
        "lost": "\n".join(filter(None, lost)) or "nothing",
        "looks like": "\n".join(each.sentence for each in tried.look_alikes),
        "rejects": "\n".join(_reason(reason) for reason in tried.rejects),
        "same new key": "\n".join(
            f"{each.first.text} and {each.second.text}: {each.new_key.text}" for each in tried.collisions
        ),
    }


def _reason(reason: RejectReason) -> str:
    keys = ", ".join(f"{example.key.text} (0x{example.key.hex})" for example in reason.examples)
    place = f" ({reason.place})" if reason.place else ""
    return f"{reason.records:,}: {reason.reason}{place}: {keys}"


def _example(example: BeforeAfter, layout: Layout) -> list[str]:
    fields = ", ".join(f"{name} {value}" for name, value in example.fields if name != "value")
    lines = [f"  {example.store_partition}  {example.key.text}" + (f"  ({fields})" if fields else "")]
    if example.new_key != example.key:
        lines.append(f"    new key {example.new_key.text}")
    width = max(20, layout.width - 12 - 2 * len(DOTS))
    old = dict(example.old_fields).get("value")
    new = dict(example.fields).get("value")
    texts = cut_beside(old or example.value.text, new or example.new_value.text, width)
    digits = hex_beside(example.value, example.new_value, width - len("0x"))
    for label, text, hex_ in zip(("before", "after"), texts, digits, strict=True):
        lines += [layout.styled(f"    {name:<8}", dim=True) + cut for name, cut in ((label, text), ("", hex_))]
    return lines


def _cost(cost: Cost) -> Rows:
    rate = cost.records_per_second
    median, biggest = size(cost.median_chunk), size(cost.biggest_chunk)
    todo = f"{len(cost.chunks):,} of {median} (median), the largest {biggest}" if cost.chunks else "none to rewrite"
    done = f"; {cost.chunks_done:,} already done" if cost.chunks_done else ""
    free = "" if cost.free_bytes is None else f", and {size(cost.free_bytes)} are"
    parts = {"rewriting": cost.rewrite_seconds, "verifying": cost.verify_seconds, "the rest": cost.other_seconds}
    parts |= {"the changelog": cost.changelog_seconds} if cost.changelog_seconds else {}
    times = ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts.items())
    total = duration(cost.total_seconds)
    is_best = cost.recommended_chunk_size == cost.chunk_size
    advice = "as recommended" if is_best else f"better {size(cost.recommended_chunk_size)}"
    return {
        "chunks": f"{todo}{done}",
        "speed": "" if rate is None else f"{rate:,.0f} records/s per slot, measured on the sample",
        "time": f"{total} with {plural(cost.slots, 'slot')}: {times}",
        "downtime": f"{duration(cost.downtime_seconds)}: {cost.downtime}",
        "disk": f"at most {size(cost.peak_bytes)} in the work_dir; {size(cost.required_bytes)} must be free{free}",
        "memory": f"{size(cost.worker_bytes)} for each worker, {size(cost.driver_bytes)} for the driver",
        "chunk size": f"{size(cost.chunk_size)}, {advice}: {cost.recommended_because}",
    }


def _segments(found: Sequence[Segmentation], records: Inventory, *, is_complete: bool) -> Rows:
    """One row for each store partition, with `is_complete` also a line for each segment."""
    shown = found if is_complete else found[:_MOST_SEGMENTED]
    rows = {each.store_partition: "\n".join(_segmentation(each, is_complete=is_complete)) for each in shown}
    if left := len(found) - len(shown):
        rows["..."] = f"and {plural(left, 'store partition')} more: --verbose lists them"
    if any(each.expired_before_ms is not None for each in found):
        about = "" if records.exact else "about "
        rows["expired"] = (
            f"{about}{records.expired:,} of {records.records:,} records are older than the new retention and are not "
            "copied: the application would delete them too"
        )
    return rows


def _segmentation(each: Segmentation, *, is_complete: bool) -> list[str]:
    lines = [f"{plural(len(each.old), 'segment')}, {_become(each)}"]
    if each.expired_before_ms is not None:
        lines.append(f"none from before {moment(each.expired_before_ms)}")
    if is_complete:
        lines += [f"{new.name} from {', '.join(new.made_of)}" for new in each.new]
    return lines


def _become(each: Segmentation) -> str:
    starts = [segment.start_ms for segment in each.new if segment.start_ms is not None]
    times = moments(min(starts), max(starts)) if starts else "none"
    if all(new.made_of == (new.name,) for new in each.new) and len(each.new) == len(each.old):
        return f"which keep their names: {times}"
    return f"which become {len(each.new):,}: {times}"


def show_doctor(report: DoctorReport, output: Output) -> list[str]:
    """All checks, and the verdict."""
    layout = output.layout
    return [
        *show_checks(report.checks, output),
        *layout.title(f"{report.name}: {report.verdict}"),
        *([] if report.engine is None else layout.wrapped(f"engine: {report.engine}")),
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


def show_restore(report: RestoreReport, output: Output) -> list[str]:
    """The old store that was made from its changelog."""
    counts = {"tombstones": report.tombstones, "older than the retention": report.expired}
    left_out = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return output.layout.facts(
        {
            "migration": report.name,
            "changelog": "\n".join(report.topics),
            "records read": f"{report.records:,}",
            "old store": f"{report.directory} ({plural(report.store_partitions, 'store partition')})",
            "keys": f"{report.keys:,}",
            "left out": left_out,
            "next": report.next_step,
        }
    )
