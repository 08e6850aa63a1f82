"""One migration in a directory of its own, and the processes that work on it."""

from collections import Counter
from pathlib import Path

from migrate.errors import ExitCode
from tests.kill.checks import CheckFailedError
from tests.kill.plans import Kill
from tests.kill.scenarios import Scenario
from tests.kill.victim import Order, Outcome, Victims
from tests.shared.alternation import engine_of


class Migration:
    """Performs commands, one process for each; keeps what they print beside the migration."""

    def __init__(self, scenario: Scenario, template: Path, folder: Path, victims: Victims) -> None:
        self.base = folder / "base"
        self._kind = scenario.kind
        self._held_back = "run" if scenario.is_held_back else None
        self._spec = scenario.set_up(template, self.base)
        self._folder = folder
        self._victims = victims
        self._orders = 0

    def be_killed(self, kill: Kill) -> Outcome:
        """Raises CheckFailedError where the process neither dies as ordered nor ends well."""
        outcome, events = self._fulfil(kill.command, at=kill.event, occurrence=kill.occurrence, after=kill.after)
        if outcome.killed and kill.event is not None and events.count(kill.event) != kill.occurrence:
            raise CheckFailedError(f"{kill}: was killed elsewhere, having seen {events}")
        return outcome

    def perform(self, command: str) -> Counter[str]:
        """The events of a command that nobody kills. Raises CheckFailedError where it does not end well."""
        outcome, events = self._fulfil(command)
        if outcome.killed:
            raise CheckFailedError(f"{command} was killed by somebody else")
        return Counter(events)

    def _fulfil(
        self, command: str, *, at: str | None = None, occurrence: int = 1, after: float | None = None
    ) -> tuple[Outcome, list[str]]:
        self._orders += 1
        if command == "replay":
            self._kind.write_function(self.base, is_mended=True)
        events = self._folder / f"{self._orders:02d}-{command}.events"
        log = events.with_suffix(".log")
        engine = engine_of(f"{self._folder.name} {self._orders}")
        order = Order(str(self._spec), command, str(events), at, occurrence, after, engine=engine)
        outcome = self._victims.fulfil(order, log=log)
        expected = ExitCode.FAILED if command == self._held_back else ExitCode.DONE
        if outcome.hung or (outcome.code != expected and not outcome.killed):
            said = "hung" if outcome.hung else f"ended with {outcome.code}"
            raise CheckFailedError(f"{command} {said}:\n{log.read_text(encoding='utf-8')}")
        return outcome, events.read_text(encoding="utf-8").splitlines() if events.exists() else []
