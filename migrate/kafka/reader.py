"""Reads the committed records of a range of offsets of one topic partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from migrate.errors import ChangelogFailedError
from migrate.kafka.connection import Connection
from migrate.kafka.failures import Failures
from migrate.stores.changelog_batch import ChangelogBatch

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_TUNED = {
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 65_536,
    "fetch.queue.backoff.ms": 1,  # by default a consumer naps for a second whenever its queue is full
}
_BATCH_RECORDS = 1000
_BATCH_SECONDS = 0.1
"""`consume` waits so long for a batch to be full."""


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
    doing = f"read topic {topic}, partition {number}, from offset {start} to {end},"
    with failures.explained(doing):
        settings = connection.settings(
            {
                "group.id": "stateferry",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "error_cb": failures.seen,
            }
        )
        consumer = Consumer({**_TUNED, **settings})
        try:
            consumer.assign([TopicPartition(topic, number, start)])
            yield from _batches(consumer, end, failures, doing, check, patience)
        finally:
            consumer.close()


def _batches(
    consumer: Consumer, end: int, failures: Failures, doing: str, check: Callable[[], None], patience: float
) -> Iterator[ChangelogBatch]:
    from confluent_kafka import KafkaError

    deadline = time.monotonic() + patience
    while True:
        check()
        messages = consumer.consume(_BATCH_RECORDS, _BATCH_SECONDS)
        at_end = False
        records: list[Message[Any, Any]] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end |= (message.offset() or 0) >= end
            elif not error.retriable():
                raise failures.error(error, doing)
        if records:
            deadline = time.monotonic() + patience
            if (records[-1].offset() or 0) >= end - 1:
                at_end = True
                records = [each for each in records if (each.offset() or 0) < end]
            if records:
                yield _batch(records)
        if at_end:
            return
        if time.monotonic() > deadline:
            raise failures.error(KafkaError(KafkaError._TIMED_OUT), doing)


def _batch(records: list[Any]) -> ChangelogBatch:
    headers = [each.headers() for each in records]
    return ChangelogBatch(
        keys=[each.key() for each in records],
        values=[each.value() for each in records],
        timestamps=[each.timestamp()[1] for each in records],
        headers=[each or [] for each in headers] if any(headers) else None,
        offsets=[each.offset() for each in records],
    )
