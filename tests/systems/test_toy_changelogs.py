"""Changelogs of toy systems at a real broker: with offsets inside the stores, and several families in one topic."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pytest

from formats import StateRecord
from migrate import RefusedError, Spec, catch_up, cutover, rollback, run, snapshot, status, verify
from migrate.batch.changelog import write_topics
from migrate.batch.changelog.broker_access import settled
from migrate.kafka.cluster import Cluster, Ends
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.model.changelogs import Changelog
from migrate.spec.spec import parse_spec
from migrate.stores.batch import ChangelogBatch, RecordHeaders
from tests.batch.switch.support import StopAt, StoppedError
from tests.broker.broker import Broker
from tests.support import make_families, open_store, raises, read_families
from tests.systems.toys import CHANGELOG_OFFSET, FAMILY_HEADER, METADATA, OFFSET_KEY, PLAIN, STAMPED_HEADER, STATE

pytestmark = pytest.mark.usefixtures("registered")

NOW = int(time.time() * 1000)
"""Old records would be compacted at once, and compaction goes by keys alone, whatever their families are."""
FAMILIES = ("default", "totals")
OWN = "own"
Content = dict[str, dict[bytes, bytes]]
"""Values by family and key."""


def convert(record: StateRecord) -> StateRecord | None:
    """Changes every value, and drops some keys."""
    return None if record.key.startswith(b"drop-") else replace(record, value=record.value + b"!")


def converted(content: Content) -> Content:
    return {
        family: {key: value + b"!" for key, value in entries.items() if not key.startswith(b"drop-")}
        for family, entries in content.items()
    }


@dataclass(frozen=True)
class App:
    """Two partitions of a store, and their changelog."""

    name: str
    base: Path
    broker: Broker
    way: str
    kind: str = STATE.id
    run: Mapping[str, Any] = field(default_factory=dict)
    families: tuple[str, ...] = FAMILIES
    missing: str | None = None
    own: Mapping[bytes, bytes] = field(default_factory=dict)
    """What the application keeps for itself, in a family of its own in the topic of partition 0."""

    @property
    def connection(self) -> Connection:
        return Connection(self.broker.bootstrap)

    @property
    def store(self) -> str:
        """The new store's name."""
        return "counts" if self.way == "append" else "counts2"

    @property
    def spec(self) -> Spec:
        content = {
            "name": self.name,
            "work_dir": "work",
            "source": {"format": self.kind, "path": self.name, "store": "counts"},
            "target": {"format": self.kind, **({} if self.way == "append" else {"store": self.store})},
            "conversion": {"function": "tests.systems.test_toy_changelogs:convert", "allow": ["drop"]},
            "changelog": {
                "bootstrap": self.broker.bootstrap,
                "way": self.way,
                "application": "stopped",
                **({} if self.missing is None else {"missing": self.missing}),
            },
            "run": {"chunk_size": "8 KiB", **self.run},
        }
        return parse_spec(content, base_dir=self.base)

    def topic(self, store: str) -> str:
        return f"changelog__{self.name}--orders--{store}" if self.kind == STATE.id else f"{self.name}-{store}-changelog"

    def folder(self, store: str, number: int) -> Path:
        path = f"{store}/orders/{number}" if self.kind == STATE.id else f"tables/{store}-{number}.db"
        return self.base / self.name / path

    def old(self, number: int) -> Content:
        """The same keys are in both families."""
        keys = [b"key-%04d" % each for each in range(300)] + [b"drop-%d" % each for each in range(3)]
        return {
            family: {key: b"%s of %s in %d" % (key, family.encode(), number) for key in sorted(keys)}
            for family in self.families
        }

    def make(self) -> Self:
        """Write the changelog, and the stores that have applied it."""
        with Cluster(self.connection) as cluster:
            settings = {"cleanup.policy": "compact", "segment.ms": "123456789"}
            cluster.create_topic(self.topic("counts"), partitions=2, replication=1, settings=settings)
        for number in (0, 1):
            last = self.write(number, self.old(number))
            own = {"default": {OFFSET_KEY: b"%d" % last}}
            if self.kind == STATE.id:
                own = {METADATA: {CHANGELOG_OFFSET: last.to_bytes(8, "big")}}
            old = self.old(number)
            every = {family: {**old.get(family, {}), **own.get(family, {})} for family in {*old, *own}}
            make_families(
                self.folder("counts", number), {name: dict(sorted(each.items())) for name, each in every.items()}
            )
        (self.base / self.name / ("toy.states" if self.kind == STATE.id else "toy.properties")).touch()
        return self

    def write(self, number: int, content: Mapping[str, Mapping[bytes, bytes | None]]) -> int:
        """Write records as the application does; the last offset."""
        with Writer(self.connection, self.topic("counts"), number, f"{self.name}-{number}") as writer:
            for family, entries in content.items():
                header: RecordHeaders = [STAMPED_HEADER, (FAMILY_HEADER, family.encode())]
                headers = [header] * len(entries) if self.kind == STATE.id else None
                writer.write(ChangelogBatch(list(entries), list(entries.values()), [NOW] * len(entries), headers))
            last = writer.finish()
        assert last is not None
        return last

    def restored(self, store: str, number: int) -> Content:
        """What the application restores from a topic."""
        found: Content = {family: {} for family in (*self.families, OWN)}
        with Cluster(self.connection) as cluster:
            ends = cluster.ends_of(self.topic(store), number)
        for batch in read(self.connection, self.topic(store), number, ends.start, ends.stable):
            for at, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True)):
                headers = dict(batch.headers[at]) if batch.headers else {}
                assert self.kind != STATE.id or headers[STAMPED_HEADER[0]] == STAMPED_HEADER[1]
                header = headers[FAMILY_HEADER] if self.kind == STATE.id else None
                family = found["default" if header is None else header.decode()]
                family.pop(key, None)
                if value is not None:
                    family[key] = value
        assert found.pop(OWN) == (self.own if number == 0 else {})
        return {family: dict(sorted(entries.items())) for family, entries in found.items()}

    def offset(self, store: str, number: int) -> int:
        """The offset inside a live store."""
        found = read_families(self.folder(store, number))
        if self.kind == STATE.id:
            return int.from_bytes(found[METADATA][CHANGELOG_OFFSET], "big")
        return int(found["default"][OFFSET_KEY])

    def check_offset(self, store: str, number: int) -> None:
        """It is that of the last record, which nothing follows where its owner would wait for that."""
        assert self.offset(store, number) == self.last(store, number)
        assert self.kind == STATE.id or self.ends_in_record(store, number)

    def ends_in_record(self, store: str, number: int) -> bool:
        with Cluster(self.connection) as cluster:
            return self.last(store, number) == cluster.ends_of(self.topic(store), number).end - 1

    def last(self, store: str, number: int) -> int:
        """The offset of the last record."""
        with Cluster(self.connection) as cluster:
            ends = cluster.ends_of(self.topic(store), number)
        batches = read(self.connection, self.topic(store), number, ends.start, ends.stable)
        return max(offset for batch in batches for offset in batch.offsets or ())

    def stored(self, store: str, number: int) -> Content:
        """The records in a live store."""
        found = read_families(self.folder(store, number))
        return {
            family: {key: found[family][key] for key in found[family] if key != OFFSET_KEY} for family in self.families
        }


@pytest.mark.parametrize("way", ["append", "new-topic"])
@pytest.mark.parametrize("kind", [STATE.id, PLAIN.id])
def test_a_restore_gives_the_new_store_until_it_is_rolled_back(
    way: str, kind: str, broker: Broker, tmp_path: Path
) -> None:
    families = FAMILIES if kind == STATE.id else ("default",)
    app = App(f"toy-{kind.partition('.')[0]}-{way}", tmp_path, broker, way, kind, families=families).make()
    assert run(app.spec).verification.ok
    assert verify(app.spec).verification.ok
    cutover(app.spec)
    for number in (0, 1):
        assert app.stored(app.store, number) == app.restored(app.store, number) == converted(app.old(number))
        app.check_offset(app.store, number)
    assert verify(app.spec).verification.ok
    if (kind, way) == (STATE.id, "append"):
        app = replace(app, own={b"key-0001": b"switched on"})
        app.write(0, {OWN: app.own})
    rollback(app.spec)
    for number in (0, 1):
        assert app.stored("counts", number) == app.restored("counts", number) == app.old(number)
        assert (kind, way) != (PLAIN.id, "append") or app.ends_in_record("counts", number)


def test_a_marker_that_comes_late_is_not_overlooked(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker answers that a transaction has ended before it has written the marker of that."""

    def before_the_marker(cluster: Cluster, changelog: Changelog) -> Ends:
        ends = settled(cluster, changelog)
        return replace(ends, stable=ends.end - 1, end=ends.end - 1)

    app = App("toy-late-marker", tmp_path, broker, "new-topic", PLAIN.id, families=("default",)).make()
    monkeypatch.setattr(write_topics, "settled", before_the_marker)
    run(app.spec)
    cutover(app.spec)
    app.check_offset(app.store, 0)


@pytest.mark.parametrize(
    ("kind", "event", "occurrence"),
    [
        (PLAIN.id, "changelog.written", 3),
        (STATE.id, "changelog.verified", 1),
        (STATE.id, "assemble.ingested", 3),
        (STATE.id, "assemble.committed", 4),
    ],
)
def test_a_run_that_was_stopped_anywhere_is_finished_by_the_next_one(
    kind: str, event: str, occurrence: int, broker: Broker, tmp_path: Path
) -> None:
    """No store goes live whose offset inside is not that of the last record."""
    families = FAMILIES if kind == STATE.id else ("default",)
    name = f"toy-{kind.partition('.')[0]}-{event.replace('.', '-')}"
    app = App(name, tmp_path, broker, "append", kind, families=families).make()
    raises(StoppedError, "", run, app.spec, on_event=StopAt(event, occurrence))
    assert "stateferry run SPEC" in status(app.spec).next_step
    raises(RefusedError, "", cutover, app.spec, checksums=False)
    run(app.spec)
    cutover(app.spec)
    for number in (0, 1):
        assert app.stored(app.store, number) == app.restored(app.store, number) == converted(app.old(number))
        app.check_offset(app.store, number)


def test_a_partition_that_no_host_has_is_made_of_its_changelog(broker: Broker, tmp_path: Path) -> None:
    app = App("toy-rebuilt", tmp_path, broker, "new-topic", missing="rebuild").make()
    shutil.rmtree(app.folder("counts", 1))
    run(app.spec)
    for number in (0, 1):
        assert app.restored(app.store, number) == converted(app.old(number))
    assert not app.folder("counts", 1).exists()


CHANGES: dict[str, dict[bytes, bytes | None]] = {
    "default": {b"key-0001": b"changed", b"key-0002": None},
    "totals": {b"key-0002": b"total", b"key-0003": None, b"new": b"1"},
}


def changed(before: Content) -> Content:
    """With what came later."""
    found = {family: {**before[family], **entries} for family, entries in CHANGES.items()}
    return {
        family: {key: value for key, value in sorted(entries.items()) if value is not None}
        for family, entries in found.items()
    }


@pytest.mark.parametrize("stopped_at", [0, 1, 2], ids=["", "assembled-with-its-tail", "assembled-with-its-offset"])
def test_what_came_since_a_snapshot_is_caught_up_with_in_each_family(
    stopped_at: int, broker: Broker, tmp_path: Path
) -> None:
    app = App(f"toy-caught-up-{stopped_at}", tmp_path, broker, "new-topic", run={"source": "snapshot"}).make()
    snapshot(app.spec)
    run(app.spec)
    last = app.write(0, CHANGES)
    with open_store(app.folder("counts", 0)) as database:
        for family, entries in CHANGES.items():
            for key, value in entries.items():
                if value is None:
                    del database.get_column_family(family)[key]
                else:
                    database.get_column_family(family)[key] = value
        database.get_column_family(METADATA)[CHANGELOG_OFFSET] = last.to_bytes(8, "big")
    if stopped_at:
        raises(StoppedError, "", catch_up, app.spec, on_event=StopAt("assemble.committed", stopped_at))
    catch_up(app.spec)
    cutover(app.spec)
    for number, content in enumerate((changed(app.old(0)), app.old(1))):
        assert app.stored(app.store, number) == app.restored(app.store, number) == converted(content)
        app.check_offset(app.store, number)
