"""What a cluster says about topics, groups and rights, and what it lets be changed."""

import re
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from migrate.errors import BrokerError, ChangelogFailedError
from migrate.kafka.cluster import Cluster, Committed, Ends, Topic, _metadata
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from tests.broker.broker import Broker
from tests.broker.rights import allow
from tests.kafka.records import keys, records, write
from tests.kafka.streams_group import join


def test_a_topic_is_described_with_its_own_settings(cluster: Cluster) -> None:
    settings = {"cleanup.policy": "compact,delete", "max.message.bytes": "5000"}
    made = cluster.create_topic("described", partitions=3, replication=1, settings=settings)
    assert made == cluster.topic("described") == Topic("described", made.id, 3, 1, settings, 1, 5000, 604_800_000)
    assert cluster.topic("no-such-topic") is None
    assert cluster.ends("described", [0, 2]) == {0: Ends(0, 0, 0), 2: Ends(0, 0, 0)}
    with pytest.raises(BrokerError, match="there is no topic no-such-topic"):
        cluster.ends("no-such-topic", [0])


def test_only_the_very_topic_is_deleted(cluster: Cluster) -> None:
    first = cluster.create_topic("deleted", partitions=1, replication=1, settings={})
    with pytest.raises(BrokerError, match=r"create topic deleted.*already exists") as raised:
        cluster.create_topic("deleted", partitions=1, replication=1, settings={})
    assert "see whose it is" in raised.value.hint
    cluster.delete_topic(first)
    cluster.delete_topic(first)
    assert cluster.topic("deleted") is None
    second = cluster.create_topic("deleted", partitions=1, replication=1, settings={})
    with pytest.raises(BrokerError, match=re.escape(f"its ID is {second.id}, not {first.id}")):
        cluster.delete_topic(first)
    assert cluster.topic("deleted") == second


def test_an_open_transaction_is_seen_and_can_be_ended(connection: Connection, cluster: Cluster, topic: str) -> None:
    write(connection, topic, records(0, 5))
    with Writer(connection, topic, 0, "of-an-application") as application:
        application.write(records(5, 8))
        application._producer.flush()
        assert cluster.ends(topic, [0]) == {0: Ends(start=0, stable=6, end=9)}
        cluster.abort_transactions("of-an-application")
        assert keys(connection, topic, 0, 10) == [0, 1, 2, 3, 4]
        assert cluster.ends(topic, [0]) == {0: Ends(start=0, stable=10, end=10)}
        with pytest.raises(ChangelogFailedError):
            application.finish()
    cluster.abort_transactions("of-an-application")  # there is none


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_a_group_are_named_and_keep_its_offsets(
    connection: Connection, cluster: Cluster, topic: str, protocol: str
) -> None:
    group = f"members-{protocol}"
    assert (cluster.group(group).state, cluster.committed(group)) == ("DEAD", {})
    ours = {"group.id": group, "group.protocol": protocol, "client.id": "one-of-them"}
    member = Consumer(connection.settings(ours))
    member.subscribe([topic])
    while not member.assignment():
        member.poll(0.1)
    found = cluster.group(group)
    assert (found.state, found.protocol, [each.client for each in found.members]) == (
        "STABLE",
        protocol,
        ["one-of-them"],
    )
    with pytest.raises(BrokerError, match=f"set the offsets of group {group}") as raised:
        cluster.set_committed(group, {(topic, 0): Committed(1)})
    assert "stop every instance" in raised.value.hint
    assert cluster.has_members(group) is None
    member.commit(offsets=[TopicPartition(topic, 0, 5, "AgAAAYvPeoAA", 3)], asynchronous=False)
    assert cluster.has_members(group)
    member.close()
    assert cluster.has_members(group) is False
    assert cluster.committed(group) == {(topic, 0): Committed(5, "AgAAAYvPeoAA", 3)}
    assert (cluster.group(group).state, cluster.group(group).members) == ("EMPTY", ())


def test_a_group_of_a_protocol_that_cannot_be_asked_for_is_not_taken_for_an_empty_one(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    offsets = {(topic, 0): Committed(5, "AgAAAYvPeoAA", 3)}
    cluster.set_committed("streams", offsets)
    assert cluster.has_members("streams") is False
    join(broker.bootstrap, "streams", topic)
    found = cluster.group("streams")
    assert (found.state, found.protocol) == ("UNKNOWN", "unknown")
    assert cluster.has_members("streams")
    assert cluster.committed("streams") == offsets


def test_who_may_not_commit_does_not_find_out_about_members(broker: Broker, cluster: Cluster, topic: str) -> None:
    cluster.set_committed("not-mine", {(topic, 0): Committed(5)})
    allow(broker, {("GROUP", "not-mine"): ["DESCRIBE"], ("TOPIC", topic): ["DESCRIBE"]})
    with Cluster(Connection(broker.secure_bootstrap, broker.properties("worker"))) as worker:
        with pytest.raises(BrokerError, match="Group authorization failed") as raised:
            worker.has_members("not-mine")
        assert "docs/changelogs.md" in raised.value.hint
        allow(broker, {("GROUP", "not-mine"): ["READ"]})
        with pytest.raises(BrokerError, match="Topic authorization failed"):
            worker.has_members("not-mine")
        allow(broker, {("TOPIC", topic): ["READ"]})
        assert worker.has_members("not-mine") is False


def test_a_group_that_is_not_there_is_not_made_by_asking_for_its_members(cluster: Cluster) -> None:
    assert cluster.has_members("never-there") is None
    assert cluster.group("never-there").state == "DEAD"


def test_committed_offsets_come_back_with_their_metadata(cluster: Cluster, topic: str) -> None:
    offsets = {(topic, 0): Committed(5, "AgAAAYvPeoAA"), (topic, 1): Committed(0)}
    cluster.set_committed("metadata", offsets)
    assert cluster.committed("metadata") == offsets
    cluster.set_committed("metadata", {(topic, 1): Committed(7)})
    assert cluster.committed("metadata") == {**offsets, (topic, 1): Committed(7)}


@pytest.mark.parametrize("code", [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR])
def test_a_coordinator_that_is_not_ready_is_asked_again(
    cluster: Cluster, topic: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, refusals = cluster._admin.list_consumer_group_offsets, [code]

    def refuse_once(asked: list[Any], **more: float) -> Mapping[str, Future[Any]]:
        if not refusals:
            answers: Mapping[str, Future[Any]] = request(asked, **more)
            return answers
        refused: Future[Any] = Future()
        refused.set_exception(KafkaException(KafkaError(refusals.pop())))
        return {"late": refused}

    cluster.set_committed(topic, {(topic, 0): Committed(3)})
    admin = SimpleNamespace(list_consumer_group_offsets=refuse_once, poll=cluster._admin.poll)
    monkeypatch.setattr(cluster, "_admin", admin)
    assert cluster.committed(topic) == {(topic, 0): Committed(3)}
    monkeypatch.setattr("migrate.kafka.cluster.REQUEST_SECONDS", -1.0)
    refusals.append(code)
    with pytest.raises(BrokerError, match=f"ask for the offsets of group {topic}"):
        cluster.committed(topic)


@dataclass
class OfLibrdkafka:
    """Its metadata is decoded when it is asked for, as that of a `TopicPartition` is."""

    raw: bytes

    @property
    def metadata(self) -> str:
        return self.raw.decode()


@pytest.mark.parametrize("garbage", [b"", b"+\x7f", b"x", b"\0", b"\xdb", b"\xc3\xa9\xff"])
@pytest.mark.parametrize("metadata", ["", "AgAAAYvPeoAA", "AgAAAYvPeg==", "AgAAAYvPeoA="])
def test_garbage_behind_metadata_is_metadata_off(metadata: str, garbage: bytes) -> None:
    assert _metadata(cast(TopicPartition, OfLibrdkafka(metadata.encode() + garbage))) == metadata


def test_what_a_user_may_not_do_is_named(broker: Broker, cluster: Cluster, topic: str) -> None:
    write(Connection(broker.bootstrap), topic, records(0, 3))
    described = cluster.topic(topic)
    assert described is not None
    connection = Connection(broker.secure_bootstrap, broker.properties("guest"))
    with Cluster(connection) as guest:
        for doing, what in (
            (f"ask for topic {topic}", lambda: guest.topic(topic)),
            (f"ask for topic {topic}", lambda: guest.ends(topic, [0])),
            (f"ask for topic {topic}", lambda: guest.delete_topic(described)),
            ("create topic new", lambda: guest.create_topic("new", partitions=1, replication=1, settings={})),
            ("ask for group any", lambda: guest.group("any")),
            ("ask for the offsets of group any", lambda: guest.committed("any")),
            ("set the offsets of group any", lambda: guest.set_committed("any", {(topic, 0): Committed(1)})),
            ("end the transactions of any", lambda: guest.abort_transactions("any")),
        ):
            with pytest.raises(BrokerError, match=f"cannot {doing} .*uthorization failed") as raised:
                what()
            assert "docs/changelogs.md" in raised.value.hint
    with pytest.raises(ChangelogFailedError, match="Topic authorization failed"):
        list(read(connection, topic, 0, 0, 3))
    with pytest.raises(ChangelogFailedError, match="Topic authorization failed"):
        write(connection, topic, records(0, 3))


def test_few_rights_suffice_to_read_and_to_write(broker: Broker, connection: Connection, topic: str) -> None:
    its = {
        ("TOPIC", topic): ["READ", "DESCRIBE_CONFIGS", "WRITE"],
        ("TRANSACTIONAL_ID", f"writer-of-{topic}"): ["WRITE"],
    }
    allow(broker, its)
    worker = Connection(broker.secure_bootstrap, broker.properties("worker"))
    write(worker, topic, records(0, 3))
    assert keys(worker, topic, 0, 4) == [0, 1, 2], "without a right for a group"
    with Cluster(worker) as opened:
        assert opened.authorised(topic) == {"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"}
        assert opened.topic(topic) is not None


def test_a_wrong_password_is_said_at_once_and_not_shown(broker: Broker) -> None:
    properties = {**broker.properties("guest"), "sasl.password": "not-the-one"}
    connection = Connection(broker.secure_bootstrap, properties, ("not-the-one",))
    since = time.monotonic()
    with pytest.raises(BrokerError, match=r"reach the broker.*Invalid username or password") as raised:
        Cluster(connection).__enter__()
    assert time.monotonic() - since < 120
    assert "the password" in raised.value.hint
    assert "not-the-one" not in f"{raised.value}{connection}{connection!r}"
