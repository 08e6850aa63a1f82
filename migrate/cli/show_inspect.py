"""What `inspect` found, as text for a person: each thing once, whatever lies there many times."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from migrate.cli.output import Output
from migrate.dry_run.report import Shown
from migrate.survey.report import (
    DatabaseReport,
    FamilyReport,
    InspectReport,
    MigrationReport,
    RecordShown,
    StoreReport,
)
from migrate.words import moment, plural, size

_MIB = 2**20
_WIDTH_OF_TABLES = 100
_MOST_TEXT = 40
_MOST_HEX = 64


def show_inspect(report: InspectReport, output: Output) -> None:
    """Whose it is, the stores, the RocksDB directories, their options and a few records of each store."""
    console = output.console()
    _lines(console, str(report.path), *(place.sentence for place in report.places))
    for owner in report.owners:
        who = f"process {owner.pid} ({owner.command or 'name unknown'})" if owner.pid else "a process of another host"
        _lines(console, f"in use: {who} holds {owner.files[0]}; counts are those of this instant")
    _lines(console, *(f"warning: {warning}" for warning in report.warnings))
    for migration in report.migrations:
        _lines(console, *_migration(migration))
    if report.stores:
        console.print()
        console.print(_stores(report))
        _lines(console, *(line for store in report.stores for line in _remarks(store)))
    if report.databases:
        console.print()
        _show_databases(report, console, is_whole=bool(output.verbosity))
        _lines(console, "", *_options(report))
        _show_records(report, console)


def _lines(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(escape(line), soft_wrap=True)


def _migration(migration: MigrationReport) -> list[str]:
    if migration.error is not None:
        return [f"{migration.path}: {migration.error}"]
    done = migration.chunks_planned - migration.chunks_left
    told = f"{migration.name}: {migration.state}"
    if migration.chunks_planned:
        told += f", {done} of {migration.chunks_planned} chunks, {migration.records_in:,} records read"
    if migration.snapshot is not None:
        told += f", snapshot in {migration.snapshot}"
    return [told]


def _stores(report: InspectReport) -> Table:
    table = _table("store", "kind", "partitions", "records", "may be", right=("partitions", "records"))
    for store in report.stores:
        segmented = f" ({plural(store.segments, 'segment')})" if store.segments else ""
        is_known_not_to_be = store.unsupported is not None and store.unsupported.is_certain
        table.add_row(
            escape(store.name),
            store.kind + segmented,
            str(len(store.store_partitions)),
            f"{store.records:,}" if store.exact else f"~{store.records:,}",
            "cannot be converted" if is_known_not_to_be else "\n".join(store.formats) or "of no known format",
        )
    return table


def _remarks(store: StoreReport) -> list[str]:
    """What the table has no room for."""
    told = []
    if store.segments and store.first_segment_ms is not None and store.last_segment_ms is not None:
        times = _times(store.first_segment_ms, store.last_segment_ms)
        told.append(f"{plural(store.segments, 'segment')}, {times}; {size(store.size)}")
    if store.hint:
        told.append(f"a hint, not to be relied on: {store.hint}")
    if store.unfinished:
        told.append(f"an upgrade is not finished: it has left about {store.unfinished:,} records in the older family")
    if store.unsupported is not None:
        what = store.unsupported
        told.append(f"{'it is' if what.is_certain else 'perhaps it is'} {what.name}, which cannot be converted:")
        told.append(f"  {what.reason}; next: {what.instead}")
    return [f"{store.name}: {told[0]}", *(f"  {line}" for line in told[1:])] if told else []


def _show_databases(report: InspectReport, console: Console, *, is_whole: bool) -> None:
    folded, listed = _folded(report, is_whole=is_whole)
    if listed:
        if console.width < _WIDTH_OF_TABLES:
            _list_databases(listed, console)
        else:
            console.print(_databases(report, listed))
    _lines(console, *folded, *(["  --verbose lists every segment"] if folded else []))
    for database in report.databases:
        if database.half_converged is not None:
            _lines(console, f"{database.path} is {database.half_converged}: open it with DualReadStore")
        if database.error is not None:
            _lines(console, f"{database.path} cannot be read: {database.error}", f"  next: {database.hint}")


def _folded(report: InspectReport, *, is_whole: bool) -> tuple[list[str], list[DatabaseReport]]:
    """(a line for the segments of each store partition, the RocksDB directories that are listed one by one)."""
    by_partition: dict[tuple[str, str], list[DatabaseReport]] = {}
    listed = []
    for database in report.databases:
        is_digested = any(family.digest for family in database.families)
        if database.segment_start_ms is None or is_whole or is_digested:
            listed.append(database)
        else:
            above = database.path.rpartition("/")[0]
            by_partition.setdefault((above, database.store_partition), []).append(database)
    return [_segments(above or name, segments) for (above, name), segments in by_partition.items()], listed


def _segments(where: str, segments: list[DatabaseReport]) -> str:
    families = [family for each in segments for family in each.families if not family.entries]
    starts = [each.segment_start_ms for each in segments if each.segment_start_ms is not None]
    names = ", ".join(dict.fromkeys(family.name for family in families))
    mib, records = sum(each.size for each in segments) / _MIB, sum(family.records for family in families)
    return (
        f"{where}  {plural(len(segments), 'segment')}, {_times(min(starts), max(starts))}, {mib:,.1f} MiB, "
        f"~{records:,} records in {names or 'no column family'}"
    )


def _times(first_ms: int, last_ms: int) -> str:
    """When segments begin."""
    return moment(first_ms) if first_ms == last_ms else f"{moment(first_ms)} to {moment(last_ms)}"


def _databases(report: InspectReport, listed: list[DatabaseReport]) -> Table:
    is_told = bool(report.stores)  # which formats they may be, by the table of stores
    columns = ("RocksDB directory", "column family", "records", "MiB", *(() if is_told else ("may be",)))
    is_digested = any(family.digest for database in listed for family in database.families)
    table = _table(*columns, *(("digest",) if is_digested else ()), right=("records", "MiB"))
    for database in listed:
        mib = f"{database.size / _MIB:,.1f}"
        if not database.families:
            table.add_row(escape(database.path), "damaged", "", mib)
        for number, family in enumerate(database.families):
            first = number == 0
            table.add_row(
                escape(database.path) if first else "",
                escape(family.name),
                _records(family),
                mib if first else "",
                *(() if is_told else ("\n".join(database.formats) if first else "",)),
                *((family.digest or "",) if is_digested else ()),
            )
    return table


def _list_databases(listed: list[DatabaseReport], console: Console) -> None:
    """One below the other: a narrow terminal would fold a table into slivers."""
    for database in listed:
        _lines(console, f"{database.path}  {database.size / _MIB:,.1f} MiB")
        if database.families:
            _lines(console, f"  may be {' or '.join(database.formats) or 'of no known format'}")
        for family in database.families:
            digest = "" if family.digest is None else f", {family.digest}"
            _lines(console, f"  {family.name}: {_records(family)} records{digest}")


def _options(report: InspectReport) -> list[str]:
    """Directories of one owner mostly have the same: each set once, with how many have it."""
    counted: dict[str, int] = {}
    for database in report.databases:
        for family in database.families:
            told = _options_of(database, family)
            counted[told] = counted.get(told, 0) + 1
    return [f"{told} ({count} column {'family' if count == 1 else 'families'})" for told, count in counted.items()]


def _options_of(database: DatabaseReport, family: FamilyReport) -> str:
    if family.comparator is None:
        return "options: no OPTIONS file tells"
    told = [f"comparator {family.comparator}", f"merge operator {family.merge_operator or 'none'}"]
    told.append(f"compression {family.compression}")
    told.append(f"table format {'unknown' if family.format_version is None else family.format_version}")
    told.append(f"RocksDB {database.rocksdb_version or 'unknown'}")
    return f"options: {', '.join(told)}"


def _show_records(report: InspectReport, console: Console) -> None:
    """Of each store and column family those of the first RocksDB directory that has any."""
    seen: set[tuple[str, str]] = set()
    for database in report.databases:
        store = database.role.partition(", ")[0] or database.path
        for family in database.families:
            if (store, family.name) in seen or not (family.samples or family.error):
                continue
            seen.add((store, family.name))
            _lines(console, "", f"{store}, column family {family.name}, the first records:")
            for record in family.samples:
                _lines(console, *_record(record))
            _lines(console, *(f"  {entry}" for entry in family.entries))
            if family.error is not None:
                _lines(console, f"  {family.error}")


def _record(record: RecordShown) -> list[str]:
    return [f"  key    {_shown(record.key)}", f"  value  {_shown(record.value)}"]


def _shown(data: Shown) -> str:
    if data.size == 0:
        return "(empty)"
    return f"{_cut(data.text, _MOST_TEXT)}  {_cut(data.hex, _MOST_HEX)}  ({data.size:,} bytes)"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


def _records(family: FamilyReport) -> str:
    return f"{family.records:,}" if family.exact else f"~{family.records:,}"


def _table(*columns: str, right: tuple[str, ...]) -> Table:
    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table
