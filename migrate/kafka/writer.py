"""Writes changelog records to one topic partition, in transactions of one id: each is confirmed, and there once.

`produce` writes other records, without a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

from migrate.errors import BrokerError, ChangelogFailedError
from migrate.kafka.cluster import Cluster, take_over
from migrate.kafka.connection import Connection, Failures
from migrate.kafka.reader import read
from migrate.stores.batch import ChangelogBatch

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

_TRANSACTION_BYTES = 64 << 20
_TRANSACTION_SECONDS = 5.0
_LOOK_BYTES = 1 << 20
"""After so many bytes the clock is looked at."""
_RECORD_BYTES = 64
"""What a record takes besides its key and its value, about."""
_QUEUE_BYTES = 16 << 20
"""What is written is not far ahead of what the broker takes, or a slow one could not end a transaction in time."""
_BATCH_BYTES = range(1000, 1_000_000_001)
"""What librdkafka takes as the most of a batch."""


@dataclass(slots=True)
class Writer:
    """A context manager. Once it is entered, no earlier writer of its id can write any more, and what they wrote and
    did not commit is never read."""

    connection: Connection
    topic: str
    number: int
    transactional_id: str
    patience: float = 60.0
    """After so many seconds the broker is given up; a transaction that is left open ends as late, or at the broker's
    limit."""
    _failures: Failures = field(init=False)
    _producer: Producer = field(init=False)
    _limit: float = field(init=False)
    """The broker ends a transaction after so many seconds."""
    _last: int | None = None
    _is_open: bool = False
    _size: int = 0
    _next_look: int = 0
    _since: float = 0.0

    def __enter__(self) -> Self:
        self._failures = Failures(self.connection, ChangelogFailedError)
        largest = _largest_batch(self._failures, self.topic, self.number, self._doing())
        ours = {"message.max.bytes": largest, "queue.buffering.max.kbytes": max(_QUEUE_BYTES, 2 * largest) >> 10}
        patient = replace(self.connection, properties={"linger.ms": "50", **self.connection.properties})
        with self._failures.explained(self._doing()):
            self._producer, self._limit = take_over(patient, self._failures, self.transactional_id, self.patience, ours)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_open:
            with suppress(ChangelogFailedError), self._failures.explained(self._doing()):
                self._producer.abort_transaction(self.patience)  # if it fails, the next writer of the id does it
        del self._producer

    def write(self, batch: ChangelogBatch) -> None:
        """Queue these records, in their order.

        Raises:
            ChangelogFailedError: They, or earlier ones, cannot be written.
        """
        from confluent_kafka import KafkaError, KafkaException

        with self._failures.explained(self._doing()):
            try:
                self._write(batch)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._FATAL:
                    self._commit()  # which says why
                raise

    def finish(self) -> int | None:
        """Wait until each record is confirmed; the largest offset, or None if there is no record.

        The last stable offset passes it a moment later, or when transactions of other writers end.

        Raises:
            ChangelogFailedError: Not all are confirmed.
        """
        with self._failures.explained(self._doing()):
            self._commit()
        return self._last

    def _write(self, batch: ChangelogBatch) -> None:
        self._next_look = self._size  # a slow source does not fill many bytes in time
        last = len(batch) - 1
        headers: Iterable[Any] = repeat(None) if batch.headers is None else batch.headers
        records = zip(batch.keys, batch.values, batch.timestamps, headers, strict=False)
        for index, (key, value, timestamp, header) in enumerate(records):
            if self._size >= self._next_look:
                self._look()
            self._size += len(key) + len(value or b"") + _RECORD_BYTES
            # Order is kept: the offset of a batch's last record is its largest.
            delivered = self._delivered if index == last else None
            while True:
                try:
                    # By keyword: the sixth position is no timestamp, and is accepted. 0 would mean "now".
                    self._producer.produce(
                        topic=self.topic,
                        partition=self.number,
                        key=key,
                        value=value,
                        timestamp=timestamp or 1,
                        headers=header or None,
                        on_delivery=delivered,
                    )
                    break
                except BufferError:  # the queue is full
                    self._producer.poll(0.01)

    def _look(self) -> None:
        """Begin a transaction; first end the open one, if it is large or old for the broker's limit."""
        share = self._limit / self.patience
        is_old = time.monotonic() - self._since >= share * _TRANSACTION_SECONDS
        if is_old or self._size >= share * _TRANSACTION_BYTES:
            self._commit()
        if not self._is_open:
            self._producer.begin_transaction()
            self._is_open, self._size, self._since = True, 0, time.monotonic()
        self._producer.poll(0)
        self._next_look = self._size + _LOOK_BYTES

    def _commit(self) -> None:
        if self._is_open:
            self._producer.commit_transaction(self.patience)
            self._is_open, self._size, self._next_look = False, 0, 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._last = message.offset()

    def _doing(self) -> str:
        return f"write to topic {self.topic}, partition {self.number},"


def end_in_record(
    connection: Connection, topic: str, number: int, start: int, end: int, *, patience: float = 60.0
) -> int | None:
    """Let a topic partition end in a record: the last one in [start, end) is written once more, outside of any
    transaction, unless nothing follows it. Its offset; None: there is no record.

    Raises:
        ChangelogFailedError: It cannot be read, or its copy is not confirmed.
    """
    last = None
    for batch in read(connection, topic, number, start, end):
        last = batch.part(len(batch) - 1, len(batch)) if len(batch) else last
    if last is None or last.offsets is None:
        return None
    if last.offsets[0] == end - 1:
        return last.offsets[0]
    record = {
        "partition": number,
        "key": last.keys[0],
        "value": last.values[0],
        "timestamp": last.timestamps[0] or 1,
        "headers": last.headers[0] if last.headers else None,
    }
    doing = f"write to topic {topic}, partition {number},"
    return _produce(Failures(connection, ChangelogFailedError), topic, doing, [record], patience)


def produce(connection: Connection, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> None:
    """Write keys and values, to any partition, and wait until the broker has confirmed all. Raises BrokerError."""
    fields = ({"key": key, "value": value} for key, value in records)
    _produce(Failures(connection, BrokerError), topic, f"write to topic {topic}", fields)


def _produce(
    failures: Failures, topic: str, doing: str, records: Iterable[dict[str, Any]], patience: float = 60.0
) -> int | None:
    """Write records without a transaction, and wait until each is confirmed; the offset of the last one."""
    from confluent_kafka import KafkaException, Producer

    last: int | None = None

    def delivered(error: KafkaError | None, message: Message) -> None:
        nonlocal last
        if error is not None:
            raise KafkaException(error)
        last = message.offset()

    largest = _largest_batch(failures, topic, 0, doing)
    ours = {"enable.idempotence": True, "message.timeout.ms": int(patience * 1000), "message.max.bytes": largest}
    with failures.explained(doing):
        producer = Producer(failures.connection.settings({**ours, "error_cb": failures.on_error}))
        for record in records:
            while True:
                try:
                    producer.produce(topic, **record, on_delivery=delivered)
                    break
                except BufferError:  # the queue is full
                    producer.poll(0.1)
        producer.flush()
    return last


def _largest_batch(failures: Failures, topic: str, number: int, doing: str) -> int:
    """The client makes no batches that the topic does not take."""
    with Cluster(failures.connection, failures.kind) as cluster:
        there = cluster.topic(topic)
    if there is None or number >= there.partitions:
        text = f"cannot {doing} at {failures.connection.bootstrap}: there is no such partition"
        raise failures.kind(text, hint="was the topic removed? run the same command again")
    return min(max(there.max_message_bytes, _BATCH_BYTES[0]), _BATCH_BYTES[-1])
