"""The known formats as text, grouped by the conversions between them; what pairs have in common is listed once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from migrate.show.output import Output
from migrate.show.plain import Layout
from migrate.spec.allowed import MEANINGS
from migrate.survey.known_formats import ConversionReport, FormatReport, FormatsReport

_MOST_COLUMNS = 100


def show_formats(report: FormatsReport, output: Output) -> list[str]:
    """Groups of formats, missing conversions between them, serdes, and stores that cannot be migrated."""
    layout = replace(output.layout, width=max(40, min(output.layout.width, _MOST_COLUMNS)))
    groups, lines = groups_of(report.formats), []
    for group in groups:
        lines += layout.title(f"{_name(group)}: {_count(group)}")
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
        lines += layout.wrapped(f"recognized by {kind.told_by}\nwhy: {kind.reason}\nnext: {kind.instead}", indent=4)
    return [*lines, "", "For every pair and its byte program: stateferry formats --json"]


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


def _count(group: list[FormatReport]) -> str:
    return "each can be converted to any other" if len(group) > 1 else "no conversions"


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
    """The fact, and the pairs that it is true of."""
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
    found = []
    for number, group in enumerate(groups):
        for other in groups[number + 1 :]:
            pair = next(each for each in group[0].conversions if each.target == other[0].id)
            found.append((group[0], pair))
    return found
