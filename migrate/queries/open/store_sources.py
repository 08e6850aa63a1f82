"""Where stores come from: an adapter in this process, a directory, or one side of a migration.

Which store of a migration lies where is known by RocksDB's identities and the journal of the switch, for each store
partition, so that it holds in the middle of a switch too, and after a kill.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count, islice
from pathlib import Path
from typing import Literal

from formats import Function
from formats.serde import BYTES, Serde
from migrate.batch.ledger.standing import Standing, StandingReader
from migrate.batch.source.source import find_partitions, source_system, target_system
from migrate.batch.switch.store_locations import MovedIn, StoreLocations
from migrate.dual.handles import ReadHandle, Stores
from migrate.dual.lazy_conversion import KeyFunction
from migrate.errors import InvalidStateStoreError, RefusedError, SpecError, StoreNotReadyError, UnknownStateStoreError
from migrate.model.journal import HALF_DONE
from migrate.model.ledger_row import Step
from migrate.model.plan import store_of
from migrate.model.store_partition import StorePartition
from migrate.queries.open.partition import Opened, OpenSegment, Partition, Site, StoreDefinition
from migrate.queries.open.pinned import Owners, PinnedPartition
from migrate.spec.conversion import conversion_ref
from migrate.spec.spec import Spec
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.stores.rocksdb.unreadable import check_no_backup
from migrate.stores.state_store import BatchSource, Record, Records
from migrate.systems import STANDALONE, get_system
from migrate.systems.base import System

Side = Literal["live", "old", "new"]
_NEW_IS_LIVE = (Step.CUT_OVER, Step.FINALIZING, Step.FINALIZED)
_OPENINGS = count()
_PROCESS = secrets.token_hex(6)


class _DefinedStores:
    """Stores of which a person says how they are read."""

    def __init__(self, definitions: Mapping[str, StoreDefinition]) -> None:
        self._definitions = dict(definitions)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._definitions))

    def definition(self, name: str) -> StoreDefinition:
        return self._definitions[name]


class AdapterStores(_DefinedStores):
    """The stores that are open under a name in `Stores`, in their new formats; each is a single store partition."""

    def __init__(self, stores: Stores, definitions: Mapping[str, StoreDefinition]) -> None:
        super().__init__(definitions)
        self._stores = stores

    def open(self, name: str) -> list[Partition]:
        """The one store partition. Raises StoreNotReadyError while the store is opened or handed over."""
        return [_AdapterPartition(name, self._stores.resolve(name), self._definitions[name])]


class _AdapterPartition:
    """A store of this process, as `Partition` says; its handle notices a convergence and a hand-over."""

    number = None

    def __init__(self, name: str, handle: ReadHandle, definition: StoreDefinition) -> None:
        self.id = name
        self._handle = handle
        self._format = definition.stored
        self._segments = (OpenSegment(None, _HandleEntries(handle)),)

    def opened(self) -> Opened:
        """The store as it is from now on: every other opening may differ."""
        self._handle.check()
        return Opened(self._format, self._segments, {}, f"{_PROCESS}-{next(_OPENINGS)}")

    recent = opened

    def check(self) -> None:
        self._handle.check()


@dataclass(frozen=True, slots=True)
class _HandleEntries:
    handle: ReadHandle

    def get(self, key: bytes) -> bytes | None:
        return self.handle.get(key)

    def scan(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> BatchSource:
        return _Pulled(self.handle.range(start, end, reverse=reverse))

    @property
    def estimated_records(self) -> int:
        return self.handle.approximate_num_entries()


@dataclass(frozen=True, slots=True)
class _Pulled:
    records: Records

    def pull(self, limit: int) -> list[Record]:
        return list(islice(self.records, limit))

    def close(self) -> None:
        self.records.close()


class DirectoryStores(_DefinedStores):
    """The stores that lie in one directory."""

    def __init__(
        self,
        path: Path,
        definitions: Mapping[str, StoreDefinition],
        *,
        convert: Mapping[str, Function],
        old_key: Mapping[str, KeyFunction],
        stale: bool,
        refresh: float,
    ) -> None:
        super().__init__(definitions)
        self._path = path.absolute()
        self._convert, self._old_key = dict(convert), dict(old_key)
        self._owners = Owners(stale=stale, refresh=refresh)
        self._seen: dict[str, StorePartition] = {}

    def sites(self, name: str) -> list[Site]:
        """Where the store partitions are. Raises UnknownStateStoreError, StoreNotReadyError."""
        found = self._find(name)
        self._check_all_there(name, {each.id for each in found})
        self._seen |= {each.id: each for each in found}
        return [self._site(name, each) for each in found]

    def open(self, name: str) -> list[Partition]:
        sites = self.sites(name)
        check_one_directory_each(sites)
        self._owners.watch(file for site in sites for file in site.lock_files)
        return [PinnedPartition(site, self._owners) for site in sites]

    def _find(self, name: str) -> list[StorePartition]:
        definition = self._definitions[name]
        system = self._system(definition)
        stores = [] if system is STANDALONE else [name]
        try:
            return system.layout.find(self._path, stores, is_segmented=definition.stored.is_segmented)
        except RefusedError as error:
            check_no_backup(self._path)
            raise UnknownStateStoreError(error.message, hint=error.hint) from error

    def _check_all_there(self, name: str, found: set[str]) -> None:
        """Raises StoreNotReadyError where one is being moved; a task that went elsewhere has no directory."""
        gone = (each for each in self._seen.values() if each.store == name and each.id not in found)
        for each in gone:
            if each.path.parts and (self._path / each.path).parent.is_dir():
                raise StoreNotReadyError(
                    f"the store partition {each.id} is not in {self._path}: it is being moved, or was removed",
                    hint="retry with backoff",
                )

    def _system(self, definition: StoreDefinition) -> System:
        return STANDALONE if is_rocksdb(self._path) else get_system(definition.stored.system)

    def _site(self, name: str, partition: StorePartition) -> Site:
        definition = self._definitions[name]
        system = self._system(definition)
        check_unpacked(system, self._path, partition)
        return Site(
            path=self._path / partition.path,
            application=self._path,
            partition=partition,
            system=system,
            definition=definition,
            convert=self._convert.get(name),
            old_key=self._old_key.get(name),
        )


def check_one_directory_each(sites: Iterable[Site]) -> None:
    """Raises RefusedError for two task directories of one partition: the application uses one of them."""
    seen: dict[tuple[str, int | None], str] = {}
    for site in sites:
        task, changelog = site.partition.task, site.system.changelog.topic("", site.partition)
        if site.number is not None and (other := seen.setdefault((changelog, site.number), task)) != task:
            raise RefusedError(
                f"{other} and {task} in {site.application} both have partition {site.number} of the store "
                f"{site.partition.store!r}: one of them was left behind when the subtopologies were renumbered",
                hint="serve a spec that names it in [source] leave_out; stateferry plan SPEC says which one is behind",
            )


def check_unpacked(system: System, application: Path, partition: StorePartition) -> None:
    """Raises InvalidStateStoreError for a store partition in an archive."""
    if system.archives.of(application, partition) is not None:
        raise InvalidStateStoreError(
            f"{partition.id} is packed into an archive, which queries do not read",
            hint="unpack it into a directory, and name that",
        )


def chosen_store(spec: Spec, store: str | None) -> str:
    """The old name of a migration's store, by its old or its new one; None: the only one.

    Raises UnknownStateStoreError, and SpecError where there are several.
    """
    olds = spec.source.store_names or (spec.source_path.name,)
    names = dict(zip(olds, spec.target.store_names or olds, strict=True))
    found = [old for old, new in names.items() if store in (None, old, new)]
    if not found:
        raise UnknownStateStoreError(f"the spec has no store {store!r}", hint=f"it has {', '.join(names)}")
    if len(found) > 1:
        raise SpecError(f"the spec has several stores: {', '.join(names)}", hint="name one: --store")
    return found[0]


class MigrationStores:
    """One side of a migration's stores. An old name and its new one are names of the same store."""

    def __init__(self, spec: Spec, side: Side, *, stale: bool, refresh: float) -> None:
        self._spec = spec
        self._side = side
        self._reader = StandingReader(spec.home)
        self._reading = threading.Lock()
        self._owners = Owners(stale=stale, refresh=refresh)
        self._old_names = spec.source.store_names or (spec.source_path.name,)
        self._new_names = spec.target.store_names or self._old_names

    @property
    def names(self) -> tuple[str, ...]:
        of_side = {"old": self._old_names, "new": self._new_names, "live": (*self._old_names, *self._new_names)}
        return tuple(sorted({*of_side[self._side]}))

    def definition(self, name: str) -> StoreDefinition:
        if self._side != "live":
            return self._defined(self._side, self._old_name(name))
        standing = self._standing()
        sites = (self._site(each, standing) for each in self._partitions(name, standing))
        return next((site.definition for site in sites if site is not None), self._defined("old", self._old_name(name)))

    def sites(self, name: str) -> list[Site]:
        """Where this side of the store's partitions is. Raises UnknownStateStoreError, StoreNotReadyError."""
        return [site for _, site in self._places(name)]

    def is_new(self, definition: StoreDefinition) -> bool:
        """Whether a definition of this object is that of the new store."""
        return any(definition is each["new"] for each in (self._definitions, *self._own_definitions.values()))

    def _places(self, name: str) -> list[tuple[StorePartition, Site]]:
        standing = self._standing()
        found = [(each, self._site(each, standing)) for each in self._partitions(name, standing)]
        return [(each, site) for each, site in found if site is not None]

    def open(self, name: str) -> list[Partition]:
        sites = self._places(name)
        check_one_directory_each(site for _, site in sites)
        self._owners.watch(file for _, site in sites for file in site.lock_files)
        return [PinnedPartition(site, self._owners, partial(self._locate, each)) for each, site in sites]

    @cached_property
    def _definitions(self) -> dict[str, StoreDefinition]:
        return _definitions_of(self._spec)

    @cached_property
    def _own_definitions(self) -> dict[str, dict[str, StoreDefinition]]:
        """Of the stores that keep a format of their own, by old name."""
        return {each.name: _definitions_of(self._spec.of_store(each.name)) for each in self._spec.source.moved_stores}

    def _defined(self, side: str, old_name: str) -> StoreDefinition:
        return self._own_definitions.get(old_name, self._definitions)[side]

    def _old_name(self, name: str) -> str:
        return dict(zip(self._new_names, self._old_names, strict=True)).get(name, name)

    def _standing(self) -> Standing:
        with self._reading:
            return self._reader.read()

    def _partitions(self, name: str, standing: Standing) -> list[StorePartition]:
        """The old store partitions: those of the migration, and others that the application has got since."""
        old_name, plan = self._old_name(name), standing.plan
        if plan is not None and plan.old_partitions:
            of_side = plan.store_partitions if self._is_new_side(standing) else plan.old_partitions
            return [each for each in of_side if store_of(each.id) == old_name]
        planned = () if plan is None else plan.store_partitions
        known = {each.id: each for each in planned if each.store == old_name}
        if self._side == "live" or not known:
            try:
                found, _ = find_partitions(self._spec, [old_name] if self._spec.source.store_names else [])
            except RefusedError as error:
                if not known:
                    raise UnknownStateStoreError(error.message, hint=error.hint) from error
                found = []
            known = {each.id: each for each in found} | known
        return [known[partition] for partition in sorted(known)]

    def _locate(self, partition: StorePartition) -> Site:
        site = self._site(partition, self._standing())
        if site is None:
            raise UnknownStateStoreError(
                f"{partition.id} is not on this host any more", hint="ask the host that has it"
            )
        return site

    def _site(self, partition: StorePartition, standing: Standing) -> Site | None:
        """Where this side of a store partition is; None: it is not on this host."""
        if self._spec.target_path is not None:
            return self._published_site(partition, standing, self._spec.target_path)
        entry = next((each for each in standing.journal.exchanges if each.partition.id == partition.id), None)
        if entry is None or (self._side == "new" and standing.step is Step.ROLLED_BACK):
            return self._unswitched(partition, standing)
        return self._switched(StoreLocations.of(self._spec.source_path, self._spec.home, entry), standing)

    def _published_site(self, partition: StorePartition, standing: Standing, target: Path) -> Site:
        is_there = _is_published(standing, target)
        if not self._is_new_side(standing):
            successor = target if self._side == "live" else None
            return self._make("old", partition, self._spec.source_path / partition.path, successor=successor)
        if not is_there:
            return self._staged(partition, standing)
        new = partition if standing.plan is None else standing.plan.new_partition(partition)
        return self._make("new", new, target / new.path, application=target)

    def _is_new_side(self, standing: Standing) -> bool:
        """Whether it is the new stores that are asked, of a migration that publishes them."""
        target = self._spec.target_path
        return self._side == "new" or (self._side == "live" and target is not None and _is_published(standing, target))

    def _unswitched(self, partition: StorePartition, standing: Standing) -> Site:
        """Of a store partition that no switch has moved; one that came later is as its application writes it now."""
        is_new = self._side == "live" and standing.step in _NEW_IS_LIVE
        if self._side == "new" and standing.step not in _NEW_IS_LIVE:
            return self._staged(partition, standing)
        side: Literal["old", "new"] = "new" if is_new or self._side == "new" else "old"
        return self._make(side, partition, self._spec.source_path / partition.path)

    def _staged(self, partition: StorePartition, standing: Standing) -> Site:
        folder = standing.assembled.get(partition.id)
        if folder is None or standing.plan is None:
            raise StoreNotReadyError(
                f"the new store of {partition.id} is not assembled yet", hint="stateferry run SPEC assembles it"
            )
        return self._make("new", standing.plan.new_partition(partition), folder)

    def _switched(self, places: StoreLocations, standing: Standing) -> Site | None:
        entry, step = places.entry, standing.step
        if self._side == "old":
            return self._old_site(places)
        if self._side == "live" and _what_is_live(places, step) == "old":
            path = places.old if isinstance(places, MovedIn) else places.live
            successor = places.live if isinstance(places, MovedIn) else None
            return self._make("old", entry.partition, path, foreign=entry.new_names, successor=successor)
        path = places.live if self._side == "live" or step in _NEW_IS_LIVE else _new_store(places)
        if not path.is_dir() and step not in HALF_DONE:
            return None  # its task has moved to another host
        position = None if path == places.live else entry.after.own_file or ""
        foreign = () if entry.is_moved_in else entry.old_names
        return self._make("new", entry.new_partition, path, foreign=foreign, position=position)

    def _old_site(self, places: StoreLocations) -> Site:
        try:
            path = places.old_store
        except RefusedError as error:
            raise UnknownStateStoreError(
                f"the old store of {places.entry.partition.id} is not there any more: {error.message}",
                hint="`finalize` removes the old stores; ask for the live or the new one",
            ) from error
        is_live = path == self._spec.source_path / places.entry.partition.path
        position = None if is_live else places.entry.before.own_file or ""
        return self._make("old", places.entry.partition, path, foreign=places.entry.new_names, position=position)

    def _make(
        self,
        side: Literal["old", "new"],
        partition: StorePartition,
        path: Path,
        *,
        application: Path | None = None,
        foreign: tuple[str, ...] = (),
        position: str | None = None,
        successor: Path | None = None,
    ) -> Site:
        system = source_system(self._spec) if side == "old" else target_system(self._spec)
        application = application or self._spec.source_path
        if path == application / partition.path:
            check_unpacked(system, application, partition)
        return Site(
            path=path,
            application=application,
            partition=partition,
            system=system,
            definition=self._defined(side, store_of(partition.id)),
            position=position,
            successor=successor,
            foreign=frozenset(foreign),
        )


def _what_is_live(places: StoreLocations, step: Step | None) -> Literal["old", "new"]:
    """Which store the application finds, also in the middle of a switch. Raises StoreNotReadyError between renames."""
    which = places.at(places.live)
    if which == "old" or which == "new":  # noqa: PLR1714 - type checkers narrow by this
        return which
    if step in _NEW_IS_LIVE:
        return "new"
    if step is Step.ROLLED_BACK or (which == "none" and isinstance(places, MovedIn)):
        return "old"
    try:
        if which == "other":
            return "new" if places.is_switched else "old"
    except RefusedError:  # the old store is nowhere: between two looks it has moved
        pass
    raise StoreNotReadyError(f"{places.entry.partition.id} is being moved", hint="retry with backoff")


def _new_store(places: StoreLocations) -> Path:
    """Where the new store is in the middle of a switch."""
    found = next((place for place in (places.live, places.staged) if places.at(place) == "new"), None)
    if found is None:
        raise StoreNotReadyError(f"{places.entry.partition.id} is being moved", hint="retry with backoff")
    return found


def _is_published(standing: Standing, target: Path) -> bool:
    return standing.published is not None or (bool(standing.publications) and target.is_dir())


def _definitions_of(spec: Spec) -> dict[str, StoreDefinition]:
    """What the old store of a spec is, and what the new one is, by side."""
    ref, before, after = conversion_ref(spec), spec.source, spec.target

    def serdes(side: Literal["source", "target"]) -> tuple[Serde, Serde]:
        key, value = (BYTES if each is None else getattr(each, side) for each in (ref.key, ref.value))
        return key, value

    times = before if after.retention_ms is None else after
    return {
        "old": StoreDefinition(
            before.format, *serdes("source"), retention_ms=before.retention_ms, segment_ms=before.segment_ms
        ),
        "new": StoreDefinition(
            after.format, *serdes("target"), retention_ms=times.retention_ms, segment_ms=times.segment_ms
        ),
    }
