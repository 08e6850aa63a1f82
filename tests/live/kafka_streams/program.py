"""Builds and runs the Java program that makes and opens real state directories of Kafka Streams."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.kafka_streams.events import (
    Event,
    random_events,
    read_expected,
    touching_events,
    write_events,
    write_expected,
)
from tests.live.kafka_streams.kinds import (
    HEADERS_VERSIONS,
    KEY_VALUE,
    RETENTION_MS,
    TIMESTAMPED_KEY_VALUE,
    VERSIONS,
)
from tests.live.kafka_streams.model import rows_after, rows_as
from tests.live.maven import ProgramError, built_classpath

__all__ = [
    "KEY_VALUE",
    "TIMESTAMPED_KEY_VALUE",
    "VERSIONS",
    "ProgramError",
    "StoreVerdict",
    "Verdict",
    "classpath",
    "make_half_upgraded",
    "make_state",
    "make_state_of",
    "open_state",
    "require_live",
    "run_program",
    "write_more",
]

_HERE = Path(__file__).parent
_JVM_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx512m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_RUN_TIMEOUT_SECONDS = 600


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
    retention_ms: int = RETENTION_MS,
) -> Path:
    """Make `<state.dir>/<application.id>` with random records; return the directory of what it must hold.

    The other stores (name to kind) lie in the same tasks, with records of their own. The retention is that of all
    windowed, session and versioned stores.
    """
    kinds = {store: kind, **(other_stores or {})}
    names = [f"0_{number}" for number in range(tasks)]
    events = {
        task: {
            name: random_events(kinds[name], records, seed=f"{seed}/{task}/{name}", retention_ms=retention_ms)
            for name in kinds
        }
        for task in names
    }
    return make_state_of(version, app_dir, kinds=kinds, events=events, retention_ms=retention_ms)


def make_state_of(
    version: str,
    app_dir: Path,
    *,
    kinds: Mapping[str, str],
    events: Mapping[str, Mapping[str, list[Event]]],
    retention_ms: int = RETENTION_MS,
) -> Path:
    """Make a state directory from given events by task and store; return the directory of what it must hold."""
    if app_dir.exists():
        raise FileExistsError(f"{app_dir} exists already")
    app_dir.parent.mkdir(parents=True, exist_ok=True)
    expected = app_dir.with_name(app_dir.name + ".expected")
    for task, stores in events.items():
        for store, store_events in stores.items():
            rows = rows_after(kinds[store], store_events, retention_ms=retention_ms)
            write_expected(expected / _file(task, store), rows)
    write_more(version, app_dir, kinds=kinds, events=events, retention_ms=retention_ms)
    return expected


def make_half_upgraded(
    version: str,
    app_dir: Path,
    *,
    store: str,
    old_kind: str,
    kind: str,
    tasks: int,
    records: int,
    seed: int,
    retention_ms: int = RETENTION_MS,
) -> Path:
    """Make a store of an old kind, open it as a newer one, and write and read only some of its keys.

    So Kafka Streams' own upgrade, which moves a key when it is read or written, is left half done. Returns the
    directory of what the store must hold as the newer kind.
    """
    old = make_state(
        version, app_dir, store=store, kind=old_kind, tasks=tasks, records=records, seed=seed, retention_ms=retention_ms
    )
    kinds = {store: kind}
    events: dict[str, dict[str, list[Event]]] = {}
    for task in sorted(path.name for path in old.iterdir()):
        rows = rows_as(kind, read_expected(old / _file(task, store)))
        touched = touching_events(rows, seed=f"{seed}/{task}/touch")
        events[task] = {store: touched}
        write_expected(old / _file(task, store), rows_after(kind, touched, retention_ms=retention_ms, before=rows))
    write_more(version, app_dir, kinds=kinds, events=events, retention_ms=retention_ms)
    return old


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
    retention_ms: int | None = None,
) -> Verdict:
    """Open a copy of a state directory with Kafka Streams, or `in_place` itself, and compare it with what it must hold.

    Writes to it, reopens it and compares again. `timestamp` is that of expected records without one (-1 if not given).
    A kind other than the store was made as says what it was migrated to; a retention, that it was changed to this one.
    """
    tasks = sorted(path.name for path in expected.iterdir())
    kinds = {store: kind, **(other_stores or {})}
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch) / "expected"
        for task in tasks:
            for name, held in kinds.items():
                rows = read_expected(expected / _file(task, name))
                as_held = rows_as(held, rows, timestamp=timestamp, retention_ms=retention_ms)
                write_expected(wanted / _file(task, name), as_held)
        copy = app_dir if in_place else Path(scratch) / app_dir.name
        if not in_place:
            shutil.copytree(app_dir, copy, symlinks=True)
        options = _options(copy, kinds, tasks, retention_ms or RETENTION_MS) | {"--expected": str(wanted)}
        if exactly_once:
            options["--exactly-once"] = "yes"
        return _verdict(run_program(version, "open", options))


def classpath(version: str) -> str:
    """Build the program against a release of Kafka Streams, unless built already; return its classpath."""
    properties = {"kafka.version": version, "jackson.version": VERSIONS[version]}
    if version not in HEADERS_VERSIONS:
        properties["excluded.sources"] = "**/Headers*.java"
    return built_classpath("kafka-streams-program", _HERE, version, properties)


def run_program(version: str, command: str, options: Mapping[str, str]) -> str:
    """Run the program, built against a release of Kafka Streams; return what it prints."""
    arguments = [word for option in options.items() for word in option]
    java = ["java", *_JVM_FLAGS, "-cp", classpath(version), "stateferry.live.Main", command, *arguments]
    result = subprocess.run(java, capture_output=True, text=True, timeout=_RUN_TIMEOUT_SECONDS, check=False)
    if result.returncode not in (0, 1):
        raise ProgramError(f"{command} with Kafka Streams {version} exited {result.returncode}:\n{result.stderr}")
    return result.stdout


def write_more(
    version: str,
    app_dir: Path,
    *,
    kinds: Mapping[str, str],
    events: Mapping[str, Mapping[str, list[Event]]],
    retention_ms: int = RETENTION_MS,
    logged: Path | None = None,
    asked: Path | None = None,
) -> None:
    """Open a state directory, or make one, and apply events by task and store.

    A folder `logged` gets the records that one task wrote to the changelogs, `<store>.jsonl`. Questions in a folder
    `asked`, `questions/<task>/<store>.jsonl`, are answered then, beside them in `answers`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        for task, stores in events.items():
            for store, store_events in stores.items():
                write_events(Path(scratch) / _file(task, store), store_events)
        options = _options(app_dir, kinds, list(events), retention_ms) | {"--events": scratch}
        options |= {} if logged is None else {"--logged": str(logged)}
        options |= {} if asked is None else {f"--{each}": str(asked / each) for each in ("questions", "answers")}
        run_program(version, "make", options)


def ask_running(
    version: str, app_dir: Path, *, kinds: Mapping[str, str], bootstrap: str, count: int, asked: Path
) -> None:
    """Run an application with a broker until so many events of its topics are in its stores; ask it, and stop it.

    `asked` has the questions, `questions.jsonl`, and gets the answers, `answers.jsonl`.
    """
    options = _options(app_dir, kinds, [], RETENTION_MS) | {"--bootstrap": bootstrap, "--count": str(count)}
    run_program(
        version, "ask", options | {f"--{each}": str(asked / f"{each}.jsonl") for each in ("questions", "answers")}
    )


def _file(task: str, store: str) -> Path:
    return Path(task) / f"{store}.jsonl.gz"


def _options(app_dir: Path, kinds: Mapping[str, str], tasks: list[str], retention_ms: int) -> dict[str, str]:
    stores = ",".join(f"{name}={kind}:{retention_ms}" for name, kind in kinds.items())
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
