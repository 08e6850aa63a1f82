"""How a command reaches the broker that its spec names, and what it means that the broker fails in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from migrate.errors import BrokerError, ChangelogFailedError, RefusedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection, read_connection
from migrate.spec.spec import Spec


def connection_of(spec: Spec) -> Connection:
    """How to reach the broker that the spec names. Raises SpecError."""
    assert spec.changelog is not None
    config = spec.changelog.config
    return read_connection(spec.changelog.bootstrap, None if config is None else spec.resolve(config))


def cluster_of(spec: Spec, written: str = "the changelogs are written") -> Cluster:
    """The cluster that the spec names. Raises SpecError; and RefusedError, which says what was `written`, for none."""
    if spec.changelog is None:
        text = f"{written}, and the spec no longer says where they are"
        raise RefusedError(text, hint="restore [changelog] in the spec")
    return Cluster(connection_of(spec))


@contextmanager
def half_done(what: str = "") -> Iterator[None]:
    """Raises what the broker does not do, once the work has begun, as ChangelogFailedError: what is done is kept.

    `what`: what is half done, which the message begins with.
    """
    try:
        yield
    except (BrokerError, ChangelogFailedError) as error:
        message, hint = (f"{what}: ", "; a rerun resumes") if what else ("", "")
        raise ChangelogFailedError(f"{message}{error.message}", hint=f"{error.hint}{hint}") from error
