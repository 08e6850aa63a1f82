"""Migrations of state and its changelog at a broker, of any system, whose commands are killed again and again."""

from __future__ import annotations

import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, ClassVar, TypeVar

import click

from migrate.model.events import EVENTS
from tests.broker.broker import running_broker
from tests.kill.victim import Order
from tests.kill.zygote import Zygote
from tests.live.maven import ProgramError
from tests.shared.alternation import engine_of

MOST_KILLS = 3
"""How often one command is killed, at most."""
SHOWN = 4
"""In one of so many migrations the real application is started, too."""
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the migrations before."""

    calm: dict[str, float] = field(default_factory=dict)
    """How long each command takes in peace, in seconds."""
    left: dict[str, list[str]] = field(default_factory=dict)
    """The events of each command that are still to be killed at, before all of them are again."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A number of a migration, and what decides on its kills."""

    number: int
    folder: Path
    """Its own; the name is that of the application."""
    rng: Random
    zygote: Zygote
    known: Known


class KilledMigration(ABC):
    """One migration, whose commands are killed."""

    chains: ClassVar[tuple[tuple[str, ...], ...]]
    """Commands in their order, one chain for a migration; the last one has every command."""
    at: ClassVar[Mapping[str, tuple[str, ...]]]
    """The events that a command is killed at, or soon after, by their first word."""
    occurrences: ClassVar[tuple[int, ...]] = (1,)
    """At which time of an event: one of these."""
    file: Path
    """The spec."""

    def __init__(self, attempt: Attempt) -> None:
        self.kills: Counter[str] = Counter()
        self.rng = attempt.rng
        self.shows = attempt.number % SHOWN == 1
        """Whether the real application is started, too, on copies of what is there after a command."""
        self.chain = self.rng.choice(self.chains) if attempt.known.calm else self.chains[-1]
        self._zygote = attempt.zygote
        self._number, self._orders = attempt.number, 0
        self._known = attempt.known

    @abstractmethod
    def check_after_kill(self, verb: str) -> None:
        """Raises AssertionError."""

    @abstractmethod
    def check_after(self, verb: str) -> None:
        """Once it has ended. Raises AssertionError."""

    def go_on(self, seed: int) -> None:
        """What the application does before a catch-up, in chains that have one."""
        raise NotImplementedError

    def perform(self, kills: int) -> None:
        """The chain, with at most so many kills. Raises AssertionError."""
        for number, verb in enumerate(self.chain):
            if verb == "catch_up":
                self.go_on(number)
            most = min(kills - self.kills.total(), self.rng.randint(1, MOST_KILLS))
            for _ in range(most if verb in self.at else 0):
                if not self._is_killed(verb):
                    break
                self.check_after_kill(verb)
            else:
                started = time.monotonic()
                assert not self._dies(verb), f"{verb} was killed by somebody else"
                self._known.calm.setdefault(verb, time.monotonic() - started)
            self.check_after(verb)

    def _is_killed(self, verb: str) -> bool:
        """Whether it was, or else ended by itself, well."""
        at = self._next_event(verb)
        after = self._known.calm[verb] * self.rng.random() / 2 if self.rng.random() < 0.5 else None
        if not self._dies(verb, at=at, occurrence=self.rng.choice(self.occurrences), after=after):
            return False
        self.kills[f"{at}{'' if after is None else ' or later'}"] += 1
        return True

    def _next_event(self, verb: str) -> str:
        left = self._known.left
        if not left.get(verb):
            mine = [name for name in EVENTS if name.partition(".")[0] in self.at[verb]]
            left[verb] = self.rng.sample(mine, len(mine))
        return left[verb].pop()

    def _dies(self, verb: str, *, at: str | None = None, occurrence: int = 1, after: float | None = None) -> bool:
        log = self.file.with_name("log")
        log.unlink(missing_ok=True)
        self._orders += 1
        engine = engine_of(f"{self._number} {self._orders}")
        order = Order(str(self.file), verb, at=at, occurrence=occurrence, after=after, engine=engine)
        outcome = self._zygote.fulfil(order, log=log)
        assert not outcome.hung, f"{verb} hangs"
        if not outcome.killed:
            assert outcome.code == 0, f"{verb} ended with {outcome.code}: {log.read_text(encoding='utf-8')}"
        return outcome.killed


def kill_migrations(
    begin: Callable[[Attempt], KilledMigration],
    folder: Path,
    kills: int,
    seed: int,
    tell: Callable[[str], None] = lambda _: None,
) -> Counter[str]:
    """One after the other, until there were so many kills; how many at each event. Raises AssertionError."""
    counted: Counter[str] = Counter()
    known = Known()
    with Zygote() as zygote:
        for number in count():
            mine = folder.with_name(f"{folder.name}-{seed}-{number}")
            migration = begin(Attempt(number, mine, Random(seed + number), zygote, known))
            wanted = kills - counted.total() if number else 0  # the first one in peace, to see how long it takes
            try:
                migration.perform(wanted)
            except (AssertionError, ProgramError) as error:
                raise AssertionError(f"migration {number} of seed {seed}: {error}") from error
            counted += migration.kills
            tell(f"migration {number}: {counted.total()} kills so far")
            if counted.total() >= kills:
                return counted
    raise AssertionError


def options(kills: int, of: str | None = None) -> Callable[[_Command], _Command]:
    """Of a program that kills: `--kills`, so many by default, and `--seed`."""

    def decorated(command: _Command) -> _Command:
        count = click.option("--kills", type=click.IntRange(min=1), default=kills, show_default=True, help=of)
        seed = click.option("--seed", type=int, help="Of what is planned; a random one by default, which is printed.")
        return count(seed(command))

    return decorated


@contextmanager
def beginning(seed: int | None) -> Iterator[tuple[str, Path, int]]:
    """The address of a broker, a folder, and the seed, which is printed."""
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    click.echo(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder) / "broker") as broker:
        yield broker.bootstrap, Path(folder), seed


def show(counted: Counter[str]) -> None:
    """A line for each event that was killed at."""
    for name, number in sorted(counted.items()):
        click.echo(f"{name:<30} {number:>5}")
