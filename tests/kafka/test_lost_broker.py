"""A broker that ends, or answers no more, is given up after a time: nothing hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from migrate.errors import BrokerError, ChangelogFailedError
from migrate.kafka import cluster as asking
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from tests.broker.broker import Broker, require_broker, running_broker
from tests.kafka.records import records, write


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    require_broker()
    with running_broker(tmp_path) as running:
        yield running


def test_reading_writing_and_asking_end(own_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "REQUEST_SECONDS", 1.0)
    connection = Connection(own_broker.bootstrap, {"queue.buffering.max.messages": "100"})
    with Cluster(connection) as cluster:
        cluster.create_topic("t", partitions=1, replication=1, settings={})
        write(connection, "t", records(0, 10))
        batches = read(connection, "t", 0, 0, 1000, patience=1)
        assert len(next(batches)) == 10
        with Writer(connection, "t", 0, "t", patience=1) as writer:
            writer.write(records(10, 20))

            own_broker.pause()
            with pytest.raises(BrokerError, match=r"ask for topic t.*[Tt]imed out"):
                cluster.ends("t", [0])
            own_broker.kill()

            since = time.monotonic()
            with pytest.raises(BrokerError, match="ask for topic t"):
                cluster.topic("t")
            with pytest.raises(ChangelogFailedError, match=r"read topic t, partition 0,.*Connection refused") as raised:
                list(batches)
            assert "that the broker runs" in raised.value.hint
            with pytest.raises(ChangelogFailedError, match="write to topic t, partition 0,"):
                writer.write(records(20, 200))
                writer.finish()
    with pytest.raises(BrokerError, match=r"reach the broker.*Connection refused"), Cluster(connection):
        pass
    assert time.monotonic() - since < 30
