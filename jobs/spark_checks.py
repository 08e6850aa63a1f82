"""The checks of `doctor` that need Spark: Java, the driver's connection, and what the executors see."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TimedOutError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pyspark import SparkContext

from jobs.java import find_java_home
from jobs.probe import (
    PROBE_PREFIX,
    DirectoryProbe,
    ProbeRequest,
    ProbeResult,
    code_digest,
    entries_of,
    probe_here,
    versions,
)
from jobs.session import spark_context
from migrate.batch.preflight.check import SPARK_CHECKS, Check, Outcome
from migrate.dry_run.estimate import PROCESS_BYTES
from migrate.errors import RefusedError
from migrate.library_messages import error_of_python, missing_program, other_pythons
from migrate.model.display import plural
from migrate.spec.conversion import conversion_ref
from migrate.spec.spec import Spec
from migrate.spec.user_function import files_for_executors
from migrate.stores.files import write_durably

MOST_SKEW_SECONDS = 5.0
TIMEOUT_SECONDS = 120
INSTALL = "in the executors' Python, pip install 'stateferry[batch]', with the driver's versions (docs/install.md)"
SHARE = (
    "the state directory and the work_dir must be on volumes that all executors share, under one path; otherwise run "
    "one job on each host with --master 'local[*]'"
)
PROMISE = (
    "put the work_dir on a volume that shows every host what another one wrote as soon as it is closed or renamed "
    "(NFS: mount it with actimeo=0, and not with nocto), or run one job on each host with --master 'local[*]'; "
    "docs/scale.md says what a run needs of it"
)
_NEEDS = {
    "spark.java": (),
    "spark.session": ("spark.java",),
    "spark.tasks": ("spark.session",),
    "spark.shared": ("spark.work_dir",),
}
_ON_FAILURE: dict[str, Outcome] = {"spark.clock": "warning", "spark.memory": "warning"}


@contextmanager
def spark_checks(spec: Spec, master: str) -> Iterator[tuple[Check, ...]]:
    """The checks in order; what `spark.session` starts ends with the block. Raises SpecError."""
    with ExitStack() as stack:
        checks = SparkChecks(spec, master, files_for_executors(conversion_ref(spec)), stack)
        yield tuple(
            Check(
                name,
                claim,
                getattr(checks, f"check_{name.removeprefix('spark.')}"),
                needs=_NEEDS.get(name, ("spark.tasks",)),
                on_failure=_ON_FAILURE.get(name, "failed"),
            )
            for name, claim in SPARK_CHECKS.items()
        )


@dataclass
class SparkChecks:
    """The checks of a Spark application, which one of them starts, and of its executors, which another one probes."""

    spec: Spec
    master: str
    files: list[Path]
    stack: ExitStack
    context: SparkContext = field(init=False)
    driver: DriverView = field(init=False)
    probes: tuple[ProbeResult, ...] = field(init=False)
    """One for each slot. Both are known after `check_tasks`."""

    def check_java(self) -> str:
        return str(find_java_home())

    def check_session(self) -> str:
        self.context = self.stack.enter_context(spark_context(self.spec.name, self.master, self.files))
        return f"Spark {self.context.version} on {self.master}"

    def check_tasks(self) -> str:
        """Probe every slot of the application. Raises RefusedError if a task fails or does not start."""
        source = str(self.spec.source_path)
        work_dir = next(folder for folder in (self.spec.home, *self.spec.home.parents) if folder.is_dir())
        # Executors register one after the other: wait for the first.
        run_probes(self.context, ProbeRequest(source, str(work_dir), None), 1, TIMEOUT_SECONDS)
        before = entries_of(source), entries_of(str(work_dir))
        with probe_file(work_dir, self.spec.source_path) as name:
            request = ProbeRequest(source, str(work_dir), name)
            started = time.time()
            self.probes = run_probes(self.context, request, self.context.defaultParallelism, TIMEOUT_SECONDS)
            ended = time.time()
            unshared = tuple(find_unshared(work_dir, name, self.probes))
        after = entries_of(source), entries_of(str(work_dir))
        in_source, in_work_dir = [
            (old or frozenset()) & (new or frozenset()) for old, new in zip(before, after, strict=True)
        ]
        self.driver = DriverView(request, in_source, in_work_dir, started, ended, unshared)
        slots = Counter(probe.host for probe in self.probes)
        return ", ".join(f"{host} ({count} at a time)" for host, count in sorted(slots.items()))

    def check_packages(self) -> str:
        here, code = versions(), code_digest()
        for probe in self.probes:
            check_packages(probe)
            for name, version in here.items():
                if (theirs := probe.versions.get(name)) != version:
                    raise RefusedError(
                        f"{name} is {theirs or 'missing'} on {probe.host}, and {version} here", hint=INSTALL
                    )
            if probe.code != code:
                raise RefusedError(
                    f"the executors on {probe.host} have another stateferry than the driver",
                    hint="remove it from their Python, which gets the job's own code, or install the same version",
                )
        return ", ".join(f"{name} {version}" for name, version in here.items())

    def check_source(self) -> str:
        for probe in self.probes:
            check_directory(self.driver.request.source, probe.host, probe.source, self.driver.source_entries)
        return self.driver.request.source

    def check_work_dir(self) -> str:
        folder = self.driver.request.work_dir
        for probe in self.probes:
            check_directory(folder, probe.host, probe.work_dir, self.driver.work_dir_entries)
            if not probe.work_dir.sees_probe:
                raise RefusedError(f"{folder} on {probe.host} is another directory than here", hint=SHARE)
            if not probe.work_dir.is_writable:
                raise RefusedError(
                    f"the executors on {probe.host} cannot write to {folder}",
                    hint="run them as the application's user, or change the owner or the mode of that directory",
                )
        return folder

    def check_shared(self) -> str:
        for sentence in self.driver.unshared:
            raise RefusedError(sentence, hint=PROMISE)
        found = [probe.work_dir.shared for probe in self.probes]
        if None in found:
            return "not tried: nothing is written beside the old store"
        for probe, shared in zip(self.probes, found, strict=True):
            if shared is not None and not shared.is_linked:
                raise RefusedError(
                    f"{probe.host} cannot make a hard link in {self.driver.request.work_dir}",
                    hint="put work_dir on a file system that has hard links",
                )
        return "writing, syncing, renaming and hard links"

    def check_clock(self) -> str:
        worst = max(self.probes, key=self.driver.skew)
        skew = self.driver.skew(worst)
        if skew > MOST_SKEW_SECONDS:
            raise RefusedError(
                f"the clock on {worst.host} differs from the driver's by {skew:,.0f} s",
                hint="synchronize it with NTP: otherwise times in the ledger, in logs and of files cannot be compared",
            )
        return "no difference found" if skew == 0 else f"at most {skew:,.1f} s apart"

    def check_memory(self) -> str:
        found = []
        for host, workers in Counter(probe.host for probe in self.probes).items():
            free = min((p.free_memory for p in self.probes if p.host == host and p.free_memory), default=None)
            if free is None:
                continue
            needed = workers * PROCESS_BYTES
            found.append(f"{host}: {free / 2**20:,.0f} MiB for {plural(workers, 'worker')}")
            if free < needed:
                raise RefusedError(
                    f"{host} has {free / 2**20:,.0f} MiB of memory free, {plural(workers, 'worker')} may need "
                    f"{needed / 2**20:,.0f} MiB",
                    hint="run fewer at a time (--master 'local[N]', spark.executor.cores), or lower [run] chunk_size",
                )
        return "; ".join(found) or "not reported by the hosts"


@dataclass(frozen=True, slots=True)
class DriverView:
    """What the driver sees, to compare the results of the probes with."""

    request: ProbeRequest
    source_entries: frozenset[str]
    """Entries that were there before and after the probes: the application may be running."""
    work_dir_entries: frozenset[str]
    started: float
    """When the probes were sent, in seconds since the epoch."""
    ended: float
    """When the last result arrived."""
    unshared: tuple[str, ...] = ()
    """What the driver does not see as an executor does, or the reverse: a sentence each."""

    def skew(self, result: ProbeResult) -> float:
        """The least difference between the executor's clock and the driver's, in seconds."""
        return max(0.0, self.started - result.time, result.time - self.ended)


@contextmanager
def probe_file(work_dir: Path, source: Path) -> Iterator[str | None]:
    """The name of a temporary file in the work_dir, which is its content; None if it cannot be written, or would lie
    beside the old store.

    It replaces an empty one. What executors have left beside it is removed with it.
    """
    if work_dir.is_relative_to(source) or source.is_relative_to(work_dir):
        yield None
        return
    file = work_dir / f"{PROBE_PREFIX}{uuid.uuid4().hex}"
    try:
        file.touch()
        write_durably(file, file.name.encode("ascii"))
    except OSError:  # another check reports it
        yield None
        return
    try:
        yield file.name
    finally:
        for left in (*work_dir.glob(f"{file.name}*"), *work_dir.glob(f".{file.name}*")):
            left.unlink(missing_ok=True)


def find_unshared(work_dir: Path, probe: str | None, results: Iterable[ProbeResult]) -> Iterator[str]:
    """What the driver does not see as an executor does, or the reverse, while the files of the probes are there."""
    for result in results:
        shared, host = result.work_dir.shared, result.host
        if shared is None:
            continue
        if shared.content != probe:
            yield f"a file that was written here and renamed in {work_dir} is not seen whole on {host}"
        if shared.left is None:
            yield f"{host} cannot write, sync and rename a file in {work_dir}: {shared.error}"
            continue
        content, links = None, 0
        with suppress(OSError):
            content = (work_dir / shared.left).read_text(encoding="ascii", errors="replace")
            links = (work_dir / shared.left).stat().st_nlink
        if content != shared.left:
            yield f"a file that {host} wrote and renamed in {work_dir} is not seen whole here"
        elif links != 1 + shared.is_linked:
            yield f"a hard link that {host} made in {work_dir} is not seen here"


def run_probes(
    context: SparkContext, request: ProbeRequest, slots: int, timeout: int | None = None
) -> tuple[ProbeResult, ...]:
    """Run `slots` probes at a time. Raises RefusedError if a task fails, or none ends within `timeout` seconds."""
    pool = ThreadPoolExecutor(max_workers=1)
    results = pool.submit(lambda: context.parallelize([request] * slots, slots).map(probe_here).collect())
    try:
        return tuple(results.result(timeout=timeout))
    except TimedOutError as error:
        raise RefusedError(
            f"no executor took a task within {timeout} s",
            hint="check on the master's page that workers are running, and have the cores and the memory that this "
            "application requests",
        ) from error
    except Exception as error:  # Spark and py4j raise errors of many classes
        raise explain_failure(str(error)) from error
    finally:
        if not results.done():
            context.cancelAllJobs()
        pool.shutdown(wait=True)


def explain_failure(text: str) -> RefusedError:
    """Turn Spark's message about a failed task into an error for the operator."""
    if (versions := other_pythons(text)) is not None:
        return RefusedError(
            f"the executors run Python {versions[0]}, the driver {versions[1]}",
            hint="set PYSPARK_PYTHON to a Python of the driver's version that all executors have",
        )
    if (program := missing_program(text)) is not None:
        return RefusedError(
            f"the executors have no {program}", hint="set PYSPARK_PYTHON to a Python that all executors have"
        )
    return RefusedError(
        f"Python fails on the executors: {error_of_python(text) or 'without a message'}",
        hint="check that PYSPARK_PYTHON is a Python with stateferry[batch] (docs/install.md)",
    )


def check_packages(result: ProbeResult) -> None:
    """Raise RefusedError if a package cannot be imported on the executor."""
    for name, reason in result.broken.items():
        raise RefusedError(f"{name} cannot be imported on {result.host}: {reason}", hint=INSTALL)


def check_directory(folder: str, host: str, probe: DirectoryProbe, entries: frozenset[str] = frozenset()) -> None:
    """Raise RefusedError if the directory does not exist on the host, or lacks `entries` that the driver sees in it."""
    if probe.entries is None:
        raise RefusedError(f"the executors on {host} do not see {folder}", hint=SHARE)
    if missing := sorted(entries - probe.entries):
        raise RefusedError(f"{folder} on {host} is another directory than here: it has no {missing[0]}", hint=SHARE)
