"""Topics of a running broker, as tests make, read, copy and compact them."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, sleep

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Read:
    """A record of a topic."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes | None]] = ()


def make_topic(bootstrap: str, topic: str, partitions: int, **config: str) -> None:
    """Make an empty topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, config=config)])[topic].result(30)


def make_topic_again(bootstrap: str, topic: str, partitions: int, **config: str) -> None:
    """Make an empty topic in place of the one that there may be: its records go, and what groups have read of it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if topic in admin.list_topics(timeout=30).topics:
        admin.delete_topics([topic])[topic].result(30)
        deadline = monotonic() + _PATIENCE_SECONDS
        while topic in admin.list_topics(timeout=30).topics:
            assert monotonic() < deadline, f"{topic} stays"
            sleep(0.2)
    make_topic(bootstrap, topic, partitions, **config)


def ends_of(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """(first offset, end) of each partition, whether what is there has been committed or not."""
    consumer = _consumer(bootstrap, isolation="read_uncommitted")
    try:
        return [consumer.get_watermark_offsets(each, timeout=30) for each in _partitions(consumer, topic)]
    finally:
        consumer.close()


def messages_of(bootstrap: str, topic: str) -> Iterator[Read]:
    """The records that are there now and committed."""
    consumer = _consumer(bootstrap)
    partitions = _partitions(consumer, topic)
    consumer.assign(partitions)
    deadline = monotonic() + _PATIENCE_SECONDS
    at_end: set[int | None] = set()
    try:
        while len(at_end) < len(partitions):
            assert monotonic() < deadline, f"the end of {topic} does not come"
            for each in consumer.consume(1000, 0.05):
                if (error := each.error()) is not None:
                    assert error.name() == "_PARTITION_EOF", error
                    at_end.add(each.partition())
                    continue
                number, key, offset = each.partition(), each.key(), each.offset()
                assert number is not None and key is not None and offset is not None
                yield Read(number, offset, key, each.value(), each.timestamp()[1], each.headers() or ())
    finally:
        consumer.close()


def copy_topic(bootstrap: str, old: str, new: str, *, headers: Collection[str] = ()) -> None:
    """Make a compacted topic of the records of another one, with those of their headers that have these names."""
    make_topic(bootstrap, new, len(ends_of(bootstrap, old)), **{"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 3})
    for each in messages_of(bootstrap, old):
        producer.produce(
            topic=new,
            partition=each.partition,
            key=each.key,
            value=each.value,
            timestamp=each.timestamp_ms,
            headers=[(name, value) for name, value in each.headers if name in headers],
        )
    assert producer.flush(30) == 0


def commit_all(bootstrap: str, group: str, topic: str) -> None:
    """Say that the group has read all of it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    offsets = [TopicPartition(topic, number, end) for number, (_, end) in enumerate(ends_of(bootstrap, topic))]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def compact_soon(bootstrap: str, *topics: str) -> None:
    """Let the broker compact them as soon as more is written: old values and their deletes go."""
    rules = {"segment.ms": "1", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1"}
    changes = [_change(ResourceType.TOPIC, topic, rules) for topic in topics]
    changes.append(_change(ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "200"}))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.incremental_alter_configs(changes).values():
        done.result(30)


def set_topic(bootstrap: str, topic: str, **settings: str) -> None:
    """Change settings of a topic; an underscore stands for a point."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    change = _change(ResourceType.TOPIC, topic, {name.replace("_", "."): each for name, each in settings.items()})
    admin.incremental_alter_configs([change])[change].result(30)


def _change(kind: ResourceType, name: str, settings: dict[str, str]) -> ConfigResource:
    setting = AlterConfigOpType.SET
    entries = [ConfigEntry(name, value, incremental_operation=setting) for name, value in settings.items()]
    return ConfigResource(kind, name, incremental_configs=entries)


def _consumer(bootstrap: str, isolation: str = "read_committed") -> Consumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": "readback", "enable.auto.commit": False}
    return Consumer(settings | {"isolation.level": isolation, "enable.partition.eof": True})


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    found = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in sorted(found)]
