"""What `inspect` found, as text for a person: each thing once, whatever lies there many times."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from migrate.cli.options import Output
from migrate.dry_run.report import Shown
from migrate.survey.report import DatabaseReport, FamilyReport, InspectReport, MigrationReport, RecordShown

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
    if report.databases:
        console.print()
        _show_databases(report, console)
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
        segmented = f" ({store.segments} segments)" if store.segments else ""
        table.add_row(
            escape(store.name),
            store.kind + segmented,
            str(len(store.store_partitions)),
            f"{store.records:,}" if store.exact else f"~{store.records:,}",
            "\n".join(store.formats) or _no_format(is_segmented=store.segments > 0),
        )
    return table


def _no_format(*, is_segmented: bool) -> str:
    return "cannot be migrated yet" if is_segmented else "of no known format"


def _show_databases(report: InspectReport, console: Console) -> None:
    if console.width < _WIDTH_OF_TABLES:
        _list_databases(report, console)
    else:
        console.print(_databases(report))
    for database in report.databases:
        if database.half_converged is not None:
            _lines(console, f"{database.path} is {database.half_converged}: open it with DualReadStore")
        if database.error is not None:
            _lines(console, f"{database.path} cannot be read: {database.error}", f"  next: {database.hint}")


def _databases(report: InspectReport) -> Table:
    is_told = bool(report.stores)  # which formats they may be, by the table of stores
    columns = ("RocksDB directory", "column family", "records", "MiB", *(() if is_told else ("may be",)))
    is_digested = any(family.digest for database in report.databases for family in database.families)
    table = _table(*columns, *(("digest",) if is_digested else ()), right=("records", "MiB"))
    for database in report.databases:
        size = f"{database.size / _MIB:,.1f}"
        if not database.families:
            table.add_row(escape(database.path), "damaged", "", size)
        for number, family in enumerate(database.families):
            first = number == 0
            table.add_row(
                escape(database.path) if first else "",
                escape(family.name),
                _records(family),
                size if first else "",
                *(() if is_told else ("\n".join(database.formats) if first else "",)),
                *((family.digest or "",) if is_digested else ()),
            )
    return table


def _list_databases(report: InspectReport, console: Console) -> None:
    """One below the other: a narrow terminal would fold a table into slivers."""
    for database in report.databases:
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
