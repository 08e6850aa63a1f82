"""The stores in an application's directory, or one RocksDB directory by itself."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from migrate.errors import RefusedError, UnknownStateStoreError
from migrate.queries.definition import StoreDefinition
from migrate.queries.open.partition import Partition
from migrate.queries.open.pinned import PinnedPartition, Site
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.systems import STANDALONE, get_system
from migrate.systems.base import System


class Directory:
    """The stores that lie in one directory."""

    def __init__(
        self, path: Path, definitions: Mapping[str, StoreDefinition], *, stale: bool = False, refresh: float = 0.5
    ) -> None:
        self.path = path
        self.definitions = dict(definitions)
        self._stale = stale
        self._refresh = refresh

    def open(self, name: str) -> list[Partition]:
        """The store partitions of this name as they are now. Raises UnknownStateStoreError."""
        definition = self.definitions[name]
        system = STANDALONE if is_rocksdb(self.path) else get_system(definition.stored.system)
        stores = [] if system is STANDALONE else [name]
        try:
            found = system.find(self.path, stores, is_segmented=definition.stored.is_segmented)
        except RefusedError as error:
            raise UnknownStateStoreError(error.message, hint=error.hint) from error
        return [
            PinnedPartition(Site(self.path, each, system, definition), _number(system, each.task), self._refresh)
            for each in found
        ]


def _number(system: System, task: str) -> int | None:
    with suppress(RefusedError):
        return system.task_numbers(Path(task).name)[1]
    return None
