"""A dry run's report as text: what was found, what would happen, what it costs, the checks, the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from migrate.dry_run.report import (
    BeforeAfter,
    Cost,
    DatabaseInventory,
    DryRunReport,
    Inventory,
    SampleConversion,
    Segmentation,
    SegmentPlanned,
    Sizes,
)
from migrate.model.events import Event, Listener, ignore
from migrate.model.preview import RejectReason
from migrate.model.units import duration, moment, plural, size
from migrate.show.output import Output
from migrate.show.plain import Layout
from migrate.show.text.checks import show_checks

_MOST_PARTITIONS = 8
_LABEL = 14
_LONGEST = 600
Rows = dict[str, str]


def show_plan(report: DryRunReport, output: Output) -> list[str]:
    """All of it; the verdict comes last, where the eye is."""
    layout, is_whole = output.layout, bool(output.verbosity)
    lines = [layout.styled(f"{report.name}: {report.source_format} -> {report.target_format}", bold=True)]
    if report.is_estimate:
        told = "The application is running: what follows is one instant of it, an estimate."
        lines.append(layout.styled(told, fg="yellow"))
    lines += _section(layout, "The spec", _spec(report))
    if report.found is not None:
        lines += _section(layout, "What was found", _found(report.found))
        lines += layout.facts(_partitions(report.found, is_whole=is_whole), indent=2, label=_LABEL)
    if report.tried is not None:
        lines += _section(layout, "What would happen", _tried(report.tried) | {"changelog": report.changelog})
        lines += [line for example in report.tried.examples for line in _example(example, layout)]
    if report.segments and report.found is not None:
        lines += _section(layout, "Segments", segments(report.segments, report.found, is_whole=is_whole))
    if report.cost is not None:
        lines += _section(layout, "What it costs (estimates)", _cost(report.cost))
    if report.warnings:
        lines += [*layout.title("Warnings"), *layout.wrapped("\n".join(report.warnings), indent=2)]
    if report.checks:
        lines += [*layout.title("Checks"), *show_checks(report.checks, output)]
    verdict = report.verdict
    lines += ["", layout.styled(verdict.sentence, bold=True, fg="green" if verdict.go else "red")]
    return [*lines, f"next: {verdict.next_step}"]


def _section(layout: Layout, title: str, rows: Rows) -> list[str]:
    facts = layout.facts(rows, indent=2, label=_LABEL)
    return [*layout.title(title), *facts] if facts else []


def _spec(report: DryRunReport) -> Rows:
    new = (
        f"in place, by stateferry cutover; built in {report.work_dir}" if report.target is None else str(report.target)
    )
    return {
        "old store": f"{report.source}" + (f" ({', '.join(report.stores)})" if report.stores else ""),
        "new store": new,
        "migration": "" if report.state == "not started" else f"begun: {report.state}",
    }


def _found(found: Inventory) -> Rows:
    owners = sorted({database.owner or _rocksdb(database) for database in found.databases})
    formats = sorted({version for database in found.databases for version in database.table_formats})
    compressions = sorted({name for database in found.databases for name in database.compressions})
    newest = max((database.newest_file_ms or 0 for database in found.databases), default=0)
    return {
        "records": f"{_records(found)} in {plural(found.store_partitions, 'store partition')}",
        "older family": _unfinished(found),
        "size": f"{size(found.size)} on disk, {size(found.record_bytes)} of keys and values",
        "keys": _sizes(found.key_sizes),
        "values": _sizes(found.value_sizes),
        "written by": "\n".join(owners),
        "tables": f"format {', '.join(map(str, formats))}; {', '.join(compressions)}"
        if formats
        else "none: all in logs",
        "newest file": moment(newest) if newest else "",
    }


def _unfinished(found: Inventory) -> str:
    if not found.unfinished:
        return ""
    about = "" if found.exact else "about "
    twice = f", {about}{found.shadowed:,} of them under keys that were written since" if found.shadowed else ""
    return (
        f"{about}{found.unfinished:,} records left by an unfinished upgrade{twice}: they are converted with the others"
    )


def _rocksdb(database: DatabaseInventory) -> str:
    return "not known" if database.rocksdb_version is None else f"RocksDB {database.rocksdb_version}"


def _records(found: Inventory) -> str:
    if found.exact:
        return f"{found.records:,}"
    return f"about {found.records:,} (between {found.at_least:,} and {found.at_most:,})"


def _sizes(sizes: Sizes | None) -> str:
    return (
        "" if sizes is None else f"{sizes.p50:,} bytes median, 99 % up to {sizes.p99:,}, largest seen {sizes.largest:,}"
    )


def _partitions(found: Inventory, *, is_whole: bool) -> Rows:
    """Segments together, unless all is asked for."""
    groups: dict[str, list[DatabaseInventory]] = {}
    for database in found.databases:
        name = database.database if is_whole and database.database != "." else ""
        groups.setdefault(f"{database.store_partition} {name}".rstrip(), []).append(database)
    rows = {name: _content(databases) for name, databases in groups.items()}
    if is_whole:
        return {name: "\n".join([told, *_entries(groups[name][0])]) for name, told in rows.items()}
    shown = dict(list(rows.items())[:_MOST_PARTITIONS])
    left = len(rows) - len(shown)
    return shown | ({"...": f"and {left} more: --verbose lists them"} if left else {})


def _entries(database: DatabaseInventory) -> list[str]:
    return [f"{family.name}: {entry}" for family in database.families for entry in family.entries]


def _cut(program: str | None) -> str | None:
    """A program over wide schemas has hundreds of thousands of characters; `--json` has them all."""
    return program if program is None or len(program) <= _LONGEST else f"{program[:_LONGEST]}... (--json has all of it)"


def _content(databases: list[DatabaseInventory]) -> str:
    data = [each for database in databases for each in database.families if each.role in ("records", "older")]
    exact = "" if all(family.exact for family in data) else "~"
    told = [f"{exact}{sum(family.records for family in data):,} records, {size(sum(each.size for each in databases))}"]
    if len(databases) > 1:
        told[0] += f" in {len(databases):,} segments"
    positions = {(each.topic, each.partition): each.offset for database in databases for each in database.positions}
    return "; ".join([*told, *(f"{topic}-{number} at {offset}" for (topic, number), offset in positions.items())])


def _tried(tried: SampleConversion) -> Rows:
    what = "all records" if tried.is_full else f"a sample of {tried.records:,} records"
    counts = [f"{tried.converted:,} converted"]
    counts += [f"{number:,} {word}" for number, word in _leftovers(tried) if number]
    paths = f"{tried.both_paths:,} records by the compiled and the reference path: "
    paths += "THEY DIFFER" if tried.differences else "no difference"
    return {
        "tried": f"{what}: {', '.join(counts)}",
        "decode": f"{tried.decoded:,} of {tried.sampled:,} sampled records are what [source] format says",
        "conversion": _cut(tried.program) or "record by record, by the function or the reference path",
        "two paths": paths if tried.both_paths else "",
        "lost": "\n".join(tried.losses_in_words) or "nothing",
        "looks like": "\n".join(each.sentence for each in tried.look_alikes),
        "rejects": "\n".join(_reason(reason) for reason in tried.rejects),
        "one new key": "\n".join(
            f"{each.first.text} and {each.second.text}: {each.new_key.text}" for each in tried.collisions
        ),
    }


def _leftovers(tried: SampleConversion) -> tuple[tuple[int, str], ...]:
    return (
        (tried.rejected, "cannot be converted"),
        (tried.dropped, "dropped: by the function, or former values that the new store has no room for"),
        (tried.expired, "older than the new retention"),
        (tried.unchanged, "unchanged"),
        (tried.colliding_keys, "with a key that another one gets too"),
    )


def _reason(reason: RejectReason) -> str:
    keys = ", ".join(f"{example.key.text} (0x{example.key.hex})" for example in reason.examples)
    return f"{reason.records:,}: {reason.reason}: {keys}"


def _example(example: BeforeAfter, layout: Layout) -> list[str]:
    fields = ", ".join(f"{name} {value}" for name, value in example.fields if name != "value")
    lines = [f"  {example.store_partition}  {example.key.text}" + (f"  ({fields})" if fields else "")]
    if example.new_key != example.key:
        lines.append(f"    new key {example.new_key.text}")
    width = max(20, layout.width - 12)
    old = dict(example.old_fields).get("value")
    new = dict(example.fields).get("value")
    for label, value, decoded in (("before", example.value, old), ("after", example.new_value, new)):
        for name, text in ((label, decoded or value.text), ("", f"0x{value.hex}")):
            cut = text if len(text) <= width else f"{text[: width - 3]}..."
            lines.append(layout.styled(f"    {name:<8}", dim=True) + cut)
    return lines


def _cost(cost: Cost) -> Rows:
    rate = cost.records_per_second
    median, biggest = size(cost.median_chunk), size(cost.biggest_chunk)
    done = f"; {cost.chunks_done:,} more are done" if cost.chunks_done else ""
    free = "" if cost.free_bytes is None else f", {size(cost.free_bytes)} are"
    parts = {"rewriting": cost.rewrite_seconds, "verifying": cost.verify_seconds, "the rest": cost.other_seconds}
    times = ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts.items())
    total = duration(cost.total_seconds)
    return {
        "chunks": f"{len(cost.chunks):,} of {median} (median), the biggest {biggest}{done}",
        "speed": "" if rate is None else f"{rate:,.0f} records/s in one slot, measured just now",
        "time": f"{total} with {plural(cost.slots, 'slot')}: {times}",
        "downtime": f"{duration(cost.downtime_seconds)}: {cost.downtime}",
        "disk": f"{size(cost.peak_bytes)} in the work_dir at most; to start, "
        f"{size(cost.required_bytes)} must be free{free}",
        "memory": f"{size(cost.worker_bytes)} for each worker",
    }


@contextmanager
def counting(output: Output) -> Iterator[Listener]:
    """A listener that counts records on standard error, on a terminal."""
    console = output.console(is_error=True)
    if output.is_quiet or not console.is_terminal:
        yield ignore
        return
    records = 0

    def listen(event: Event) -> None:
        nonlocal records
        if event.name == "dry-run.progressed":
            records += event.facts["records"]
            status.update(f"{records:,} records read")

    with console.status("looking") as status:
        yield listen


_MOST_SEGMENTED = 4


def segments(found: Sequence[Segmentation], records: Inventory, *, is_whole: bool) -> dict[str, str]:
    """A few words for each store partition; all that is known of each segment where that is asked for."""
    shown = found if is_whole else found[:_MOST_SEGMENTED]
    rows = {each.store_partition: "\n".join(_segmentation(each, is_whole=is_whole)) for each in shown}
    if left := len(found) - len(shown):
        rows["..."] = f"and {plural(left, 'store partition')} more: --verbose lists them"
    if any(each.expired_before_ms is not None for each in found):
        about = "" if records.exact else "about "
        rows["left behind"] = (
            f"{about}{records.expired:,} of {records.records:,} records are older than the new retention: the "
            "application would not keep them either"
        )
    return rows


def _segmentation(each: Segmentation, *, is_whole: bool) -> list[str]:
    lines = [f"{plural(len(each.old), 'segment')}, {_become(each)}"]
    if each.expired_before_ms is not None:
        lines.append(f"nothing from before {moment(each.expired_before_ms)}")
    if is_whole:
        lines += [f"{new.name} of {', '.join(new.made_of)}" for new in each.new]
    return lines


def _become(each: Segmentation) -> str:
    if all(new.made_of == (new.name,) for new in each.new) and len(each.new) == len(each.old):
        return f"which stay as they are: {_times(each.new)}"
    return f"which become {len(each.new):,}: {_times(each.new)}"


def _times(new: Sequence[SegmentPlanned]) -> str:
    starts = [segment.start_ms for segment in new if segment.start_ms is not None]
    if not starts:
        return "none"
    return moment(starts[0]) if len(starts) == 1 else f"{moment(min(starts))} to {moment(max(starts))}"
