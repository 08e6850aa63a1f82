"""Changelogs that cannot be migrated as things are at the broker: what the command says, and that nothing was done."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from migrate.errors import ExitCode
from migrate.kafka import cluster as kafka_client
from migrate.kafka.cluster import Cluster
from tests.bad_input.support import Migration, at_event
from tests.batch.changelog.support import NOW, App
from tests.broker.broker import USERS, Broker
from tests.shared.commands import Commands


@pytest.fixture
def app(request: pytest.FixtureRequest, broker: Broker, folder: Path) -> App:
    """An application of two tasks that was stopped, with its changelog."""
    name = "".join(
        each if each.isalnum() else "-" for each in request.node.name.rpartition("[")[2].removeprefix("test_")
    )
    return App(f"bad-{name.strip('-')}", folder, broker, count=20).make()


@pytest.fixture
def migration(app: App, commands: Commands) -> Migration:
    """Of its store and changelog, to a new topic."""
    migration = Migration(commands, app.base, app.base / app.name, dict(app.content))
    migration.module("""
        from dataclasses import replace
        def convert(record):
            return replace(record, value=record.value * 40)
    """)
    return migration


def _gone(app: App) -> None:
    with Cluster(app.connection) as cluster:
        topic = cluster.topic(app.topic)
        assert topic is not None
        cluster.delete_topic(topic)


def _made_again(app: App) -> None:
    _gone(app)
    with Cluster(app.connection) as cluster:
        cluster.create_topic(app.topic, partitions=1, replication=1, settings={})


def _foreign(app: App) -> None:
    with Cluster(app.connection) as cluster:
        cluster.create_topic(app.new_topic, partitions=2, replication=1, settings={})
    app.write(app.new_topic, 0, {b"key": (b"value", NOW)})


def _eaten(app: App) -> None:
    app.write(app.topic, 1, {b"new": (b"value", NOW)})
    _set(app, app.topic, "cleanup.policy", "compact,delete")
    admin = AdminClient({"bootstrap.servers": app.broker.bootstrap})
    admin.delete_records([TopicPartition(app.topic, 1, 25)])  # whose answer may come late
    with Cluster(app.connection) as cluster:
        while cluster.ends_of(app.topic, 1).start < 25:
            time.sleep(0.05)


def _set(app: App, topic: str, name: str, value: str) -> None:
    changed = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changed)
    admin = AdminClient({"bootstrap.servers": app.broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


@contextmanager
def _running(app: App) -> Iterator[None]:
    consumer = Consumer({"bootstrap.servers": app.broker.bootstrap, "group.id": app.name})
    consumer.subscribe([app.topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    yield
    consumer.close()


@contextmanager
def _left_open(app: App) -> Iterator[None]:
    producer = Producer({"bootstrap.servers": app.broker.bootstrap, "transactional.id": app.name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic=app.topic, partition=1, key=b"key", value=b"value")
    producer.flush()
    yield
    producer.abort_transaction()


@pytest.mark.parametrize(
    ("spoil", "said", "todo"),
    [
        (_gone, "the changelog TOPIC does not exist", "check [changelog] application_id"),
        (
            _made_again,
            "0_1/orders has partition 1 of TOPIC, which has only 1 partition",
            "the topic is not this application's",
        ),
        (_running, "the application runs: group APP has 1 member, on 127.0.0.1", "stop every instance"),
        (_left_open, "a transaction is open in TOPIC, partition 1, from offset 24 on", "wait until it ends"),
        (_foreign, "the topic NEW exists already, and this migration did not make it", "if nobody needs it, delete it"),
        (_eaten, "which begins at 25 by now: its retention has removed records", "start the old application"),
    ],
    ids=["topic-missing", "too-few-partitions", "group-alive", "transaction-open", "foreign-topic", "retention"],
)
def test_what_the_broker_has_is_refused(
    app: App,
    migration: Migration,
    spoil: Callable[[App], AbstractContextManager[None] | None],
    said: str,
    todo: str,
) -> None:
    names = {"TOPIC": app.topic, "NEW": app.new_topic, "APP": app.name}
    for word, name in names.items():
        said = said.replace(word, name)
    with spoil(app) or nullcontext():
        migration.refused(said, todo)


def test_a_user_without_rights_is_refused(app: App, migration: Migration, broker: Broker) -> None:
    lines = (f"{name}={value}\n" for name, value in broker.properties("guest").items())
    (app.base / "client.properties").write_text("".join(lines))
    migration.set("changelog", bootstrap=broker.secure_bootstrap, config="client.properties")
    migration.spec["changelog"].pop("application")
    outcome = migration.refused(
        f"cannot ask for group {app.name}", "Group authorization failed", "let the user of [changelog] config do that"
    )
    assert USERS["guest"] not in outcome.err


def test_no_broker_is_refused(app: App, migration: Migration, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "REACH_SECONDS", 1)
    migration.set("changelog", bootstrap="localhost:1")
    migration.refused("cannot reach the broker at localhost:1", "Connection refused", "that the broker runs")


def test_a_broker_that_is_lost_in_the_middle(app: App, migration: Migration, broker: Broker) -> None:
    lose = at_event("changelog.opened", f"import os; os.killpg({broker.process.pid}, {int(signal.SIGSTOP)})")
    soon = f"import {kafka_client.__name__} as client; client.REQUEST_SECONDS = client.REACH_SECONDS = 1\n"
    try:
        migration.fails(
            ExitCode.FAILED, f"at {broker.bootstrap}: ", "imed out", "that the broker runs", before=soon + lose
        )
    finally:
        broker.resume()
    assert migration.run().code == ExitCode.DONE


def test_records_that_are_too_large_for_the_topic(app: App, migration: Migration) -> None:
    _set(app, app.topic, "max.message.bytes", "500")
    migration.fails(
        ExitCode.FAILED,
        f"cannot write to topic {app.new_topic}, partition 0",
        "Message size too large",
        "raise max.message.bytes",
    )
    _set(app, app.new_topic, "max.message.bytes", "5000")
    assert migration.run().code == ExitCode.DONE
