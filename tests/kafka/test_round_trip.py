"""Records written to a topic are read back as they are."""

from __future__ import annotations

from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import read_connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.stores.changelog_batch import ChangelogBatch
from tests.broker.broker import Broker

NOW = 1_700_000_000_000


def test_keys_values_timestamps_and_headers_come_back(broker: Broker) -> None:
    connection = read_connection(broker.bootstrap, None)
    batch = ChangelogBatch(
        keys=[b"a", b"b", b"c", b""],
        values=[b"1", None, b"", b"4"],
        timestamps=[NOW, -1, 0, 1],
        headers=[[("h", b"\0\xff")], [], [("n", None), ("n", b"2")], []],
    )
    with Cluster(connection) as cluster:
        cluster.create_topic("round-trip", partitions=2, replication=1, settings={"cleanup.policy": "compact"})
        with Writer(connection, "round-trip", 1, "round-trip") as writer:
            writer.write(batch)
            assert writer.finish() == 3
    (found,) = read(connection, "round-trip", 1, 0, 4)
    assert (found.keys, found.values, found.headers) == (batch.keys, batch.values, batch.headers)
    assert found.timestamps == [NOW, -1, 1, 1]
    assert found.offsets == [0, 1, 2, 3]
