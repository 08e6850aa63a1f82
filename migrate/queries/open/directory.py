"""The stores in an application's directory, or one RocksDB directory by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from migrate.errors import InvalidStateStoreError, RefusedError, StoreNotReadyError, UnknownStateStoreError
from migrate.model.store_partition import StorePartition
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.owner import Owners
from migrate.queries.open.partition import Partition
from migrate.queries.open.pinned import PinnedPartition
from migrate.queries.open.site import AdapterFunctions, Site
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.stores.rocksdb.unreadable import check_no_backup
from migrate.systems import STANDALONE, get_system
from migrate.systems.base import System


class DirectoryStores:
    """The stores that lie in one directory."""

    def __init__(
        self,
        path: Path,
        definitions: Mapping[str, StoreDefinition],
        functions: Mapping[str, AdapterFunctions],
        *,
        stale: bool,
        refresh: float,
    ) -> None:
        self._path = path.absolute()
        self._definitions = dict(definitions)
        self._functions = dict(functions)
        self._owners = Owners(stale=stale, fresh_seconds=refresh)
        self._refresh = refresh
        self._seen: dict[str, StorePartition] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are defined."""
        return tuple(sorted(self._definitions))

    def definition(self, name: str) -> StoreDefinition:
        """How the store of this name is read."""
        return self._definitions[name]

    def open(self, name: str) -> list[Partition]:
        """The store partitions as they are now. Raises UnknownStateStoreError, StoreNotReadyError."""
        found = self._find(name)
        self._check_all_there(name, {each.id for each in found})
        self._seen |= {each.id: each for each in found}
        sites = [self._site(name, each) for each in found]
        check_one_directory_each(sites)
        self._owners.watch(lock_files(sites))
        return [PinnedPartition(site, partial(_same, site), self._owners, self._refresh) for site in sites]

    def _find(self, name: str) -> list[StorePartition]:
        definition = self._definitions[name]
        system = self._system(definition)
        stores = [] if system is STANDALONE else [name]
        try:
            return system.find(self._path, stores, is_segmented=definition.stored.is_segmented)
        except RefusedError as error:
            check_no_backup(self._path)
            raise UnknownStateStoreError(error.message, hint=error.hint) from error

    def _check_all_there(self, name: str, found: set[str]) -> None:
        """Raises StoreNotReadyError where one is being moved; a task that went elsewhere has no directory."""
        for each in self._seen.values():
            if each.store == name and each.id not in found and each.task and (self._path / each.task).is_dir():
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
            number=partition_number(system, partition),
            functions=self._functions.get(name, AdapterFunctions()),
        )


def _same(site: Site) -> Site:
    return site


def check_one_directory_each(sites: Iterable[Site]) -> None:
    """Raises RefusedError for two task directories of one partition: the application uses one of them."""
    seen: dict[tuple[Path, int], str] = {}
    for site in sites:
        task = Path(site.partition.task)
        if site.number is not None and (other := seen.setdefault((task.parent, site.number), str(task))) != str(task):
            raise RefusedError(
                f"{other} and {task} in {site.application} both have partition {site.number} of the store "
                f"{site.partition.store!r}: one of them was left behind when the subtopologies were renumbered",
                hint="serve a spec that names it in [source] leave_out; stateferry plan SPEC says which one is behind",
            )


def check_unpacked(system: System, application: Path, partition: StorePartition) -> None:
    """Raises InvalidStateStoreError for a store partition in an archive."""
    if system.archive(application, partition) is not None:
        raise InvalidStateStoreError(
            f"{partition.id} is packed into an archive, which queries do not read",
            hint="unpack it into a directory, and name that",
        )


def partition_number(system: System, partition: StorePartition) -> int | None:
    """The partition's number; None: its task has none, as that of global stores."""
    with suppress(RefusedError):
        return system.task_numbers(Path(partition.task).name)[1]
    return None


def lock_files(sites: list[Site]) -> list[Path]:
    """The lock files that their owner holds."""
    return [file for site in sites for file in site.system.lock_files(site.application, [site.partition])]
