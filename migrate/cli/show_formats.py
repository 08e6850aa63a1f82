"""The known formats as text: those that become each other together, and what is true of each pair said once."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import fill

from rich.console import Console
from rich.markup import escape

from migrate.cli.output import Output
from migrate.format_list import ConversionReport, FormatReport, FormatsReport

_MOST_COLUMNS = 100


def show_formats(report: FormatsReport, output: Output) -> None:
    """Groups of formats, what no group becomes, serdes, and stores that cannot be migrated."""
    console = output.console()
    groups = groups_of(report.formats)
    for group in groups:
        _title(console, f"{_name(group)}: {_count(group)}")
        for known in group:
            _format(console, known)
        _pairs(console, group)
    _title(console, "Between these groups: no conversion")
    for source, target in _across(groups):
        _line(console, f"{target.problem}.", indent=2)
        _line(console, f"{source.id} can become {', '.join(target.nearest)}.", indent=4)
    _title(console, "Serdes, for [conversion.key] and [conversion.value]")
    for serde in report.serdes:
        _line(console, f"{serde.name:<8}{serde.summary}; a function sees {serde.python_type}", indent=2, hang=10)
        for option in serde.options:
            _line(console, option, indent=10)
    _title(console, "Stores that cannot be migrated")
    for kind in report.unsupported:
        _line(console, f"{kind.name[:1].upper()}{kind.name[1:]}", indent=2)
        _line(console, f"told by {kind.told_by}", indent=4)
        _line(console, f"why: {kind.reason}", indent=4)
        _line(console, f"next: {kind.instead}", indent=4)
    console.print()
    _line(console, "Every pair, with its byte program: stateferry formats --json", indent=0)


def groups_of(formats: Iterable[FormatReport]) -> list[list[FormatReport]]:
    """Formats that become each other, in the order of the first of each."""
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
    return "each of these becomes any other" if len(group) > 1 else "it becomes no other"


def _format(console: Console, known: FormatReport) -> None:
    console.print(f"  [bold]{known.id}[/bold]", soft_wrap=True)
    families = "any" if known.column_families is None else ", ".join(known.column_families)
    if known.older_families:
        families += f" (of an unfinished upgrade: {', '.join(known.older_families)})"
    own = f"; the system's own: {', '.join(known.metadata_families)}" if known.metadata_families else ""
    _line(console, known.summary + (f"; since {known.since}" if known.since else ""), indent=4)
    _line(console, f"column family {families}{own}", indent=4, hang=6)
    _line(console, f"a record has {', '.join(_parts(known))}", indent=4, hang=6)


def _parts(known: FormatReport) -> list[str]:
    place = [known.kind] if known.is_segmented else []
    carried = {"timestamp": "timestamp", "headers": "headers", "history": "former values"}
    return ["key", *place, "value", *(words for name, words in carried.items() if name in known.carries)]


def _pairs(console: Console, group: list[FormatReport]) -> None:
    """What is lost depends on what both sides carry alone, so each loss is said once for each target."""
    pairs = [(known, each) for known in group for each in known.conversions if each.problem is None]
    pairs = [(known, each) for known, each in pairs if each.target != known.id]
    for allowed, why in _ALLOWED.items():
        asked = [pair for pair in pairs if allowed in pair[1].must_be_allowed]
        _said_once(console, asked, f'{why}: "{allowed}"')
    _said_once(console, [pair for pair in pairs if not pair[1].is_compiled], "record by record, not compiled")
    if any(each.changelog == "stays right" for _, each in pairs):
        _line(console, "the changelog stays right otherwise, as long as keys and values stay the same", indent=2)
    if len({known.system for known in group if known.metadata_families or known.is_segmented}) > 1:
        _line(console, "from one system to another: into a new state directory, [target] path", indent=2)


_ALLOWED = {
    "loss:timestamp": "loses timestamps, which must be allowed",
    "loss:headers": "loses headers, which must be allowed",
    "loss:history": "loses former values, which must be allowed",
    "changelog": "the changelog no longer matches, which must be allowed",
}


def _said_once(console: Console, pairs: list[tuple[FormatReport, ConversionReport]], what: str) -> None:
    by_sources: dict[tuple[str, ...], list[str]] = {}
    for target in dict.fromkeys(each.target for _, each in pairs):
        sources = tuple(known.id for known, each in pairs if each.target == target)
        by_sources.setdefault(sources, []).append(target)
    if by_sources:
        _line(console, what, indent=2)
    for sources, targets in by_sources.items():
        _line(console, f"{_short(sources)} -> {_short(targets)}", indent=4, hang=6)


def _short(ids: Iterable[str]) -> str:
    """`system.one, two` for ids of one system."""
    by_system: dict[str, list[str]] = {}
    for each in ids:
        system, _, layout = each.partition(".")
        by_system.setdefault(system, []).append(layout)
    return "; ".join(f"{system}.{', '.join(layouts)}" for system, layouts in by_system.items())


def _across(groups: list[list[FormatReport]]) -> list[tuple[FormatReport, ConversionReport]]:
    """One pair for each two groups, by the first format of each."""
    found = []
    for number, group in enumerate(groups):
        for other in groups[number + 1 :]:
            pair = next(each for each in group[0].conversions if each.target == other[0].id)
            found.append((group[0], pair))
    return found


def _title(console: Console, text: str) -> None:
    console.print(f"\n[bold]{escape(text)}[/bold]", soft_wrap=True)


def _line(console: Console, text: str, *, indent: int, hang: int | None = None) -> None:
    width = max(40, min(console.width, _MOST_COLUMNS))
    initial, subsequent = " " * indent, " " * (indent if hang is None else hang)
    folded = fill(
        text,
        width,
        initial_indent=initial,
        subsequent_indent=subsequent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    console.print(escape(folded), soft_wrap=True)
