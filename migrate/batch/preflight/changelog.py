"""The checks at the broker, for a spec with a section `[changelog]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from migrate.batch.changelog.broker.checks import AtBroker
from migrate.batch.changelog.times import are_needed
from migrate.batch.context import Context
from migrate.batch.preflight.check import Check, Purpose

_BROKER = ("source.found", "changelog.broker")
_TOPIC = ("changelog.topic",)


def changelog_checks(context: Context, at: Callable[[], AtBroker], purpose: Purpose) -> Iterator[Check]:
    """The checks, in their order."""
    is_live = context.spec.run.source == "live"  # the application is stopped for the whole run
    for check in (*_of_the_application(at, purpose), *_of_topics(context, at), *_of_the_user(at)):
        if check.name == "changelog.times" and not are_needed(context.spec, context.conversion):
            continue
        waits = check.name in ("changelog.group", "changelog.transactions")  # for the application to stop
        if is_live or not (waits or check.name == "changelog.repartition"):
            yield replace(check, on_failure="waiting") if waits else check


def _of_the_application(at: Callable[[], AtBroker], purpose: Purpose) -> tuple[Check, ...]:
    only_reads = purpose != "run"
    return (
        Check("changelog.broker", "a broker answers", lambda: at().reachable(), ("source.found",)),
        Check(
            "changelog.group",
            "the application's group has no members",
            lambda: at().group(only_reads=only_reads),
            _BROKER[1:],
        ),
        Check(
            "changelog.other-topics",
            "no other topic of the application holds what changes",
            lambda: at().other_topics(),
            _BROKER,
        ),
    )


def _of_topics(context: Context, at: Callable[[], AtBroker]) -> tuple[Check, ...]:
    return (
        Check(
            "changelog.topic",
            "the changelogs are there, with a partition for each task",
            lambda: at().topics(),
            _BROKER,
        ),
        Check(
            "changelog.transactions",
            "no transaction is open in the changelogs",
            lambda: at().transactions(fence=context.fence),
            _TOPIC,
        ),
        Check(
            "changelog.position",
            "each store has its changelog's records, or can catch up",
            lambda: at().position(),
            _TOPIC,
        ),
        Check("changelog.times", "the changelogs still tell the time of each key", lambda: at().times(), _TOPIC),
        Check("changelog.settings", "the changelogs keep what is written to them", lambda: at().settings(), _TOPIC),
        Check("changelog.target", "the new topics are not there yet, or ours", lambda: at().target(), _TOPIC),
        Check(
            "changelog.missing",
            "each partition with keys is here, or written by another host",
            lambda: at().missing(),
            _TOPIC,
            purposes=("plan", "doctor"),
        ),
        Check("changelog.repartition", "no input waits under the old store's name", lambda: at().repartition(), _TOPIC),
    )


def _of_the_user(at: Callable[[], AtBroker]) -> tuple[Check, ...]:
    return (
        Check(
            "changelog.authorised", "the user may read, write and make the topics", lambda: at().authorised(), _TOPIC
        ),
        Check(
            "changelog.writer", "the user may write in transactions", lambda: at().writer(), _TOPIC, purposes=("run",)
        ),
    )
