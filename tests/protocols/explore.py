"""Every state that a small model of a protocol can reach, nearest first, and the way to the first bad one."""

import gc
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

MOST_STATES = 400_000
"""A model that grows past this is a mistake in the model, not a thing to wait for."""

S = TypeVar("S", bound=Hashable)


class Model(Protocol[S]):
    """A protocol: where it begins, what may happen next, and what must hold."""

    def initial(self) -> Iterable[S]: ...

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """Every next step by name, crashes and power cuts among them."""
        ...

    def broken(self, state: S) -> str | None:
        """The invariant that the state breaks."""
        ...

    def broken_by_step(self, before: S, after: S) -> str | None:
        """The invariant that only the step from one state to the next can break."""
        ...


@dataclass(frozen=True)
class CounterExample:
    """The shortest way to a state that must not be."""

    invariant: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        numbered = (f"{number:3}. {name}" for number, name in enumerate(self.steps, 1))
        return "\n".join([f"broken: {self.invariant}", *numbered])


@dataclass(frozen=True)
class Explored(Iterable[S]):
    """What was reached; all there is unless there is a counter-example."""

    origins: dict[S, tuple[S, str] | None]
    """The state before and the step, for each state."""
    counter_example: CounterExample | None

    def __len__(self) -> int:
        return len(self.origins)

    def __iter__(self) -> Iterator[S]:
        return iter(self.origins)

    def way_to(self, state: S) -> tuple[str, ...]:
        """The steps that led there first."""
        names = []
        while (origin := self.origins[state]) is not None:
            state, name = origin
            names.append(name)
        return tuple(reversed(names))


def explore(model: Model[S]) -> Explored[S]:
    """Breadth first, up to the first broken invariant."""
    with _uncollected():
        return _explore(model)


def _explore(model: Model[S]) -> Explored[S]:
    origins: dict[S, tuple[S, str] | None] = dict.fromkeys(model.initial())
    for state in origins:
        assert model.broken(state) is None, "the model begins in a bad state"
    waiting = deque(origins)
    while waiting:
        state = waiting.popleft()
        for name, following in model.steps(state):
            fresh = following not in origins
            if fresh:
                origins[following] = state, name
                waiting.append(following)
            invariant = model.broken_by_step(state, following) or (model.broken(following) if fresh else None)
            if invariant is not None:
                before = Explored(origins, None).way_to(state)
                return Explored(origins, CounterExample(invariant, (*before, name)))
        assert len(origins) <= MOST_STATES, "more states than the model was meant to have"
    return Explored(origins, None)


@contextmanager
def _uncollected() -> Iterator[None]:
    """States hold no cycles: to look for some, again and again, takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
