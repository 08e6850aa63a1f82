"""The checks of `doctor` that need Spark: Java, the driver's connection and the executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from jobs.jvm import java_for_spark
from jobs.probe import ProbeResult, code_digest, versions
from jobs.probe_executors import INSTALL, PROMISE, SHARE, DriverView, check_directory, check_packages, probe_slots
from jobs.session import spark_context
from migrate.batch.preflight.check import Check, Outcome
from migrate.batch.preflight.doctor import SPARK_CHECKS
from migrate.dry_run.estimate import PROCESS_BYTES
from migrate.errors import RefusedError
from migrate.model.display import plural
from migrate.spec.conversion import conversion_ref
from migrate.spec.spec import Spec
from migrate.spec.user_function import files_for_executors

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

MOST_SKEW_SECONDS = 5.0
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
        runs: dict[str, Callable[[], str]] = {
            "spark.java": lambda: str(java_for_spark().home),
            "spark.session": checks.check_session,
            "spark.tasks": checks.check_tasks,
            "spark.packages": checks.check_packages,
            "spark.source": checks.check_source,
            "spark.work_dir": checks.check_work_dir,
            "spark.shared": checks.check_shared,
            "spark.clock": checks.check_clock,
            "spark.memory": checks.check_memory,
        }
        yield tuple(
            Check(
                name,
                claim,
                runs[name],
                needs=_NEEDS.get(name, ("spark.tasks",)),
                on_failure=_ON_FAILURE.get(name, "failed"),
            )
            for name, claim in SPARK_CHECKS.items()
        )


class SparkChecks:
    """The checks of a Spark application, which one of them starts, and of its executors, which another one probes."""

    def __init__(self, spec: Spec, master: str, files: list[Path], stack: ExitStack) -> None:
        self._spec = spec
        self._master = master
        self._files = files
        self._stack = stack
        self._context: SparkContext | None = None
        self.driver: DriverView | None = None
        self.probes: tuple[ProbeResult, ...] = ()
        """One for each slot, after `check_tasks`."""

    def check_session(self) -> str:
        """Start a Spark application."""
        self._context = context = self._stack.enter_context(spark_context(self._spec.name, self._master, self._files))
        return f"Spark {context.version} on {self._master}"

    def check_tasks(self) -> str:
        """Probe every slot."""
        assert self._context is not None, "`spark.tasks` needs `spark.session`"
        self.driver, self.probes = probe_slots(self._context, self._spec)
        slots = Counter(probe.host for probe in self.probes)
        return ", ".join(f"{host} ({count} at a time)" for host, count in sorted(slots.items()))

    def check_packages(self) -> str:
        """Compare the packages of every executor with the driver's: ours and those that ours need."""
        here = versions()
        for probe in self.probes:
            check_packages(probe)
            for name, version in here.items():
                if (theirs := probe.versions.get(name)) != version:
                    raise RefusedError(
                        f"{name} is {theirs or 'missing'} on {probe.host}, and {version} here", hint=INSTALL
                    )
            if probe.code != code_digest():
                raise RefusedError(
                    f"the executors on {probe.host} have another stateferry than the driver",
                    hint="remove it from their Python, which gets the job's own code, or install the same version",
                )
        return ", ".join(f"{name} {version}" for name, version in here.items())

    def check_source(self) -> str:
        """Check that every executor sees the driver's old store."""
        assert self.driver is not None, "`spark.source` needs `spark.tasks`"
        for probe in self.probes:
            check_directory(self.driver.request.source, probe.host, probe.source, self.driver.source_entries)
        return self.driver.request.source

    def check_work_dir(self) -> str:
        """Check that every executor sees the driver's work_dir, and can write to it."""
        assert self.driver is not None, "`spark.work_dir` needs `spark.tasks`"
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
        """Check that files pass between the driver and every executor as those of a run do."""
        assert self.driver is not None, "`spark.shared` needs `spark.tasks`"
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
        """Compare the clocks of the executors with the driver's."""
        assert self.driver is not None, "`spark.clock` needs `spark.tasks`"
        worst = max(self.probes, key=self.driver.skew)
        skew = self.driver.skew(worst)
        if skew > MOST_SKEW_SECONDS:
            raise RefusedError(
                f"the clock on {worst.host} differs from the driver's by {skew:,.0f} s",
                hint="synchronize it with NTP: otherwise times in the ledger, in logs and of files cannot be compared",
            )
        return "no difference found" if skew == 0 else f"at most {skew:,.1f} s apart"

    def check_memory(self) -> str:
        """Check that each host has the memory that its workers need together."""
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
