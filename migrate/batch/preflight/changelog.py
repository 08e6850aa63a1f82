"""The checks at the broker, for a spec with a section `[changelog]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from migrate.batch.changelog.broker.checks import AtBroker
from migrate.batch.changelog.times import are_needed
from migrate.batch.context import Context
from migrate.batch.preflight.check import Check, Purpose
from migrate.model.reports import Doubt

_BROKER = ("source.found", "changelog.broker")
_TOPIC = ("changelog.topic",)
_PURPOSES: dict[str, tuple[Purpose, ...]] = {"missing": ("plan", "doctor"), "writer": ("run",)}
_WAITS = ("group", "transactions")
"""They fail until the application has stopped."""
_OF_THE_STOPPED = (*_WAITS, "repartition")

_Row = tuple[str, str, Callable[[], str | Doubt], tuple[str, ...]]
"""The name of a check, its claim, what makes it, and what it needs."""


def changelog_checks(context: Context, at: Callable[[], AtBroker], purpose: Purpose) -> Iterator[Check]:
    """The checks, in their order."""
    is_live = context.spec.run.source == "live"  # the application is stopped for the whole run
    for name, claim, run, needs in _rows(at, only_reads=purpose != "run", fence=context.fence):
        if name == "times" and not are_needed(context.spec, context.conversion):
            continue
        if is_live or name not in _OF_THE_STOPPED:
            check = Check(f"changelog.{name}", claim, run, needs, on_failure="waiting" if name in _WAITS else "failed")
            yield replace(check, purposes=_PURPOSES[name]) if name in _PURPOSES else check


def _rows(at: Callable[[], AtBroker], *, only_reads: bool, fence: bool) -> tuple[_Row, ...]:
    return (
        ("broker", "a broker answers", lambda: at().reachable(), ("source.found",)),
        ("group", "the application's group has no members", lambda: at().group(only_reads=only_reads), _BROKER[1:]),
        ("other-topics", "no other topic of the application holds what changes", lambda: at().other_topics(), _BROKER),
        ("topic", "the changelogs are there, with a partition for each task", lambda: at().topics(), _BROKER),
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
