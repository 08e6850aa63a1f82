"""The checks at the broker, by name, of a migration with `[changelog]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from migrate.batch.changelog.broker_checks import BrokerFacts
from migrate.batch.changelog.take_key_times import are_needed
from migrate.batch.context import Context
from migrate.batch.preflight.check import Check, Purpose
from migrate.model.reports import InconclusiveCheck

_BROKER = ("source.found", "changelog.broker")
_TOPIC = ("changelog.topic",)
_PURPOSES: dict[str, tuple[Purpose, ...]] = {"missing": ("plan", "doctor"), "writer": ("run",)}
_WAITS = ("group", "transactions")
"""They fail until the application has stopped."""
_OF_THE_STOPPED = (*_WAITS, "repartition")
_OF_AN_OLD_TOPIC = ("other-topics", "transactions", "position", "times", "settings", "target", "missing", "repartition")
"""What is not asked of a store that is made from rows."""
_Row = tuple[str, str, Callable[[], str | InconclusiveCheck], tuple[str, ...]]
"""The name of a check, its claim, what makes it, and what it needs."""


def changelog_checks(context: Context, at: Callable[[], BrokerFacts], purpose: Purpose) -> Iterator[Check]:
    """The checks, in their order."""
    left_out = set() if are_needed(context.spec, context.conversion) else {"times"}
    if context.spec.run.source != "live":  # else the application is stopped for the whole run
        left_out.update(_OF_THE_STOPPED)
    if context.spec.source.rows:
        left_out.update(_OF_AN_OLD_TOPIC)
    for name, claim, run, needs in _rows(context, at, purpose):
        if name not in left_out:
            check = Check(f"changelog.{name}", claim, run, needs, on_failure="waiting" if name in _WAITS else "failed")
            yield replace(check, purposes=_PURPOSES[name]) if name in _PURPOSES else check


def _rows(context: Context, at: Callable[[], BrokerFacts], purpose: Purpose) -> tuple[_Row, ...]:
    only_reads, fence = purpose != "run", context.fence
    topic = "the changelogs are there, with a partition for each task"
    if context.spec.source.rows:
        topic = "the new changelog is not there yet, or ours"
    return (
        ("broker", "a broker answers", lambda: at().reachable(), ("source.found",)),
        ("group", "the application's group has no members", lambda: at().group(only_reads=only_reads), _BROKER[1:]),
        ("other-topics", "no other topic of the application holds what changes", lambda: at().other_topics(), _BROKER),
        ("topic", topic, lambda: at().topics(), _BROKER),
        ("transactions", "no transaction is open in the changelogs", lambda: at().transactions(fence=fence), _TOPIC),
        ("position", "each store has its changelog's records, or can catch up", lambda: at().position(), _TOPIC),
        ("times", "the changelogs still tell the time of each key", lambda: at().times(), _TOPIC),
        ("settings", "the changelogs keep what is written to them", lambda: at().settings(), _TOPIC),
        ("target", "the new topics are not there yet, or ours", lambda: at().target(), _TOPIC),
        ("missing", "each partition with keys is here, or written by another host", lambda: at().missing(), _TOPIC),
        ("repartition", "no input waits under the old store's name", lambda: at().repartition(), _TOPIC),
        ("authorised", "the user may read, write and make the topics", lambda: at().authorised(), _TOPIC),
        ("writer", "the user may write in transactions", lambda: at().writer(), _TOPIC),
    )
