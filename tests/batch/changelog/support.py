"""An application with a changelogged store at a real broker, and what its changelogs hold."""

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

from formats import StateRecord
from migrate.batch.ledger.standing import Standing
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.spec.spec import Spec, parse_spec
from migrate.stores.batch import ChangelogBatch
from tests.shared.windowed import checkpoint, make_segments, window_key
from tests.support import KEY_VALUE, TIMESTAMPED, make_families, read_family, read_ledger, to_toml

NOW = int(time.time()) // 3600 * 3_600_000
"""The same in every process of a test, within retention times."""
TASKS = ("0_0", "0_1")
WINDOW = "kafka-streams.timestamped-window"
FAMILIES = {KEY_VALUE: "default", TIMESTAMPED: "keyValueWithTimestamp", WINDOW: "keyValueWithTimestamp"}
DROPPED = b"drop-"
"""Begins keys that the conversion drops."""

Record = tuple[bytes | None, int]
"""Value and timestamp."""


def convert(record: StateRecord) -> StateRecord | None:
    """Changes every value, and drops some keys."""
    return None if record.key.startswith(DROPPED) else replace(record, value=record.value + b"!")


def convert_some(record: StateRecord) -> StateRecord | None:
    """As `convert`; some values cannot be converted."""
    if record.value.startswith(b"bad"):
        raise ValueError("a bad value")
    return convert(record)


class Address(Protocol):
    """A broker's."""

    @property
    def bootstrap(self) -> str: ...


@dataclass(frozen=True)
class App:
    """Two tasks of an application, stopped, with their changelog."""

    name: str
    base: Path
    broker: Address
    kind: str = TIMESTAMPED
    way: str = "new-topic"
    count: int = 400
    sections: Mapping[str, Any] = field(default_factory=dict)

    @property
    def connection(self) -> Connection:
        return Connection(self.broker.bootstrap)

    @property
    def topic(self) -> str:
        return f"{self.name}-orders-changelog"

    @property
    def new_topic(self) -> str:
        return f"{self.name}-orders2-changelog" if self.way == "new-topic" else self.topic

    @property
    def content(self) -> dict[str, Any]:
        """Of the spec."""
        target = {"store": "orders2"} if self.way == "new-topic" else {}
        return {
            "name": self.name,
            "work_dir": "work",
            "source": {"format": self.kind, "path": self.name, "store": "orders"},
            "target": {"format": self.kind, **target},
            "conversion": {"function": "tests.batch.changelog.support:convert", "allow": ["drop"]},
            # its group has no offset
            "changelog": {"bootstrap": self.broker.bootstrap, "way": self.way, "application": "stopped"},
            "run": {"chunk_size": "8 KiB"},
            **self.sections,
        }

    @property
    def spec(self) -> Spec:
        return parse_spec(self.content, base_dir=self.base)

    def old(self, number: int) -> dict[bytes, Record]:
        """What the old store has, and its changelog: by the changelog's key."""
        keys = (b"key-%05d-%d" % (each, number) for each in range(self.count))
        records = {key: (b"value of %s" % key, NOW - 60_000 + at) for at, key in enumerate(keys)}
        records |= {DROPPED + b"%d" % each: (b"gone", NOW - 5) for each in range(3)}
        if self.kind == WINDOW:
            starts = range(NOW, 0, -60_000)
            records = {
                window_key(key, start): record for (key, record), start in zip(records.items(), starts, strict=False)
            }
        return dict(sorted(records.items()))

    def expected(self, number: int) -> dict[bytes, Record]:
        """What a restore of the new store must give."""
        old = self.old(number).items()
        return {key: (value + b"!", at) for key, (value, at) in old if value and not key.startswith(DROPPED)}

    def make(self) -> Self:
        """Write the stores, and their changelog."""
        with Cluster(self.connection) as cluster:
            policy = "compact,delete" if self.kind == WINDOW else "compact"
            settings = {"cleanup.policy": policy, "retention.ms": str(7 * 86_400_000), "segment.ms": "123456789"}
            cluster.create_topic(self.topic, partitions=2, replication=1, settings=settings)
        for number, task in enumerate(TASKS):
            records = self.old(number)
            last = self.write(self.topic, number, records)
            self._make_store(self.base / self.name / task, records)
            line = checkpoint(f"{self.topic} {number} {last}")
            (self.base / self.name / task / ".checkpoint").write_text(line, encoding="ascii")
        return self

    def _make_store(self, folder: Path, records: Mapping[bytes, Record]) -> None:
        entries = {key: self._entry(*record) for key, record in records.items()}
        if self.kind == WINDOW:
            make_segments(folder / "orders", entries, 3_600_000, family=FAMILIES[self.kind])
        else:
            make_families(folder / "rocksdb" / "orders", {FAMILIES[self.kind]: entries})

    def _entry(self, value: bytes | None, at: int) -> bytes:
        assert value is not None
        return value if self.kind == KEY_VALUE else at.to_bytes(8, "big", signed=True) + value

    def write(self, topic: str, number: int, records: Mapping[bytes, Record]) -> int | None:
        """Write records to a partition, as another process."""
        values, times = zip(*records.values(), strict=True)
        with Writer(self.connection, topic, number, f"{self.name}-{number}") as writer:
            writer.write(ChangelogBatch(list(records), values, times))
            return writer.finish()

    def last_offset(self, number: int) -> int:
        """Of the last record in the new store's changelog: a marker of its transaction follows."""
        with Cluster(self.connection) as cluster:
            return cluster.ends_of(self.new_topic, number).end - 2

    def old_state(self) -> tuple[object, ...]:
        """What the old version starts with: its stores, their positions, where its changelog ends, and its offsets."""
        files = [path for path in (self.base / self.name).rglob("*") if path.is_file() and "orders2" not in path.parts]
        lines = [line for file in files if file.name == ".checkpoint" for line in file.read_text("ascii").splitlines()]
        stores = {path: path.read_bytes() for path in files if "orders" in path.parts}
        with Cluster(self.connection) as cluster:
            ends = cluster.ends(self.topic, range(len(TASKS)))
            while any(each.stable < each.end for each in ends.values()):  # a transaction's end shows a moment later
                time.sleep(0.1)
                ends = cluster.ends(self.topic, range(len(TASKS)))
            there = ends, cluster.committed(self.name)
        return stores, sorted(line for line in lines if self.topic in line), *there

    def restored(self, number: int) -> dict[bytes, Record]:
        """What the new topic's partition holds, once it is compacted."""
        found: dict[bytes, Record] = {}
        with Cluster(self.connection) as cluster:
            ends = cluster.ends_of(self.new_topic, number)
        for batch in read(self.connection, self.new_topic, number, ends.start, ends.stable):
            for key, record in zip(batch.keys, zip(batch.values, batch.timestamps, strict=True), strict=True):
                found[key] = record
        return {key: found[key] for key in sorted(found) if found[key][0] is not None}

    def all_restored(self) -> bool:
        """Whether every partition holds what it should."""
        return all(self.restored(number) == self.expected(number) for number in range(len(TASKS)))


def killed(verb: str, event: str, app: App) -> None:
    """The command in a process that kills itself at the event."""
    arguments = [verb, event, str(app.base), app.broker.bootstrap, app.name, app.way]
    command = [sys.executable, "-m", "tests.batch.changelog.victim", *arguments]
    victim = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert victim.returncode == -signal.SIGKILL, (event, victim.stderr)


def beside_a_function(app: App) -> Path:
    """The file of its spec, with the function beside it, where Spark's workers find it."""
    module = f"changed_{app.name.replace('-', '_')}"
    (app.base / f"{module}.py").write_text(
        "from dataclasses import replace\n"
        "def convert(record):\n"
        "    return None if record.key.startswith(b'drop-') else replace(record, value=record.value + b'!')\n"
    )
    file = app.base / f"{app.name}.toml"
    file.write_text(to_toml({**app.content, "conversion": {"function": f"{module}:convert", "allow": ["drop"]}}))
    return file


def on_spark(verb: str, file: Path, *, seconds: float = 100) -> None:
    """In a process of its own, which may take so long."""
    code = f"import sys, migrate; migrate.{verb}(migrate.load_spec(sys.argv[1]), master='local[2]')"
    subprocess.run([sys.executable, "-c", code, str(file)], check=True, timeout=seconds)


def tail_of(app: App, number: int, *, salt: bytes = b"") -> dict[bytes, Record]:
    """Changed, deleted and new keys, and some that the conversion drops: the last record of each."""
    known = sorted(app.old(number))
    tail: dict[bytes, Record] = {key: (b"changed" + salt, NOW + at) for at, key in enumerate(known[5:300:7])}
    tail |= {key: (None, NOW + 9) for key in known[6:300:7]}
    news = [DROPPED + b"new", *(b"key-%05d-%d-new%s" % (at, number, salt) for at in range(30))]
    if app.kind == WINDOW:
        news = [window_key(key, NOW + 3_600_000 + at) for at, key in enumerate(news)]
    return tail | {key: (b"new" + salt, NOW + 10) for key in news}


def applied(state: Mapping[bytes, Record], tail: Mapping[bytes, Record]) -> dict[bytes, Record]:
    """The state that a restore of the new changelog must give."""
    touched = {**state}
    for key, (value, at) in tail.items():
        touched.pop(key, None)
        if value is not None and not key.startswith(DROPPED):
            touched[key] = (value + b"!", at)
    return dict(sorted(touched.items()))


def stored(app: App, number: int) -> dict[bytes, bytes]:
    """All entries of a new store partition, read from disk."""
    standing = Standing(app.spec.home, read_ledger(app.spec.home))
    folder = standing.assembled[f"{TASKS[number]}/orders"]
    databases = [file.parent for file in folder.rglob("CURRENT")]
    return {key: value for each in databases for key, value in read_family(each, FAMILIES[app.kind]).items()}


def entries_of(app: App, state: Mapping[bytes, Record]) -> dict[bytes, bytes]:
    return {key: app._entry(*record) for key, record in state.items()}
