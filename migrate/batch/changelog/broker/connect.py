"""How a command reaches the broker that its spec names, and what it means that the broker fails in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from migrate.errors import BrokerError, ChangelogFailedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection, read_connection
from migrate.spec.spec import Spec


def connection_of(spec: Spec) -> Connection:
    """How to reach the broker that the spec names. Raises SpecError."""
    assert spec.changelog is not None
    config = spec.changelog.config
    return read_connection(spec.changelog.bootstrap, None if config is None else spec.resolve(config))


def cluster_of(spec: Spec) -> Cluster:
    """The cluster that the spec names. Raises SpecError."""
    return Cluster(connection_of(spec))


@contextmanager
def failing_midway() -> Iterator[None]:
    """Raises a BrokerError of the block as ChangelogFailedError: the work has begun, and what is done is kept."""
    try:
        yield
    except BrokerError as error:
        raise ChangelogFailedError(error.message, hint=error.hint) from error
