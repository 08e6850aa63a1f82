"""Writes changelog records to one topic partition, in transactions of one id: each record is confirmed, once."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from migrate.errors import ChangelogFailedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.failures import Failures
from migrate.stores.changelog_batch import ChangelogBatch

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_TRANSACTION_BYTES = 64 << 20
_TRANSACTION_SECONDS = 5.0
_PATIENCE_SECONDS = 60.0
_LOOK_BYTES = 1 << 20
"""After so many bytes the clock is looked at."""
_RECORD_BYTES = 70
"""What a record takes in the client's queue beside its key and its value."""


class Writer:
    """A context manager. From when it is entered, no earlier writer of its id can write, and no record of theirs that
    was not committed is ever read."""

    def __init__(self, connection: Connection, topic: str, number: int, transactional_id: str) -> None:
        self._connection, self._topic, self._number, self._id = connection, topic, number, transactional_id
        self._failures = Failures(connection, ChangelogFailedError)
        self._doing = f"write to topic {topic}, partition {number},"
        self._last: int | None = None
        self._is_open = False
        self._size = self._looked = 0
        self._since = 0.0

    def __enter__(self) -> Self:
        from confluent_kafka import Producer

        with Cluster(self._connection) as cluster:
            topic = cluster.topic(self._topic)
        if topic is None:
            raise ChangelogFailedError(f"topic {self._topic} is gone", hint="run the same command again")
        largest = min(topic.max_message_bytes, 1_000_000_000)
        with self._failures.explained(self._doing):
            self._producer = Producer(
                {
                    "linger.ms": 50,
                    **self._connection.settings(
                        {
                            "transactional.id": self._id,
                            "transaction.timeout.ms": int(_PATIENCE_SECONDS * 1000),
                            "message.max.bytes": largest,
                            "batch.size": min(1_000_000, largest),
                            "error_cb": self._failures.seen,
                        }
                    ),
                }
            )
            self._producer.init_transactions(_PATIENCE_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from confluent_kafka import KafkaException

        if self._is_open:
            try:
                self._producer.abort_transaction(_PATIENCE_SECONDS)
            except KafkaException:
                pass  # whoever writes next with this id ends it
        del self._producer

    def write(self, batch: ChangelogBatch) -> None:
        """Queue these records, in their order. Raises ChangelogFailedError."""
        if not len(batch):
            return
        with self._failures.explained(self._doing):
            self._write(batch)

    def finish(self) -> int | None:
        """Wait until each record is confirmed; the largest offset, or None if there is no record.

        The last stable offset passes it a moment later, or when transactions of other writers end.

        Raises:
            ChangelogFailedError: They are not.
        """
        with self._failures.explained(self._doing):
            self._commit()
        return self._last

    def _write(self, batch: ChangelogBatch) -> None:
        produce, topic, number = self._producer.produce, self._topic, self._number
        last = len(batch) - 1
        headers: Iterable[Any] = batch.headers if batch.headers is not None else repeat(None)
        for index, (key, value, timestamp, header) in enumerate(
            zip(batch.keys, batch.values, batch.timestamps, headers, strict=False)
        ):
            if self._size >= self._looked:
                self._look()
            self._size += len(key) + len(value or b"") + _RECORD_BYTES
            while True:
                try:
                    # By keyword: some positions mean something else, and drop what they get. 0 would mean "now".
                    produce(
                        topic=topic,
                        partition=number,
                        key=key,
                        value=value,
                        timestamp=timestamp or 1,
                        headers=header or None,
                        on_delivery=self._delivered if index == last else None,
                    )
                    break
                except BufferError:  # the queue is full
                    self._producer.poll(0.1)

    def _look(self) -> None:
        """Begin a transaction, or end the open one if it is large or old."""
        now = time.monotonic()
        if self._is_open and (self._size >= _TRANSACTION_BYTES or now - self._since >= _TRANSACTION_SECONDS):
            self._commit()
        if not self._is_open:
            self._producer.begin_transaction()
            self._is_open, self._since, self._size = True, now, 0
        self._producer.poll(0)
        self._looked = self._size + _LOOK_BYTES

    def _commit(self) -> None:
        if self._is_open:
            self._producer.commit_transaction(_PATIENCE_SECONDS)
            self._is_open, self._size, self._looked = False, 0, 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._last = message.offset()
