"""A range of offsets is read to its end, or an error says why not; never is it waited for without end."""

import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from migrate.errors import ChangelogFailedError
from migrate.kafka import reader as reading
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from tests.kafka.records import keys, records, write


def test_ranges_end_in_markers_and_in_aborted_records(connection: Connection, topic: str) -> None:
    write(connection, topic, records(0, 10))  # offsets 0 to 9, a marker at 10
    with pytest.raises(ZeroDivisionError), Writer(connection, topic, 0, topic) as aborted:
        aborted.write(records(10, 20))  # 11 to 20, a marker at 21
        aborted._producer.flush()
        raise ZeroDivisionError
    assert keys(connection, topic, 0, 22) == list(range(10)), "nothing follows"
    write(connection, topic, records(20, 23))  # 22 to 24, a marker at 25
    assert keys(connection, topic, 0, 26) == [*range(10), 20, 21, 22]
    assert keys(connection, topic, 5, 11) == [5, 6, 7, 8, 9]
    assert keys(connection, topic, 11, 21) == []
    assert keys(connection, topic, 15, 24) == [20, 21]
    assert keys(connection, topic, 25, 26) == []
    assert keys(connection, topic, 3, 3) == []


def test_a_start_that_was_removed_is_an_error(connection: Connection, topic: str) -> None:
    write(connection, topic, records(0, 10))
    admin = AdminClient({"bootstrap.servers": connection.bootstrap})
    place = TopicPartition(topic, 0, 5)
    admin.delete_records([place])[place].result()
    for start in (0, 4, 50):
        with pytest.raises(ChangelogFailedError, match=f"from offset {start} to 60.*out of range") as raised:
            keys(connection, topic, start, 60)
        assert "retention.ms" in raised.value.hint
    assert keys(connection, topic, 5, 11) == [5, 6, 7, 8, 9]


def test_an_open_transaction_is_waited_for_and_then_named(connection: Connection, topic: str) -> None:
    with Writer(connection, topic, 0, topic) as writer:
        writer.write(records(0, 10))
        writer._producer.flush()
        with pytest.raises(ChangelogFailedError, match="can be read from offset 0 on") as raised:
            list(read(connection, topic, 0, 0, 10, patience=5))
        assert "an open transaction" in raised.value.hint
        writer.finish()
        assert keys(connection, topic, 0, 10) == list(range(10))


def test_a_topic_or_a_partition_that_is_missing_is_named_at_once(connection: Connection, topic: str) -> None:
    for name, number in (("no-such-topic", 0), (topic, 2)):
        with pytest.raises(ChangelogFailedError, match=f"topic {name}, partition {number}.*[Uu]nknown") as raised:
            list(read(connection, name, number, 0, 1))
        assert "application_id" in raised.value.hint


def test_a_record_without_a_key_is_of_no_changelog(connection: Connection, topic: str) -> None:
    producer = Producer({"bootstrap.servers": connection.bootstrap})
    producer.produce(topic=topic, partition=0, key=b"1", value=b"1")
    producer.produce(topic=topic, partition=0, value=b"1")
    producer.flush()
    with pytest.raises(ChangelogFailedError, match="offset 1: a record without a key"):
        keys(connection, topic, 0, 2)


def test_the_check_is_asked_between_batches(connection: Connection, topic: str) -> None:
    write(connection, topic, records(0, 5000))
    asked = []

    def check() -> None:
        asked.append(1)
        if len(asked) > 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        list(read(connection, topic, 0, 0, 5000, check=check))
    assert len(asked) == 3


def test_full_batches_are_not_waited_for(connection: Connection, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test would be ended by its time limit."""
    monkeypatch.setattr(reading, "_BATCH_SECONDS", 3600.0)
    producer = Producer({"bootstrap.servers": connection.bootstrap})
    for number in range(5 * reading._BATCH_RECORDS):
        producer.produce(topic=topic, partition=0, key=b"%d" % number, value=b"")
    producer.flush()
    assert keys(connection, topic, 0, 5 * reading._BATCH_RECORDS) == list(range(5 * reading._BATCH_RECORDS))


def test_a_full_queue_delays_nothing(connection: Connection, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default a consumer naps for a second whenever its queue is full."""
    monkeypatch.setitem(reading._TUNED, "queued.min.messages", 100)
    small = Connection(connection.bootstrap, {"batch.size": "20000", "fetch.message.max.bytes": "20000"})
    write(small, topic, records(0, 5000, size=100))
    since = time.monotonic()
    found = sum(map(len, read(small, topic, 0, 0, 5000, check=lambda: time.sleep(0.01))))
    assert found == 5000
    assert time.monotonic() - since < 8


def test_an_end_in_a_marker_is_noticed_at_once(connection: Connection, topic: str) -> None:
    """By default a broker answers half a second later that there is no more, however often it is asked."""
    write(connection, topic, records(0, 10))

    def seconds() -> float:
        since = time.monotonic()
        assert len(keys(connection, topic, 0, 11)) == 10
        return time.monotonic() - since

    assert any(seconds() < 0.4 for _ in range(60))


def test_a_topic_that_is_removed_meanwhile_ends_the_reading(
    connection: Connection, cluster: Cluster, topic: str
) -> None:
    write(connection, topic, records(0, 10))
    described = cluster.topic(topic)
    assert described is not None
    batches = read(connection, topic, 0, 0, 1000, patience=5)
    assert len(next(batches)) == 10
    cluster.delete_topic(described)
    with pytest.raises(ChangelogFailedError):
        next(batches)
