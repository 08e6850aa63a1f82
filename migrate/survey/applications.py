"""Applications and their stores, as `inspect` tells of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from migrate.survey.fitting import formats_that_fit
from migrate.survey.kafka_streams import SYSTEM, Part, application_sentence, part_sentence
from migrate.survey.report import DatabaseReport, PlaceReport, StoreReport


def application_places(root: Path, applications: list[Path], parts: Iterable[Part]) -> Iterator[PlaceReport]:
    """One for each application; where several lie in one directory, one for that before them."""
    above = [folder for folder in dict.fromkeys(path.parent for path in applications) if folder.is_relative_to(root)]
    for folder in above:
        names = [path.name for path in applications if path.parent == folder]
        if len(names) == 1 and folder != root:
            continue
        kind = "applications" if len(names) > 1 else "application"
        yield _place(folder, f"Kafka Streams: a state.dir with the {kind} {', '.join(names)}")
    by_application: dict[Path, list[Part]] = {}
    for part in parts:
        by_application.setdefault(part.application, []).append(part)
    for path in applications:
        sentence = application_sentence(path, by_application.get(path, []))
        if root != path and root.is_relative_to(path):
            sentence = part_sentence(path, root)
        yield _place(max(path, root) if root.is_relative_to(path) else path, sentence)


def _place(path: Path, sentence: str) -> PlaceReport:
    return PlaceReport(path=path, system="kafka-streams", is_certain=True, can_be_migrated=True, sentence=sentence)


def stores_of(parts: Mapping[Path, Part], databases: Mapping[Path, DatabaseReport]) -> tuple[StoreReport, ...]:
    """The stores of which something was looked at, by application and name."""
    found: dict[tuple[Path, str, bool], list[tuple[Part, DatabaseReport]]] = {}
    for directory, part in parts.items():
        if directory in databases:
            key = (part.application, part.store, part.is_segment)
            found.setdefault(key, []).append((part, databases[directory]))
    return tuple(_store(found[key]) for key in sorted(found))


def _store(looked_at: list[tuple[Part, DatabaseReport]]) -> StoreReport:
    first, _ = looked_at[0]
    reports = [report for _, report in looked_at]
    families = {family.name: None for report in reports for family in report.families}
    fitting = [set(formats_that_fit([f.name for f in r.families], system=SYSTEM)) for r in reports if r.families]
    common = set.intersection(*fitting) if fitting else set()
    data = [family for report in reports for family in report.families if not family.entries]
    return StoreReport(
        name=first.store,
        system=SYSTEM,
        application=first.application,
        kind="windowed or session" if first.is_segment else "key-value",
        store_partitions=tuple(dict.fromkeys(part.store_partition for part, _ in looked_at)),
        segments=len(looked_at) if first.is_segment else 0,
        records=sum(family.records for family in data),
        exact=all(family.exact for family in data) and all(report.error is None for report in reports),
        column_families=tuple(families),
        formats=() if first.is_segment else tuple(sorted(common)),
    )
