"""What `inspect` found, as text for a person: each thing once, whatever lies there many times."""

from __future__ import annotations

from migrate.model.preview import Shown
from migrate.model.units import moment, plural, size
from migrate.show.output import Output
from migrate.show.plain import Layout
from migrate.survey.report import DatabaseReport, FamilyReport, InspectReport, MigrationReport, RecordShown, StoreReport

_MIB = 2**20
_WIDTH_OF_TABLES = 100
_MOST_TEXT = 40
_MOST_HEX = 64


def show_inspect(report: InspectReport, output: Output) -> list[str]:
    """Whose it is, the stores, the RocksDB directories, their options and a few records of each store."""
    lines = [str(report.path), *(place.sentence for place in report.places)]
    for owner in report.owners:
        who = f"process {owner.pid} ({owner.command or 'name unknown'})" if owner.pid else "a process of another host"
        lines.append(f"in use: {who} holds {owner.files[0]}; counts are those of this instant")
    lines += [f"warning: {warning}" for warning in report.warnings]
    lines += map(_migration, report.migrations)
    if report.stores:
        lines += ["", *_stores(report, output.layout)]
        lines += [line for store in report.stores for line in _remarks(store)]
    if report.databases:
        lines += ["", *_databases(report, output.layout, is_whole=bool(output.verbosity))]
        lines += ["", *_options(report), *_first_records(report)]
    return lines


def _migration(migration: MigrationReport) -> str:
    if migration.error is not None:
        return f"{migration.path}: {migration.error}"
    done = migration.chunks_planned - migration.chunks_left
    told = f"{migration.name}: {migration.state}"
    if migration.chunks_planned:
        told += f", {done} of {migration.chunks_planned} chunks, {migration.records_in:,} records read"
    if migration.snapshot is not None:
        told += f", snapshot in {migration.snapshot}"
    return told


def _stores(report: InspectReport, layout: Layout) -> list[str]:
    rows = []
    for store in report.stores:
        segmented = f" ({plural(store.segments, 'segment')})" if store.segments else ""
        is_known_not_to_be = store.unsupported is not None and store.unsupported.is_certain
        rows.append(
            (
                store.name,
                store.kind + segmented,
                str(len(store.store_partitions)),
                f"{store.records:,}" if store.exact else f"~{store.records:,}",
                "cannot be converted" if is_known_not_to_be else "\n".join(store.formats) or "of no known format",
            )
        )
    return layout.table(("store", "kind", "partitions", "records", "may be"), rows, right=("partitions", "records"))


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


def _databases(report: InspectReport, layout: Layout, *, is_whole: bool) -> list[str]:
    folded, listed = _folded(report, is_whole=is_whole)
    is_narrow = layout.width < _WIDTH_OF_TABLES
    lines = _list_of(listed) if is_narrow or not listed else _table_of(listed, report, layout)
    lines += [*folded, *(["  --verbose lists every segment"] if folded else [])]
    for database in report.databases:
        if database.half_converged is not None:
            lines.append(f"{database.path} is {database.half_converged}: open it with DualReadStore")
        if database.error is not None:
            lines += [f"{database.path} cannot be read: {database.error}", f"  next: {database.hint}"]
    return lines


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


def _table_of(listed: list[DatabaseReport], report: InspectReport, layout: Layout) -> list[str]:
    is_told = bool(report.stores)  # which formats they may be, by the table of stores
    is_digested = any(family.digest for database in listed for family in database.families)
    columns = ["RocksDB directory", "column family", "records", "MiB"]
    columns += [*([] if is_told else ["may be"]), *(["digest"] if is_digested else [])]
    rows = []
    for database in listed:
        formats = [] if is_told else ["\n".join(database.formats)]
        first = (database.path, f"{database.size / _MIB:,.1f}", formats)
        if not database.families:
            rows.append([database.path, "damaged", "", first[1]])
        for family in database.families:
            path, mib, formats = first
            digest = [family.digest or ""] if is_digested else []
            rows.append([path, family.name, _records(family), mib, *formats, *digest])
            first = ("", "", [] if is_told else [""])
    return layout.table(columns, rows, right=("records", "MiB"))


def _list_of(listed: list[DatabaseReport]) -> list[str]:
    """One below the other: a narrow terminal would fold a table into slivers."""
    lines = []
    for database in listed:
        lines.append(f"{database.path}  {database.size / _MIB:,.1f} MiB")
        if database.families:
            lines.append(f"  may be {' or '.join(database.formats) or 'of no known format'}")
        for family in database.families:
            digest = "" if family.digest is None else f", {family.digest}"
            lines.append(f"  {family.name}: {_records(family)} records{digest}")
    return lines


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


def _first_records(report: InspectReport) -> list[str]:
    """Of each store and column family those of the first RocksDB directory that has any."""
    lines: list[str] = []
    seen: set[tuple[str, str]] = set()
    for database in report.databases:
        store = database.role.partition(", ")[0] or database.path
        for family in database.families:
            if (store, family.name) in seen or not (family.samples or family.error):
                continue
            seen.add((store, family.name))
            lines += ["", f"{store}, column family {family.name}, the first records:"]
            lines += [line for record in family.samples for line in _record(record)]
            lines += [f"  {entry}" for entry in family.entries]
            if family.error is not None:
                lines.append(f"  {family.error}")
    return lines


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
