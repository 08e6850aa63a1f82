"""The report of `inspect` and the known formats as text; what many have in common is printed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations

from migrate.model.display import beginning, moments, plural, size
from migrate.model.preview import Shown
from migrate.show.output import Output
from migrate.show.plain import Layout
from migrate.spec.allowed import MEANINGS
from migrate.survey.inspect_report import (
    DatabaseReport,
    FamilyReport,
    InspectReport,
    MigrationReport,
    RecordShown,
    StoreReport,
)
from migrate.survey.known_formats import ConversionReport, FormatReport, FormatsReport

_WIDTH_OF_TABLES = 100
_MOST_TEXT = 40
_MOST_NAMES = 20
_LEAST_HEX, _MOST_HEX = 16, 64
_BESIDE_HEX = 70
"""The columns of the longest text and size beside the hex digits."""
_MOST_COLUMNS = 100


def show_inspect(report: InspectReport, output: Output) -> list[str]:
    """The owner, the stores, the RocksDB directories, their options and a few records of each store."""
    lines = [str(report.path), *(place.sentence for place in report.places)]
    for owner in report.owners:
        who = f"process {owner.pid} ({owner.command or 'name unknown'})" if owner.pid else "a process on another host"
        lines.append(f"in use: {who} holds {owner.files[0]}; counts may change")
    lines += [f"warning: {warning}" for warning in report.warnings]
    lines += map(_migration, report.migrations)
    if report.stores:
        lines += ["", *_stores(report, output.layout)]
        lines += [line for store in report.stores for line in _notes(store)]
    if report.databases:
        lines += ["", *_databases(report, output.layout, is_complete=bool(output.verbosity))]
        lines += ["", *_options(report, output.layout), *_first_records(report, output.layout)]
    return lines


def _migration(migration: MigrationReport) -> str:
    if migration.error is not None:
        return f"{migration.path}: {migration.error}"
    done = migration.chunks_planned - migration.chunks_left
    text = f"{migration.name}: {migration.state}"
    if migration.chunks_planned:
        chunks, records = plural(migration.chunks_planned, "chunk"), plural(migration.records_in, "record")
        text += f", {done} of {chunks}, {records} read"
    if migration.snapshot is not None:
        text += f", snapshot in {migration.snapshot}"
    return text


def _stores(report: InspectReport, layout: Layout) -> list[str]:
    rows = []
    for store in report.stores:
        segmented = f" ({plural(store.segments, 'segment')})" if store.segments else ""
        is_refused = store.unsupported is not None and store.unsupported.is_certain
        rows.append(
            (
                store.name,
                store.kind + segmented,
                str(len(store.store_partitions)),
                f"{store.records:,}" if store.exact else f"~{store.records:,}",
                "cannot be converted" if is_refused else "\n".join(store.formats) or "unknown format",
            )
        )
    return layout.table(("store", "kind", "partitions", "records", "may be"), rows, right=("partitions", "records"))


def _notes(store: StoreReport) -> list[str]:
    """What does not fit in the table."""
    notes = []
    if store.segments and store.first_segment_ms is not None and store.last_segment_ms is not None:
        times = moments(store.first_segment_ms, store.last_segment_ms)
        notes.append(f"{plural(store.segments, 'segment')}, {times}; {size(store.size)}")
    if store.hint:
        notes.append(f"a hint, not proof: {store.hint}")
    if store.names:
        notes.append(f"names of a sample: {_names(store.names)}")
    if store.unfinished:
        left = f"{plural(store.unfinished, 'record')} {'is' if store.unfinished == 1 else 'are'}"
        notes.append(f"upgrade mode: about {left} still in the pre-upgrade column family")
    if store.unsupported is not None:
        kind = store.unsupported
        notes.append(f"{'this is' if kind.is_certain else 'possibly'} {kind.name}, which cannot be converted:")
        notes.append(f"  {kind.reason}; next: {kind.instead}")
    return [f"{store.name}: {notes[0]}", *(f"  {line}" for line in notes[1:])] if notes else []


def _names(names: Mapping[str, int]) -> str:
    shown = [f"{name} ({count})" for name, count in [*names.items()][:_MOST_NAMES]]
    return ", ".join(shown) + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")


def _databases(report: InspectReport, layout: Layout, *, is_complete: bool) -> list[str]:
    folded, listed = _folded(report, is_complete=is_complete)
    is_narrow = layout.width < _WIDTH_OF_TABLES
    lines = _list_of(listed, layout) if is_narrow or not listed else _table_of(listed, report, layout)
    lines += [*folded, *(["  --verbose lists every segment"] if folded else [])]
    for database in report.databases:
        if database.half_converged is not None:
            lines.append(f"{database.path} is {database.half_converged}: open it with DualReadStore")
        if database.error is not None:
            lines += [f"{database.path} cannot be read: {database.error}", f"  next: {database.hint}"]
    return lines


def _folded(report: InspectReport, *, is_complete: bool) -> tuple[list[str], list[DatabaseReport]]:
    """Return a line for the segments of each store partition, and the directories that are listed one by one."""
    by_partition: dict[tuple[str, str], list[DatabaseReport]] = {}
    listed = []
    for database in report.databases:
        is_digested = any(family.digest for family in database.families)
        if database.segment_start_ms is None or is_complete or is_digested:
            listed.append(database)
        else:
            above = database.path.rpartition("/")[0]
            by_partition.setdefault((above, database.store_partition), []).append(database)
    return [_segments(above or name, segments) for (above, name), segments in by_partition.items()], listed


def _segments(where: str, segments: list[DatabaseReport]) -> str:
    families = [family for each in segments for family in each.families if not family.entries]
    starts = [each.segment_start_ms for each in segments if each.segment_start_ms is not None]
    names = ", ".join(dict.fromkeys(family.name for family in families))
    total, records = sum(each.size for each in segments), sum(family.records for family in families)
    return (
        f"{where}  {plural(len(segments), 'segment')}, {moments(min(starts), max(starts))}, {size(total)}, "
        f"~{plural(records, 'record')} in {names or 'no column family'}"
    )


def _table_of(listed: list[DatabaseReport], report: InspectReport, layout: Layout) -> list[str]:
    has_formats = not report.stores  # else the table of stores has them
    is_digested = any(family.digest for database in listed for family in database.families)
    columns = ["RocksDB directory", "column family", "records", "size"]
    columns += [*(["may be"] if has_formats else []), *(["digest"] if is_digested else [])]
    rows = []
    for database in listed:
        formats = ["\n".join(database.formats)] if has_formats else []
        first = (database.path, size(database.size), formats)
        if not database.families:
            rows.append([database.path, "cannot be read", "", first[1]])
        for family in database.families:
            path, total, formats = first
            digest = [family.digest or ""] if is_digested else []
            rows.append([path, family.name, _records(family), total, *formats, *digest])
            first = ("", "", [""] if has_formats else [])
    return layout.table(columns, rows, right=("records", "size"))


def _list_of(listed: list[DatabaseReport], layout: Layout) -> list[str]:
    """The directories one below the other: a table would be too wide for a narrow terminal."""
    lines = []
    for database in listed:
        lines.append(f"{database.path}  {size(database.size)}")
        if database.families:
            formats = " or ".join(database.formats) or "an unknown format"
            lines += layout.wrapped(f"may be {formats}", indent=2, hang=4)
        for family in database.families:
            digest = "" if family.digest is None else f", {family.digest}"
            lines.append(f"  {family.name}: {_records(family)} records{digest}")
    return lines


def _options(report: InspectReport, layout: Layout) -> list[str]:
    """Each set of options once, with the number of column families that have it."""
    counted = Counter(_options_of(database, family) for database in report.databases for family in database.families)
    sets = (f"{text} ({plural(count, 'column family', 'column families')})" for text, count in counted.items())
    return [line for text in sets for line in layout.wrapped(text, hang=2)]


def _options_of(database: DatabaseReport, family: FamilyReport) -> str:
    if family.comparator is None:
        return "options: unknown, there is no OPTIONS file"
    table_format = "unknown" if family.format_version is None else family.format_version
    return (
        f"options: comparator {family.comparator}, merge operator {family.merge_operator or 'none'}, compression "
        f"{family.compression}, table format {table_format}, RocksDB {database.rocksdb_version or 'unknown'}"
    )


def _first_records(report: InspectReport, layout: Layout) -> list[str]:
    """A few records of each column family of each store, from the first RocksDB directory that has any."""
    lines: list[str] = []
    seen: set[tuple[str, str]] = set()
    for database in report.databases:
        store = database.role.partition(", ")[0] or database.path
        for family in database.families:
            if (store, family.name) in seen or not (family.samples or family.error):
                continue
            seen.add((store, family.name))
            lines += ["", f"{store}, column family {family.name}, first records:"]
            lines += [line for record in family.samples for line in _record(record, layout)]
            lines += [f"  {entry}" for entry in family.entries]
            if family.error is not None:
                lines.append(f"  {family.error}")
    return lines


def _record(record: RecordShown, layout: Layout) -> list[str]:
    digits = max(_LEAST_HEX, min(_MOST_HEX, layout.width - _BESIDE_HEX))
    return [f"  key    {_shown(record.key, digits)}", f"  value  {_shown(record.value, digits)}"]


def _shown(data: Shown, digits: int) -> str:
    if data.size == 0:
        return "(empty)"
    return f"{beginning(data.text, _MOST_TEXT)}  {beginning(data.hex, digits)}  ({plural(data.size, 'byte')})"


def _records(family: FamilyReport) -> str:
    return f"{family.records:,}" if family.exact else f"~{family.records:,}"


def show_formats(report: FormatsReport, output: Output) -> list[str]:
    """Groups of formats, missing conversions between them, serdes, and stores that cannot be migrated."""
    layout = replace(output.layout, width=max(40, min(output.layout.width, _MOST_COLUMNS)))
    groups, lines = groups_of(report.formats), []
    for group in groups:
        count = "each can be converted to any other" if len(group) > 1 else "no conversions"
        lines += layout.title(f"{_name(group)}: {count}")
        for known in group:
            lines += _format(known, layout)
        lines += _pairs(group, layout)
    lines += layout.title("No conversion between these groups")
    for source, target in _across(groups):
        lines += layout.wrapped(f"{target.problem}.", indent=2)
        lines += layout.wrapped(f"{source.id} can be converted to {', '.join(target.nearest)}.", indent=4)
    lines += layout.title("Serdes, for [conversion.key] and [conversion.value]")
    for serde in report.serdes:
        summary = f"{serde.name:<8}{serde.summary}; a function receives {serde.python_type}"
        lines += layout.wrapped(summary, indent=2, hang=10)
        lines += layout.wrapped("\n".join(serde.options), indent=10)
    lines += layout.title("Stores that cannot be migrated")
    for kind in report.unsupported:
        lines += layout.wrapped(f"{kind.name[:1].upper()}{kind.name[1:]}", indent=2)
        lines += layout.wrapped(
            f"recognized by {kind.recognized_by}\nwhy: {kind.reason}\nnext: {kind.instead}", indent=4
        )
    return [*lines, "", "Every pair, with its byte program: stateferry formats --json"]


def groups_of(formats: Iterable[FormatReport]) -> list[list[FormatReport]]:
    """The formats that can be converted to each other, in the order in which each group is first named."""
    groups: list[list[FormatReport]] = []
    for known in formats:
        possible = {each.target for each in known.conversions if each.problem is None}
        group = next((group for group in groups if group[0].id in possible), None)
        if group is None:
            groups.append([known])
        else:
            group.append(known)
    return groups


def _name(group: list[FormatReport]) -> str:
    kinds = dict.fromkeys(known.kind for known in group)
    return f"{' and '.join(kinds)[:1].upper()}{' and '.join(kinds)[1:]} stores"


def _format(known: FormatReport, layout: Layout) -> list[str]:
    families = "any" if known.column_families is None else ", ".join(known.column_families)
    if known.older_families:
        families += f" (pre-upgrade: {', '.join(known.older_families)})"
    metadata = f"; metadata column family {', '.join(known.metadata_families)}" if known.metadata_families else ""
    return [
        f"  {layout.styled(known.id, bold=True)}",
        *layout.wrapped(known.summary + (f"; since {known.since}" if known.since else ""), indent=4),
        *layout.wrapped(f"column family {families}{metadata}", indent=4, hang=6),
        *layout.wrapped(f"record: {', '.join(_parts(known))}", indent=4, hang=6),
    ]


def _parts(known: FormatReport) -> list[str]:
    place = [known.kind] if known.is_segmented else []
    carried = {"timestamp": "timestamp", "headers": "headers", "history": "former values"}
    return ["key", *place, "value", *(words for name, words in carried.items() if name in known.carries)]


def _pairs(group: list[FormatReport], layout: Layout) -> list[str]:
    """Facts about the pairs of a group. A loss depends only on what each side stores, so pairs can share its line."""
    pairs = [(known, each) for known in group for each in known.conversions if each.problem is None]
    pairs = [(known, each) for known, each in pairs if each.target != known.id]
    lines = []
    for allowed, why in MEANINGS.items():
        affected = [pair for pair in pairs if allowed in pair[1].must_be_allowed]
        lines += _shared(affected, f'{why}: [conversion] allow must have "{allowed}"', layout)
    slow = [pair for pair in pairs if not pair[1].is_compiled]
    lines += _shared(slow, "not compiled: converted record by record", layout)
    notes = []
    if any(each.changelog == "stays right" for _, each in pairs):
        notes.append("otherwise the changelog stays valid, as long as keys and values stay the same")
    if len({known.system for known in group if known.metadata_families or known.is_segmented}) > 1:
        notes.append("another system needs a new state directory: [target] path")
    return lines + layout.wrapped("\n".join(notes), indent=2)


def _shared(pairs: list[tuple[FormatReport, ConversionReport]], fact: str, layout: Layout) -> list[str]:
    by_sources: dict[tuple[str, ...], list[str]] = {}
    for target in dict.fromkeys(each.target for _, each in pairs):
        sources = tuple(known.id for known, each in pairs if each.target == target)
        by_sources.setdefault(sources, []).append(target)
    lines = layout.wrapped(fact, indent=2) if by_sources else []
    for sources, targets in by_sources.items():
        lines += layout.wrapped(f"{_short(sources)} -> {_short(targets)}", indent=4, hang=6)
    return lines


def _short(ids: Iterable[str]) -> str:
    """The ids without repeated systems: `system.one, two`."""
    by_system: dict[str, list[str]] = {}
    for each in ids:
        system, _, layout = each.partition(".")
        by_system.setdefault(system, []).append(layout)
    return "; ".join(f"{system}.{', '.join(layouts)}" for system, layouts in by_system.items())


def _across(groups: list[list[FormatReport]]) -> list[tuple[FormatReport, ConversionReport]]:
    """One pair for every two groups: the first format of each."""
    firsts = combinations([group[0] for group in groups], 2)
    return [(one, next(each for each in one.conversions if each.target == other.id)) for one, other in firsts]
