"""The hosts of a Kafka Streams application, from what its members told each other by way of the broker.

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

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from migrate.errors import BrokerError
from migrate.queries.routing.hosts import HostInfo

Task = tuple[int, int]
"""(subtopology, partition)."""
_HAS_LATEST, _HAS_ENDPOINT, _LISTS_TASKS, _NAMES_TOPOLOGIES, _NEWEST = 3, 2, 6, 10, 11


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
        """The hosts with a standby of the partition."""
        task = (self.subtopologies.get(store, -1), partition)
        return tuple(sorted({each.host for each in self.members if task in each.standby}))

    def hosts(self, store: str) -> tuple[HostInfo, ...]:
        """The hosts with an active partition of the store."""
        wanted = self.subtopologies.get(store, -1)
        return tuple(sorted({each.host for each in self.members if wanted in {task[0] for task in each.active}}))


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


def _user_data(reader: _Reader) -> _Reader:
    return _Reader(reader.take(max(0, reader.number())))


def _version(data: _Reader) -> int:
    version = data.number()
    if not 1 <= version <= _NEWEST:
        raise ValueError(f"version {version} is not known, 1 to {_NEWEST} are")
    if version >= _HAS_LATEST:
        data.number()
    return version


def _endpoint(subscription: bytes) -> str:
    """The `application.server` of a member; empty: it states none."""
    reader = _Reader(subscription)
    reader.number(2)
    for _ in reader.count():
        reader.take(reader.number(2))
    data = _user_data(reader)
    version = _version(data)
    data.take(16)
    if version <= _LISTS_TASKS:
        for _ in range(2):
            for _ in data.count():
                data.take(8)
    return data.take(max(0, data.number())).decode() if version >= _HAS_ENDPOINT else ""


def _tasks(assignment: bytes) -> tuple[frozenset[Task], frozenset[Task]]:
    """The active and the standby tasks of a member; none before it has an assignment."""
    if not assignment:
        return frozenset(), frozenset()
    reader = _Reader(assignment)
    reader.number(2)
    for _ in reader.count():
        reader.take(reader.number(2))
        for _ in reader.count():
            reader.number()
    data = _user_data(reader)
    version = _version(data)
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
