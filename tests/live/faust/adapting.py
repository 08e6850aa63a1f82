"""An application whose table converges under an adapter while it is killed, moved and rebuilt, against a model.

Faust handles events again after a kill, and where it recovers with input waiting it may skip one: so only the last
value of each key is compared, and what may have been on its way at a kill is sent again after the next start: a slow
worker may have several starts' input before it, so that is all since the state was last seen whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.broker.topics import compact_soon, messages_of
from tests.live.faust.migrating import make_state
from tests.live.faust.program import Settings
from tests.live.faust.worker import Inputs, Worker, assert_finds, rows_after, send, some_inputs

NEW_TABLE = "totals"
_PATIENCE_SECONDS = 90.0


class World:
    """One application, and what it must hold."""

    def __init__(self, bootstrap: str, name: str, folder: Path, seed: int, *, keys: int) -> None:
        self.random = Random(seed)
        self.settings = Settings(bootstrap, name, folder / "data")
        self._keys = keys
        self._inputs = list(some_inputs(keys, keys // 5, seed))
        self._on_its_way = list[tuple[str, int | None]]()
        make_state(self.settings, self._inputs)

    def take_adapter(self) -> None:
        self.settings = self.settings.with_adapter(NEW_TABLE)

    def kill(self, kills: int, tell: Callable[[str], None] = lambda _: None) -> None:
        """In the middle of what it does; at one of them the disk is lost too."""
        lost = self.random.randrange(kills)
        for number in range(kills):
            with Worker(self.settings) as worker:
                self.send_some()
                time.sleep(self.random.random())
                worker.kill()
            if number == lost:
                self.settings = self.settings.elsewhere()
            tell(f"kill {number + 1}: {len(self._old_copies())} old values are left")
        assert self.settings.old_table is None or self._old_copies(), "not in the middle: all had converged before"

    def send_some(self) -> None:
        """Some values and deletes, after those that were on their way."""
        more = self._some()
        self._on_its_way += more
        self._inputs += more
        send(self.settings, self._on_its_way)

    def _some(self) -> Inputs:
        keys = [f"k{self.random.randrange(self._keys)}" for _ in range(40)]
        return [(key, None if self.random.random() < 0.4 else self.random.randint(0, 999)) for key in keys]

    def expected(self) -> dict[str, object]:
        return dict(rows_after(self._inputs, is_new=self.settings.is_new))

    def take_over(self) -> None:
        """A second worker joins on another disk, both work, and it outlives the first one. No kill comes after it."""
        self.settings = replace(self.settings, per_checkpoint=1000)
        with Worker(self.settings) as first, Worker(self.settings.elsewhere()) as second:
            self.send_some()
            wait_until(lambda: {**first.holds(), **second.holds()} == self.expected())
            first.kill()
            self._wait_whole(second)
            self.settings = second.settings
            second.stop()

    def converge(self) -> None:
        with Worker(self.settings) as worker:
            self.send_some()
            self._wait_whole(worker).wait_converged().wait_holds(self.expected())
            worker.stop()
        assert self._old_copies() == []

    def _wait_whole(self, worker: Worker) -> Worker:
        worker.wait_holds(self.expected())
        self._on_its_way = []
        return worker

    def _old_copies(self) -> list[bytes]:
        """The keys that the old table's changelog has, and no deletes of them."""
        if self.settings.old_table is None:
            return []
        latest = {each.key: each.value for each in messages_of(self.settings.bootstrap, self._old_changelog)}
        return [key for key, value in latest.items() if value is not None]

    @property
    def _old_changelog(self) -> str:
        return f"{self.settings.name}-{self.settings.old_table}-changelog"

    def check_plain_code(self) -> None:
        """Without the adapter: on its own disk, and on another one."""
        self.settings = self.settings.without_adapter()
        with Worker(self.settings) as worker:
            self._wait_whole(worker)
            self.send_some()
            self._wait_whole(worker)
            worker.stop()
        assert_finds(self.settings.elsewhere(), self.expected(), restores=True)

    def compact(self) -> None:
        """Let the broker compact both changelogs: old values and their deletes go."""
        topics = [self.settings.changelog, self._old_changelog]
        compact_soon(self.settings.bootstrap, *topics)
        for topic in topics:
            before = self._records(topic)
            wait_until(lambda: self._write_and_count(topic) < before)  # noqa: B023 - at once

    def _write_and_count(self, topic: str) -> int:
        with Worker(self.settings) as worker:
            self.send_some()
            self._wait_whole(worker)
            worker.stop()
        return self._records(topic)

    def _records(self, topic: str) -> int:
        return sum(1 for _ in messages_of(self.settings.bootstrap, topic))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)
