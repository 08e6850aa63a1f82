"""Builds and runs the Java program that makes and opens real state directories of Kafka Streams."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.kafka_streams.events import Event, held_after, random_events, write_events, write_expected

KEY_VALUE = "key-value"
TIMESTAMPED_KEY_VALUE = "timestamped-key-value"

# Kafka Streams release: the Jackson release it brings, which the program is compiled against.
VERSIONS: Mapping[str, str] = {"3.9.1": "2.16.2", "4.0.1": "2.16.2", "4.3.1": "2.21.2"}

_HERE = Path(__file__).parent
_JVM_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx512m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_BUILD_TIMEOUT_SECONDS = 900
_RUN_TIMEOUT_SECONDS = 600


class ProgramError(Exception):
    """The Java program could not be built, or failed itself (a difference it finds is a Verdict)."""


@dataclass(frozen=True, slots=True)
class StoreVerdict:
    """What Kafka Streams found in one store of one task; records is None if the comparison failed."""

    records: int | None
    upgrade_mode: bool
    offset: int | None
    offset_source: str
    position: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether all is as expected, the first difference if not, and what was found by task and store."""

    ok: bool
    difference: str | None
    version: str
    tasks: Mapping[str, Mapping[str, StoreVerdict]]

    def stores(self, store: str) -> list[StoreVerdict]:
        """What was found in the store, task by task."""
        return [stores[store] for stores in self.tasks.values() if store in stores]

    def records(self, store: str) -> int:
        """How many records of the store, over all tasks, were found as expected."""
        return sum(found.records or 0 for found in self.stores(store))

    def upgrade_mode(self, store: str) -> bool:
        """Whether any task opened the store in upgrade mode."""
        return any(found.upgrade_mode for found in self.stores(store))


def require_live() -> None:
    """Skip the calling test where Java or Maven is missing, or fail it where live tests are required."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if not missing:
        return
    reason = f"live Kafka Streams tests need {', '.join(missing)} on the PATH"
    if os.environ.get("REQUIRE_LIVE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def make_state(
    version: str,
    app_dir: Path,
    *,
    store: str,
    kind: str,
    tasks: int,
    records: int,
    seed: int,
    other_stores: Mapping[str, str] | None = None,
) -> Path:
    """Make `<state.dir>/<application.id>` with random records; return the directory of what it must hold.

    The other stores (name to kind) lie in the same tasks, with records of their own.
    """
    kinds = {store: kind, **(other_stores or {})}
    names = [f"0_{number}" for number in range(tasks)]
    events = {task: {name: random_events(records, seed=f"{seed}/{task}/{name}") for name in kinds} for task in names}
    return make_state_of(version, app_dir, kinds=kinds, events=events)


def make_state_of(
    version: str, app_dir: Path, *, kinds: Mapping[str, str], events: Mapping[str, Mapping[str, list[Event]]]
) -> Path:
    """Make a state directory from given events by task and store; return the directory of what it must hold."""
    if app_dir.exists():
        raise FileExistsError(f"{app_dir} exists already")
    app_dir.parent.mkdir(parents=True, exist_ok=True)
    expected = app_dir.with_name(app_dir.name + ".expected")
    with tempfile.TemporaryDirectory() as scratch:
        for task, stores in events.items():
            for store, store_events in stores.items():
                file = Path(task) / f"{store}.jsonl.gz"
                write_events(Path(scratch) / file, store_events)
                held = held_after(store_events, timestamped=kinds[store] == TIMESTAMPED_KEY_VALUE)
                write_expected(expected / file, held)
        _run(version, "make", _options(app_dir, kinds, list(events)) | {"--events": scratch})
    return expected


def open_state(
    version: str,
    app_dir: Path,
    *,
    store: str,
    kind: str,
    expected: Path,
    timestamp: int | None = None,
    other_stores: Mapping[str, str] | None = None,
    exactly_once: bool = False,
    in_place: bool = False,
) -> Verdict:
    """Open a copy of a state directory with Kafka Streams, or `in_place` itself, and compare it with what it must hold.

    Writes to it, reopens it and compares again. `timestamp` is that of expected records without one.
    """
    tasks = sorted(path.name for path in expected.iterdir())
    with tempfile.TemporaryDirectory() as scratch:
        copy = app_dir if in_place else Path(scratch) / app_dir.name
        if not in_place:
            shutil.copytree(app_dir, copy, symlinks=True)
        options = _options(copy, {store: kind, **(other_stores or {})}, tasks) | {"--expected": str(expected)}
        if timestamp is not None:
            options["--timestamp"] = str(timestamp)
        if exactly_once:
            options["--exactly-once"] = "yes"
        return _verdict(_run(version, "open", options))


def classpath(version: str) -> str:
    """Build the program against a release of Kafka Streams, unless built already; return its classpath."""
    cache = _cache_directory()
    built = cache / "kafka-streams-program" / f"{version}-{_sources_digest()}"
    with _locked(cache / "kafka-streams-program.lock"):
        if not built.exists():
            _build(version, built, repository=cache / "maven")
    return f"{built / 'classes'}{os.pathsep}{(built / 'classpath').read_text(encoding='utf-8')}"


def _build(version: str, built: Path, *, repository: Path) -> None:
    """Build beside the final directory and rename, so that a build cut short is never taken for one."""
    built.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
        target = Path(scratch) / "target"
        command = ["mvn", "--quiet", "--batch-mode", "--file", str(_HERE / "pom.xml")]
        command += [f"-Dmaven.repo.local={repository}", f"-Dbuild.dir={target}"]
        command += [f"-Dkafka.version={version}", f"-Djackson.version={VERSIONS[version]}"]
        command += ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={target / 'classpath'}"]
        # What Maven has fetched before is enough without a network; ask for it only if it is not.
        attempts = [[*command, "--offline"], command] if repository.exists() else [command]
        for attempt in attempts:
            result = subprocess.run(
                attempt, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_SECONDS, check=False
            )
            if result.returncode == 0:
                target.rename(built)
                return
        raise ProgramError(f"build against Kafka Streams {version} failed:\n{result.stdout}{result.stderr}")


def _run(version: str, command: str, options: Mapping[str, str]) -> str:
    arguments = [word for option in options.items() for word in option]
    java = ["java", *_JVM_FLAGS, "-cp", classpath(version), "stateferry.live.Main", command, *arguments]
    result = subprocess.run(java, capture_output=True, text=True, timeout=_RUN_TIMEOUT_SECONDS, check=False)
    if result.returncode not in (0, 1):
        raise ProgramError(f"{command} with Kafka Streams {version} exited {result.returncode}:\n{result.stderr}")
    return result.stdout


def _options(app_dir: Path, kinds: Mapping[str, str], tasks: list[str]) -> dict[str, str]:
    stores = ",".join(f"{name}={kind}" for name, kind in kinds.items())
    return {"--app-dir": str(app_dir.resolve()), "--stores": stores, "--tasks": ",".join(tasks)}


def _verdict(output: str) -> Verdict:
    document = json.loads(output)
    tasks = {
        task: {
            store: StoreVerdict(
                records=found.get("records"),
                upgrade_mode=found["upgrade_mode"],
                offset=found["offset"],
                offset_source=found["offset_source"],
                position=found["position"],
            )
            for store, found in stores.items()
        }
        for task, stores in document["tasks"].items()
    }
    return Verdict(ok=document["ok"], difference=document["difference"], version=document["version"], tasks=tasks)


def _cache_directory() -> Path:
    """Return the cache of built programs and of Maven's downloads, which tells git to ignore it."""
    cache = Path(os.environ.get("STATEFERRY_TEST_CACHE") or _HERE.parents[2] / ".cache").resolve()
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n", encoding="utf-8")
    return cache


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for source in [_HERE / "pom.xml", *sorted(_HERE.glob("src/main/java/**/*.java"))]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
