"""Switches of stores with changelogs at a real broker: what is asked, recorded, set back, appended and deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from migrate import RefusedError, Spec, abandon, cutover, finalize, rollback, run
from migrate.kafka.cluster import Cluster, Committed
from migrate.kafka.connection import Connection, read_connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.model.events import BROKER_EVENTS, SWITCH_EVENTS
from migrate.stores.changelog_batch import ChangelogBatch
from migrate.systems.checkpoint_file import format_checkpoint, read_checkpoint
from tests.batch.switch.support import StopAt, StoppedError, write_to
from tests.broker.broker import Broker
from tests.support import KEY_VALUE, make_spec, make_store, read_families

PARTITIONS = 2
OLD = {number: {b"%d-%d" % (number, key): b"v%d" % key for key in range(40)} for number in range(PARTITIONS)}
NEW = {number: {key: value + b"!" for key, value in records.items() if key[-1:] != b"7"} for number, records in OLD.items()}
BEGUN, LATER = 10, 25
"""What the group has read of each input's partition at the cut-over, and after it."""
METADATA = "AgAAAYvKYxoA"
_names = (f"switched-{number}" for number in count())


def _changed(record):  # type: ignore[no-untyped-def]
    raise NotImplementedError


@dataclass(frozen=True)
class At:
    """An application whose store `counts` is converted, and its topics."""

    name: str
    base: Path
    connection: Connection
    spec: Spec

    @property
    def old_topic(self) -> str:
        return f"{self.name}-counts-changelog"

    @property
    def new_topic(self) -> str:
        return f"{self.name}-counts-v2-changelog" if self.spec.target.store else self.old_topic

    @property
    def input(self) -> str:
        return f"{self.name}-input"

    def store(self, number: int, name: str = "counts") -> Path:
        return self.base / self.name / f"0_{number}" / "rocksdb" / name

    def lines(self, number: int) -> dict[str, int]:
        checkpoint = self.base / self.name / f"0_{number}" / ".checkpoint"
        return {topic: offset for topic, _, offset in read_checkpoint(checkpoint)}

    def cluster(self) -> Cluster:
        return Cluster(self.connection)

    def content(self, topic: str, number: int) -> dict[bytes, bytes]:
        """What a restore of the topic's partition gives."""
        found: dict[bytes, bytes | None] = {}
        with self.cluster() as cluster:
            end = cluster.ends(topic, [number])[number].stable
        for batch in read(self.connection, topic, number, 0, end):
            found.update(zip(batch.keys, batch.values, strict=True))
        return {key: value for key, value in found.items() if value is not None}

    def last_offset(self, topic: str, number: int) -> int:
        with self.cluster() as cluster:
            end = cluster.ends(topic, [number])[number].stable
        return max(offset for batch in read(self.connection, topic, number, 0, end) for offset in batch.offsets or ())

    def write(self, topic: str, number: int, records: dict[bytes, bytes | None]) -> int:
        with Writer(self.connection, topic, number, f"{self.name}-{topic}-{number}") as writer:
            writer.write(ChangelogBatch(list(records), list(records.values()), [1] * len(records)))
            last = writer.finish()
        assert last is not None
        return last

    def group_reaches(self, offset: int) -> None:
        with self.cluster() as cluster:
            cluster.set_committed(
                self.name, {(self.input, number): Committed(offset, METADATA) for number in range(PARTITIONS)}
            )

    def group(self) -> set[tuple[int, str]]:
        with self.cluster() as cluster:
            return {(each.offset, each.metadata) for each in cluster.committed(self.name).values()}

    def go_on(self) -> None:
        """What the new version of the application does, until it is stopped again."""
        store = "counts-v2" if self.spec.target.store else "counts"
        for number in range(PARTITIONS):
            write_to(self.store(number, store), key=b"later", value=b"new!")
            self.write(self.new_topic, number, {b"later": b"new!"})
        self.group_reaches(LATER)


@pytest.fixture
def make(broker: Broker, tmp_path: Path) -> Callable[..., At]:
    return lambda **sections: _made(broker, tmp_path, **sections)


def _made(broker: Broker, base: Path, **sections: object) -> At:
    """An application that was stopped, and a migration that is verified."""
    from tests.batch.switch.functions import shout

    name, connection = next(_names), read_connection(broker.bootstrap, None)
    given = {"target": {"path": None, "store": "counts-v2"}, **sections}
    changelog = {"bootstrap": broker.bootstrap, **dict(given.pop("changelog", {}))}  # type: ignore[call-overload]
    spec = make_spec(
        base,
        base / name,
        source_format=KEY_VALUE,
        target_format=KEY_VALUE,
        **{"source": {"store": "counts"}, "conversion": {"function": shout}, "changelog": changelog, **given},
    )
    at = At(name, base, connection, spec)
    with at.cluster() as cluster:
        for topic in (at.old_topic, at.input):
            cluster.create_topic(topic, partitions=PARTITIONS, replication=1, settings={"cleanup.policy": "compact"})
    for number, records in OLD.items():
        make_store(at.store(number), records)
        last = at.write(at.old_topic, number, dict(records))
        at.write(at.input, number, {b"%d" % key: b"" for key in range(30)})
        (at.base / name / f"0_{number}" / ".checkpoint").write_text(format_checkpoint([(at.old_topic, number, last)]))
    at.group_reaches(BEGUN)
    run(spec)
    return at


def test_there_and_back_with_a_topic_of_its_own(make: Callable[..., At]) -> None:
    at = make()
    before = {number: at.lines(number) for number in range(PARTITIONS)}

    report = cutover(at.spec)

    assert report.topics == (at.new_topic,)
    for number in range(PARTITIONS):
        assert read_families(at.store(number, "counts-v2"))["default"] == at.content(at.new_topic, number) == NEW[number]
        assert at.lines(number) == {**before[number], at.new_topic: at.last_offset(at.new_topic, number)}
    at.go_on()

    report = rollback(at.spec)

    assert {(each.offset, each.records) for each in report.set_back} == {(BEGUN, LATER - BEGUN)}
    assert at.group() == {(BEGUN, METADATA)}
    for number in range(PARTITIONS):
        assert at.lines(number) == before[number]
        assert read_families(at.store(number))["default"] == at.content(at.old_topic, number) == OLD[number]
    assert abandon(at.spec).removed_topics == (at.new_topic,)
    with at.cluster() as cluster:
        assert cluster.topic(at.new_topic) is None
        assert cluster.topic(at.old_topic) is not None
