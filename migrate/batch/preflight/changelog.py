"""The checks at the broker, for a spec with a section `[changelog]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from migrate.batch.changelog.broker.checks import AtBroker
from migrate.batch.preflight.check import Check


def changelog_checks(at: Callable[[], AtBroker], *, is_live: bool, fence: bool) -> Iterator[Check]:
    """The checks, in their order. `is_live`: the application is stopped for the whole run, not only at the cut-over."""
    broker, topic = ("source.found", "changelog.broker"), ("changelog.topic",)
    yield Check("changelog.broker", "a broker answers", lambda: at().reachable(), ("source.found",))
    if is_live:
        yield Check(
            "changelog.group",
            "the application's group has no members",
            lambda: at().group(),
            ("changelog.broker",),
            on_failure="waiting",
        )
    yield Check(
        "changelog.topic",
        "the changelogs are there, with a partition for each task",
        lambda: at().topics(),
        broker,
    )
    if is_live:
        yield Check(
            "changelog.transactions",
            "no transaction is open in the changelogs",
            lambda: at().transactions(fence=fence),
            topic,
            on_failure="waiting",
        )
    yield Check(
        "changelog.position",
        "each store has its changelog's records, or can catch up",
        lambda: at().position(),
        topic,
    )
    yield from _of_what_is_written(at, topic, is_live=is_live)


def _of_what_is_written(at: Callable[[], AtBroker], topic: tuple[str, ...], *, is_live: bool) -> Iterator[Check]:
    yield Check(
        "changelog.settings",
        "the changelogs keep what is written to them",
        lambda: at().settings(),
        topic,
    )
    yield Check(
        "changelog.target",
        "the new topics are not there yet, or ours",
        lambda: at().target(),
        topic,
    )
    if is_live:
        yield Check(
            "changelog.repartition",
            "no input waits under the old store's name",
            lambda: at().repartition(),
            topic,
        )
    yield Check(
        "changelog.authorised",
        "the user may read, write and make the topics",
        lambda: at().authorised(),
        topic,
    )
    yield Check(
        "changelog.writer",
        "the user may write in transactions",
        lambda: at().writer(),
        topic,
        purposes=("run",),
    )
