"""Which migration is killed where: planned in advance, from the seed alone."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, pairwise
from random import Random

from migrate.model.events import EVENTS
from tests.kill.scenarios import PROVOKED_BY, TAKEN_BACK, Scenario, owner

MOST_KILLS = 6
"""Of one migration, in a row."""


@dataclass(frozen=True, slots=True)
class Calm:
    """A scenario that nobody disturbs."""

    events: Mapping[str, Counter[str]]
    """By command: how often each event is sent."""
    seconds: Mapping[str, float]
    """By command."""

    def count(self, event: str) -> int:
        """How often it is sent; 0 where only a command that was killed before sends it."""
        return self.events[owner(event, self.events)][event]


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill of one command."""

    command: str
    event: str | None
    """None: at some instant."""
    occurrence: int = 1
    after: float | None = None
    """Seconds from the command's start."""
    turn: int = 0
    """Of a command that is given more than once: which time."""

    def __str__(self) -> str:
        when = f"after {self.after:.3f} s" if self.after is not None else f"{self.event} #{self.occurrence}"
        return f"{self.command}{' again' * self.turn} {when}"


@dataclass(frozen=True, slots=True)
class Campaign:
    """One migration, and the kills that it is to survive."""

    number: int
    scenario: Scenario
    kills: tuple[Kill, ...]
    gives_up: bool = False
    """Whether a command that was killed is not given again where the next one takes it back."""

    def of(self, command: str, turn: int = 0) -> list[Kill]:
        """The kills of one command, in order."""
        return [kill for kill in self.kills if (kill.command, kill.turn) == (command, turn)]

    def __str__(self) -> str:
        return f"campaign {self.number} ({self.scenario}; {'; '.join(map(str, self.kills))})"


def plan_campaigns(
    seed: int, calm: Mapping[Scenario, Calm], events: list[str], wanted: Callable[[], list[str]] = list
) -> Iterator[Campaign]:
    """Campaigns without end, each beginning with an event that was planned least often so far.

    `wanted`: the events to look to, once there are such.
    """
    planned: Counter[str] = Counter()
    begun: Counter[Scenario] = Counter()
    by_event = {event: sent_by for event in events if (sent_by := [s for s in calm if _is_sent(event, s, calm)])}
    for number in count(1):
        rng = Random(f"{seed}-{number}")
        among = [event for event in wanted() if event in by_event] or list(by_event)
        picked = [min(among, key=lambda event: planned[event])]
        scenario = min(by_event[picked[0]], key=lambda scenario: (begun[scenario], rng.random()))
        begun[scenario] += 1
        mine = [event for event in among if scenario in by_event[event]]
        planned[picked[0]] += 1
        instants = 0
        for _ in range(rng.randint(1, MOST_KILLS) - 1):
            if len(events) > 1 and rng.random() < 1 / 3:
                instants += 1
                continue
            picked.append(min(mine, key=lambda event: (planned[event], rng.random())))
            planned[picked[-1]] += 1
        each = list(dict.fromkeys(scenario.commands))
        kills = [kill for command in each for kill in _at_events(rng, calm[scenario], picked, command)]
        for _ in range(instants):
            _add_instant(rng, calm[scenario], kills, rng.choice(each))
        kills = [replace(kill, turn=rng.randrange(scenario.commands.count(kill.command))) for kill in kills]
        gives_up = not TAKEN_BACK.isdisjoint(pairwise(scenario.commands)) and rng.random() < 0.5
        yield Campaign(number, scenario, tuple(kills), gives_up)


def plan_instants(seed: int, calm: Mapping[Scenario, Calm]) -> Iterator[Campaign]:
    """Campaigns without end, of runs whose events nobody hears: each is killed several times at any instant."""
    for number in count(1):
        rng = Random(f"{seed}-{number}")
        scenario = rng.choice(list(calm))
        instants = (rng.uniform(0, calm[scenario].seconds["run"]) for _ in range(rng.randint(2, MOST_KILLS)))
        yield Campaign(number, scenario, tuple(Kill("run", None, after=instant) for instant in instants))


def _is_sent(event: str, scenario: Scenario, calm: Mapping[Scenario, Calm]) -> bool:
    """Here, or nowhere in peace: then any command that sends such events may do so after a kill."""
    if owner(event, scenario.commands) not in scenario.commands:
        return False
    return calm[scenario].count(event) > 0 or not any(
        other.count(event) for other in calm.values() if owner(event, other.events) in other.events
    )


def _at_events(rng: Random, calm: Calm, picked: list[str], command: str) -> list[Kill]:
    """Mostly each further on than the one before, so that each event comes again; at times in any order."""
    mine = [event for event in picked if owner(event, calm.events) == command]
    in_peace = [event for event in mine if calm.count(event)]
    only_after_a_kill = [event for event in mine if not calm.count(event)]
    if rng.random() < 2 / 3:
        in_peace.sort(key=EVENTS.index)
    if only_after_a_kill:
        provoking = PROVOKED_BY.get(only_after_a_kill[0]) or rng.choice(sorted(calm.events[command]))
        in_peace = [provoking, *(event for event in in_peace if event != provoking)]
    kills: list[Kill] = []
    for event in [*in_peace[:1], *only_after_a_kill, *in_peace[1:]]:
        most = max(1, calm.count(event) if not kills else 1 + (rng.random() < 1 / 4))
        kills.append(Kill(command, event, rng.randint(1, most)))
    return kills


def _add_instant(rng: Random, calm: Calm, kills: list[Kill], command: str) -> None:
    """Anywhere among the kills, but not where one of them needs the one before it."""
    place = rng.randint(0, len(kills))
    if kills[place:] and (event := kills[place].event) and not calm.count(event):
        place += 1
    is_first = all(kill.command != command for kill in kills[:place])
    longest = calm.seconds[command] * (1.0 if is_first else 0.5)  # a resume has less to do
    kills.insert(place, Kill(command, None, after=rng.uniform(0, longest)))
