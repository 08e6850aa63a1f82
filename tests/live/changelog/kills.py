"""Migrations of a store and its changelog that are killed again and again, and what is left then."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from confluent_kafka import Producer

from tests.broker.topics import commit_all, copy_topic, ends_of
from tests.kill.at_broker import Attempt, KilledMigration, kill_migrations
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

SHOWN = 0.25
"""After so many of the kills the old application is started."""


@dataclass(frozen=True, slots=True)
class Template:
    """An application that has run once, to be copied for each migration."""

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


class KilledStore(KilledMigration):
    """Of a store of Kafka Streams."""

    chains = (("run", "cutover", "rollback"), ("snapshot", "run", "catch_up", "catch_up", "cutover", "rollback"))
    at: ClassVar = {
        "run": ("changelog",),
        "catch_up": ("tail",),
        "cutover": ("cutover",),
        "rollback": ("rollback",),
    }

    def __init__(self, template: Template, attempt: Attempt) -> None:
        super().__init__(attempt)
        self._old = template.copy(attempt.folder.name, attempt.folder / "state")
        self._before = rows_after(self._old.kind, template.inputs)
        self._now = self._before
        has_snapshot = "snapshot" in self.chain
        is_appended = not has_snapshot and self.rng.random() < 0.4
        self._new = self._old.next_version(store=self._old.store if is_appended else None)
        self.file = Migration(self._old, self._new, "snapshot" if has_snapshot else "live").write().spec

    def go_on(self, seed: int) -> None:
        more = random_inputs(80, 40, seed=seed, now_ms=time.time_ns() // 1_000_000)
        self._now = go_on(self._old, more, self._now)

    def check_after_kill(self, verb: str) -> None:
        """With a new topic, the old version is right until a cut-over has ended."""
        if verb == "rollback" or self._new.store == self._old.store:
            return
        self._check_old()
        if self.rng.random() < SHOWN:
            self._show_old_application()

    def check_after(self, verb: str) -> None:
        if verb == "rollback":
            self._check_old()
            if self.shows:
                self._show_old_application()
        if verb == "cutover":
            topic, last = rows_of_topic(self._new)
            _check(topic, migrated(self._now), "the new changelog")
            _check(rows_of_store(self._new), migrated(self._now), "the new store")
            found = checkpoints(self._new.folder)
            assert {number: found.get((self._new.changelog, number)) for number in last} == last

    def _show_old_application(self) -> None:
        """The old version, started on a copy of the state directory, is right."""
        copy = self._old.elsewhere()
        shutil.copytree(self._old.folder, copy.folder)
        assert_finds(copy, self._now, restored=0 if self._now == self._before else None)

    def _check_old(self) -> None:
        _check(rows_of_store(self._old), self._before, "the old store")
        _check(rows_of_topic(self._old)[0], self._now, "the old changelog")


def kill_changelogs(
    bootstrap: str, folder: Path, kills: int, seed: int, tell: Callable[[str], None] = lambda _: None
) -> Counter[str]:
    """Of stores. Raises AssertionError."""
    template = Template.make(bootstrap, folder / "template")
    return kill_migrations(partial(KilledStore, template), folder / "kill", kills, seed, tell)


def _check(found: Rows, expected: Rows, what: str) -> None:
    difference = first_difference(found, expected)
    assert difference is None, f"{what}: {difference}"
