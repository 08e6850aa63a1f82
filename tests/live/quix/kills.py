"""Migrations of state and its changelog that are killed again and again: `python -m tests.live.quix.kills`."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import click

from tests.broker.topics import commit_all, copy_topic, make_topic
from tests.kill.at_broker import Attempt, KilledMigration, beginning, kill_migrations, options, show
from tests.live.quix.migrating import App, as_new, inputs_of, sums_of
from tests.live.quix.program import PARTITIONS

INPUTS = inputs_of(3)


def make_template(bootstrap: str, folder: Path) -> App:
    """An application that has run once, to be copied for each migration."""
    template = App.make(bootstrap, folder, f"template-{time.time_ns()}")
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


class KilledState(KilledMigration):
    """Of a store of Quix Streams."""

    chains = (("run", "cutover", "rollback"),)
    at: ClassVar = {"run": ("changelog", "assemble", "verify"), "cutover": ("cutover",), "rollback": ("rollback",)}
    occurrences = (1, 1, 1, 2, 3)

    def __init__(self, template: App, attempt: Attempt) -> None:
        super().__init__(attempt)
        self._app = copy_of(template, attempt.folder.name, attempt.folder)
        self._before = self._app.records()
        self._app.spec.home.parent.mkdir(exist_ok=True)
        self.file = self._app.file

    def check_after_kill(self, verb: str) -> None:
        """Both versions have one topic: what is in it belongs to either of them until a command has ended."""

    def check_after(self, verb: str) -> None:
        if verb == "run":
            assert self._app.records() == self._before
            return
        app, is_new = self._app, verb == "cutover"
        expected = as_new(sums_of(INPUTS)) if is_new else sums_of(INPUTS)
        rows, last = app.logged()
        assert app.sums() == expected
        assert app.records() == rows
        assert app.offsets() == last or not is_new
        if self.shows:
            shutil.copytree(app.settings.home, app.base / verb / app.settings.group)
            copy = App(replace(app.settings, state_dir=app.base / verb, is_new=is_new), app.base)
            assert (copy.settings.run() == 0) is is_new
            assert copy.sums() == expected
            copy.wipe()
            copy.settings.run()
            assert copy.sums() == expected


def kill_changelogs(
    bootstrap: str, folder: Path, kills: int, seed: int, tell: Callable[[str], None] = lambda _: None
) -> Counter[str]:
    """Of state. Raises AssertionError."""
    template = make_template(bootstrap, folder / "template")
    return kill_migrations(partial(KilledState, template), folder / "quix-kill", kills, seed, tell)


@click.command()
@options(50)
def main(*, kills: int, seed: int | None) -> None:
    """Migrate state and its changelog, kill that, run it again; compare topic, store and the application."""
    with beginning(seed) as (bootstrap, folder, known):
        show(kill_changelogs(bootstrap, folder, kills, known, click.echo))


if __name__ == "__main__":
    main()
