"""A dry run's report as text: what was found, what would happen, what it costs, the checks, the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from migrate.cli.output import Output
from migrate.cli.show_checks import print_checks
from migrate.cli.show_segments import segments
from migrate.dry_run.report import BeforeAfter, Cost, DatabaseFound, DryRunReport, Found, RejectReason, Sizes, Tried
from migrate.events import Event, Listener, ignore
from migrate.words import duration, moment, plural, size

_MOST_PARTITIONS = 8
_LABEL = 16
_LONGEST = 600
Rows = dict[str, str]


def show_plan(report: DryRunReport, output: Output) -> None:
    """All of it; the verdict comes last, where the eye is."""
    console = output.console()
    console.print(Text(f"{report.name}: {report.source_format} -> {report.target_format}", style="bold"))
    if report.is_estimate:
        console.print(
            Text("The application is running: what follows is one instant of it, an estimate.", style="yellow")
        )
    _section(console, "The spec", _spec(report))
    if report.found is not None:
        _section(console, "What was found", _found(report.found))
        _partitions(console, report.found, is_whole=bool(output.verbosity))
    if report.tried is not None:
        _section(console, "What would happen", _tried(report.tried) | {"changelog": report.changelog})
        _examples(console, report.tried)
    if report.segments and report.found is not None:
        _section(console, "Segments", segments(report.segments, report.found, is_whole=bool(output.verbosity)))
    if report.cost is not None:
        _section(console, "What it costs (estimates)", _cost(report.cost))
    _section(console, "Warnings", {"": "\n".join(report.warnings)})
    if report.checks:
        console.print(Text("\nChecks", style="bold"))
        print_checks(report.checks, console, output)
    verdict = report.verdict
    console.print(Text(f"\n{verdict.sentence}", style="bold green" if verdict.go else "bold red"))
    console.print(Text(f"next: {verdict.next_step}"), soft_wrap=True)


def _section(console: Console, title: str, rows: Rows) -> None:
    if not any(rows.values()):
        return
    console.print(Text(f"\n{title}", style="bold"))
    for name, text in rows.items():
        for number, line in enumerate(text.splitlines()):
            label = f"  {name if number == 0 else '':<{_LABEL}}" if any(rows) else "  "
            lines = Text(line).wrap(console, max(20, console.width - len(label)))
            for place, part in enumerate(lines):
                console.print(Text.assemble((label if place == 0 else " " * len(label), "dim"), part), soft_wrap=True)


def _spec(report: DryRunReport) -> Rows:
    new = (
        f"in place, by stateferry cutover; built in {report.work_dir}" if report.target is None else str(report.target)
    )
    return {
        "old store": f"{report.source}" + (f" ({', '.join(report.stores)})" if report.stores else ""),
        "new store": new,
        "migration": "" if report.state == "not started" else f"begun: {report.state}",
    }


def _found(found: Found) -> Rows:
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


def _unfinished(found: Found) -> str:
    if not found.unfinished:
        return ""
    about = "" if found.exact else "about "
    twice = f", {about}{found.shadowed:,} of them under keys that were written since" if found.shadowed else ""
    return (
        f"{about}{found.unfinished:,} records left by an unfinished upgrade{twice}: they are converted with the others"
    )


def _rocksdb(database: DatabaseFound) -> str:
    return "not known" if database.rocksdb_version is None else f"RocksDB {database.rocksdb_version}"


def _records(found: Found) -> str:
    if found.exact:
        return f"{found.records:,}"
    return f"about {found.records:,} (between {found.at_least:,} and {found.at_most:,})"


def _sizes(sizes: Sizes | None) -> str:
    return (
        "" if sizes is None else f"{sizes.p50:,} bytes median, 99 % up to {sizes.p99:,}, largest seen {sizes.largest:,}"
    )


def _partitions(console: Console, found: Found, *, is_whole: bool) -> None:
    """Segments together, unless all is asked for."""
    groups: dict[tuple[str, str], list[DatabaseFound]] = {}
    for database in found.databases:
        name = database.database if is_whole else ""
        groups.setdefault((database.store_partition, "" if name == "." else name), []).append(database)
    shown = dict(list(groups.items())[: None if is_whole else _MOST_PARTITIONS])
    for (partition, name), databases in shown.items():
        line = f"  {f'{partition} {name}'.rstrip():<{_LABEL - 1}} {_content(databases)}"
        console.print(Text(line), soft_wrap=True)
        for family in databases[0].families if is_whole else ():
            for entry in family.entries:
                console.print(Text(f"    {family.name}: {entry}", style="dim"), soft_wrap=True)
    if left := len(groups) - len(shown):
        console.print(Text(f"  and {left} more: --verbose lists them", style="dim"))


def _cut(program: str | None) -> str | None:
    """A program over wide schemas has hundreds of thousands of characters; `--json` has them all."""
    return program if program is None or len(program) <= _LONGEST else f"{program[:_LONGEST]}... (--json has all of it)"


def _content(databases: list[DatabaseFound]) -> str:
    data = [each for database in databases for each in database.families if each.role in ("records", "older")]
    exact = "" if all(family.exact for family in data) else "~"
    told = [f"{exact}{sum(family.records for family in data):,} records, {size(sum(each.size for each in databases))}"]
    if len(databases) > 1:
        told[0] += f" in {len(databases):,} segments"
    positions = {(each.topic, each.partition): each.offset for database in databases for each in database.positions}
    return "; ".join([*told, *(f"{topic}-{number} at {offset}" for (topic, number), offset in positions.items())])


def _tried(tried: Tried) -> Rows:
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


def _leftovers(tried: Tried) -> tuple[tuple[int, str], ...]:
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


def _examples(console: Console, tried: Tried) -> None:
    for example in tried.examples:
        _example(console, example)


def _example(console: Console, example: BeforeAfter) -> None:
    fields = ", ".join(f"{name} {value}" for name, value in example.fields if name != "value")
    console.print(
        Text(f"  {example.store_partition}  {example.key.text}" + (f"  ({fields})" if fields else "")), soft_wrap=True
    )
    if example.new_key != example.key:
        console.print(Text(f"    new key {example.new_key.text}"), soft_wrap=True)
    width = max(20, console.width - 12)
    old = dict(example.old_fields).get("value")
    new = dict(example.fields).get("value")
    for label, value, decoded in (("before", example.value, old), ("after", example.new_value, new)):
        for number, text in enumerate((decoded or value.text, f"0x{value.hex}")):
            cut = text if len(text) <= width else f"{text[: width - 3]}..."
            console.print(Text.assemble((f"    {label if number == 0 else '':<8}", "dim"), cut), soft_wrap=True)


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
    with console.status("looking") as status:
        yield _counter(status.update)


def _counter(update: Callable[[str], None]) -> Listener:
    records, said = 0, 0.0

    def listen(event: Event) -> None:
        nonlocal records, said
        if event.name == "dry-run.progressed":
            records += event.facts["records"]
            if time.monotonic() - said > 0.2:
                said = time.monotonic()
                update(f"{records:,} records read")

    return listen
