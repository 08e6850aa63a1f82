"""Migrations of state and its changelog that are killed again and again: `python -m tests.live.quix.kills`."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import click

from migrate.model.events import EVENTS
from tests.broker.broker import Broker, running_broker
from tests.broker.topics import commit_all, copy_topic, make_topic
from tests.kill.victim import Order
from tests.kill.zygote import Zygote
from tests.live.quix.migrating import App, as_new, inputs_of, sums_of
from tests.live.quix.program import PARTITIONS

AT = {"run": ("changelog", "assemble", "verify"), "cutover": ("cutover",), "rollback": ("rollback",)}
"""The events that a command is killed at, or soon after, by their first word."""
MOST_KILLS = 3
"""How often one command is killed, at most."""
INPUTS = inputs_of(3)


def make_template(broker: Broker, folder: Path) -> App:
    """An application that has run once, to be copied for each campaign."""
    template = App.make(broker, folder, f"template-{time.time_ns()}")
    template.settings.run(template.send(INPUTS))
    return template


def copy_of(template: App, group: str, folder: Path) -> App:
    """An application of its own that has done the same: directory, topics, committed offsets."""
    mine = App(replace(template.settings, group=group, state_dir=folder / "state"), folder)
    for number in range(PARTITIONS):
        shutil.copytree(template.settings.partition(number), mine.settings.partition(number))
    bootstrap = mine.settings.bootstrap
    make_topic(bootstrap, mine.settings.input, PARTITIONS, **{"retention.ms": "-1"})
    mine.send(INPUTS)
    commit_all(bootstrap, group, mine.settings.input)
    copy_topic(bootstrap, template.settings.changelog, mine.settings.changelog, headers=("__column_family__",))
    return mine


class Campaign:
    """One migration, whose commands are killed."""

    def __init__(self, app: App, rng: Random, zygote: Zygote, left: dict[str, list[str]]) -> None:
        """`left`: the events of each command that are still to be killed at, before all of them are again."""
        self.kills: Counter[str] = Counter()
        self._app, self._rng, self._zygote, self._left = app, rng, zygote, left
        self._before = app.records()
        app.spec.home.parent.mkdir(exist_ok=True)

    def perform(self, kills: int, *, shows: bool) -> None:
        """The commands, with at most so many kills. Raises AssertionError.

        `shows`: the real application is started, too, on copies of what the stores are.
        """
        for verb in AT:
            for _ in range(min(kills - self.kills.total(), self._rng.randint(1, MOST_KILLS))):
                if not self._is_killed(verb):
                    break
            else:
                assert self._order(Order(str(self._app.file), verb)) == 0, self._text()
            self._check_after(verb, shows=shows)

    def _is_killed(self, verb: str) -> bool:
        """Whether it was, or else ended by itself, well."""
        if not self._left.get(verb):
            mine = [name for name in EVENTS if name.partition(".")[0] in AT[verb]]
            self._left[verb] = self._rng.sample(mine, len(mine))
        at, after = self._left[verb].pop(), self._rng.choice([None, self._rng.random() / 4])
        outcome = self._order(
            Order(str(self._app.file), verb, at=at, occurrence=self._rng.choice([1, 1, 1, 2, 3]), after=after)
        )
        assert outcome in (None, 0), f"{verb} ended with {outcome}: {self._text()}"
        self.kills[f"{at}{'' if after is None else ' or later'}"] += outcome is None
        return outcome is None

    def _order(self, order: Order) -> int | None:
        """Its exit code; None: it was killed."""
        self._log.unlink(missing_ok=True)
        outcome = self._zygote.fulfil(order, log=self._log)
        assert not outcome.hung, f"{order.command} hangs"
        return None if outcome.killed else outcome.code

    @property
    def _log(self) -> Path:
        return self._app.file.with_name("log")

    def _text(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def _check_after(self, verb: str, *, shows: bool) -> None:
        if verb == "run":
            assert self._app.records() == self._before
            return
        app, is_new = self._app, verb == "cutover"
        expected = as_new(sums_of(INPUTS)) if is_new else sums_of(INPUTS)
        rows, last = app.logged()
        assert app.sums() == expected
        assert app.records() == rows
        assert app.offsets() == last or not is_new
        if shows:
            shutil.copytree(app.settings.home, app.base / verb / app.settings.group)
            copy = App(replace(app.settings, state_dir=app.base / verb, is_new=is_new), app.base)
            assert (copy.settings.run() == 0) is is_new
            assert copy.sums() == expected
            copy.wipe()
            copy.settings.run()
            assert copy.sums() == expected


def kill_migrations(
    broker: Broker, folder: Path, kills: int, seed: int, tell: Callable[[str], None] = lambda _: None
) -> Counter[str]:
    """Campaigns, until there were so many kills; how many at each event. Raises AssertionError."""
    template = make_template(broker, folder / "template")
    counted: Counter[str] = Counter()
    left: dict[str, list[str]] = {}
    with Zygote() as zygote:
        for number in count():
            group = f"quix-kill-{seed}-{number}"
            campaign = Campaign(copy_of(template, group, folder / group), Random(seed + number), zygote, left)
            try:
                campaign.perform(kills - counted.total(), shows=number % 5 == 1)
            except AssertionError as error:
                raise AssertionError(f"campaign {number} of seed {seed}: {error}") from error
            counted += campaign.kills
            tell(f"campaign {number}: {counted.total()} kills so far")
            if counted.total() >= kills:
                return counted
    raise AssertionError


@click.command()
@click.option("--kills", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--seed", type=int, help="Of what is planned; a random one by default, which is printed.")
def main(*, kills: int, seed: int | None) -> None:
    """Migrate state and its changelog, kill that, run it again; compare topic, store and the application."""
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    click.echo(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder)) as broker:
        counted = kill_migrations(broker, Path(folder) / "campaigns", kills, seed, click.echo)
    for name, number in sorted(counted.items()):
        click.echo(f"{name:<30} {number:>5}")


if __name__ == "__main__":
    main()
