"""What is written to a topic is there once, as it was given, or an error says why not."""

import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from migrate.errors import BrokerError, ChangelogFailedError
from migrate.kafka import writer as writing
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer, end_in_record, produce
from migrate.stores.batch import ChangelogBatch
from tests.kafka.records import NOW, keys, records, write


def test_keys_values_timestamps_and_headers_come_back(connection: Connection, topic: str) -> None:
    batch = ChangelogBatch(
        keys=[b"a", b"b", b"c", b""],
        values=[b"1", None, b"", b"4"],
        timestamps=[NOW, -1, 0, 1],
        headers=[[("h", b"\0\xff")], [], [("n", None), ("n", b"2")], []],
    )
    assert write(connection, topic, batch, number=1) == 3
    (found,) = read(connection, topic, 1, 0, 4)
    assert (found.keys, found.values, found.headers) == (batch.keys, batch.values, batch.headers)
    assert found.timestamps == [NOW, -1, 1, 1], "the broker's clock must not replace any"
    assert list(found.offsets or ()) == [0, 1, 2, 3]


def test_nothing_is_written_for_no_record(connection: Connection, topic: str) -> None:
    assert write(connection, topic) is None
    assert write(connection, topic, records(0, 0)) is None


def test_a_partition_ends_in_a_record_that_is_written_once_more(
    connection: Connection, cluster: Cluster, topic: str
) -> None:
    batch = ChangelogBatch([b"a", b"b"], [b"1", None], [NOW, -1], [[], [("h", b"2")]])
    assert write(connection, topic, batch) == 1
    while cluster.ends_of(topic, 0).stable < 3:  # the marker comes a moment later
        time.sleep(0.01)
    assert end_in_record(connection, topic, 0, 1, 3) == 3
    # again, as after an attempt that was killed: there it is already; and where the first one was compacted away
    assert [end_in_record(connection, topic, 0, start, 4) for start in (1, 2)] == [3, 3]
    (found,) = (each for each in read(connection, topic, 0, 2, 4) if len(each))
    assert (found.keys, found.values, found.timestamps, found.headers) == ([b"b"], [None], [-1], [[("h", b"2")]])
    assert cluster.ends_of(topic, 0).end == 4


@pytest.mark.parametrize("limit", ["_TRANSACTION_BYTES", "_TRANSACTION_SECONDS"])
def test_transactions_end_when_they_are_large_or_old(
    connection: Connection, topic: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, limit, 0)
    monkeypatch.setattr(writing, "_LOOK_BYTES", 800)
    assert write(connection, topic, records(0, 55), records(55, 95)) == 94 + 9, "a marker for each ten records"
    assert keys(connection, topic, 0, 104) == list(range(95))


def test_a_full_queue_is_waited_for(connection: Connection, topic: str) -> None:
    small = Connection(connection.bootstrap, {"queue.buffering.max.messages": "100", "linger.ms": "0"})
    assert write(small, topic, records(0, 5000)) == 4999
    assert keys(connection, topic, 0, 5000) == list(range(5000))


def test_an_earlier_writer_of_the_id_can_write_no_more(connection: Connection, cluster: Cluster, topic: str) -> None:
    with Writer(connection, topic, 0, topic) as lost:
        lost.write(records(0, 10))
        lost._producer.flush()
        assert cluster.ends_of(topic, 0).stable == 0
        with Writer(connection, topic, 0, topic) as later:
            with pytest.raises(ChangelogFailedError, match=r"fenced by (a )?newer") as raised:
                for _ in range(3):  # the first one may only be queued
                    lost.write(records(10, 20))
                    lost.finish()
            assert "another attempt took over" in raised.value.hint
            later.write(records(20, 30))
            last = later.finish()
    assert last is not None
    assert keys(connection, topic, 0, last + 1) == list(range(20, 30))


def test_a_writer_that_was_fenced_meanwhile_says_so_at_once(connection: Connection, topic: str) -> None:
    with Writer(connection, topic, 0, topic) as lost:
        lost.write(records(0, 5))
        lost._producer.flush()
        with Writer(connection, topic, 0, topic):
            lost.write(records(5, 6))
            with pytest.raises(ChangelogFailedError, match=r"fenced by (a )?newer"):
                for number in range(6, 600):  # until the broker has answered
                    lost.write(records(number, number + 1))
                    time.sleep(0.1)


def test_what_a_killed_writer_left_open_ends_with_its_rerun(
    connection: Connection, cluster: Cluster, topic: str
) -> None:
    code = f"""if True:
        import os, signal
        from migrate.kafka.connection import Connection
        from migrate.kafka.writer import Writer
        from tests.kafka.records import records
        with Writer(Connection({connection.bootstrap!r}), {topic!r}, 0, {topic!r}) as writer:
            writer.write(records(0, 10))
            writer._producer.flush()
            os.kill(os.getpid(), signal.SIGKILL)"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    left = cluster.ends_of(topic, 0)
    assert (left.stable, left.end) == (0, 10)
    with Writer(connection, topic, 0, topic) as rerun:
        rerun.write(records(0, 12))
        assert rerun.finish() == 22, "after the marker that ends the open transaction"
    assert keys(connection, topic, 0, 23) == list(range(12))


def test_batches_are_no_larger_than_the_topic_takes(connection: Connection, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(f"{topic}-small", partitions=1, replication=1, settings={"max.message.bytes": "2000"})
    assert write(connection, f"{topic}-small", records(0, 500, size=100)) == 499
    produce(connection, f"{topic}-small", [(None, bytes(100))] * 500)
    with pytest.raises(ChangelogFailedError, match="Message size too large") as raised:
        write(connection, f"{topic}-small", records(500, 501, size=3000))
    assert "max.message.bytes" in raised.value.hint


def test_what_the_broker_refuses_is_not_taken_for_written(connection: Connection, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": connection.bootstrap})
    smaller = ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[smaller])
    with Writer(connection, topic, 0, topic) as writer:
        admin.incremental_alter_configs([change])[change].result()
        writer.write(records(0, 1, size=3000))
        with pytest.raises(ChangelogFailedError, match="Message size too large"):
            writer.finish()


def test_a_topic_or_a_partition_that_is_gone_is_named(connection: Connection, topic: str) -> None:
    for name, number in (("no-such-topic", 0), (topic, 2)):
        with pytest.raises(ChangelogFailedError, match=f"topic {name}, partition {number}.*no such partition"):
            write(connection, name, records(0, 1), number=number)


def test_records_go_to_any_partition_and_each_is_confirmed(
    connection: Connection, cluster: Cluster, topic: str
) -> None:
    written = [(b"%d" % number, b"value %d" % number) for number in range(100)]
    produce(connection, topic, written)
    ends = [cluster.ends_of(topic, number).end for number in range(2)]
    found = {
        key: value
        for number, end in enumerate(ends)
        for batch in read(connection, topic, number, 0, end)
        for key, value in zip(batch.keys, batch.values, strict=True)
    }
    assert (found, sum(ends)) == (dict(written), 100)
    produce(connection, topic, [(None, b"without a key")])
    assert sum(cluster.ends_of(topic, number).end for number in range(2)) == 101
    cluster.create_topic(f"{topic}-compacted", partitions=1, replication=1, settings={"cleanup.policy": "compact"})
    with pytest.raises(BrokerError, match=f"cannot write to topic {topic}-compacted"):
        produce(connection, f"{topic}-compacted", [(None, b"a compacted topic takes no record without a key")])
