"""A small migration with a function beside its spec that knows when it runs in a chunk, and can wait there."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from migrate import load_spec, run
from migrate.model.ledger_row import Row, Step
from migrate.spec.spec import Spec
from tests.spark.job import SCRIPT, SPARK_SUBMIT, Job, job_environment
from tests.spark.processes import kill_session
from tests.support import make_store, numbered, read_families, read_ledger, spec_file, tree_state

PATIENCE = 120
"""Seconds: for what happens within a few on a machine that has nothing else to do."""

_MODULE = """
import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from pyspark import TaskContext

MARKS = Path({marks!r})
CHUNKS = Path({chunks!r})


def is_in(step):
    context = TaskContext.get()  # none in the plan's sample
    return context is not None and (context.getLocalProperty("spark.job.description") or "").startswith(step)


def is_rewriting():
    return is_in("rewrite")


def is_sorting():
    return is_in("sort")


def is_verifying():
    return is_in("verify")


def notes_of(name):
    return [json.loads(line) for line in (MARKS / name).read_text().splitlines()]


def note(name):
    # one line for each time that a worker comes here; how many there are now
    context = TaskContext.get()
    who = {{"pid": os.getpid(), "daemon": os.getppid(), "attempt": context.attemptNumber()}}
    with (MARKS / name).open("a") as notes:
        notes.write(json.dumps(who) + "\\n")
    return len(notes_of(name))


def is_first(name):
    try:
        os.close(os.open(MARKS / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def wait_until(is_so):
    deadline = time.monotonic() + {patience}
    while not is_so():
        if time.monotonic() > deadline:
            raise RuntimeError("nothing came of it")
        time.sleep(0.02)


def converted(record):
    return replace(record, value=record.value[::-1])


{code}
"""

PLAIN = """
def convert(record):
    return converted(record)
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """One migration of a raw store, in a folder of its own."""

    folder: Path
    source: dict[str, tuple[int, int, str]]
    """The old store as it was made."""

    @property
    def file(self) -> Path:
        return self.folder / "migration.toml"

    @property
    def spec(self) -> Spec:
        return load_spec(self.file)

    @property
    def marks(self) -> Path:
        return self.folder / "marks"

    @property
    def home(self) -> Path:
        return self.folder / "work/small"

    @property
    def chunks(self) -> list[Row]:
        """The ledger's rows of committed chunks."""
        return [row for row in read_ledger(self.home) if row.step is Step.CHUNK]

    @property
    def published(self) -> dict[str, dict[bytes, bytes]]:
        return read_families(self.folder / "new")

    def notes(self, name: str) -> list[dict[str, int]]:
        """What workers have left by `note`."""
        file = self.marks / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def make_scene(
    folder: Path, code: str = PLAIN, *, records: int = 4000, chunk_size: str = "16 KiB", **conversion: object
) -> Scene:
    """`code` defines `convert`; on executors it may use what the module has above it."""
    make_store(folder / "old", numbered(records))
    scene = Scene(folder, tree_state(folder / "old"))
    scene.marks.mkdir(parents=True)
    module = _MODULE.format(marks=str(scene.marks), chunks=str(scene.home / "chunks"), code=code, patience=PATIENCE)
    (folder / "conversion.py").write_text(module)
    sections = {"conversion": {"function": "conversion:convert", **conversion}, "run": {"chunk_size": chunk_size}}
    spec_file(scene.file, name="small", **sections)
    return scene


@dataclass(frozen=True, slots=True)
class Calm:
    """What a run that nobody disturbs gives, without Spark."""

    published: dict[str, dict[bytes, bytes]]
    chunks: int


def run_calmly(folder: Path) -> Calm:
    scene = make_scene(folder)
    report = run(scene.spec)
    assert report.totals.chunks >= 6
    assert scene.published["default"] == {key: value[::-1] for key, value in numbered(4000).items()}
    return Calm(scene.published, report.totals.chunks)


class RunningJob:
    """A command that is at work."""

    def __init__(self, command: list[str], scene: Scene, name: str, environment: Mapping[str, str]) -> None:
        self._scene = scene
        self._output, self._errors = (scene.folder / f"{name}.{kind}" for kind in ("out", "err"))
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, cwd=scene.marks, env=environment, stdout=output, stderr=errors, start_new_session=True
            )

    def await_note(self, name: str) -> dict[str, int]:
        """The first worker's note of that name. Fails where the command ends without one."""
        deadline = time.monotonic() + PATIENCE
        while not (notes := self._scene.notes(name)):
            assert self.process.poll() is None, self._told()
            assert time.monotonic() < deadline, self._told()
            time.sleep(0.05)
        return notes[0]

    def end(self) -> Job:
        """What it did."""
        self.process.wait(timeout=2 * PATIENCE)
        return Job(self.process.returncode, self._output.read_text(), self._told())

    def _told(self) -> str:
        return self._output.read_text() + self._errors.read_text()


@contextmanager
def started(command: list[str], scene: Scene, name: str, **environment: str) -> Iterator[RunningJob]:
    """A command in a session of its own, of which nothing is left in the end."""
    job = RunningJob(command, scene, name, job_environment() | environment)
    try:
        yield job
    finally:
        kill_session(job.process.pid)
        job.process.wait()


def submitting(scene: Scene, master: str, *arguments: str, name: str = "job") -> AbstractContextManager[RunningJob]:
    """`spark-submit` at work."""
    command = [SPARK_SUBMIT, "--master", master, "--conf", "spark.ui.enabled=false", *arguments]
    return started([*command, SCRIPT, "--spec", str(scene.file), "--json"], scene, name)


def assert_right(scene: Scene, job: Job, calm: Calm) -> None:
    """The job ended well, as an undisturbed one would, each interval is committed once, and the source is as it was."""
    assert job.exit_code == 0, job.errors
    assert scene.published == calm.published
    assert tree_state(scene.folder / "old") == scene.source
    assert_each_interval_once(scene.chunks)
    assert len(scene.chunks) == calm.chunks


def assert_each_interval_once(rows: list[Row]) -> None:
    """They cover the one RocksDB directory there is, and are disjoint."""
    ranges = sorted((row.keys for row in rows), key=lambda keys: keys.start or b"")
    assert (ranges[0].start, ranges[-1].end) == (None, None)
    assert [(before.end, after.start) for before, after in pairwise(ranges) if before.end != after.start] == []
