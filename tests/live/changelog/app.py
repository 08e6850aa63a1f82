"""A real application of Kafka Streams with one store: started, watched, asked what it holds, and ended."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from threading import Condition, Thread
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, TopicPartition

from tests.live.changelog.model import PARTITIONS, RETENTION_MS, SCHEMAS, Rows, read_rows
from tests.live.kafka_streams.kinds import HEADERS_VERSIONS, VERSIONS
from tests.live.maven import JVM_FLAGS, ProgramError, built_classpath

_HERE = Path(__file__).parent
_PATIENCE_SECONDS = 120.0
_OF_CLASSIC = ("session.timeout.ms", "heartbeat.interval.ms", "num.standby.replicas")

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A version of the application, where it runs and what its store is."""

    bootstrap: str
    application_id: str
    state_dir: Path
    kind: str = "timestamped-key-value"
    store: str = "orders"
    schema_id: int = 1
    registry: Mapping[int, object] = field(default_factory=lambda: {1: SCHEMAS[1]})
    """The schemas that it can read, by id."""
    version: str = "4.3.1"
    """The release of Kafka Streams."""
    exactly_once: bool = False
    standbys: int = 0
    session_timeout_ms: int = 6000
    """How long the group waits for a killed instance."""
    retention_ms: int = RETENTION_MS
    protocol: str = "classic"
    """Of its group: classic, or streams (4.2 and newer)."""
    directory_max_age_ms: int = -1
    """After this time without a change the directories of tasks are removed at a start (4.3.1 only); -1: never."""
    logged: bool = True
    """Whether its store has a changelog."""
    server: str = ""
    """HOST:PORT, which the instance tells the others of its group."""

    @property
    def input(self) -> str:
        return f"{self.application_id}-input"

    @property
    def changelog(self) -> str:
        """The topic that has its store's changes."""
        return f"{self.application_id}-{self.store}-changelog"

    @property
    def folder(self) -> Path:
        return self.state_dir / self.application_id

    def next_version(self, *, kind: str | None = None, store: str | None = None) -> Program:
        """The version that knows the new schema alone; its store has another name unless one is given."""
        store = store or f"{self.store}-v2"
        return replace(self, kind=kind or self.kind, store=store, schema_id=2, registry={2: SCHEMAS[2]})

    def elsewhere(self) -> Program:
        """The same on another host, where it finds no state."""
        return replace(self, state_dir=self.state_dir.with_name(f"{self.state_dir.name}-elsewhere-{token_hex(4)}"))

    def arguments(self) -> str:
        """The settings, as the Java program reads them."""
        streams = {
            "bootstrap.servers": self.bootstrap,
            "application.id": self.application_id,
            "state.dir": str(self.state_dir),
            "processing.guarantee": "exactly_once_v2" if self.exactly_once else "at_least_once",
            "num.standby.replicas": self.standbys,
            "session.timeout.ms": self.session_timeout_ms,
            "heartbeat.interval.ms": self.session_timeout_ms // 6,
            "commit.interval.ms": 100,
            "auto.offset.reset": "earliest",
            "application.server": self.server,
            "state.cleanup.dir.max.age.ms": self.directory_max_age_ms,
        }
        if self.protocol == "streams":  # the broker decides on these
            streams = {name: each for name, each in streams.items() if name not in _OF_CLASSIC}
            streams["group.protocol"] = "streams"
        names = ("input", "kind", "store", "schema_id", "registry", "retention_ms", "logged")
        own = {name: getattr(self, name) for name in names}
        return json.dumps(own | {"streams": streams})


def classpath(version: str) -> str:
    """The application's classpath, built with this release of Kafka Streams."""
    properties = {"kafka.version": version, "jackson.version": VERSIONS[version]}
    if version not in HEADERS_VERSIONS:
        properties["excluded.sources"] = "**/Headers*.java"
    return built_classpath("changelog-application", _HERE, version, properties)


class App:
    """One running instance. A context manager, which kills what has not been stopped."""

    def __init__(self, program: Program, jvm_flags: Sequence[str] = JVM_FLAGS) -> None:
        self.program = program
        self._jvm_flags = jvm_flags
        self._events: list[Event] = []
        self._news = Condition()
        self._has_ended = False

    def __enter__(self) -> Self:
        command = ["java", *self._jvm_flags, "-cp", classpath(self.program.version), "stateferry.changelog.Main"]
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [*command, self.program.arguments()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            assert stream is not None
            stream.close()

    @property
    def restored(self) -> int:
        """Records that active tasks have restored, of the whole store."""
        return self._sum("restored")

    @property
    def loaded(self) -> int:
        """Records that standby tasks have loaded from the changelog."""
        return self._sum("loaded")

    @property
    def processed(self) -> int:
        """Inputs processed since the start."""
        return int(self._ask("counts", "counts")["processed"])

    def wait_running(self) -> Self:
        """Wait until it has restored what it needs, and processes."""
        self._wait(lambda: any(event["state"] == "RUNNING" for event in self._seen("state")), "is not running")
        return self

    def wait_active(self, count: int) -> Self:
        """Wait until it has so many active tasks, all of which process."""
        deadline = monotonic() + _PATIENCE_SECONDS
        while self._ask("counts", "counts")["active"] != count or self._seen("state")[-1]["state"] != "RUNNING":
            if monotonic() > deadline:
                raise ProgramError(self._described(f"has not {count} active tasks"))
            sleep(0.1)
        return self

    def wait_loaded(self, count: int) -> Self:
        """Wait until its active and standby tasks have got so many records from their changelogs."""
        self._wait(lambda: self.restored + self.loaded >= count, f"has not loaded {count} records")
        return self

    def wait_caught_up(self) -> Self:
        """Wait until every input that is there now has been processed and committed."""
        self.wait_running()
        group = {"bootstrap.servers": self.program.bootstrap, "group.id": self.program.application_id}
        consumer = Consumer({**group, "enable.auto.commit": False})
        try:
            inputs = [TopicPartition(self.program.input, number) for number in range(PARTITIONS)]
            ends = [consumer.get_watermark_offsets(each, timeout=30)[1] for each in inputs]
            self._wait(lambda: _committed(consumer, inputs) >= ends, f"has not processed up to {ends}")
        finally:
            consumer.close()
        return self

    def wait_failed(self) -> str:
        """Wait until it fails; returns why."""
        self._wait(lambda: bool(self._seen("failed")), "has not failed")
        return str(self._seen("failed")[0]["error"])

    def dump(self) -> Rows:
        """What its active tasks hold."""
        with tempfile.TemporaryDirectory() as folder:
            self._ask(f"dump {folder}", "dumped")
            return read_rows(Path(folder))

    def stop(self) -> None:
        """End it cleanly: it leaves its group."""
        assert self._ask("stop", "stopped")["clean"], self._described("did not close in time")
        self._process.wait(_PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._events.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()

    def _seen(self, name: str) -> list[Event]:
        return [event for event in self._events if event["event"] == name]

    def _sum(self, name: str) -> int:
        return sum(event["records"] for event in self._seen(name))

    def _ask(self, command: str, answer: str) -> Event:
        assert self._process.stdin is not None
        before = len(self._seen(answer))
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        self._wait(lambda: len(self._seen(answer)) > before, f"does not answer {command!r}")
        return self._seen(answer)[-1]

    def _wait(self, is_so: Callable[[], bool], otherwise: str) -> None:
        deadline = monotonic() + _PATIENCE_SECONDS
        with self._news:
            while not is_so():
                if self._has_ended or self._seen("failed") or monotonic() > deadline:
                    raise ProgramError(self._described(otherwise))
                self._news.wait(0.05)

    def _described(self, what: str) -> str:
        self._log.seek(0)
        return f"{self.program.application_id} {what}: {self._events[-5:]}\n{self._log.read()[-4000:]}"


def _committed(consumer: Consumer, inputs: list[TopicPartition]) -> list[int]:
    sleep(0.05)
    return [each.offset for each in consumer.committed(inputs, timeout=30)]
