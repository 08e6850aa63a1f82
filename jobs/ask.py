"""Asking every slot of a Spark application what it sees."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TimedOutError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext

from jobs import probe
from jobs.probe import PROBE_PREFIX, Looked, Probe, Question, entries_of
from migrate.errors import RefusedError
from migrate.spec.spec import Spec

PATIENCE_SECONDS = 120
INSTALL = "install stateferry's dependencies there, in the driver's versions (docs/operations.md, On a cluster)"
SHARE = (
    "state directory and work_dir must be on volumes that all executors share, under one path; else run one job on "
    "each host with --master 'local[*]'"
)
_OTHER_PYTHON = re.compile(r"different version: (\S+) than that in driver:? (\d+\.\d+)")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Clock:
    """The driver's, before it asked and once it was answered."""

    asked: float
    answered: float


@dataclass(frozen=True, slots=True)
class Answers:
    """What the executors see, and what the driver sees."""

    question: Question
    probes: tuple[Probe, ...]
    """One of each slot."""
    clock: Clock
    source_entries: frozenset[str]
    """What the driver saw before and after it asked: the application may be running."""
    work_dir_entries: frozenset[str]


def ask(context: SparkContext, spec: Spec) -> Answers:
    """Every slot. Raises RefusedError where no task comes back."""
    source, work_dir = str(spec.source_path), _that_exists(spec.home)
    # Executors come one by one: await the first.
    ask_slots(context, Question(source, str(work_dir), None), 1, PATIENCE_SECONDS)
    before = entries_of(source), entries_of(str(work_dir))
    with probe_file(work_dir, spec.source_path) as name:
        question = Question(source, str(work_dir), name)
        asked = time.time()
        probes = ask_slots(context, question, context.defaultParallelism, PATIENCE_SECONDS)
        clock = Clock(asked, time.time())
    after = entries_of(source), entries_of(str(work_dir))
    kept = [(old or frozenset()) & (new or frozenset()) for old, new in zip(before, after, strict=True)]
    return Answers(question, probes, clock, *kept)


def _that_exists(home: Path) -> Path:
    return next(folder for folder in (home, *home.parents) if folder.is_dir())


@contextmanager
def probe_file(work_dir: Path, source: Path) -> Iterator[str | None]:
    """A file in the work_dir that goes with the block; None where not even that may stand beside the owner's stores."""
    if work_dir.is_relative_to(source) or source.is_relative_to(work_dir):
        yield None
        return
    file = work_dir / f"{PROBE_PREFIX}{uuid.uuid4().hex}"
    try:
        file.touch()
    except OSError:  # another check says so
        yield None
        return
    try:
        yield file.name
    finally:
        file.unlink(missing_ok=True)


def ask_slots(context: SparkContext, question: Question, slots: int, patience: int | None = None) -> tuple[Probe, ...]:
    """What so many slots answer. Raises RefusedError where the tasks fail, or take longer than `patience` seconds."""
    pool = ThreadPoolExecutor(max_workers=1)
    asked = pool.submit(lambda: context.parallelize([question] * slots, slots).map(probe.look).collect())
    try:
        return tuple(asked.result(timeout=patience))
    except TimedOutError as error:
        raise RefusedError(
            f"no executor took a task within {patience} s",
            hint="do the workers run, and do they have the cores and the memory that this application asks for? The "
            "master's page shows it",
        ) from error
    except Exception as error:  # Spark and py4j raise what they like
        raise explain(str(error)) from error
    finally:
        if not asked.done():
            context.cancelAllJobs()
        pool.shutdown(wait=True)


def explain(text: str) -> RefusedError:
    """What ended a task on an executor, in words, from what Spark says of it."""
    if (versions := _OTHER_PYTHON.search(text)) is not None:
        return RefusedError(
            f"the executors run Python {versions[1]}, the driver {versions[2]}",
            hint="let PYSPARK_PYTHON name a Python of the driver's version that is on all of them",
        )
    if (program := _NO_PYTHON.search(text)) is not None:
        return RefusedError(
            f"the executors have no {program[1]}", hint="let PYSPARK_PYTHON name a Python that is on all of them"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return RefusedError(
        f"the executors' Python fails: {(errors or lines or ['it says nothing'])[-1]}",
        hint="is PYSPARK_PYTHON a Python with stateferry's dependencies? (docs/operations.md, On a cluster)",
    )


def check_packages(probe: Probe) -> None:
    """Raises RefusedError where a package cannot be imported."""
    for name, reason in probe.broken.items():
        raise RefusedError(f"{name} cannot be imported on {probe.host}: {reason}", hint=INSTALL)


def check_seen(folder: str, host: str, looked: Looked, entries: frozenset[str] = frozenset()) -> None:
    """Raises RefusedError where a directory is not there, or lacks `entries` that the driver sees in it."""
    if looked.entries is None:
        raise RefusedError(f"the executors on {host} do not see {folder}", hint=SHARE)
    if missing := sorted(entries - looked.entries):
        raise RefusedError(f"{folder} on {host} is another directory than here: it has no {missing[0]}", hint=SHARE)
