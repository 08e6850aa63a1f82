"""An application with changelogs at a real broker, from its stop to the new version's first writes and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from migrate import run
from migrate.kafka.cluster import Cluster, Committed
from migrate.model.events import Listener, ignore
from migrate.systems.checkpoint_file import read_checkpoint
from tests.batch.changelog.support import FAMILIES, NOW, TASKS, App
from tests.batch.switch.support import write_to
from tests.support import read_families

BEGUN, LATER = 10, 25
"""Up to which offset the group has read each partition of its input at the cut-over, and after it."""
METADATA = "AgAAAYvKYxoA"


@dataclass(frozen=True)
class Switched(App):
    """An application with an input that its group reads."""

    count: int = 40

    @property
    def input(self) -> str:
        return f"{self.name}-input"

    @property
    def repartition(self) -> str:
        return f"{self.name}-by-key-repartition"

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.connection)

    def begin(self, on_event: Listener = ignore) -> Switched:
        """The application as it was stopped, and the migration up to the cut-over."""
        self.prepare()
        run(self.spec, on_event=on_event)
        return self

    def prepare(self) -> None:
        """The application as it was stopped."""
        self.make()
        with self.cluster as cluster:
            cluster.create_topic(self.input, partitions=2, replication=1, settings={})
            cluster.create_topic(self.repartition, partitions=1, replication=1, settings={})
        for number in range(2):
            self.write(self.input, number, {b"%d" % key: (b"", NOW) for key in range(30)})
        reached = self.write(self.repartition, 0, {b"a": (b"", NOW)})
        assert reached is not None
        with self.cluster as cluster:
            cluster.set_committed(self.name, {(self.repartition, 0): Committed(reached + 1)})
        self.group_reaches(BEGUN)

    def group_reaches(self, offset: int) -> None:
        with self.cluster as cluster:
            cluster.set_committed(self.name, {(self.input, number): Committed(offset, METADATA) for number in range(2)})

    def group(self) -> set[tuple[int, str]]:
        with self.cluster as cluster:
            found = cluster.committed(self.name)
        return {(each.offset, each.metadata) for (topic, _), each in found.items() if topic == self.input}

    def passes_over_repartitioned(self) -> bool:
        """Whether nothing of the repartition topic is left to be read."""
        with self.cluster as cluster:
            end = cluster.ends_of(self.repartition, 0).end
            return cluster.committed(self.name)[self.repartition, 0].offset == end

    def store(self, number: int, name: str = "orders") -> dict[bytes, bytes]:
        return read_families(self.place(number, name))[FAMILIES[self.kind]]

    def place(self, number: int, name: str = "orders") -> Path:
        return self.base / self.name / TASKS[number] / "rocksdb" / name

    def new_store(self, number: int) -> dict[bytes, bytes]:
        return self.store(number, "orders2" if self.way == "new-topic" else "orders")

    def lines(self, number: int) -> dict[str, int]:
        checkpoint = read_checkpoint(self.base / self.name / TASKS[number] / ".checkpoint")
        return {topic: offset for topic, _, offset in checkpoint}

    def check_lines(self) -> None:
        """A new store's line is never there without the store."""
        for number in range(2):
            is_there = self.way == "append" or self.place(number, "orders2").exists()
            assert is_there or self.new_topic not in self.lines(number)

    def go_on(self) -> None:
        """What the new version does, until it is stopped: a new key, another value, a deletion."""
        for number in range(2):
            first = min(self.expected(number))
            name = "orders2" if self.way == "new-topic" else "orders"
            write_to(self.place(number, name), family=FAMILIES[self.kind], key=b"later", value=bytes(8) + b"new!")
            self.write(
                self.new_topic, number, {b"later": (b"new!", NOW), first: (b"other!", NOW), b"key-00001-0": (None, NOW)}
            )
        self.write(self.repartition, 0, {b"b": (b"", NOW)})
        self.group_reaches(LATER)

    def has_topic(self, name: str) -> bool:
        with self.cluster as cluster:
            return cluster.topic(name) is not None

    def is_old(self) -> bool:
        """Whether the old code finds its stores, and what a restore of its changelog gives is the same."""
        return all(
            self.store(number) == {key: self._entry(*record) for key, record in self.old(number).items()}
            for number in range(2)
        ) and self.group() == {(BEGUN, METADATA)}
