"""Migrations of a table and its changelog that are killed again and again, and what is left then."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from confluent_kafka import Producer

from formats.partitioners import default_partition
from tests.broker.topics import commit_all, copy_topic, ends_of, make_topic, messages_of
from tests.kill.at_broker import Attempt, KilledMigration, kill_migrations
from tests.live.faust.migrating import Migration, make_state
from tests.live.faust.program import PARTITIONS, Settings
from tests.live.faust.worker import Inputs, Rows, assert_finds, rows_after, send, some_inputs
from tests.support import read_families

_OFFSET = b"__faust\0offset__"


@dataclass(frozen=True, slots=True)
class Template:
    """An application that has run once, to be copied for each migration."""

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


class KilledTable(KilledMigration):
    """Of a table of Faust."""

    chains = (("run", "cutover", "rollback"), ("snapshot", "run", "catch_up", "cutover", "rollback"))
    at: ClassVar = {
        "run": ("changelog", "assemble", "verify"),
        "catch_up": ("tail", "assemble"),
        "cutover": ("cutover",),
        "rollback": ("rollback",),
    }
    occurrences = (1, 2, 3)

    def __init__(self, template: Template, attempt: Attempt) -> None:
        super().__init__(attempt)
        self._old = template.copy(attempt.folder.name, attempt.folder)
        self._inputs, self._before = template.inputs, rows_after(template.inputs)
        self._has_snapshot = "snapshot" in self.chain
        is_appended = not self._has_snapshot and self.rng.random() < 0.5
        self._new = self._old.next_version(self._old.table if is_appended else f"{self._old.table}-v2")
        migration = Migration(self._old, self._new, "snapshot" if self._has_snapshot else "live")
        migration.spec()
        self.file = migration.file

    def go_on(self, seed: int) -> None:
        more = some_inputs(30, 40, seed=seed)
        go_on(self._old, more)
        self._inputs = [*self._inputs, *more]

    def check_after_kill(self, verb: str) -> None:
        if verb != "rollback" and self._new.table != self._old.table:
            self._check_old()

    def check_after(self, verb: str) -> None:
        if verb == "cutover":
            expected = rows_after(self._inputs, is_new=True)
            assert rows_of_topic(self._new) == rows_of_table(self._new)
            assert rows_of_table(self._new)[0] == expected
            if self.shows:
                assert_finds(self._copy(self._new), expected, restores=False)
        if verb == "rollback":
            self._check_old()
            if self.shows:
                assert_finds(self._copy(self._old), rows_after(self._inputs), restores=self._is_behind)

    @property
    def _is_behind(self) -> bool:
        """Whether the old table has records of its changelog yet to read: our own, or those that came later."""
        return self._new.table == self._old.table or self._has_snapshot

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
    """Of tables. Raises AssertionError."""
    template = Template.make(bootstrap, folder / "template")
    return kill_migrations(partial(KilledTable, template), folder / "faust-kill", kills, seed, tell)
