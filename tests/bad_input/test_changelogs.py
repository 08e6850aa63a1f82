"""Changelogs that cannot be migrated as things are at the broker: what the command says, and that nothing was done."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from migrate.errors import ExitCode
from migrate.kafka import cluster as kafka_client
from migrate.kafka.cluster import Cluster
from tests.bad_input.support import Migration, at_event
from tests.batch.changelog.support import App
from tests.broker.broker import Broker
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


def _set(app: App, topic: str, name: str, value: str) -> None:
    changed = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changed)
    admin = AdminClient({"bootstrap.servers": app.broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


@pytest.mark.parametrize(
    ("spoil", "said", "todo"),
    [
        (_gone, "the changelog {} does not exist", "check [changelog] application_id"),
        (_made_again, "partition 1 of {}, which has only 1 partition", "the topic is not this application's"),
    ],
    ids=["topic-missing", "too-few-partitions"],
)
def test_what_the_broker_has_is_refused(
    app: App, migration: Migration, spoil: Callable[[App], None], said: str, todo: str
) -> None:
    spoil(app)
    migration.refused(said.format(app.topic), todo)


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
