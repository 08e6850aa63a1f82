"""Stores of an application get another number of partitions with their changelogs: at a real broker."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from formats.partitioners import PARTITIONERS
from migrate import RefusedError, Spec, VerificationError, abandon, finalize, plan, run, status, verify
from migrate.kafka.cluster import Cluster, Committed
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.stores.batch import ChangelogBatch
from tests.batch.changelog.support import NOW
from tests.broker.broker import Broker
from tests.shared.windowed import checkpoint, make_segments, window_key
from tests.support import TIMESTAMPED, make_families, raises, read_families

WINDOW = "kafka-streams.timestamped-window"
HOUR = 3_600_000
MURMUR2 = PARTITIONERS["murmur2"]
Record = tuple[bytes, int]


@dataclass(frozen=True)
class Shop:
    """An application of one key-value and one window store, that has read its input, stopped."""

    name: str
    base: Path
    connection: Connection
    old: int
    new: int

    @property
    def application(self) -> Path:
        return self.base / "state" / self.name

    @property
    def input(self) -> str:
        return f"{self.name}-input"

    def orders(self) -> dict[bytes, Record]:
        return {b"key-%04d" % each: (b"value %d" % each, NOW + each) for each in range(600)}

    def by_hour(self) -> dict[bytes, Record]:
        return {window_key(b"key-%04d" % each, NOW - each % 3 * HOUR): (b"%d" % each, NOW) for each in range(400)}

    def topic(self, store: str) -> str:
        return f"{self.name}-{store}-changelog"

    def make(self) -> "Shop":
        with Cluster(self.connection) as cluster:
            for topic in (self.topic("orders"), self.topic("by-hour"), self.input):
                cluster.create_topic(topic, partitions=self.old, replication=1, settings={"cleanup.policy": "compact"})
        for number in range(self.old):
            task = self.application / f"0_{number}"
            orders = _of(self.orders(), number, self.old, bytes)
            make_families(task / "rocksdb" / "orders", {"keyValueWithTimestamp": _entries(orders)})
            by_hour = _of(self.by_hour(), number, self.old, lambda key: key[:-12])
            make_segments(task / "by-hour", _entries(by_hour), HOUR, family="keyValueWithTimestamp")
            lines = [
                self.write(self.topic(store), number, records)
                for store, records in (("orders", orders), ("by-hour", by_hour))
            ]
            (task / ".checkpoint").write_text(checkpoint(*lines), encoding="ascii")
            self.write(self.input, number, orders)
        self.read_up_to({number: self.end(self.input, number) for number in range(self.old)})
        return self

    def end(self, topic: str, number: int) -> int:
        with Cluster(self.connection) as cluster:
            return cluster.ends_of(topic, number).end

    def read_up_to(self, offsets: dict[int, int]) -> None:
        with Cluster(self.connection) as cluster:
            committed = {(self.input, number): Committed(offset, "") for number, offset in offsets.items()}
            cluster.set_committed(self.name, committed)

    def write(self, topic: str, number: int, records: dict[bytes, Record]) -> str:
        values, times = zip(*records.values(), strict=True)
        with Writer(self.connection, topic, number, f"{topic}-{number}") as writer:
            writer.write(ChangelogBatch(list(records), values, times))
            return f"{topic} {number} {writer.finish()}"

    @property
    def spec(self) -> Spec:
        stores = ["orders", {"name": "by-hour", "format": WINDOW}]
        return Spec(
            name=self.name,
            work_dir=self.base / "work",
            source={"format": TIMESTAMPED, "path": self.application, "stores": stores},
            target={
                "format": TIMESTAMPED,
                "path": self.base / "new" / self.name,
                "partitions": self.new,
                "stores": {"orders": "orders-n", "by-hour": "by-hour-n"},
            },
            changelog={"bootstrap": self.connection.bootstrap},
        )

    def check_published(self) -> None:
        """Every record is in the new task of its key, and in its new changelog; `.checkpoint` names the last one."""
        target = self.spec.target_path
        assert target is not None
        assert sorted(each.name for each in target.iterdir() if each.is_dir()) == [f"0_{at}" for at in range(self.new)]
        for number in range(self.new):
            task = target / f"0_{number}"
            assert {each.name for each in task.iterdir()} == {"rocksdb", "by-hour-n", ".checkpoint"}
            orders = _of(self.orders(), number, self.new, bytes)
            assert read_families(task / "rocksdb" / "orders-n")["keyValueWithTimestamp"] == _entries(orders)
            by_hour = _of(self.by_hour(), number, self.new, lambda key: key[:-12])
            found: dict[bytes, bytes] = {}
            for segment in (task / "by-hour-n").iterdir():
                found |= read_families(segment)["keyValueWithTimestamp"]
            assert found == _entries(by_hour)
            lines = (task / ".checkpoint").read_text("ascii").splitlines()[2:]
            last = {"orders-n": orders, "by-hour-n": by_hour}
            for store, records in last.items():
                assert self.restored(store, number) == records
                end = self.end(self.topic(store), number)
                offset = end - 2 if records else -4  # a marker follows the last record
                assert f"{self.topic(store)} {number} {offset}" in lines
            assert len(lines) == 2

    def restored(self, store: str, number: int) -> dict[bytes, Record]:
        return dict(self._records(store, number))

    def _records(self, store: str, number: int) -> Iterator[tuple[bytes, Record]]:
        with Cluster(self.connection) as cluster:
            ends = cluster.ends_of(self.topic(store), number)
        for batch in read(self.connection, self.topic(store), number, ends.start, ends.stable):
            for key, value, at in zip(batch.keys, batch.values, batch.timestamps, strict=True):
                assert value is not None
                yield key, (value, at)


def _of(records: dict[bytes, Record], number: int, many: int, payload: Callable[[bytes], bytes]) -> dict[bytes, Record]:
    return dict(sorted((key, each) for key, each in records.items() if MURMUR2(payload(key), many) == number))


def _entries(records: dict[bytes, Record]) -> dict[bytes, bytes]:
    return {key: at.to_bytes(8, "big", signed=True) + value for key, (value, at) in records.items()}


@pytest.mark.parametrize(("old", "new"), [(2, 3), (4, 2)])
def test_every_record_is_in_the_new_changelog_of_its_key(broker: Broker, tmp_path: Path, old: int, new: int) -> None:
    shop = Shop(f"split-{old}-{new}", tmp_path, Connection(broker.bootstrap), old, new).make()
    planned = plan(shop.spec)
    assert planned.verdict.go, planned.verdict
    details = {each.name: each.detail for each in planned.checks}
    assert details["partitions.input"] == f"{shop.input} read to the end"
    steps = planned.partitions
    assert steps is not None
    assert (steps.inputs, steps.repartition, steps.other_changelogs) == ((shop.input,), (), ())
    assert f"make {shop.input} again with {new} partitions" in steps.steps[2]
    assert "let the new code name orders as orders-n, by-hour as by-hour-n" in steps.steps[4]
    report = run(shop.spec)
    assert report.state == "published"
    shop.check_published()
    assert status(shop.spec).state == "published"
    assert verify(shop.spec).verification.ok
    with Cluster(shop.connection) as cluster:
        assert [cluster.partitions()[shop.topic(store)] for store in ("orders-n", "by-hour-n")] == [new, new]
    finalize(shop.spec, delete_topic=True)
    with Cluster(shop.connection) as cluster:
        assert shop.topic("orders") not in cluster.partitions()
        assert shop.topic("orders-n") in cluster.partitions()


def test_stores_without_a_disk_are_made_from_their_changelogs(broker: Broker, tmp_path: Path) -> None:
    shop = Shop("split-lost", tmp_path, Connection(broker.bootstrap), 2, 3).make()
    shutil.rmtree(shop.application)
    given = shop.spec
    moved = {"name": "by-hour", "format": WINDOW, "retention_ms": 30 * 24 * HOUR, "segment_ms": HOUR}
    lost = Spec(
        name=given.name,
        work_dir=given.work_dir,
        source={"format": TIMESTAMPED, "stores": ["orders", moved], "changelog": True, "subtopology": 0},
        target=given.target,
        changelog={"bootstrap": shop.connection.bootstrap, "application_id": shop.name},
    )
    assert run(lost).state == "published"
    shop.check_published()


def test_what_is_unread_is_refused_before_anything_is_written(broker: Broker, tmp_path: Path) -> None:
    shop = Shop("split-unread", tmp_path, Connection(broker.bootstrap), 2, 3).make()
    shop.write(shop.input, 1, {b"one more": (b"event", NOW)})
    error = raises(
        RefusedError, f"group split-unread has not read {shop.input}, partition 1, from offset ", run, shop.spec
    )
    assert error.hint.startswith("start the old application, let it read its input to the end")
    check = next(each for each in plan(shop.spec).checks if each.name == "partitions.input")
    assert (check.outcome, check.exit_code) == ("failed", 6)
    with Cluster(shop.connection) as cluster:
        assert shop.topic("orders-n") not in cluster.partitions()


def test_a_store_behind_its_changelog_is_refused(broker: Broker, tmp_path: Path) -> None:
    shop = Shop("split-behind", tmp_path, Connection(broker.bootstrap), 2, 3).make()
    shop.write(shop.topic("orders"), 0, {b"later": (b"value", NOW)})
    raises(RefusedError, "0_0/orders is 1 .* behind .* what came since belongs to other tasks by now", run, shop.spec)


def test_tasks_that_another_host_has_are_missed(broker: Broker, tmp_path: Path) -> None:
    """Keys of tasks 0 and 1 of four lie where they would lie of two."""
    shop = Shop("split-hosts", tmp_path, Connection(broker.bootstrap), 4, 3).make()
    for number in (2, 3):
        (shop.application / f"0_{number}").rename(tmp_path / f"0_{number}")
    check = next(each for each in plan(shop.spec).checks if each.name == "partitions.input")
    assert check.outcome == "failed"
    assert "has 4 partitions, and its store 2 tasks here" in check.detail
    raises(RefusedError, "has 4 partitions, and its store 2 tasks here", run, shop.spec)


def test_a_migration_that_is_given_up_leaves_no_topic(broker: Broker, tmp_path: Path) -> None:
    shop = Shop("split-given-up", tmp_path, Connection(broker.bootstrap), 2, 3).make()
    spec = shop.spec
    (shop.base / "new").mkdir()

    def stray(event: object) -> None:
        if getattr(event, "name", "") == "changelog.committed":
            shop.write(shop.topic("orders-n"), 2, {b"stray": (b"value", NOW)})

    raises(VerificationError, "the changelog does not hold the new store: .* 1 extra", run, spec, on_event=stray)
    abandon(spec)
    with Cluster(shop.connection) as cluster:
        there = cluster.partitions()
    assert {shop.topic("orders"), shop.topic("by-hour")} <= there.keys()
    assert not {shop.topic("orders-n"), shop.topic("by-hour-n")} & there.keys()
    run(shop.spec)
    shop.check_published()
