"""Topics, groups and transactions of a Kafka cluster, by a client that asks and waits for the answers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from warnings import catch_warnings, simplefilter

from migrate.errors import BrokerError, MigrationError
from migrate.kafka.connection import AGAIN, Connection, Failures

if TYPE_CHECKING:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import OffsetSpec, TopicDescription

REACH_SECONDS = 10.0
"""A broker that does not answer a first question within this time is not there."""
REQUEST_SECONDS = 30.0
"""The broker has so long to answer a request."""
BROKERS_DEFAULT = -1
"""So many replicas of a new topic as the broker gives one by its own settings."""
_SHORTEST_SECONDS = 1.0
_ACCEPTED_SECONDS: dict[str, float] = {}
"""How long transactions may be at brokers that refused longer ones to this process, which tries those no more."""
_WITHIN_A_TRANSACTION = {"delivery.timeout.ms", "message.timeout.ms", "socket.timeout.ms"}
"""librdkafka makes no producer for which they are longer than a transaction may be."""
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")
_POLL_SECONDS = 0.2
_NOT_YET = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "UNSTABLE_OFFSET_COMMIT")
"""What a broker answers about groups while it starts, when another one has just taken them over, and while offsets are
being committed in a transaction."""
_OF_MEMBERS = (
    "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION",
    "REBALANCE_IN_PROGRESS",
    "STALE_MEMBER_EPOCH",
    "FENCED_MEMBER_EPOCH",
    "NON_EMPTY_GROUP",
)
"""What the broker answers to a commit from outside, while only members of the group may commit."""
_OF_THE_TOPIC = ("TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PART")
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
    removes_after_ms: int | None = None
    """The age by their times at which the broker removes records, by its default too; None: it removes none."""
    stamps_records: bool = False
    """Whether the broker writes its own time to each record (LogAppendTime)."""

    @property
    def settings_of_copy(self) -> Mapping[str, str]:
        """The settings of a topic like this one that keeps the times of what is written to it."""
        return {**self.settings, **({"message.timestamp.type": "CreateTime"} if self.stamps_records else {})}


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
    """As Kafka names it, such as "EMPTY" and "STABLE"; "DEAD": there is no such group; "UNKNOWN": see the protocol."""
    protocol: str
    """"classic", "consumer", or "unknown" ("streams", for one): whether that has members cannot be asked."""
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """The offset that a group committed for a partition."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    """-1: none was committed."""


class Cluster:
    """A connection for questions and changes; a context manager, which ends where the broker cannot be reached.

    Every method raises an error of the kind.
    """

    def __init__(self, connection: Connection, kind: type[MigrationError] = BrokerError) -> None:
        from confluent_kafka.admin import AdminClient

        self.connection = connection
        self._failures = Failures(connection, kind)
        with self._failures.explained("connect"):
            # By a name of its own: the requests of one that is dropped hang, or fail.
            self._admin = AdminClient(connection.settings({"error_cb": self._failures.on_error}))

    def __enter__(self) -> Self:
        with self._failures.explained("reach the broker"):
            self._answer(self._admin.describe_cluster(request_timeout=REACH_SECONDS))
        return self

    def __exit__(self, *_: object) -> None:
        del self._admin

    def topic(self, name: str) -> Topic | None:
        from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

        described = self._describe(name)
        if described is None:
            return None
        topic = ConfigResource(ResourceType.TOPIC, name)
        settings = self._ask(f"ask for the settings of topic {name}", self._admin.describe_configs, [topic])
        made_for_it = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        age = int(settings["retention.ms"].value) if "delete" in settings["cleanup.policy"].value else -1
        return Topic(
            name=name,
            id=str(described.topic_id),
            partitions=len(described.partitions),
            replication=min(len(each.replicas) for each in described.partitions),
            settings={each.name: each.value for each in settings.values() if each.source == made_for_it},
            min_insync_replicas=int(settings["min.insync.replicas"].value),
            max_message_bytes=int(settings["max.message.bytes"].value),
            removes_after_ms=age if age >= 0 else None,
            stamps_records=settings["message.timestamp.type"].value == "LogAppendTime",
        )

    def partitions(self) -> dict[str, int]:
        """By name, the number of partitions of each topic that this user may describe."""
        with self._failures.explained("list the topics"):
            topics = self._admin.list_topics(timeout=REQUEST_SECONDS).topics
        return {name: len(each.partitions) for name, each in topics.items() if each.error is None}

    def create_topic(self, name: str, *, partitions: int, replication: int, settings: Mapping[str, str]) -> Topic:
        """Make a topic, and wait until it can be written to."""
        self._create(name, partitions, replication, settings, validate_only=False)
        return self._awaited(lambda: self._whole(name, partitions), f"the new topic {name} is not there")

    def check_can_create(self, name: str, like: Topic) -> None:
        """Let the broker check a topic as it would to make one like another, and make none."""
        self._create(name, like.partitions, like.replication, like.settings_of_copy, validate_only=True)

    def delete_topic(self, topic: Topic) -> None:
        """Remove this topic, unless another one has its name by now; where it is gone, nothing happens."""
        now = self._describe(topic.name)
        if now is None:
            return
        if str(now.topic_id) != topic.id:
            text = f"topic {topic.name} was recreated: its ID is {now.topic_id}, not {topic.id}"
            raise self._failures.kind(text, hint="remove it yourself if nobody needs it")
        self._ask(f"delete topic {topic.name}", self._admin.delete_topics, [topic.name])
        self._awaited(
            lambda: self._describe(topic.name) is None or None, f"the deleted topic {topic.name} is still there"
        )

    def ends(self, topic: str, numbers: Iterable[int]) -> dict[int, Ends]:
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec

        if self._describe(topic) is None:
            raise self._failures.kind(
                f"there is no topic {topic}", hint="check [changelog] application_id, and the topic's name"
            )
        numbers = list(numbers)
        start = self._offsets(topic, numbers, OffsetSpec.earliest())
        # In this order: what is written between these two requests makes no open transaction.
        end = self._offsets(topic, numbers, OffsetSpec.latest())
        stable = self._offsets(topic, numbers, OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED)
        return {each: Ends(start[each], min(stable[each], end[each]), end[each]) for each in numbers}

    def ends_of(self, topic: str, number: int) -> Ends:
        return self.ends(topic, [number])[number]

    def group(self, name: str) -> Group:
        with self._failures.explained(f"ask for group {name}"):
            found = self._coordinated(self._admin.describe_consumer_groups, name)
        if found.state.name == "DEAD" and any(each.id == name for each in self._listed("list the groups")):
            return Group(name, "UNKNOWN", "unknown", ())
        members = tuple(Member(each.member_id, each.client_id, each.host) for each in found.members)
        return Group(name, found.state.name, found.type.name.lower(), members)

    def member_metadata(self, group: str) -> list[tuple[bytes, bytes]]:
        """What each member of a group of the "classic" protocol told the others: (subscription, assignment)."""
        found = self._listed(f"ask for the members of group {group}", group)
        return [(each.metadata, each.assignment) for described in found for each in described.members]

    def committed(self, group: str, *, stable: bool = True) -> dict[tuple[str, int], Committed]:
        """What a group has committed, by topic and partition. Metadata is base64, and ends where that does.

        The broker leaves out topics that this user may not describe. `stable`: open transactions are waited for.
        """
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = ConsumerGroupTopicPartitions(group)
        with self._failures.explained(f"ask for the offsets of group {group}"):
            found = self._coordinated(self._admin.list_consumer_group_offsets, asked, require_stable=stable)
        return {
            (each.topic, each.partition): Committed(
                each.offset, _metadata(each), -1 if each.leader_epoch is None else each.leader_epoch
            )
            for each in found.topic_partitions
            if each.offset >= 0
        }

    def has_members(self, group: str) -> bool | None:
        """Whether a group has members, whatever its protocol; None: it has no offset, and nothing was tried.

        One of its own offsets is committed unchanged, which the broker takes from nobody else while there are members.
        Offsets of an open transaction are waited for: the commit of an older one would void them.
        """
        from confluent_kafka import KafkaException

        by_topic = {place[0]: (place, each) for place, each in self.committed(group).items()}
        refused = None
        with self._failures.explained(f"commit an offset of group {group} unchanged, to see whether it has members,"):
            for place, each in by_topic.values():
                try:
                    self._commit(group, {place: each})
                except KafkaException as error:
                    if error.args[0].name() in _OF_MEMBERS:
                        return True
                    if error.args[0].name() not in _OF_THE_TOPIC:
                        raise
                    refused = error
                else:
                    return False
            if refused is not None:
                raise refused
        return None

    def set_committed(self, group: str, offsets: Mapping[tuple[str, int], Committed]) -> None:
        """Commit this for a group without members."""
        with self._failures.explained(f"set the offsets of group {group}"):
            self._commit(group, offsets)

    def authorised(self, topic: str) -> set[str] | None:
        """What this user may do with a topic, such as "READ", "WRITE" and "DELETE"; None: the broker does not say."""
        described = self._describe(topic, include_authorized_operations=True)
        operations = described.authorized_operations if described is not None else None
        return None if operations is None else {each.name for each in operations}

    def abort_transactions(self, transactional_id: str) -> None:
        """End the open transaction of this id, if there is one; whoever had it can write no more."""
        with self._failures.explained(f"end the transactions of {transactional_id}"):
            take_over(self.connection, self._failures, transactional_id)

    def _commit(self, group: str, offsets: Mapping[tuple[str, int], Committed]) -> None:
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        partitions = [
            TopicPartition(*place, each.offset, each.metadata, each.leader_epoch) for place, each in offsets.items()
        ]
        asked = ConsumerGroupTopicPartitions(group, partitions)
        self._coordinated(self._admin.alter_consumer_group_offsets, asked)

    def _create(
        self, name: str, partitions: int, replication: int, settings: Mapping[str, str], *, validate_only: bool
    ) -> None:
        from confluent_kafka.admin import NewTopic

        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(settings))
        self._ask(f"create topic {name}", self._admin.create_topics, [new], validate_only=validate_only)

    def _describe(self, name: str, **more: bool) -> TopicDescription | None:
        from confluent_kafka import KafkaError, TopicCollection

        asked, absent = TopicCollection([name]), KafkaError.UNKNOWN_TOPIC_OR_PART
        found = self._ask_all(f"ask for topic {name}", self._admin.describe_topics, asked, more, absent)
        return found.get(name)

    def _whole(self, name: str, partitions: int) -> Topic | None:
        topic = self.topic(name)
        return topic if topic is not None and topic.partitions == partitions else None

    def _offsets(self, topic: str, numbers: list[int], spec: OffsetSpec, **more: object) -> dict[int, int]:
        from confluent_kafka import TopicPartition

        asked = {TopicPartition(topic, number): spec for number in numbers}
        found = self._ask_all(f"ask for the ends of topic {topic}", self._admin.list_offsets, asked, more)
        return {each.partition: answer.offset for each, answer in found.items()}

    def _listed(self, doing: str, *group: str) -> list[Any]:
        """All groups, of whatever protocol, or one with its members: the newer requests know consumers only."""
        with self._failures.explained(doing), catch_warnings():
            simplefilter("ignore", DeprecationWarning)
            found: list[Any] = self._admin.list_groups(*group, timeout=REQUEST_SECONDS)
            return found

    def _ask(
        self, doing: str, request: Callable[..., Mapping[Any, Future[_Answer]]], about: object, **more: object
    ) -> _Answer:
        (answer,) = self._ask_all(doing, request, about, more).values()
        return answer

    def _ask_all(
        self,
        doing: str,
        request: Callable[..., Mapping[_Asked, Future[_Answer]]],
        about: object,
        more: Mapping[str, object],
        absent: int | None = None,
    ) -> dict[_Asked, _Answer]:
        """The answers to a request; without those that the broker refuses with the code `absent`."""
        from confluent_kafka import KafkaException

        found = {}
        with self._failures.explained(doing):
            for asked, answer in request(about, request_timeout=REQUEST_SECONDS, **more).items():
                try:
                    found[asked] = self._answer(answer)
                except KafkaException as error:
                    if error.args[0].code() != absent:
                        raise
        return found

    def _coordinated(self, request: Callable[..., Mapping[Any, Future[Any]]], group: object, **more: object) -> Any:  # noqa: ANN401 - as many kinds as requests
        """The answer to a request about one group; a coordinator that cannot answer yet is asked again.

        Raises KafkaException.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                (asked,) = request([group], request_timeout=REQUEST_SECONDS, **more).values()
                answer = self._answer(asked)
                _check(getattr(answer, "topic_partitions", ()))
            except KafkaException as error:
                if error.args[0].name() not in _NOT_YET or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                return answer

    def _answer(self, asked: Future[_Answer]) -> _Answer:
        from confluent_kafka import KafkaException

        while True:
            try:
                answer = asked.result(_POLL_SECONDS)
            except TimeoutError:
                self._admin.poll(0)
                if refused := self._failures.refused():
                    raise KafkaException(refused) from None
            else:
                self._failures.recovered()
                return answer

    def _awaited(self, look: Callable[[], _Answer | None], otherwise: str) -> _Answer:
        deadline = time.monotonic() + REQUEST_SECONDS
        while (found := look()) is None:
            if time.monotonic() > deadline:
                raise self._failures.kind(f"{otherwise} after {REQUEST_SECONDS:.0f} s", hint=AGAIN)
            time.sleep(0.05)
        return found


def _metadata(partition: TopicPartition) -> str:
    """Without the bytes that some releases of librdkafka append, which need not be text."""
    try:
        metadata = partition.metadata or ""
    except UnicodeDecodeError as error:
        metadata = error.object[: error.start].decode()
    found = _BASE64.match(metadata)
    return found.group() if found else ""


def take_over(
    connection: Connection,
    failures: Failures,
    transactional_id: str,
    patience: float = REQUEST_SECONDS,
    more: Mapping[str, object] = MappingProxyType({}),
) -> tuple[Producer, float]:
    """A producer of this id, and after how many seconds the broker ends a transaction that it leaves open.

    No earlier producer of the id can write any more, and the transaction that it left open is ended. A broker that
    allows no transactions as long as `patience` (transaction.max.timeout.ms) gets ever shorter ones: users may try
    that, and few may ask for the setting.
    """
    from confluent_kafka import KafkaException, Producer

    seconds = min(patience, _ACCEPTED_SECONDS.get(connection.bootstrap, patience))
    while True:
        ours = {**more, "transactional.id": transactional_id, "error_cb": failures.on_error}
        settings = connection.settings({**ours, "transaction.timeout.ms": int(seconds * 1000)})
        for name in _WITHIN_A_TRANSACTION & settings.keys():
            settings[name] = min(int(settings[name]), int(seconds * 1000) - 100)
        producer = Producer(settings)
        try:
            producer.init_transactions(patience)
        except KafkaException as error:
            if error.args[0].name() != "INVALID_TRANSACTION_TIMEOUT" or seconds <= _SHORTEST_SECONDS:
                raise
            seconds = _ACCEPTED_SECONDS[connection.bootstrap] = max(seconds / 2, _SHORTEST_SECONDS)
        else:
            return producer, seconds


def _check(partitions: Iterable[TopicPartition]) -> None:
    from confluent_kafka import KafkaException

    for each in partitions:
        if each.error is not None:
            raise KafkaException(each.error)
