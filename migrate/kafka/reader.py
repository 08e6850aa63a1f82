"""Reads the committed records of a range of offsets of one topic partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from migrate.errors import ChangelogFailedError
from migrate.kafka.connection import Connection, Failures
from migrate.stores.batch import ChangelogBatch

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_TUNED = {
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 1,  # by default a consumer naps for a second whenever its queue is full
    "fetch.wait.max.ms": 10,  # by default an end in a transaction's marker is noticed after half a second
}
_ANSWER_SECONDS = 30.0
_BATCH_RECORDS = 250
"""So few that they stay in the processor's cache, and the garbage collector leaves them alone."""
_BATCH_SECONDS = 0.05
"""`consume` waits so long for a batch to be full."""
_MILLISECONDS = itemgetter(1)
"""Of a timestamp, whose kind comes first."""


def never() -> None:
    """Stops nothing."""


def read(
    connection: Connection,
    topic: str,
    number: int,
    start: int,
    end: int,
    *,
    check: Callable[[], None] = never,
    patience: float = 60.0,
) -> Iterator[ChangelogBatch]:
    """The records of the offsets [start, end) of a partition, without those of aborted transactions.

    Args:
        connection: How to reach the broker.
        topic: The topic.
        number: Its partition.
        start: The first offset.
        end: The offset behind the last one; a last stable offset that is below it is waited for.
        check: Called between batches; what it raises ends the reading.
        patience: After so many seconds without progress the broker is given up.

    Raises:
        ChangelogFailedError: The records cannot be read to the end, or the first ones are gone.
    """
    if start >= end:
        return
    from confluent_kafka import Consumer, TopicPartition

    failures = Failures(connection, ChangelogFailedError)
    what = f"topic {topic}, partition {number}"
    with failures.explained(f"read {what}, from offset {start} to {end},"):
        ours = {
            "group.id": "stateferry",  # it has to have one; nothing is committed
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "error_cb": failures.on_error,
        }
        consumer = Consumer({**_TUNED, **connection.settings(ours)})
        try:
            _check_partition(consumer, topic, number)
            consumer.assign([TopicPartition(topic, number, start)])
            records = _Range(consumer, failures, what, end, patience)
            while not records.ended:
                check()
                if batch := records.next():
                    yield batch
        finally:
            consumer.close()


def _check_partition(consumer: Consumer, topic: str, number: int) -> None:
    """A consumer only waits for a partition that does not exist."""
    from confluent_kafka import KafkaError, KafkaException

    found = consumer.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    if number not in found.partitions:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))


@dataclass(slots=True)
class _Range:
    """The records of a consumer up to an end."""

    consumer: Consumer
    failures: Failures
    what: str
    end: int
    patience: float
    ended: bool = False
    _waited: float = 0.0
    _reached: int | None = None
    """An offset at which the consumer waits for the last stable offset to move."""

    def next(self) -> ChangelogBatch | None:
        from confluent_kafka import Message

        since = time.monotonic()
        messages: list[Message[Any, Any]] = self.consumer.consume(_BATCH_RECORDS, _BATCH_SECONDS)
        keys: list[Any] = list(map(Message.key, messages))
        if None in keys:
            messages = self._records(messages)
            keys = [each.key() for each in messages]
        if messages and _offset(messages[-1]) >= self.end - 1:
            self.ended = True
            messages = [each for each in messages if _offset(each) < self.end]
        if not messages:
            self._wait(time.monotonic() - since)
            return None
        self._waited, self._reached = 0.0, None
        self.failures.recovered()
        return _batch(keys[: len(messages)], messages)

    def _records(self, messages: list[Message[Any, Any]]) -> list[Message[Any, Any]]:
        """Those of the messages that are records: others have no key."""
        from confluent_kafka import KafkaError, KafkaException

        records = []
        for message in messages:
            error = message.error()
            if error is None:
                if message.key() is None:
                    text = f"{self.what}, offset {message.offset()}: a record without a key"
                    raise ChangelogFailedError(text, hint="check the topic: this is no changelog")
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                # Behind the last record may be markers of transactions, and records of those that were aborted.
                self._reached = _offset(message)
                self.ended |= self._reached >= self.end
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # the group is only named
                raise KafkaException(error)
        return records

    def _wait(self, seconds: float) -> None:
        from confluent_kafka import KafkaError, KafkaException

        self._waited += seconds
        if self.ended or self._waited < self.patience:
            return
        if self._reached is not None and not self.failures.is_cut_off():
            text = (
                f"{self.what}: no records can be read from offset {self._reached} on, though it should reach {self.end}"
            )
            hint = "an open transaction holds them back: wait until it ends; or the topic was recreated"
            raise ChangelogFailedError(text, hint=hint)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def _offset(message: Message[Any, Any]) -> int:
    offset: int | None = message.offset()
    assert offset is not None
    return offset


def _batch(keys: list[bytes], records: list[Any]) -> ChangelogBatch:
    from confluent_kafka import Message

    of: Any = Message  # whose types are those of what is no record, too
    offsets: Sequence[int] = range(_offset(records[0]), _offset(records[-1]) + 1)
    if len(offsets) != len(records):
        offsets = list(map(of.offset, records))
    headers = list(map(of.headers, records))
    return ChangelogBatch(
        keys=keys,
        values=list(map(of.value, records)),
        timestamps=list(map(_MILLISECONDS, map(of.timestamp, records))),
        headers=[each or [] for each in headers] if any(headers) else None,
        offsets=offsets,
    )
