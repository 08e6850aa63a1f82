"""Applications and their stores, as `inspect` tells of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from migrate.survey.fitting import formats_that_fit
from migrate.survey.report import DatabaseReport, PlaceReport, StoreReport
from migrate.survey.task_trees import Application, Part, application_sentence, part_sentence
from migrate.systems.task_tree import TREES, TaskTree


def application_places(root: Path, applications: list[Application], parts: Iterable[Part]) -> Iterator[PlaceReport]:
    """One for each application; where several of a system lie in one directory, one for that before them."""
    for tree in TREES:
        mine = [application.path for application in applications if application.tree == tree]
        for folder in [folder for folder in dict.fromkeys(path.parent for path in mine) if folder.is_relative_to(root)]:
            names = [path.name for path in mine if path.parent == folder]
            if len(names) == 1 and folder != root:
                continue
            kind = "applications" if len(names) > 1 else "application"
            yield _place(tree, folder, f"{tree.title}: a state.dir with the {kind} {', '.join(names)}")
    by_application: dict[Application, list[Part]] = {}
    for part in parts:
        by_application.setdefault(part.application, []).append(part)
    for application in applications:
        path = application.path
        sentence = application_sentence(application, by_application.get(application, []))
        if root != path and root.is_relative_to(path):
            sentence = part_sentence(application, root)
        yield _place(application.tree, max(path, root) if root.is_relative_to(path) else path, sentence)


def _place(tree: TaskTree, path: Path, sentence: str) -> PlaceReport:
    return PlaceReport(path=path, system=tree.system, is_certain=True, can_be_migrated=True, sentence=sentence)


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
    system = first.application.tree.system
    fitting = [
        set(formats_that_fit([f.name for f in r.families], system=system, is_segmented=first.is_segment))
        for r in reports
        if r.families
    ]
    common = set.intersection(*fitting) if fitting else set()
    data = [family for report in reports for family in report.families if not family.entries]
    return StoreReport(
        name=first.store,
        system=system,
        application=first.application.path,
        kind="windowed or session" if first.is_segment else "key-value",
        store_partitions=tuple(dict.fromkeys(part.store_partition for part, _ in looked_at)),
        segments=len(looked_at) if first.is_segment else 0,
        records=sum(family.records for family in data),
        exact=all(family.exact for family in data) and all(report.error is None for report in reports),
        column_families=tuple(families),
        formats=tuple(sorted(common)),
    )
