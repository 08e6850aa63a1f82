"""What only Spark can tell of the ground: `doctor`'s checks of Java, the session and its executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from jobs.ask import INSTALL, SHARE, Answers, Clock, ask, check_packages, check_seen
from jobs.java import JavaNotFoundError, find_java_home
from jobs.probe import Probe, code_digest, versions
from migrate.batch.preflight.check import Check, Outcome
from migrate.batch.preflight.doctor import SPARK_CHECKS
from migrate.dry_run.cost import WORKER_BYTES
from migrate.errors import RefusedError
from migrate.spec.conversion import conversion_ref
from migrate.spec.function.fingerprint import files_for_executors
from migrate.spec.spec import Spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark import SparkContext

MOST_SKEW_SECONDS = 5.0
_NEEDS = {"spark.java": (), "spark.session": ("spark.java",), "spark.tasks": ("spark.session",)}
_ON_FAILURE: dict[str, Outcome] = {"spark.clock": "warning", "spark.memory": "warning"}


@contextmanager
def spark_checks(spec: Spec, master: str) -> Iterator[tuple[Check, ...]]:
    """The checks; the session that one of them starts ends with the block. Raises SpecError."""
    with ExitStack() as stack:
        ground = SparkGround(spec, master, files_for_executors(conversion_ref(spec)), stack)
        runs: dict[str, Callable[[], str]] = {
            "spark.java": _check_java,
            "spark.session": ground.check_session,
            "spark.tasks": ground.check_tasks,
            "spark.packages": ground.check_packages,
            "spark.source": ground.check_source,
            "spark.work_dir": ground.check_work_dir,
            "spark.clock": ground.check_clock,
            "spark.memory": ground.check_memory,
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


def _check_java() -> str:
    try:
        return str(find_java_home())
    except JavaNotFoundError as error:
        raise RefusedError(
            str(error), hint="or run in this process, without Spark: stateferry run SPEC --no-spark"
        ) from error


class SparkGround:
    """A session, started by one check, and what its executors answered to another."""

    def __init__(self, spec: Spec, master: str, files: list[Path], stack: ExitStack) -> None:
        self._spec = spec
        self._master = master
        self._files = files
        self._stack = stack
        self._context: SparkContext | None = None
        self._answers: Answers | None = None

    @property
    def answers(self) -> Answers:
        """Of every slot."""
        assert self._answers is not None, "every check that asks for them needs `spark.tasks`"
        return self._answers

    def check_session(self) -> str:
        """Start one."""
        from jobs.session import spark_session

        try:
            session = self._stack.enter_context(spark_session(self._spec.name, self._master, self._files))
        except RefusedError:
            raise
        except Exception as error:  # Spark and py4j raise what they like
            raise RefusedError(
                f"no Spark session starts on {self._master}: {_said(error)}",
                hint="is --master right, and does the master run? Spark's own log above says more",
            ) from error
        self._context = session.sparkContext
        return f"Spark {session.version} on {self._master}"

    def check_tasks(self) -> str:
        """Ask every slot."""
        assert self._context is not None, "it needs `spark.session`"
        self._answers = ask(self._context, self._spec)
        return _hosts(self._answers.probes)

    def check_packages(self) -> str:
        """Ours and those that ours need."""
        here = versions()
        for probe in self.answers.probes:
            check_packages(probe)
            for name, version in here.items():
                if (theirs := probe.versions.get(name)) != version:
                    raise RefusedError(
                        f"{name} is {theirs or 'missing'} on {probe.host}, and {version} here", hint=INSTALL
                    )
            if probe.code != code_digest():
                raise RefusedError(
                    f"the executors on {probe.host} have another stateferry than the driver",
                    hint="remove it from their Python, or install the same one: the job brings its own code along",
                )
        return ", ".join(f"{name} {version}" for name, version in here.items())

    def check_source(self) -> str:
        """Seen by all, and the same."""
        for probe in self.answers.probes:
            check_seen(self.answers.question.source, probe.host, probe.source, self.answers.source_entries)
        return self.answers.question.source

    def check_work_dir(self) -> str:
        """Seen by all, the same, and written to by all."""
        folder = self.answers.question.work_dir
        for probe in self.answers.probes:
            check_seen(folder, probe.host, probe.work_dir, self.answers.work_dir_entries)
            if not probe.work_dir.sees_probe:
                raise RefusedError(f"{folder} on {probe.host} is another directory than here", hint=SHARE)
            if not probe.work_dir.is_writable:
                raise RefusedError(
                    f"the executors on {probe.host} cannot write to {folder}",
                    hint="run them as the application's user, or change the owner or the mode of that directory",
                )
        return folder

    def check_clock(self) -> str:
        """Within some seconds."""
        worst = max(self.answers.probes, key=lambda probe: _skew(probe, self.answers.clock))
        skew = _skew(worst, self.answers.clock)
        if skew > MOST_SKEW_SECONDS:
            raise RefusedError(
                f"the clock on {worst.host} is {skew:,.0f} s away from the driver's",
                hint="let NTP set it: times in the ledger, in logs and of files cannot be compared otherwise",
            )
        return "no difference to be seen" if skew == 0 else f"at most {skew:,.1f} s away"

    def check_memory(self) -> str:
        """For every slot of a host at one time."""
        said = []
        for host, workers in Counter(probe.host for probe in self.answers.probes).items():
            free = min((p.free_memory for p in self.answers.probes if p.host == host and p.free_memory), default=None)
            if free is None:
                continue
            needed = workers * WORKER_BYTES
            said.append(f"{host}: {free / 2**20:,.0f} MiB for {_workers(workers)}")
            if free < needed:
                raise RefusedError(
                    f"{host} has {free / 2**20:,.0f} MiB of memory free, {_workers(workers)} may need "
                    f"{needed / 2**20:,.0f} MiB",
                    hint="run fewer at a time (--master 'local[N]', spark.executor.cores), or lower [run] chunk_size",
                )
        return "; ".join(said) or "the hosts do not tell"


def _skew(probe: Probe, clock: Clock) -> float:
    return max(0.0, clock.asked - probe.time, probe.time - clock.answered)


def _hosts(probes: Iterable[Probe]) -> str:
    counted = Counter(probe.host for probe in probes)
    return ", ".join(f"{host} ({workers} at a time)" for host, workers in sorted(counted.items()))


def _workers(number: int) -> str:
    return f"{number} worker" + ("" if number == 1 else "s")


def _said(error: BaseException) -> str:
    """The first line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("at ", "An error occurred while calling"))]
    return (telling or lines or [type(error).__name__])[0].removeprefix(": ")
