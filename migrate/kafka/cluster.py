"""Topics, groups and transactions of a Kafka cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from migrate.errors import BrokerError
from migrate.kafka.connection import Connection
from migrate.kafka.failures import Failures

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

REQUEST_SECONDS = 30.0
"""The broker has so long to answer a request."""
_Found = TypeVar("_Found")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now."""

    name: str
    id: str
    """Another one for each topic that ever had this name."""
    partitions: int
    replication: int
    settings: Mapping[str, str]
    """The settings that were made for this topic; others are the broker's."""
    min_insync_replicas: int
    max_message_bytes: int


@dataclass(frozen=True, slots=True)
class Ends:
    """Offsets of a partition."""

    start: int
    """Of the first record that there still is, or may have been."""
    stable: int
    """The last stable offset: the end, or the first offset of an open transaction."""
    end: int
    """The offset that the next record gets; markers of transactions have offsets too."""


@dataclass(frozen=True, slots=True)
class Member:
    """An application's instance, or a thread of it."""

    id: str
    client: str
    host: str


@dataclass(frozen=True, slots=True)
class Group:
    """A group of consumers."""

    name: str
    state: str
    """As Kafka names it, such as "EMPTY" and "STABLE"; "DEAD": there is no such group."""
    protocol: str
    """"classic", "consumer" or "unknown"; the members of an unknown one cannot be asked for."""
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """The offset that a group committed for a partition."""

    offset: int
    metadata: str = ""


class Cluster:
    """A connection for questions and changes; a context manager. Every method raises BrokerError."""

    def __init__(self, connection: Connection) -> None:
        from confluent_kafka.admin import AdminClient

        self._connection = connection
        self._failures = Failures(connection, BrokerError)
        with self._failures.explained("connect"):
            self._admin = AdminClient(connection.settings({"error_cb": self._failures.seen}))

    def __enter__(self) -> Self:
        self._ask(self._admin.describe_cluster, "reach the broker")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._admin

    def topic(self, name: str) -> Topic | None:
        """The topic of this name, or None."""
        from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

        described = self._describe(name)
        if described is None:
            return None
        resource = ConfigResource(ResourceType.TOPIC, name)
        asked = self._ask(
            lambda **each: self._admin.describe_configs([resource], **each)[resource],
            f"ask for the settings of topic {name}",
        )
        own = {
            each.name: each.value for each in asked.values() if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        return Topic(
            name=name,
            id=str(described.topic_id),
            partitions=len(described.partitions),
            replication=min(len(each.replicas) for each in described.partitions),
            settings=own,
            min_insync_replicas=int(asked["min.insync.replicas"].value),
            max_message_bytes=int(asked["max.message.bytes"].value),
        )

    def create_topic(self, name: str, *, partitions: int, replication: int, settings: Mapping[str, str]) -> Topic:
        """Make a topic, and wait until it can be written to."""
        from confluent_kafka.admin import NewTopic

        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(settings))
        self._ask(lambda **each: self._admin.create_topics([new], **each)[name], f"create topic {name}")
        return self._awaited(lambda: self._led(name, partitions), f"topic {name} has no leaders yet")

    def delete_topic(self, topic: Topic) -> None:
        """Remove this topic, unless another one has its name by now; where it is gone, nothing happens."""
        now = self._describe(topic.name)
        if now is None:
            return
        if str(now.topic_id) != topic.id:
            raise BrokerError(
                f"topic {topic.name} is not the one it was: its id is {now.topic_id}, not {topic.id}",
                hint="someone made it anew: remove it yourself if nobody needs it",
            )
        self._ask(
            lambda **each: self._admin.delete_topics([topic.name], **each)[topic.name], f"delete topic {topic.name}"
        )
        self._awaited(lambda: self._describe(topic.name) is None or None, f"topic {topic.name} is still there")

    def ends(self, topic: str, numbers: Iterable[int]) -> dict[int, Ends]:
        """Where these partitions of a topic begin and end."""
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec

        numbers = list(numbers)
        start = self._offsets(topic, numbers, OffsetSpec.earliest())
        # In this order: a transaction that ends between the two requests makes no open one.
        end = self._offsets(topic, numbers, OffsetSpec.latest())
        stable = self._offsets(topic, numbers, OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED)
        return {each: Ends(start[each], min(stable[each], end[each]), end[each]) for each in numbers}

    def group(self, name: str) -> Group:
        """The group of this name, with its members."""
        found = self._ask(
            lambda **each: self._admin.describe_consumer_groups([name], **each)[name], f"ask for group {name}"
        )
        members = tuple(Member(each.member_id, each.client_id, each.host) for each in found.members)
        return Group(name, found.state.name, found.type.name.lower(), members)

    def committed(self, group: str) -> dict[tuple[str, int], Committed]:
        """What a group has committed, by topic and partition. Metadata ends where its base64 does."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        request = ConsumerGroupTopicPartitions(group)
        doing = f"ask for the offsets of group {group}"
        found = self._ask(
            lambda **each: self._admin.list_consumer_group_offsets([request], require_stable=True, **each)[group], doing
        )
        return {
            (each.topic, each.partition): Committed(each.offset, _cut(each.metadata or ""))
            for each in self._checked(found.topic_partitions, doing)
            if each.offset >= 0
        }

    def set_committed(self, group: str, offsets: Mapping[tuple[str, int], Committed]) -> None:
        """Let a group without members have committed this."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        partitions = [
            TopicPartition(topic, number, each.offset, metadata=each.metadata)
            for (topic, number), each in offsets.items()
        ]
        request = ConsumerGroupTopicPartitions(group, partitions)
        doing = f"set the offsets of group {group}"
        done = self._ask(lambda **each: self._admin.alter_consumer_group_offsets([request], **each)[group], doing)
        self._checked(done.topic_partitions, doing)

    def authorised(self, topic: str) -> set[str] | None:
        """What this user may do with a topic, such as "READ", "WRITE" and "DELETE"; None: the broker does not say."""
        described = self._describe(topic, include_authorized_operations=True)
        operations = described.authorized_operations if described is not None else None
        return None if operations is None else {each.name for each in operations}

    def abort_transactions(self, transactional_id: str) -> None:
        """End the open transaction of this id, if there is one; whoever has it can write no more."""
        from confluent_kafka import Producer

        with self._failures.explained(f"end the transactions of {transactional_id}"):
            producer = Producer(
                self._connection.settings({"transactional.id": transactional_id, "error_cb": self._failures.seen})
            )
            producer.init_transactions(REQUEST_SECONDS)

    def _describe(self, name: str, **more: Any) -> Any:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        try:
            return self._admin.describe_topics(TopicCollection([name]), request_timeout=REQUEST_SECONDS, **more)[
                name
            ].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._failures.error(error.args[0], f"ask for topic {name}") from None

    def _led(self, name: str, partitions: int) -> Topic | None:
        described = self._describe(name)
        if (
            described is None
            or len(described.partitions) < partitions
            or any(each.leader is None for each in described.partitions)
        ):
            return None
        return self.topic(name)

    def _offsets(self, topic: str, numbers: list[int], spec: Any, **more: Any) -> dict[int, int]:
        from confluent_kafka import TopicPartition

        asked = {TopicPartition(topic, number): spec for number in numbers}
        with self._failures.explained(f"ask for the ends of topic {topic}"):
            futures = self._admin.list_offsets(asked, request_timeout=REQUEST_SECONDS, **more)
            return {each.partition: future.result().offset for each, future in futures.items()}

    def _ask(self, request: Callable[..., Future[Any]], doing: str) -> Any:
        with self._failures.explained(doing):
            return request(request_timeout=REQUEST_SECONDS).result()

    def _checked(self, partitions: list[TopicPartition], doing: str) -> list[TopicPartition]:
        for each in partitions:
            if each.error is not None:
                raise self._failures.error(each.error, f"{doing} (topic {each.topic}, partition {each.partition})")
        return partitions

    def _awaited(self, look: Callable[[], _Found | None], otherwise: str) -> _Found:
        deadline = time.monotonic() + REQUEST_SECONDS
        while (found := look()) is None:
            if time.monotonic() > deadline:
                raise BrokerError(otherwise, hint="see the broker's log; then run the same command again")
            time.sleep(0.05)
        return found


def _cut(metadata: str) -> str:
    """Without the garbage that librdkafka sometimes appends."""
    found = _BASE64.match(metadata)
    return found.group() if found else ""
