"""Applications and their stores, as `inspect` tells of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from formats import get_format
from migrate.survey.likeness import formats_of, hint, likeness_of
from migrate.survey.report import DatabaseReport, FamilyReport, PlaceReport, StoreReport, UnsupportedStore
from migrate.survey.task_trees import Application, Part, application_sentence, part_sentence
from migrate.systems import SYSTEMS, System


def application_places(root: Path, applications: list[Application], parts: Iterable[Part]) -> Iterator[PlaceReport]:
    """One for each application; where several of a system lie in one directory, one for that before them."""
    for system in SYSTEMS:
        mine = [application.path for application in applications if application.system is system]
        for folder in [folder for folder in dict.fromkeys(path.parent for path in mine) if folder.is_relative_to(root)]:
            names = [path.name for path in mine if path.parent == folder]
            if len(names) == 1 and folder != root:
                continue
            kind = "applications" if len(names) > 1 else "application"
            yield _place(system, folder, f"{system.title}: a state.dir with the {kind} {', '.join(names)}")
    by_application: dict[Application, list[Part]] = {}
    for part in parts:
        by_application.setdefault(part.application, []).append(part)
    for application in applications:
        path = application.path
        sentence = application_sentence(application, by_application.get(application, []))
        if root != path and root.is_relative_to(path):
            sentence = part_sentence(application, root)
        yield _place(application.system, max(path, root) if root.is_relative_to(path) else path, sentence)


def _place(system: System, path: Path, sentence: str) -> PlaceReport:
    return PlaceReport(path=path, system=system.name, can_be_migrated=True, sentence=sentence)


def stores_of(parts: Mapping[Path, Part], databases: Mapping[Path, DatabaseReport]) -> tuple[StoreReport, ...]:
    """The stores of which something was looked at, by application and name."""
    found: dict[tuple[Path, str, bool], list[tuple[Part, DatabaseReport]]] = {}
    for directory, part in parts.items():
        if directory in databases:
            key = (part.application.path, part.store, part.is_segment)
            found.setdefault(key, []).append((part, databases[directory]))
    return tuple(_store(found[key]) for key in sorted(found))


def _store(looked_at: list[tuple[Part, DatabaseReport]]) -> StoreReport:
    first, _ = looked_at[0]
    reports = [report for _, report in looked_at]
    families = {family.name: None for report in reports for family in report.families}
    system = first.application.system
    formats = tuple(sorted(formats_of(reports, system=system.name, is_segmented=first.is_segment)))
    data = [family for report in reports for family in report.families if not family.entries]
    starts = [report.segment_start_ms for report in reports if report.segment_start_ms is not None]
    likeness = likeness_of(reports, formats)
    begins_with_time = first.is_segment and _all_closed_first(data)
    unsupported = _unsupported(system, first.store, families, keys_begin_with_time=begins_with_time)
    return StoreReport(
        name=first.store,
        system=system.name,
        application=first.application.path,
        kind=_kind(formats, is_segmented=first.is_segment),
        store_partitions=tuple(dict.fromkeys(part.store_partition for part, _ in looked_at)),
        segments=len(looked_at) if first.is_segment else 0,
        first_segment_ms=min(starts, default=None),
        last_segment_ms=max(starts, default=None),
        size=sum(report.size for report in reports),
        records=sum(family.records for family in data),
        exact=all(family.exact for family in data) and all(report.error is None for report in reports),
        unfinished=sum(family.records for family in data if family.name in _older_families(formats)),
        column_families=tuple(families),
        formats=formats,
        likeness=likeness,
        hint="" if unsupported is not None and unsupported.is_certain else hint(likeness),
        unsupported=unsupported,
    )


def _kind(
    formats: Iterable[str], *, is_segmented: bool
) -> Literal["key-value", "window", "session", "windowed or session"]:
    if not is_segmented:
        return "key-value"
    kinds = {get_format(format_id).kind for format_id in formats}
    if kinds == {"window"}:
        return "window"
    return "session" if kinds == {"session"} else "windowed or session"


def _older_families(formats: tuple[str, ...]) -> set[str]:
    """Where there is one format alone: of several, one's older family is another's own."""
    known = get_format(formats[0]) if len(formats) == 1 else None
    return set() if known is None else {family.name for family in known.older_families}


def _unsupported(
    system: System, store: str, families: Iterable[str], *, keys_begin_with_time: bool
) -> UnsupportedStore | None:
    kind = system.unsupported_kind(store, families)
    is_certain = kind is not None
    kind = kind or system.likely_unsupported(store, families, keys_begin_with_time=keys_begin_with_time)
    if kind is None:
        return None
    return UnsupportedStore(name=kind.name, is_certain=is_certain, reason=kind.reason, instead=kind.instead)


def _all_closed_first(data: list[FamilyReport]) -> bool:
    shares = [family.closed_first for family in data if family.likeness and family.likeness[0].sampled]
    return bool(shares) and min(shares) == 1.0
