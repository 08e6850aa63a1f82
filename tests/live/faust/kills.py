"""Migrations of a table and its changelog that are killed again and again, and what is left then."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random

from confluent_kafka import Producer

from formats.partitioners import default_partition
from migrate.model.events import EVENTS
from tests.broker.topics import commit_all, copy_topic, ends_of, make_topic, messages_of
from tests.kill.victim import Order
from tests.kill.zygote import Zygote
from tests.live.faust.migrating import Migration, make_state
from tests.live.faust.program import PARTITIONS, Settings
from tests.live.faust.worker import Inputs, Rows, assert_finds, rows_after, send, some_inputs
from tests.support import read_families

AT = {
    "run": ("changelog", "assemble", "verify"),
    "catch_up": ("tail", "assemble"),
    "cutover": ("cutover",),
    "rollback": ("rollback",),
}
"""The events that a command is killed at, or soon after, by their first word."""
MOST_KILLS = 3
"""How often one command is killed, at most."""
CHAINS = (("run", "cutover", "rollback"), ("snapshot", "run", "catch_up", "cutover", "rollback"))
_OFFSET = b"__faust\0offset__"


@dataclass(frozen=True, slots=True)
class Template:
    """An application that has run once, to be copied for each campaign."""

    settings: Settings
    inputs: Inputs

    @classmethod
    def make(cls, bootstrap: str, folder: Path) -> Template:
        """Run the application once."""
        inputs = some_inputs(300, 60)
        settings = Settings(bootstrap, f"template-{time.time_ns()}", folder / "data")
        make_state(settings, inputs)
        return cls(settings, inputs)

    def copy(self, name: str, folder: Path) -> Settings:
        """An application of its own that has done the same: directory, topics, committed offsets."""
        mine = replace(self.settings, name=name, datadir=folder / "data")
        shutil.copytree(self.settings.datadir, mine.datadir)
        make_topic(mine.bootstrap, mine.input, PARTITIONS)
        send(mine, self.inputs)
        commit_all(mine.bootstrap, mine.name, mine.input)
        copy_topic(mine.bootstrap, self.settings.changelog, mine.changelog)
        return mine


def go_on(settings: Settings, inputs: Inputs) -> None:
    """Write to the changelog what the application would."""
    producer = Producer({"bootstrap.servers": settings.bootstrap, "enable.idempotence": True, "log_level": 3})
    for key, value in inputs:
        logged = None if value is None else str(value)
        number = default_partition(key.encode(), PARTITIONS)
        producer.produce(settings.changelog, partition=number, key=json.dumps(key), value=logged)
    assert producer.flush(30) == 0


def rows_of_table(settings: Settings) -> tuple[Rows, dict[int, int]]:
    """What the table's directories hold, and the offset in each."""
    rows: dict[str, object] = {}
    offsets = {}
    for number in range(PARTITIONS):
        found = read_families(settings.home / f"tables/{settings.table}-{number}.db")["default"]
        offsets[number] = int(found.pop(_OFFSET))
        rows |= {json.loads(key): json.loads(value) for key, value in found.items()}
    return rows, offsets


def rows_of_topic(settings: Settings) -> tuple[Rows, dict[int, int]]:
    """What a table that is restored from the changelog holds, and the last offset of each partition, which must have a
    record.
    """
    rows: dict[str, object] = {}
    last = {}
    for each in messages_of(settings.bootstrap, settings.changelog):
        last[each.partition] = each.offset
        rows.pop(json.loads(each.key), None)
        if each.value is not None:
            rows[json.loads(each.key)] = json.loads(each.value)
    for number, (_, end) in enumerate(ends_of(settings.bootstrap, settings.changelog)):
        assert last[number] == end - 1, f"{settings.changelog}-{number} ends in a marker: Faust would wait for ever"
    return rows, last


@dataclass(frozen=True, slots=True)
class Known:
    """What campaigns know of those before them."""

    calm: dict[str, float] = field(default_factory=dict)
    """How long each command takes in peace, in seconds."""
    left: dict[str, list[str]] = field(default_factory=dict)
    """The events of each command that are still to be killed at, before all of them are again."""

    def next_event(self, verb: str, rng: Random) -> str:
        if not self.left.get(verb):
            mine = [name for name in EVENTS if name.partition(".")[0] in AT[verb]]
            self.left[verb] = rng.sample(mine, len(mine))
        return self.left[verb].pop()


class Campaign:
    """One migration, whose commands are killed."""

    def __init__(self, template: Template, folder: Path, rng: Random, zygote: Zygote, known: Known) -> None:
        self.kills: Counter[str] = Counter()
        self._rng = rng
        self._zygote = zygote
        self._known = known
        self._old = template.copy(folder.name, folder)
        self._inputs, self._before = template.inputs, rows_after(template.inputs)
        self._chain = rng.choice(CHAINS) if known.calm else CHAINS[1]
        is_appended = self._chain is CHAINS[0] and rng.random() < 0.5
        self._new = self._old.next_version(self._old.table if is_appended else f"{self._old.table}-v2")
        self._migration = Migration(self._old, self._new, "snapshot" if "snapshot" in self._chain else "live")
        self._migration.spec()

    def perform(self, kills: int, *, shows: bool) -> None:
        """The chain, with at most so many kills. Raises AssertionError.

        `shows`: the real application is started, too, on copies of what the tables are after it.
        """
        for number, verb in enumerate(self._chain):
            if verb == "catch_up":
                more = some_inputs(30, 40, seed=number)
                go_on(self._old, more)
                self._inputs = [*self._inputs, *more]
            most = min(kills - self.kills.total(), self._rng.randint(1, MOST_KILLS))
            for _ in range(most if verb in AT else 0):
                if not self._is_killed(verb):
                    break
                if verb != "rollback" and self._new.table != self._old.table:
                    self._check_old()
            else:
                self._in_peace(verb)
            self._check_after(verb, shows=shows)

    def _is_killed(self, verb: str) -> bool:
        """Whether it was, or else ended by itself, well."""
        at = self._known.next_event(verb, self._rng)
        after = self._known.calm[verb] * self._rng.random() / 2 if self._rng.random() < 0.5 else None
        outcome = self._order(verb, at=at, occurrence=self._rng.randint(1, 3), after=after)
        assert outcome in (None, 0), f"{verb} ended with {outcome}: {self._log.read_text(encoding='utf-8')}"
        self.kills[f"{at}{'' if after is None else ' or later'}"] += outcome is None
        return outcome is None

    def _in_peace(self, verb: str) -> None:
        started = time.monotonic()
        outcome = self._order(verb)
        assert outcome == 0, f"{verb} ended with {outcome}: {self._log.read_text(encoding='utf-8')}"
        self._known.calm.setdefault(verb, time.monotonic() - started)

    def _order(
        self, verb: str, *, at: str | None = None, occurrence: int = 1, after: float | None = None
    ) -> int | None:
        """Its exit code; None: it was killed."""
        order = Order(str(self._migration.file), verb, at=at, occurrence=occurrence, after=after)
        self._log.unlink(missing_ok=True)
        outcome = self._zygote.fulfil(order, log=self._log)
        assert not outcome.hung, f"{verb} hangs"
        return None if outcome.killed else outcome.code

    @property
    def _log(self) -> Path:
        return self._migration.file.with_name("log")

    def _check_after(self, verb: str, *, shows: bool) -> None:
        if verb == "cutover":
            expected = rows_after(self._inputs, is_new=True)
            assert rows_of_topic(self._new) == rows_of_table(self._new)
            assert rows_of_table(self._new)[0] == expected
            if shows:
                assert_finds(self._copy(self._new), expected, restores=False)
        if verb == "rollback":
            self._check_old()
            if shows:
                assert_finds(self._copy(self._old), rows_after(self._inputs), restores=self._is_behind)

    @property
    def _is_behind(self) -> bool:
        """Whether the old table has records of its changelog yet to read: our own, or those that came later."""
        return self._new.table == self._old.table or len(self._chain) > 3

    def _check_old(self) -> None:
        assert rows_of_table(self._old)[0] == self._before
        assert rows_of_topic(self._old)[0] == rows_after(self._inputs)

    def _copy(self, settings: Settings) -> Settings:
        copy = settings.elsewhere()
        shutil.copytree(settings.datadir, copy.datadir)
        return copy


def kill_changelogs(
    bootstrap: str, folder: Path, kills: int, seed: int, tell: Callable[[str], None] = lambda _: None
) -> Counter[str]:
    """Campaigns, until there were so many kills; how many at each event. Raises AssertionError."""
    template = Template.make(bootstrap, folder / "template")
    counted: Counter[str] = Counter()
    known = Known()
    with Zygote() as zygote:
        for number in count():
            campaign = Campaign(template, folder / f"faust-kill-{seed}-{number}", Random(seed + number), zygote, known)
            wanted = kills - counted.total() if number else 0  # the first one in peace, to see how long it takes
            try:
                campaign.perform(wanted, shows=number % 4 == 1)
            except AssertionError as error:
                raise AssertionError(f"campaign {number} of seed {seed}: {error}") from error
            counted += campaign.kills
            tell(f"campaign {number}: {counted.total()} kills so far")
            if counted.total() >= kills:
                return counted
    raise AssertionError
