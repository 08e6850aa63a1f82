"""Applications, recognised by the names in their directories, and their stores as `inspect` reports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from formats import get_format
from formats.likeness import hint
from migrate.model.display import moment, plural
from migrate.stores.regular_files import Folder
from migrate.survey.databases import formats_of, samples_of
from migrate.survey.inspect_report import (
    DatabaseReport,
    Likeness,
    PlaceReport,
    StoreKind,
    StoreReport,
    UnsupportedStore,
)
from migrate.systems import SYSTEMS, System, owner_around, system_of_application


@dataclass(frozen=True, slots=True)
class LocatedApplication:
    """The directory of one application."""

    path: Path
    system: System


@dataclass(frozen=True, slots=True)
class StoreDatabase:
    """One RocksDB directory of an application: a store partition, or a segment of one."""

    application: LocatedApplication
    task: str
    store: str
    directory: Path
    is_segment: bool

    @property
    def store_partition(self) -> str:
        """The store partition's name in a migration: "0_0/orders"."""
        return f"{self.task}/{self.store}"

    @property
    def role(self) -> str:
        """A description for people: "store orders, task 0_0"."""
        start_ms = self.segment_start_ms
        segment = "" if start_ms is None else f", segment {moment(start_ms)}"
        return f"store {self.store}, task {self.task}{segment}"

    @property
    def segment_start_ms(self) -> int | None:
        """The segment's start by its directory's name, in milliseconds since the epoch; None: no segment."""
        return self.application.system.segments.start(self.store, self.directory.name) if self.is_segment else None

    @property
    def partition_directory(self) -> Path:
        return self.directory.parent if self.is_segment else self.directory


def application_at(folder: Folder) -> LocatedApplication | None:
    """The application whose directory it is, if any."""
    system = system_of_application(folder)
    return None if system is None else LocatedApplication(folder.path, system)


def application_around(path: Path) -> LocatedApplication | None:
    """The application that `path` belongs to: its own directory, or that of a task, a store or a segment."""
    found = owner_around(path)
    return None if found is None else LocatedApplication(*found)


def databases_of(application: LocatedApplication) -> Iterator[StoreDatabase]:
    """Every RocksDB directory of the application, ordered by task, store and segment."""
    for each in application.system.discovery.store_directories(application.path):
        yield StoreDatabase(application, each.task, each.store, each.path, each.is_segment)


def application_places(
    root: Path, applications: list[LocatedApplication], databases: Collection[StoreDatabase]
) -> Iterator[PlaceReport]:
    """One report per application, after one for each directory that holds several applications of a system."""
    for system in SYSTEMS:
        paths = [application.path for application in applications if application.system is system]
        for folder in dict.fromkeys(path.parent for path in paths if path.parent.is_relative_to(root)):
            names = [path.name for path in paths if path.parent == folder]
            if len(names) > 1 or folder == root:
                kind = "applications" if len(names) > 1 else "application"
                yield _place(system, folder, f"{system.title}: a state.dir with the {kind} {', '.join(names)}")
    for application in applications:
        home, system = application.path, application.system
        if root != home and root.is_relative_to(home):
            what = system.discovery.describe_part(root.relative_to(home))
            yield _place(system, root, f"{system.title}: {what}, of the application {home.name} in {home.parent}")
        else:
            own = [database for database in databases if database.application is application]
            yield _place(system, home, _sentence(application, own))


def _place(system: System, path: Path, sentence: str) -> PlaceReport:
    return PlaceReport(path=path, system=system.name, can_be_migrated=True, sentence=sentence)


def _sentence(application: LocatedApplication, databases: list[StoreDatabase]) -> str:
    tasks = {database.task for database in databases}
    stores = {database.store for database in databases}
    holds = f"{plural(len(stores), 'store')} in {plural(len(tasks), 'task')}" if databases else "without a store"
    return f"{application.system.title}: the state directory of the application {application.path.name}, {holds}"


def stores_of(
    databases: Mapping[Path, StoreDatabase], reports: Mapping[Path, DatabaseReport]
) -> tuple[StoreReport, ...]:
    """The stores that have a report of at least one RocksDB directory, by application and name."""
    found: dict[tuple[Path, str, bool], list[tuple[StoreDatabase, DatabaseReport]]] = {}
    for directory, database in databases.items():
        if directory in reports:
            key = (database.application.path, database.store, database.is_segment)
            found.setdefault(key, []).append((database, reports[directory]))
    return tuple(_store(found[key]) for key in sorted(found))


def _store(inspected: list[tuple[StoreDatabase, DatabaseReport]]) -> StoreReport:
    first, _ = inspected[0]
    reports = [report for _, report in inspected]
    families = tuple(dict.fromkeys(family.name for report in reports for family in report.families))
    system = first.application.system
    formats = tuple(sorted(formats_of(reports, system=system.name, is_segmented=first.is_segment)))
    data = [family for report in reports for family in report.families if not family.entries]
    # of the only possible format; of several, one's older family is another's own
    older = {family.name for family in get_format(formats[0]).older_families} if len(formats) == 1 else set()
    starts = [report.segment_start_ms for report in reports if report.segment_start_ms is not None]
    samples = samples_of(reports, formats)
    closed_first = [family.closed_first for family in data if family.likeness and family.likeness[0].sampled]
    begins_with_time = first.is_segment and min(closed_first, default=0.0) == 1.0
    unsupported = _unsupported(first, families, keys_begin_with_time=begins_with_time)
    return StoreReport(
        name=first.store,
        system=system.name,
        application=first.application.path,
        kind=_kind(formats, is_segmented=first.is_segment),
        store_partitions=tuple(dict.fromkeys(database.store_partition for database, _ in inspected)),
        segments=len(inspected) if first.is_segment else 0,
        first_segment_ms=min(starts, default=None),
        last_segment_ms=max(starts, default=None),
        size=sum(report.size for report in reports),
        records=sum(family.records for family in data),
        exact=all(family.exact for family in data) and all(report.error is None for report in reports),
        unfinished=sum(family.records for family in data if family.name in older),
        column_families=families,
        formats=formats,
        likeness=tuple(Likeness.model_validate(each, from_attributes=True) for each in samples),
        hint="" if unsupported is not None and unsupported.is_certain else hint(samples),
        names=dict(sum((Counter(family.names) for family in data), Counter[str]()).most_common()),
        unsupported=unsupported,
    )


def _kind(formats: Iterable[str], *, is_segmented: bool) -> StoreKind:
    if not is_segmented:
        return "key-value"
    kinds = {get_format(format_id).kind for format_id in formats}
    if kinds == {"window"}:
        return "window"
    return "session" if kinds == {"session"} else "windowed or session"


def _unsupported(
    database: StoreDatabase, families: Sequence[str], *, keys_begin_with_time: bool
) -> UnsupportedStore | None:
    system, store = database.application.system, database.store
    certain = system.unsupported_kind(store, families)
    if certain is None and families:  # else it cannot be opened, as its report says
        certain = system.discovery.kind_within(database.directory)
    kind = certain or system.likely_unsupported(store, families, keys_begin_with_time=keys_begin_with_time)
    if kind is None:
        return None
    return UnsupportedStore(name=kind.name, is_certain=certain is not None, reason=kind.reason, instead=kind.instead)
