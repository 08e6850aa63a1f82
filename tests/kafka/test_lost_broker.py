"""A broker's limits are kept to; a topic that ends is not made anew; a broker that answers no more is given up."""

import socket
import time
from collections.abc import Iterator

import pytest

from migrate.errors import BrokerError, ChangelogFailedError
from migrate.kafka import cluster as asking
from migrate.kafka.claims import Claim, change_claims, read_claims
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from tests.broker.broker import Broker, require_broker, running_broker
from tests.kafka.records import keys, records, write


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that makes each topic that a client asks for, as brokers do by default, and allows no long transactions."""
    require_broker()
    settings = "auto.create.topics.enable=true\ntransaction.max.timeout.ms=10000\n"
    settings += "transaction.abort.timed.out.transaction.cleanup.interval.ms=200\n"
    with running_broker(tmp_path_factory.mktemp("own"), settings=settings) as running:
        yield running


@pytest.mark.parametrize("properties", [{}, {"socket.timeout.ms": "60000", "delivery.timeout.ms": "120000"}])
def test_transactions_end_within_the_broker_s_limit(own_broker: Broker, properties: dict[str, str]) -> None:
    connection = Connection(own_broker.bootstrap, properties)
    topic = f"limited-{len(properties)}"
    with Cluster(connection) as cluster:
        cluster.create_topic(topic, partitions=1, replication=1, settings={})
        cluster.abort_transactions("fenced")
    with Writer(connection, topic, 0, topic) as writer:
        for first in range(0, 200, 20):
            writer.write(records(first, first + 20))
            time.sleep(0 if properties else 1.1)  # in all longer than the limit
        last = writer.finish()
    assert last is not None
    assert properties or last == 199 + 9, "each second is a transaction of its own, which ends in a marker"
    assert keys(connection, topic, 0, last + 1) == list(range(200))
    claim = Claim(digest="d", owner="o", host="h", state="writing")
    assert change_claims(connection, topic, lambda _: {(topic, 0): claim}) == {(topic, 0): claim}
    assert read_claims(connection, topic) == {(topic, 0): claim}


def test_a_topic_that_was_removed_is_not_made_anew(own_broker: Broker) -> None:
    connection = Connection(own_broker.bootstrap)
    with Cluster(connection) as cluster:
        topic = cluster.create_topic("gone", partitions=1, replication=1, settings={})
        with Writer(connection, "gone", 0, "gone", patience=5) as writer:
            cluster.delete_topic(topic)
            writer.write(records(0, 10))
            with pytest.raises(ChangelogFailedError, match="write to topic gone, partition 0,"):
                writer.finish()
        with pytest.raises(ChangelogFailedError, match="Unknown topic"):
            list(read(connection, "gone", 0, 0, 10, patience=5))
        assert cluster.topic("gone") is None
        assert cluster.authorised("gone") is None
        assert cluster.topic("gone") is None


def test_reading_writing_and_asking_end(own_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(own_broker.bootstrap, {"queue.buffering.max.messages": "100"})
    with Cluster(connection) as cluster:
        cluster.create_topic("t", partitions=1, replication=1, settings={})
        write(connection, "t", records(0, 10))
        batches = read(connection, "t", 0, 0, 1000, patience=5)
        assert len(next(batches)) == 10
        with Writer(connection, "t", 0, "t", patience=5) as writer:
            writer.write(records(10, 20))
            for name in ("REQUEST_SECONDS", "REACH_SECONDS"):
                monkeypatch.setattr(asking, name, 1.0)
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
    assert time.monotonic() - since < 120


def test_an_unreachable_broker_is_said_soon_and_another_one_of_the_list_is_asked(broker: Broker) -> None:
    assert asking.REACH_SECONDS <= 15
    with Cluster(Connection(f"localhost:1,{broker.bootstrap}")) as cluster:
        assert cluster.topic("nowhere") is None


def test_a_broker_that_takes_connections_and_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "REACH_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(BrokerError, match=f"reach the broker at {place}") as raised, Cluster(Connection(place)):
            pass
        with pytest.raises(BrokerError, match=f"reach the broker at {place}"):
            read_claims(Connection(place), "any")
    assert "check [changelog] bootstrap or --bootstrap" in raised.value.hint
