"""Migrations that are killed again and again, two at a time, and what came of it."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from tests.kill.checks import CheckFailedError, Checks
from tests.kill.migrations import Migration
from tests.kill.peace import Peace, in_peace, make_templates
from tests.kill.plans import Campaign, Kill, plan_campaigns, plan_instants
from tests.kill.scenarios import TAKEN_BACK, Kind, Scenario, required_events, scenarios
from tests.kill.victim import Outcome, Victims
from tests.kill.zygote import Zygote

MOST_FAILURES = 10


@dataclass(frozen=True, slots=True)
class Goal:
    """When there were enough kills, and what is looked at."""

    kills: int
    hits: int
    """Of every event."""
    seed: int = 0
    only: str | None = None
    """This event alone, and no other instant."""
    look_for_leftovers: bool = True
    scenarios: tuple[Scenario, ...] = field(default_factory=lambda: tuple(scenarios()))
    has_events: bool = True
    """False: processes that nobody hears are killed at instants alone."""

    @property
    def events(self) -> list[str]:
        """Those to be killed at."""
        if not self.has_events:
            return []
        return required_events() if self.only is None else [self.only]

    @property
    def at_once(self) -> int:
        """Migrations: a run on Spark has the machine for itself."""
        return 2 if self.has_events else 1

    @property
    def most_campaigns(self) -> int:
        """Then it is out of reach."""
        return 20 + self.kills + self.hits * len(self.events)


@dataclass(slots=True)
class Tally:
    """What was done, and what did not hold."""

    hits: Counter[str] = field(default_factory=Counter)
    at_instants: int = 0
    too_late: int = 0
    """Found a process that had ended by itself, or a run that had published: no kills."""
    not_sent: int = 0
    """Waited for an event that the command did not send any more: no kills either."""
    campaigns: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """Processes that died of SIGKILL."""
        return self.hits.total() + self.at_instants

    def count(self, kill: Kill, outcome: Outcome, *, is_over: bool = False) -> None:
        """One kill that was ordered; `is_over`: the command had nothing left to do."""
        if kill.event is None:
            self.at_instants += outcome.killed and not is_over
            self.too_late += is_over or not outcome.killed
        else:
            self.hits[kill.event] += outcome.killed
            self.not_sent += not outcome.killed

    def has_reached(self, goal: Goal) -> bool:
        """Whether there were enough kills everywhere."""
        return self.kills >= goal.kills and not self.missed(goal)

    def missed(self, goal: Goal) -> list[str]:
        """Events that were not hit often enough."""
        return [event for event in goal.events if self.hits[event] < goal.hits]


def kill_all(
    goal: Goal,
    folder: Path,
    tell: Callable[[str], None] = lambda _: None,
    victims: Callable[[], AbstractContextManager[Victims]] = Zygote,
) -> Tally:
    """Campaigns until the goal is reached or out of reach; those that failed leave their directories in `folder`."""
    harness = _Harness(goal, folder, tell)
    with ExitStack() as resources, ThreadPoolExecutor(goal.at_once) as pool:
        for _ in range(goal.at_once):
            harness.victims.put(resources.enter_context(victims()))
        try:
            harness.be_at_peace(pool)
        except CheckFailedError as error:
            harness.tally.failures.append(f"in peace: {error}")
        else:
            harness.work(pool)
    return harness.tally


class _Harness:
    def __init__(self, goal: Goal, folder: Path, tell: Callable[[str], None]) -> None:
        self.tally = Tally()
        self.victims: SimpleQueue[Victims] = SimpleQueue()
        self._goal = goal
        self._folder = folder
        self._tell = tell
        self._templates = make_templates(folder / "templates", goal.scenarios)
        self._peace = Peace()
        self._lock = Lock()

    def be_at_peace(self, pool: ThreadPoolExecutor) -> None:
        """As many at once as later on, so that they take as long."""
        ordered = [pool.submit(self._be_at_peace, kind, template) for kind, template in self._templates.items()]
        for future in ordered:
            self._peace.add(future.result())

    def work(self, pool: ThreadPoolExecutor) -> None:
        campaigns = self._campaigns()
        for worker in [pool.submit(self._work, campaigns) for _ in range(self._goal.at_once)]:
            worker.result()

    @contextmanager
    def _victims(self) -> Iterator[Victims]:
        victims = self.victims.get()
        try:
            yield victims
        finally:
            self.victims.put(victims)

    def _be_at_peace(self, kind: Kind, template: Path) -> Peace:
        folder = self._folder / f"peace-{template.name}"
        with self._victims() as victims:
            mine = [scenario for scenario in self._goal.scenarios if scenario.kind == kind]
            return in_peace(mine, template, folder, victims, look_for_leftovers=self._goal.look_for_leftovers)

    def _campaigns(self) -> Iterator[Campaign]:
        seed, calm, events = self._goal.seed, self._peace.calm, self._goal.events
        planned = plan_campaigns(seed, calm, events, self._missing_at_last) if events else plan_instants(seed, calm)
        for campaign in planned:
            if self.tally.has_reached(self._goal) or len(self.tally.failures) >= MOST_FAILURES:
                return
            if campaign.number > self._goal.most_campaigns:
                return
            if campaign.number % 25 == 0:
                self._tell(f"campaign {campaign.number}: {self.tally.kills} kills so far")
            yield campaign

    def _missing_at_last(self) -> list[str]:
        return self.tally.missed(self._goal) if self.tally.kills >= self._goal.kills else []

    def _work(self, campaigns: Iterator[Campaign]) -> None:
        with self._victims() as victims:
            while True:
                with self._lock:
                    campaign = next(campaigns, None)
                if campaign is None:
                    return
                self._perform(campaign, victims)

    def _perform(self, campaign: Campaign, victims: Victims) -> None:
        scenario = campaign.scenario
        folder = self._folder / f"campaign-{campaign.number}"
        failure = None
        try:
            migration = Migration(scenario, self._templates[scenario.kind], folder, victims)
            expected = self._peace.expected[scenario.kind]
            checks = Checks(scenario, migration.base, self._goal.look_for_leftovers, expected)
            self._kill_and_resume(campaign, migration, checks)
        except Exception as error:  # noqa: BLE001 - a ledger that cannot be read, or whatever it is, is a finding
            failure = f"{campaign}\nin {folder}: {type(error).__name__}: {error}"
        with self._lock:
            self.tally.campaigns[str(scenario)] += 1
            if failure is not None:
                self.tally.failures.append(failure)
                return
        shutil.rmtree(folder)

    def _kill_and_resume(self, campaign: Campaign, migration: Migration, checks: Checks) -> None:
        given: Counter[str] = Counter()
        for command, following in zip_longest(campaign.scenario.commands, campaign.scenario.commands[1:]):
            kills = campaign.of(command, given[command])
            given[command] += 1
            if not self._was_ended(kills, migration, checks):
                is_taken_back = (command, following) in TAKEN_BACK and kills and checks.has_begun(command)
                if campaign.gives_up and is_taken_back:
                    continue
                migration.perform(command)
            checks.after_end(command)
            if command == "snapshot":
                checks.let_the_application_go_on()

    def _was_ended(self, kills: list[Kill], migration: Migration, checks: Checks) -> bool:
        """Whether the command ended by itself before it could be killed so often."""
        for kill in kills:
            outcome = migration.be_killed(kill)
            if outcome.killed:
                checks.after_kill(kill.command)
            with self._lock:
                self.tally.count(kill, outcome, is_over=kill.command == "run" and checks.is_published)
            if not outcome.killed:
                return True
        return False
