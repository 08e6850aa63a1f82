"""How a command reaches the broker of its spec, what a failure in the middle means, and what records a topic has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from migrate.errors import BrokerError, ChangelogFailedError, RefusedError, SpecError
from migrate.kafka.cluster import Cluster, Ends
from migrate.kafka.connection import Connection, read_connection
from migrate.kafka.reader import read
from migrate.model.changelogs import Changelog
from migrate.model.reports import Behind
from migrate.spec.mistakes import checked_bootstrap
from migrate.spec.spec import Spec

_AT_ONCE = 8
"""Questions to the broker."""
MOST_COUNTED = 100_000
"""A longer tail is not read: its offsets say how many records it has at most."""
_PATIENCE_SECONDS = 60.0
"""The end of a transaction shows a moment after its commit."""
_Subject = TypeVar("_Subject")
_Answer = TypeVar("_Answer")


def connection_of(spec: Spec) -> Connection:
    """How to reach the broker that the spec names. Raises SpecError."""
    assert spec.changelog is not None
    config = spec.changelog.config
    return read_connection(spec.changelog.bootstrap, None if config is None else spec.resolve(config))


def connection_by_options(bootstrap: str, config: str | None) -> Connection:
    """How to reach the broker that a command line names. Raises SpecError."""
    try:
        checked_bootstrap(bootstrap)
    except ValueError as error:
        raise SpecError(f"--bootstrap: {error}", hint="name it: --bootstrap HOST:PORT") from None
    return read_connection(bootstrap, None if config is None else Path(config))


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


def has_records(connection: Connection, topic: str, number: int, start: int, end: int) -> bool:
    """Whether a consumer would find a record there; markers of transactions are none."""
    return any(map(len, read(connection, topic, number, start, end)))


def asked_at_once(ask: Callable[[_Subject], _Answer], every: Iterable[_Subject]) -> list[_Answer]:
    """What the broker answers about each, in their order; waiting for one answer does not hold back the others."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(ask, every))


def settled(cluster: Cluster, changelog: Changelog) -> Ends:
    """Where the new topic's partition ends, once no transaction is open there. Raises ChangelogFailedError."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        ends = cluster.ends_of(changelog.new_topic, changelog.number)
        if ends.stable >= ends.end:
            return ends
        if time.monotonic() > deadline:
            raise ChangelogFailedError(
                f"a transaction is open in {changelog.new_topic}, partition {changelog.number}, from offset "
                f"{ends.stable} on",
                hint="whose is it? once it has ended (transaction.timeout.ms), run the same command again",
            )
        time.sleep(0.1)


def expired_before(cluster: Cluster, name: str) -> int | None:
    """The time before which the topic's retention may have removed records; None: it removes none."""
    topic = cluster.topic(name)
    age = None if topic is None else topic.removes_after_ms
    return None if age is None else int(time.time() * 1000) - age


def tail_after(connection: Connection, each: Changelog, position: int | None, ends: Ends) -> Behind:
    """What a consumer reads after a position: counted where that takes no second, else at most."""
    start = max(position or 0, ends.start)
    offsets = ends.stable - start
    if offsets <= 0:
        return Behind()
    if offsets > MOST_COUNTED:
        return Behind(records=offsets, is_most=True)
    return Behind(records=sum(map(len, read(connection, each.topic, each.number, start, ends.stable))))


def total_of(tails: Iterable[Behind]) -> Behind:
    """The tails of several changelogs together."""
    every = list(tails)
    return Behind(records=sum(each.records for each in every), is_most=any(each.is_most for each in every))
