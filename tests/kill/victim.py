"""One command of one migration, or a processor on the lazy adapter, in a process that is killed.

By itself at an event, by its own timer soon after one, or from outside.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from migrate.model.events import Event
    from tests.shared.alternation import Name

WRITE = "write"
"""In place of a command: write to the stores of the lazy adapter in the folder `spec`."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a victim does, and when it dies: never, where neither `at` nor `after` says so."""

    spec: str
    command: str
    events: str | None = None
    """The file that every event's name is appended to."""
    at: str | None = None
    occurrence: int = 1
    after: float | None = None
    """Seconds until it is killed: from its beginning, from outside, or from the event that it dies at."""
    seed: int = 0
    """Of what is written."""
    engine: Name = "portable"
    """The one that it prefers."""
    two: bool = False
    """Whether the old store and the new one are two databases."""

    @property
    def is_killed_from_outside(self) -> bool:
        return self.after is not None and self.at is None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a victim ended."""

    killed: bool
    code: int
    """Of a victim that ended by itself; less than zero where it died of a signal."""
    hung: bool = False


class Victims(Protocol):
    """Makes a victim of each order, one at a time."""

    def fulfil(self, order: Order, *, log: Path) -> Outcome:
        """Let a victim live and die; `log` gets what it prints."""
        ...


@dataclass(slots=True)
class Suicide:
    """A listener that writes down every event, and kills its process, with no time for anything, at one of them."""

    order: Order
    seen: Counter[str] = field(default_factory=Counter)

    def __call__(self, event: Event) -> None:
        self.note(event.name)

    def note(self, name: str) -> None:
        """An event by its name."""
        self.seen[name] += 1
        is_last = name == self.order.at and self.seen[name] == self.order.occurrence
        if self.order.events is not None:
            _append(self.order.events, name, durably=is_last)
        if is_last and self.order.after is not None:
            signal.setitimer(signal.ITIMER_REAL, self.order.after)  # SIGALRM ends a process as SIGKILL does
        elif is_last:
            os.kill(os.getpid(), signal.SIGKILL)


def _append(file: str, line: str, *, durably: bool) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line.encode() + b"\n")
        if durably:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def perform(order: Order) -> int:
    """The exit code of the command, where it lives to see it. Imports only here: its caller may want to fork first."""
    from migrate.batch.ledger import table as shared_commits
    from migrate.batch.steps import comparisons as verify_ranges
    from migrate.errors import MigrationError
    from migrate.spec.spec import load_spec
    from tests.shared.alternation import prefer

    prefer(order.engine)
    verify_ranges.SECONDS_BETWEEN_COMMITS = 0.0  # a small store's verification is over before it would commit ranges
    if order.at != "chunk.finished":  # a kill there finds the chunks that ended before it waiting for their commit
        shared_commits.PACE = shared_commits.Pace(0.0, 0.0)

    if order.command == WRITE:
        from tests.kill.writer import write_without_end

        write_without_end(Path(order.spec), order.seed, Suicide(order).note, two=order.two)
    command = cast("Callable[..., object]", getattr(importlib.import_module("migrate"), order.command))
    try:
        command(load_spec(order.spec), on_event=Suicide(order))
    except MigrationError as error:
        print(f"{type(error).__name__}: {error.message}\nnext: {error.hint}", file=sys.stderr)
        return int(error.exit_code)
    except Exception:  # noqa: BLE001 - a bug, whichever it is, is told as such
        traceback.print_exc()
        return 1
    return 0
