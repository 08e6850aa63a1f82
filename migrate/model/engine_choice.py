"""Which engine does the work of a run: what the spec asks for, and what came of it."""

from __future__ import annotations

from typing import Literal

from migrate.model.values import Value

EngineSetting = Literal["auto", "native", "portable"]
"""`[run] engine`."""


class EngineChoice(Value):
    """Which engines do the work of a run, and why others do not."""

    setting: EngineSetting
    """What its tasks get as `[run] engine`: "portable" wherever nothing else is used."""
    names: tuple[str, ...]
    why: str = ""
    """Why the other engines are not used, or not for all stores; empty: there is nothing to explain."""
    workers: str = ""
    """How many threads or processes of this machine work; empty: one, or Spark's."""
    is_threaded: bool = False
    """Whether several threads of one process get further than one: no engine among them holds Python's lock."""

    def __str__(self) -> str:
        names = ", ".join(self.names) + (f" in {self.workers}" if self.workers else "")
        return f"{names} ({self.why})" if self.why else names
