"""Migrations of a store and its changelog that are killed again and again, and what is left then."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random

from confluent_kafka import Producer

from migrate.model.events import EVENTS
from tests.broker.topics import commit_all, copy_topic, ends_of
from tests.kill.victim import Order
from tests.kill.zygote import Zygote
from tests.live.changelog.app import Program
from tests.live.changelog.migrating import Migration, assert_finds, make_state
from tests.live.changelog.model import (
    Input,
    Rows,
    first_difference,
    make_input_topic,
    migrated,
    partition,
    random_inputs,
    rows_after,
    send,
)
from tests.live.changelog.readback import checkpoints, encoded, rows_of_store, rows_of_topic

AT = {"run": "changelog", "catch_up": "tail", "cutover": "cutover", "rollback": "rollback"}
"""The events that a command is killed at, or soon after, by their first word."""
MOST_KILLS = 3
"""How often one command is killed, at most."""
SHOWN = 0.25
"""After so many of the kills the old application is started."""
CHAINS = (("run", "cutover", "rollback"), ("snapshot", "run", "catch_up", "catch_up", "cutover", "rollback"))


@dataclass(frozen=True, slots=True)
class Template:
    """An application that has run once, to be copied for each campaign."""

    program: Program
    inputs: list[Input]

    @classmethod
    def make(cls, bootstrap: str, state_dir: Path, keys: int = 600) -> Template:
        """Run the application once."""
        inputs = random_inputs(keys, keys // 5, seed=1, now_ms=time.time_ns() // 1_000_000)
        program = Program(bootstrap, f"template-{time.time_ns()}", state_dir, version="4.0.1")
        return cls(make_state(program, inputs), inputs)

    def copy(self, application_id: str, state_dir: Path) -> Program:
        """An application of its own that has done the same: state directory, topics, committed offsets."""
        mine = replace(self.program, application_id=application_id, state_dir=state_dir)
        shutil.copytree(self.program.folder, mine.folder)
        for file in mine.folder.glob("*/.checkpoint"):
            text = file.read_text(encoding="ascii").replace(self.program.changelog, mine.changelog)
            file.write_text(text, encoding="ascii")
        make_input_topic(mine.bootstrap, mine.input)
        send(mine.bootstrap, mine.input, self.inputs)
        commit_all(mine.bootstrap, mine.application_id, mine.input)
        copy_topic(mine.bootstrap, self.program.changelog, mine.changelog)
        assert ends_of(mine.bootstrap, mine.changelog) == ends_of(mine.bootstrap, self.program.changelog)
        return mine


def go_on(program: Program, inputs: list[Input], before: Rows) -> Rows:
    """Write to the changelog what the application would; returns what its store would hold."""
    producer = Producer({"bootstrap.servers": program.bootstrap, "enable.idempotence": True})
    rows = before
    for given in inputs:
        rows = rows_after(program.kind, [given], before=rows)
        row = rows.get((given.key, None))
        producer.produce(
            topic=program.changelog,
            partition=partition(given.key),
            key=given.key,
            value=encoded(row.orders) if row else None,
            timestamp=given.timestamp_ms,
        )
    assert producer.flush(30) == 0
    return rows


@dataclass(frozen=True, slots=True)
class Known:
    """What campaigns know of those before them."""

    calm: dict[str, float] = field(default_factory=dict)
    """How long each command takes in peace, in seconds."""
    left: dict[str, list[str]] = field(default_factory=dict)
    """The events of each command that are still to be killed at, before all of them are again."""

    def next_event(self, verb: str, rng: Random) -> str:
        if not self.left.get(verb):
            mine = [name for name in EVENTS if name.partition(".")[0] == AT[verb]]
            self.left[verb] = rng.sample(mine, len(mine))
        return self.left[verb].pop()


class Campaign:
    """One migration, whose commands are killed."""

    def __init__(self, template: Template, folder: Path, rng: Random, zygote: Zygote, known: Known) -> None:
        self.kills: Counter[str] = Counter()
        self._rng = rng
        self._zygote = zygote
        self._known = known
        self._old = template.copy(folder.name, folder / "state")
        self._before = rows_after(self._old.kind, template.inputs)
        self._now = self._before
        self._chain = rng.choice(CHAINS) if known.calm else CHAINS[1]
        is_appended = self._chain is CHAINS[0] and rng.random() < 0.4
        new = self._old.next_version(store=self._old.store if is_appended else None)
        source = "snapshot" if "snapshot" in self._chain else "live"
        self._migration = Migration(self._old, new, source).write()

    def perform(self, kills: int) -> None:
        """The chain, with at most so many kills. Raises AssertionError."""
        for number, verb in enumerate(self._chain):
            if verb == "catch_up":
                more = random_inputs(80, 40, seed=number, now_ms=time.time_ns() // 1_000_000)
                self._now = go_on(self._old, more, self._now)
            most = min(kills - self.kills.total(), self._rng.randint(1, MOST_KILLS))
            for _ in range(most if verb in AT else 0):
                if not self._is_killed(verb):
                    break
                self._check_after_kill(verb)
            else:
                self._in_peace(verb)
            self._check_after(verb)

    def show_old_application(self) -> None:
        """The old version, started on a copy of the state directory, is right."""
        copy = self._old.elsewhere()
        shutil.copytree(self._old.folder, copy.folder)
        assert_finds(copy, self._now, restored=0 if self._now == self._before else None)

    def _is_killed(self, verb: str) -> bool:
        """Whether it was, or else ended by itself, well."""
        at = self._known.next_event(verb, self._rng)
        after = self._known.calm[verb] * self._rng.random() / 2 if self._rng.random() < 0.5 else None
        outcome = self._order(verb, at=at, after=after)
        assert outcome in (None, 0), f"{verb} ended with {outcome}: {self._log.read_text(encoding='utf-8')}"
        self.kills[f"{at}{'' if after is None else ' or later'}"] += outcome is None
        return outcome is None

    def _in_peace(self, verb: str) -> None:
        started = time.monotonic()
        outcome = self._order(verb)
        assert outcome == 0, f"{verb} ended with {outcome}: {self._log.read_text(encoding='utf-8')}"
        self._known.calm.setdefault(verb, time.monotonic() - started)

    def _order(self, verb: str, *, at: str | None = None, after: float | None = None) -> int | None:
        """Its exit code; None: it was killed."""
        order = Order(str(self._migration.spec), verb, at=at, after=after)
        self._log.unlink(missing_ok=True)
        outcome = self._zygote.fulfil(order, log=self._log)
        assert not outcome.hung, f"{verb} hangs"
        return None if outcome.killed else outcome.code

    @property
    def _log(self) -> Path:
        return self._migration.folder / "log"

    def _check_after_kill(self, verb: str) -> None:
        """With a new topic, the old version is right until a cut-over has ended."""
        if verb == "rollback" or self._migration.new.store == self._old.store:
            return
        self._check_old()
        if self._rng.random() < SHOWN:
            self.show_old_application()

    def _check_after(self, verb: str) -> None:
        new = self._migration.new
        if verb == "rollback":
            self._check_old()
        if verb == "cutover":
            topic, last = rows_of_topic(new)
            _check(topic, migrated(self._now), "the new changelog")
            _check(rows_of_store(new), migrated(self._now), "the new store")
            found = checkpoints(new.folder)
            assert {number: found.get((new.changelog, number)) for number in last} == last

    def _check_old(self) -> None:
        _check(rows_of_store(self._old), self._before, "the old store")
        _check(rows_of_topic(self._old)[0], self._now, "the old changelog")


def kill_changelogs(
    bootstrap: str, folder: Path, kills: int, seed: int, tell: Callable[[str], None] = lambda _: None
) -> Counter[str]:
    """Campaigns, until there were so many kills; how many at each event, or command. Raises AssertionError."""
    template = Template.make(bootstrap, folder / "template")
    counted: Counter[str] = Counter()
    known = Known()
    with Zygote() as zygote:
        for number in count():
            campaign = Campaign(template, folder / f"kill-{seed}-{number}", Random(seed + number), zygote, known)
            wanted = kills - counted.total() if number else 0  # the first one in peace, to see how long it takes
            try:
                campaign.perform(wanted)
            except AssertionError as error:
                raise AssertionError(f"campaign {number} of seed {seed}: {error}") from error
            counted += campaign.kills
            tell(f"campaign {number}: {counted.total()} kills so far")
            if counted.total() >= kills:
                campaign.show_old_application()
                return counted
    raise AssertionError


def _check(found: Rows, expected: Rows, what: str) -> None:
    difference = first_difference(found, expected)
    assert difference is None, f"{what}: {difference}"
