"""A topic for each test, and records for it."""

from collections.abc import Iterator
from itertools import count

import pytest

from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection, read_connection
from tests.broker.broker import Broker

_NUMBERS = count()


@pytest.fixture
def connection(broker: Broker) -> Connection:
    return read_connection(broker.bootstrap, None)


@pytest.fixture
def cluster(connection: Connection) -> Iterator[Cluster]:
    with Cluster(connection) as opened:
        yield opened


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A new topic of two partitions."""
    name = f"topic-{next(_NUMBERS)}"
    cluster.create_topic(name, partitions=2, replication=1, settings={"retention.ms": "-1"})
    return name
