"""What the broker is asked for the stores of an application, by the directories of one of its hosts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from migrate.errors import RefusedError
from migrate.queries.stores import QueryableStores
from migrate.spec.spec import Spec
from migrate.spec.ways import application_of, new_names
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.systems import get_system
from migrate.systems.base import System


@dataclass(frozen=True, slots=True)
class Application:
    """An application by its directory on this host, its id, and the other names of its stores."""

    path: Path
    id: str
    aliases: Mapping[str, str]
    """The other name of a store whose migration gives it a new one."""

    @classmethod
    def of_directory(cls, path: Path, given_id: str | None) -> Application:
        """That of a state directory; unless one is given, its name is the id."""
        return cls(path, given_id or path.absolute().name, {})

    @classmethod
    def of_migration(cls, spec: Spec, given_id: str | None) -> Application:
        """That of a migration."""
        names = new_names(spec)
        return cls(spec.source_path, given_id or application_of(spec), names | {new: old for old, new in names.items()})

    def topics(self, stores: QueryableStores) -> dict[str, tuple[str, ...]]:
        """The changelogs of each store, by the names that it has or had. Raises RefusedError."""
        found: dict[str, tuple[str, ...]] = {}
        for name in stores.names:
            system, task = self._task(stores, name)
            found[name] = tuple(system.changelog_topic(self.id, task, each) for each in self._names(name))
        return found

    def subtopologies(self, stores: QueryableStores) -> dict[str, int]:
        """The subtopology of each store, by its tasks' directories. Raises RefusedError where it has none here."""
        tasks = {name: self._task(stores, name) for name in stores.names}
        return {name: system.task_numbers(Path(task).name)[0] for name, (system, task) in tasks.items()}

    def _names(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((name, self.aliases.get(name, name))))

    def _task(self, stores: QueryableStores, name: str) -> tuple[System, str]:
        """One of the store's tasks."""
        format_ = stores.definition(name).stored
        system = get_system(format_.system)
        for each in () if is_rocksdb(self.path) else self._names(name):
            with suppress(RefusedError):
                return system, system.find(self.path, [each], is_segmented=format_.is_segmented)[0].task
        raise RefusedError(
            f"{self.path} has no task directory with the store {name!r}, which tells what to ask the broker",
            hint="state the hosts and --partitions N, without --bootstrap and --hosts-from-group",
        )
