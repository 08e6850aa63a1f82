"""Each scenario once, undisturbed: what it sends, how long it takes, and what comes of it."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.kill.checks import Checks, Expected, require
from tests.kill.migrations import Migration
from tests.kill.plans import Calm
from tests.kill.scenarios import Kind, Scenario
from tests.kill.victim import Victims


@dataclass(frozen=True, slots=True)
class Peace:
    """What killed migrations are compared with."""

    calm: dict[Scenario, Calm] = field(default_factory=dict)
    expected: dict[Kind, Expected] = field(default_factory=dict)

    def add(self, other: Peace) -> None:
        """That of another kind."""
        self.calm.update(other.calm)
        self.expected.update(other.expected)


def make_templates(folder: Path, scenarios: Iterable[Scenario]) -> dict[Kind, Path]:
    """A directory with the source of each kind, to be copied."""
    made = {kind: folder / kind.name.replace(" ", "-") for kind in {scenario.kind: None for scenario in scenarios}}
    for kind, template in made.items():
        template.mkdir(parents=True)
        kind.make(template)
    return made


def in_peace(
    scenarios: list[Scenario], template: Path, folder: Path, victims: Victims, *, look_for_leftovers: bool
) -> Peace:
    """These scenarios, all of one kind. Raises CheckFailedError where a migration does not stand the checks even so."""
    peace = Peace()
    for scenario in sorted(scenarios, key=lambda scenario: not scenario.publishes):
        kind = scenario.kind
        migration = Migration(scenario, template, folder, victims)
        checks = Checks(scenario, migration.base, look_for_leftovers, peace.expected.get(kind))
        events: dict[str, Counter[str]] = {}
        seconds: dict[str, float] = {}
        for command in scenario.commands:
            started = time.monotonic()
            events[command] = migration.perform(command)
            seconds[command] = time.monotonic() - started
            checks.after_end(command)
            if command == "snapshot":
                checks.let_the_application_go_on()
        peace.calm[scenario] = Calm(events, seconds)
        if scenario.publishes or scenario.commands[-1] == "cutover":
            peace.expected[kind] = checks.observed()
            known = kind.records is None or peace.expected[kind].stores == kind.records
            require(known, f"{kind.name}: the new records are wrong")
        shutil.rmtree(folder)
    return peace
