"""`python -m tests.spark.kills --kills 20`: SIGKILL to `spark-submit` and all below it, at any instant; to resumes too.

A kill counts where it cut a run short: one that comes when the run has published already is tried again.
"""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from migrate.ledger import Row, read_ledger
from migrate.standing import Standing
from tests.spark.conftest import ROOT
from tests.spark.processes import kill_session
from tests.spark.scene import Scene, assert_each_interval_once, make_scene, submitting
from tests.support import numbered, tree_state

RECORDS = 24_000
CHUNK_SIZE = "96 KiB"
"""A few batches to a chunk: a kill between two of them leaves a half-written SST."""
MASTER = "local[2]"
KILLS_EACH = (2, 5)
"""How many kills one migration meets, at least and at most."""
TRIES = 4
"""For each kill: more misses than that say that the instants are wrong."""

SLOW = """
def convert(record):
    if record.key.endswith(b"00") and is_rewriting():
        time.sleep(0.08)
    return converted(record)
"""


@dataclass
class Tally:
    """What was found so far."""

    kills: Counter[str] = field(default_factory=Counter)
    """By the last step that the ledger had."""
    misses: int = 0
    unnamed_files: int = 0
    failures: list[str] = field(default_factory=list)


def _new_scene(folder: Path) -> Scene:
    return make_scene(folder, SLOW, records=RECORDS, chunk_size=CHUNK_SIZE)


def _calm_seconds(folder: Path) -> tuple[float, int]:
    """How long a run takes that nobody disturbs, and its number of chunks."""
    scene = _new_scene(folder)
    source = tree_state(folder / "old")
    begun = time.monotonic()
    with submitting(scene, MASTER) as job:
        done = job.end()
    seconds = time.monotonic() - begun
    if failures := list(_wrong(scene, done.exit_code, source)):
        raise click.ClickException(f"the calm run went wrong: {', '.join(failures)}\n{done.errors}")
    return seconds, len(scene.chunks)


def _wrong(scene: Scene, exit_code: int, source: dict[str, tuple[int, int, str]]) -> Iterator[str]:
    """What a finished migration should be and is not."""
    if exit_code != 0:
        yield f"exit code {exit_code}"
        return
    if scene.published != {"default": {key: value[::-1] for key, value in numbered(RECORDS).items()}}:
        yield "other records than the calm run's"
    if tree_state(scene.folder / "old") != source:
        yield "the source is not as it was"
    try:
        assert_each_interval_once(scene.chunks)
    except AssertionError as error:
        yield f"an interval is missing or was committed twice: {error}"
    if unknown := {path.name for path in scene.home.iterdir()} - documented_names():
        yield f"the work_dir holds what docs/operations.md does not list: {', '.join(sorted(unknown))}"


def documented_names() -> set[str]:
    """What docs/operations.md says lies in a migration's folder."""
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    table = text.partition("What lies in `work_dir/<name>`:\n\n")[2].partition("\n\n")[0]
    names = set(re.findall(r"^\| `([^`]+?)/?` \|", table, re.MULTILINE))
    assert {"ledger", "chunks"} <= names
    return names


def _unnamed_files(scene: Scene) -> int:
    """Files of attempts that no row names."""
    named = {str(row.facts["attempt"]) for row in scene.chunks}
    files = [path for path in (scene.home / "chunks").rglob("*") if path.is_file()]
    return sum(path.name.partition(".")[0] not in named for path in files)


class _Killing:
    """Kills until there are enough, several to a migration."""

    def __init__(self, folder: Path, kills: int, seed: int) -> None:
        self._folder, self._wanted, self._random = folder, kills, random.Random(seed)
        self._seconds, self._chunks = _calm_seconds(folder / "calm")
        click.echo(f"a calm run: {self._seconds:.1f} s, {self._chunks} chunks")
        even = [(number + self._random.random()) / kills * self._seconds for number in range(kills)]
        self._instants = self._random.sample(even, kills)
        self.tally = Tally()

    def run(self) -> Tally:
        migrations = 0
        while self._instants and self.tally.misses <= TRIES * self._wanted:
            self._migrate(self._folder / f"migration-{migrations}")
            migrations += 1
        if self._instants:
            self.tally.failures.append(f"{len(self._instants)} kills never landed in a run")
        return self.tally

    def _migrate(self, folder: Path) -> None:
        scene = _new_scene(folder)
        source = tree_state(folder / "old")
        rows: list[Row] = []
        for number in range(self._random.randint(*KILLS_EACH)):
            if not self._instants or Standing(scene.home, rows).published is not None:
                break
            before, rows = rows, self._kill_once(scene, number)
            if rows[: len(before)] != before:
                self._fail(folder, "rows that were committed before a kill are not there after it")
        with submitting(scene, MASTER, name="last") as job:
            done = job.end()
        for what in _wrong(scene, done.exit_code, source):
            self._fail(folder, f"{what}\n{done.errors}")
        self.tally.unnamed_files += _unnamed_files(scene)

    def _kill_once(self, scene: Scene, number: int) -> list[Row]:
        """The ledger after it. A run that ended by itself must have ended well."""
        instant = self._instants.pop()
        with submitting(scene, MASTER, name=f"killed-{number}") as job:
            try:
                job.process.wait(timeout=instant)
            except subprocess.TimeoutExpired:
                kill_session(job.process.pid)
            exit_code, errors = (ended := job.end()).exit_code, ended.errors
        rows = read_ledger(scene.home)
        if exit_code not in (0, -signal.SIGKILL):
            self._fail(scene.folder, f"exit code {exit_code} before any kill\n{errors}")
        elif exit_code == 0 or Standing(scene.home, rows).published is not None:
            self.tally.misses += 1
            self._instants.append(self._random.uniform(0, instant))
            click.echo(f"           at {instant:5.1f} s: too late, the run was over; does not count")
        else:
            self.tally.kills[rows[-1].step if rows else "none"] += 1
            self._tell(scene, instant, rows)
        return rows

    def _tell(self, scene: Scene, instant: float, rows: list[Row]) -> None:
        last = f"last step {rows[-1].step}, {len(rows)} rows" if rows else "no ledger yet"
        click.echo(
            f"kill {self.tally.kills.total():3} at {instant:5.1f} s of {scene.folder.name}: {last}, "
            f"{len(scene.chunks)} of {self._chunks} chunks"
        )

    def _fail(self, folder: Path, what: str) -> None:
        self.tally.failures.append(f"{folder.name}: {what}")
        click.echo(f"WRONG {folder.name}: {what}")


@click.command()
@click.option("--kills", default=20, show_default=True, type=click.IntRange(min=1), help="How many must land.")
@click.option("--seed", default=1, show_default=True, help="Of the instants.")
def main(kills: int, seed: int) -> None:
    """Kill `spark-submit` with all its processes at random instants, resume, and compare."""
    with tempfile.TemporaryDirectory(prefix="stateferry-kills-", ignore_cleanup_errors=True) as folder:
        tally = _Killing(Path(folder), kills, seed).run()
    steps = ", ".join(f"{count} at {step}" for step, count in tally.kills.most_common())
    click.echo(
        f"{tally.kills.total()} of {kills} kills landed ({steps}), {tally.misses} came too late and do not count; "
        f"{tally.unnamed_files} files of killed attempts are left; {len(tally.failures)} failures"
    )
    sys.exit(1 if tally.failures else 0)


if __name__ == "__main__":
    main()
