"""A real application of Kafka Streams with one store: started, watched, asked what it holds, and ended."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import Self

from confluent_kafka import Consumer, TopicPartition

from tests.live.changelog.model import PARTITIONS, RETENTION_MS, SCHEMAS, Rows, read_rows
from tests.live.kafka_streams.kinds import HEADERS_VERSIONS, VERSIONS
from tests.live.maven import JVM_FLAGS, built_classpath
from tests.live.running import Event, RunningProgram

_HERE = Path(__file__).parent
_OF_CLASSIC = ("session.timeout.ms", "heartbeat.interval.ms", "num.standby.replicas")


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


class App(RunningProgram):
    """One running instance."""

    def __init__(self, program: Program, jvm_flags: Sequence[str] = JVM_FLAGS) -> None:
        super().__init__(program.application_id)
        self.program = program
        self._jvm_flags = jvm_flags

    def command(self) -> list[str]:
        java = ["java", *self._jvm_flags, "-cp", classpath(self.program.version), "stateferry.changelog.Main"]
        return [*java, self.program.arguments()]

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
        return int(self.ask("counts", "counts")["processed"])

    def wait_running(self) -> Self:
        """Wait until it has restored what it needs, and processes."""
        self.wait(lambda: any(event["state"] == "RUNNING" for event in self.seen("state")), "is not running")
        return self

    def wait_active(self, count: int) -> Self:
        """Wait until it has so many active tasks, all of which process."""
        deadline = monotonic() + self.patience_seconds
        while self.ask("counts", "counts")["active"] != count or self.seen("state")[-1]["state"] != "RUNNING":
            if monotonic() > deadline:
                raise self.error(f"has not {count} active tasks")
            sleep(0.1)
        return self

    def wait_loaded(self, count: int) -> Self:
        """Wait until its active and standby tasks have got so many records from their changelogs."""
        self.wait(lambda: self.restored + self.loaded >= count, f"has not loaded {count} records")
        return self

    def wait_caught_up(self) -> Self:
        """Wait until every input that is there now has been processed and committed."""
        self.wait_running()
        group = {"bootstrap.servers": self.program.bootstrap, "group.id": self.program.application_id}
        consumer = Consumer({**group, "enable.auto.commit": False})
        try:
            inputs = [TopicPartition(self.program.input, number) for number in range(PARTITIONS)]
            ends = [consumer.get_watermark_offsets(each, timeout=30)[1] for each in inputs]
            self.wait(lambda: _committed(consumer, inputs) >= ends, f"has not processed up to {ends}")
        finally:
            consumer.close()
        return self

    def wait_failed(self) -> str:
        """Wait until it fails; returns why."""
        self.wait(lambda: bool(self.seen("failed")), "has not failed")
        return str(self.seen("failed")[0]["error"])

    def dump(self) -> Rows:
        """What its active tasks hold."""
        with tempfile.TemporaryDirectory() as folder:
            self.ask(f"dump {folder}", "dumped")
            return read_rows(Path(folder))

    def stop(self) -> Event:
        last = super().stop()
        assert last["clean"], self.error("did not close in time")
        return last

    def _sum(self, name: str) -> int:
        return sum(event["records"] for event in self.seen(name))


def _committed(consumer: Consumer, inputs: list[TopicPartition]) -> list[int]:
    sleep(0.05)
    return [each.offset for each in consumer.committed(inputs, timeout=30)]
