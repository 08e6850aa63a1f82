"""The hosts of a Kafka Streams application, and the partitions of its topics, as the broker has them while it runs.

Each member of a group of the "classic" protocol states its `application.server` in its subscription, and gets its tasks
in its assignment. Numbers are big-endian.

Subscription, consumer protocol: version2, topics (count4 of size2 | text), user data (size4 | bytes). User data:

| field                  | size             | versions |
|------------------------|------------------|----------|
| version                | 4                | all      |
| latest version         | 4                | 3 on     |
| process id             | 16               | all      |
| tasks, standby tasks   | each count4 of 8 | 1 to 6   |
| `application.server`   | size4, text      | 2 on     |

Assignment, consumer protocol: version2, count4 of topics (size2 | text, count4 of partition4), user data. User data:

| field         | size                                                            | versions |
|---------------|-----------------------------------------------------------------|----------|
| version       | 4                                                               | all      |
| latest        | 4                                                               | 3 on     |
| active tasks  | count4 of task                                                  | all      |
| standby tasks | count4 of task, with count4 of topic (size2, text), partition4  | all      |

A task is subtopology4 | partition4, from version 10 on with the name of its topology: count4 of characters of 2 bytes.

Source: org.apache.kafka.streams.processor.internals.assignment SubscriptionInfo, AssignmentInfo, ConsumerProtocolUtils;
org.apache.kafka.clients.consumer.internals.ConsumerProtocol.
"""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from migrate.batch.source.source import application_of
from migrate.errors import BrokerError, MigrationError, RefusedError, SpecError
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.model.store_partition import StorePartition
from migrate.queries.key_routing import HostInfo
from migrate.queries.queryable_stores import QueryableStores
from migrate.spec.changelog_way import new_names
from migrate.spec.spec import Spec
from migrate.stores.regular_files import Folder
from migrate.stores.rocksdb.layout import is_rocksdb
from migrate.systems import get_system, system_of_application
from migrate.systems.base import ChangelogNames, System

Task = tuple[int, int]
"""(subtopology, partition)."""
_HAS_LATEST, _HAS_ENDPOINT, _LISTS_TASKS, _NAMES_TOPOLOGIES, _NEWEST = 3, 2, 6, 10, 11
_PAUSE_SECONDS = 3.0
_STATE_THEM = "state the hosts and --partitions N, without --bootstrap and --hosts-from-group"
_LOG = logging.getLogger("stateferry.hosts")


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """A member of the group: its address and its tasks."""

    host: HostInfo
    active: frozenset[Task]
    standby: frozenset[Task]


@dataclass(frozen=True, slots=True)
class GroupHosts:
    """The placement that the members of a group have."""

    members: tuple[MemberTasks, ...]
    subtopologies: Mapping[str, int]
    """The subtopology of each store, as its tasks' directories tell it."""

    def active(self, store: str, partition: int) -> HostInfo | None:
        """The host that has the partition active; None: no member has it, or the store's subtopology is not known."""
        task = (self.subtopologies.get(store, -1), partition)
        return next((each.host for each in self.members if task in each.active), None)

    def standbys(self, store: str, partition: int) -> tuple[HostInfo, ...]:
        task = (self.subtopologies.get(store, -1), partition)
        return tuple(sorted({each.host for each in self.members if task in each.standby}))

    def hosts(self, store: str) -> tuple[HostInfo, ...]:
        wanted = self.subtopologies.get(store, -1)
        return tuple(sorted({each.host for each in self.members if wanted in {task[0] for task in each.active}}))


_NO_MEMBER = GroupHosts((), {})


def member_tasks(members: Iterable[tuple[bytes, bytes]], group: str) -> tuple[MemberTasks, ...]:
    """The members that state an `application.server`, from the (subscription, assignment) of each.

    Raises BrokerError where a member writes them in another way.
    """
    try:
        every = [(_endpoint(subscription), *_tasks(assignment)) for subscription, assignment in members]
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise BrokerError(
            f"the members of the group {group!r} do not describe themselves as Kafka Streams does: {error}",
            hint="is it the application's group? otherwise list the hosts in a file: --hosts",
        ) from error
    return tuple(MemberTasks(HostInfo.parse(host), *tasks) for host, *tasks in every if host)


class _Reader:
    """Big-endian numbers and sized bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError(f"{len(self._data)} bytes end too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def count(self) -> range:
        found = self.number()
        if not 0 <= found <= len(self._data):
            raise ValueError(f"a count of {found} in {len(self._data)} bytes")
        return range(found)


def _user_data(protocol: bytes, *, lists_partitions: bool) -> tuple[_Reader, int]:
    """(what follows the version, the version) of the user data behind a list of topics."""
    reader = _Reader(protocol)
    reader.number(2)
    for _ in reader.count():
        reader.take(reader.number(2))
        for _ in reader.count() if lists_partitions else ():
            reader.number()
    data = _Reader(reader.take(max(0, reader.number())))
    version = data.number()
    if not 1 <= version <= _NEWEST:
        raise ValueError(f"version {version} is not known, 1 to {_NEWEST} are")
    if version >= _HAS_LATEST:
        data.number()
    return data, version


def _endpoint(subscription: bytes) -> str:
    """The `application.server` of a member; empty: it states none."""
    data, version = _user_data(subscription, lists_partitions=False)
    data.take(16)
    for _ in range(2 if version <= _LISTS_TASKS else 0):
        for _ in data.count():
            data.take(8)
    return data.take(max(0, data.number())).decode() if version >= _HAS_ENDPOINT else ""


def _tasks(assignment: bytes) -> tuple[frozenset[Task], frozenset[Task]]:
    """The active and the standby tasks of a member; none before it has an assignment."""
    if not assignment:
        return frozenset(), frozenset()
    data, version = _user_data(assignment, lists_partitions=True)
    active = frozenset(_task(data, version) for _ in data.count())
    standby = set()
    for _ in data.count():
        standby.add(_task(data, version))
        for _ in data.count():
            data.take(data.number(2))
            data.number()
    return active, frozenset(standby)


def _task(data: _Reader, version: int) -> Task:
    task = data.number(), data.number()
    if version >= _NAMES_TOPOLOGIES:
        data.take(2 * data.number())
    return task


@dataclass(slots=True)
class GroupPlacement:
    """The placement of an application's group, as it was when `refresh` asked last. Safe to read in any thread."""

    connection: Connection
    application: str
    subtopologies: Mapping[str, int]
    """The subtopology of each store, as its tasks' directories tell it."""
    port: int | None = None
    """Where the services listen on the members' hosts; None: at the port that each member states."""
    _found: GroupHosts = field(default=_NO_MEMBER)

    def __call__(self) -> GroupHosts:
        """The placement that was found last; one without hosts before that."""
        return self._found

    def refresh(self) -> GroupHosts:
        """Ask the broker; what was found before stays while the group rebalances, and once it has no member.

        Raises BrokerError, and RefusedError for a group whose members cannot be asked.
        """
        with Cluster(self.connection) as cluster:
            members = [each for each in cluster.member_metadata(self.application) if all(each)]
            if not members:
                _check_can_be_asked(cluster, self.application)
        found = member_tasks(members, self.application)
        if self.port is not None:
            found = tuple(replace(each, host=HostInfo(each.host.host, self.port)) for each in found)
        if members or not self._found.members:
            self._found = GroupHosts(found, self.subtopologies)
        return self._found

    def follow(self) -> None:
        """Ask once, raising the errors of `refresh`; then every few seconds, in a thread that ends with the process."""
        self.refresh()
        threading.Thread(target=self._follow, name="stateferry-hosts", daemon=True).start()

    def _follow(self) -> None:
        is_known = True
        while True:
            time.sleep(_PAUSE_SECONDS)
            try:
                self.refresh()
            except MigrationError as error:
                if is_known:
                    _LOG.warning("the hosts stay those that were found last: %s", error)
                is_known = False
            else:
                is_known = True


def partition_counts(connection: Connection, topics: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """The number of partitions of each store, by the first of its topics that there is.

    Raises RefusedError for a store without any, BrokerError where the broker cannot be asked.
    """
    found: dict[str, int] = {}
    with Cluster(connection) as cluster:
        for store, names in topics.items():
            topic = next((topic for topic in map(cluster.topic, names) if topic is not None), None)
            if topic is None:
                raise RefusedError(
                    f"the topic {names[0]} of the store {store!r} is not at {connection.bootstrap}",
                    hint="check the broker and the application's id; or state the number: --partitions N",
                )
            found[store] = topic.partitions
    return found


def _check_can_be_asked(cluster: Cluster, name: str) -> None:
    group = cluster.group(name)
    if group.state == "UNKNOWN" or group.protocol == "consumer":
        which = "consumer" if group.protocol == "consumer" else "streams"
        raise RefusedError(
            f'the group {name} is of the protocol "{which}", whose members do not say which partitions they have',
            hint="list the hosts in a file: --hosts, or one by one: --peer",
        )


@dataclass(frozen=True, slots=True)
class ApplicationTopics:
    """An application by its directory on this host, its id, and the other names of its stores; with their topics."""

    path: Path
    id: str
    aliases: Mapping[str, str]
    """The other name of a store whose migration gives it a new one."""

    @classmethod
    def of_directory(cls, path: Path, given_id: str | None) -> ApplicationTopics:
        """That of a state directory; unless one is given, its path tells the id. Raises SpecError where it does not."""
        system = system_of_application(Folder(path))
        names = ChangelogNames() if system is None else system.changelog
        found = given_id or names.application_id(path.absolute())
        if found is None:
            raise SpecError(f"{path} does not tell the id of its application", hint="state it: --application-id ID")
        return cls(path, found, {})

    @classmethod
    def of_migration(cls, spec: Spec, given_id: str | None) -> ApplicationTopics:
        names = new_names(spec)
        return cls(spec.source_path, given_id or application_of(spec), names | {new: old for old, new in names.items()})

    def topics(self, stores: QueryableStores) -> dict[str, tuple[str, ...]]:
        """The changelogs of each store, by the names that it has or had. Raises RefusedError."""
        found: dict[str, tuple[str, ...]] = {}
        for name in stores.names:
            system, known = self._partition(stores, name)
            named = (known.model_copy(update={"store": each}) for each in self._names(name))
            found[name] = tuple(system.changelog.topic(self.id, each) for each in named)
        return found

    def subtopologies(self, stores: QueryableStores) -> dict[str, int]:
        """The subtopology of each store, by its tasks' directories. Raises RefusedError where it has none here."""
        found: dict[str, int] = {}
        for name in stores.names:
            system, known = self._partition(stores, name)
            number = system.layout.subtopology(known)
            if number is None:
                raise RefusedError(
                    f"task {known.task} has no number of a subtopology",
                    hint="state the hosts, without --hosts-from-group",
                )
            found[name] = number
        return found

    def _names(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((name, self.aliases.get(name, name))))

    def _partition(self, stores: QueryableStores, name: str) -> tuple[System, StorePartition]:
        """One of the store's partitions."""
        format_ = stores.definition(name).stored
        system = get_system(format_.system)
        for each in () if is_rocksdb(self.path) else self._names(name):
            with suppress(RefusedError):
                return system, system.layout.find(self.path, [each], is_segmented=format_.is_segmented)[0]
        raise RefusedError(
            f"{self.path} has no task directory with the store {name!r}, which tells what to ask the broker",
            hint=_STATE_THEM,
        )
