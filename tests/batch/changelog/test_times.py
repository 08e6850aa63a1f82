"""Times of keys from the old changelog: in the new store, and in the new changelog of a store that tells none."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from formats import get_format
from formats.partitioners import PARTITIONERS
from migrate import run, verify
from migrate.engine.changelog_codec import FromChangelog
from migrate.errors import ChangelogFailedError, ChunkFailedError
from migrate.kafka.cluster import Cluster
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.model.changelogs import Times, recorded_times
from migrate.model.events import Event
from migrate.stores.batch import ChangelogBatch
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.writing import SstWriter, TableOptions, create_database
from tests.batch.changelog.support import NOW, TASKS, App, Record
from tests.batch.switch.support import StopAt, StoppedError
from tests.broker.broker import Broker
from tests.support import KEY_VALUE, TIMESTAMPED, flip_byte, raises, read_ledger

HEADERS = "kafka-streams.headers-key-value"


class PlainApp(App):
    """An application whose store tells no times. Its changelog has several records of each key."""

    def old(self, number: int) -> dict[bytes, Record]:
        keys = (b"key-%05d-%d" % (each, number) for each in range(self.count))
        return {key: (b"value of %s" % key, NOW - 60_000 + 7 * at) for at, key in enumerate(keys)}

    def write(self, topic: str, number: int, records: Mapping[bytes, Record]) -> int | None:
        """Earlier ones of later times, and keys that are deleted since."""
        before = dict.fromkeys(records, (b"old", NOW))
        gone = {b"gone-%d" % each: (b"x", NOW) for each in range(9)}
        with Writer(self.connection, topic, number, f"{self.name}-{number}") as writer:
            for part in (before, gone, dict.fromkeys(gone, (None, NOW)), records):
                values, times = zip(*part.values(), strict=True)
                writer.write(ChangelogBatch(list(part), values, times))
            return writer.finish()

    def rebuilt(self, number: int, known: str) -> dict[bytes, bytes]:
        """What the owner of a store of this format restores from the old changelog."""
        with Cluster(self.connection) as cluster:
            ends = cluster.ends_of(self.topic, number)
        entries: dict[bytes, bytes] = {}
        restore = FromChangelog(get_format(known))
        for batch in read(self.connection, self.topic, number, ends.start, ends.stable):
            found = restore(batch)
            entries |= zip(found.puts.keys, found.puts.values, strict=True)
            for at, key in enumerate(batch.keys):
                if batch.values[at] is None:
                    entries.pop(key, None)
        return entries

    def migrated(self, number: int) -> dict[bytes, bytes]:
        """The new store."""
        (folder,) = self.spec.home.glob(f"new/*/{TASKS[number]}/**/CURRENT")
        entries: dict[bytes, bytes] = {}
        with open_read_only(folder.parent) as database:
            for family in database.families:
                for batch in database.batches(family):
                    entries |= zip(batch.keys, batch.values, strict=True)
        return entries

    @property
    def times(self) -> dict[str, Times]:
        """The recorded runs."""
        return recorded_times(read_ledger(self.spec.home))

    @property
    def runs(self) -> list[str]:
        """The runs in the folder."""
        found = self.spec.home.glob("changelog/**/times-*")
        return sorted(str(each.relative_to(self.spec.home)) for each in found)


def _timestamped(name: str, base: Path, broker: Broker, target: str = TIMESTAMPED) -> PlainApp:
    changelog = {"bootstrap": broker.bootstrap, "timestamps": "changelog", "application": "stopped"}
    sections = {"target": {"format": target}, "conversion": {}, "changelog": changelog}
    return PlainApp(name, base, broker, KEY_VALUE, sections=sections)


@pytest.mark.parametrize("target", [TIMESTAMPED, HEADERS])
def test_the_new_store_is_the_one_that_a_restore_gives(target: str, broker: Broker, tmp_path: Path) -> None:
    app = _timestamped(f"times-{target.rpartition('.')[2]}", tmp_path, broker, target).make()
    run(app.spec)
    for number in range(len(TASKS)):
        assert app.migrated(number) == app.rebuilt(number, target)
        assert len(app.migrated(number)) == app.count


@pytest.mark.parametrize("way", ["new-topic", "append"])
def test_records_of_a_store_without_times_keep_their_times(way: str, broker: Broker, tmp_path: Path) -> None:
    app = PlainApp(f"times-of-records-{way}", tmp_path, broker, KEY_VALUE, way).make()
    run(app.spec)
    assert app.all_restored()


class PlacedApp(PlainApp):
    """Each key is in the task that the partitioner of Kafka's producers chooses."""

    def old(self, number: int) -> dict[bytes, Record]:
        every = super().old(0) | super().old(1)
        return {key: record for key, record in every.items() if PARTITIONERS["murmur2"](key, len(TASKS)) == number}


def test_records_keep_their_times_in_other_partitions(broker: Broker, tmp_path: Path) -> None:
    target = {"format": KEY_VALUE, "path": "new/times-placed", "partitions": 3, "store": "orders2"}
    app = PlacedApp("times-placed", tmp_path, broker, KEY_VALUE, sections={"target": target}).make()
    run(app.spec)
    restored = [app.restored(number) for number in range(3)]
    assert all(len(each) > app.count // 2 for each in restored)
    assert restored[0] | restored[1] | restored[2] == app.expected(0) | app.expected(1)


class _Killed(Exception):
    pass


@pytest.mark.parametrize("point", ["times.made", "times.committed", "chunk.committed"])
def test_a_killed_run_is_finished_by_the_next_one(point: str, broker: Broker, tmp_path: Path) -> None:
    app = _timestamped(f"times-killed-{point.replace(chr(46), chr(45))}", tmp_path, broker).make()
    raises(StoppedError, "", run, app.spec, on_event=StopAt(point))
    before = app.times
    left = app.spec.home / "changelog" / TASKS[0] / "orders" / "times-0123456789ab" / "latest" / "0.sst"
    left.parent.mkdir(parents=True)
    left.touch()
    run(app.spec)
    assert app.migrated(0) == app.rebuilt(0, TIMESTAMPED)
    assert app.times | before == app.times
    assert app.runs == sorted(each.folder for each in app.times.values())


def test_a_run_is_durable_before_its_row_is_written(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = _timestamped("times-durable", tmp_path, broker).make()
    synced: set[Path] = set()
    real = os.fsync

    def spy(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").resolve())
        real(descriptor)

    def look(event: Event) -> None:
        if event.name == "times.made":
            folder = app.spec.home / event.facts["times"].folder
            assert {folder.parent, folder, *folder.iterdir()} <= synced
            raise _Killed

    monkeypatch.setattr(os, "fsync", spy)
    raises(_Killed, "", run, app.spec, on_event=look)


def _flip(folder: Path) -> None:
    table = next(folder.glob("*.sst"))
    flip_byte(table, table.stat().st_size // 3, 1)


def _replace(folder: Path) -> None:
    """Another run in its place: only its digest tells."""
    with open_read_only(folder) as old:
        batches = [*old.batches("default")]
    for file in folder.iterdir():
        file.unlink()
    writer = SstWriter(folder / "times.sst", TableOptions())
    for batch in batches:
        batch.values[0] = batch.values[0][:-1] + b"?"
        writer.write(batch)
    writer.finish()
    create_database(folder, {}, {"default": [folder / "times.sst"]}, {})


@pytest.mark.parametrize("damage", [_flip, _replace])
def test_a_damaged_run_is_noticed_and_made_again(damage: object, broker: Broker, tmp_path: Path) -> None:
    app = _timestamped(f"times-damaged-{damage.__name__.strip(chr(95))}", tmp_path, broker).make()  # type: ignore[attr-defined]
    run(app.spec)
    before = app.times
    folder = app.spec.home / next(iter(before.values())).folder
    damage(folder)  # type: ignore[operator]
    if damage is _flip:
        raises(ChunkFailedError, "times of keys", verify, app.spec)
    events: list[str] = []
    run(app.spec, on_event=lambda event: events.append(event.name))
    assert events.count("times.committed") == 1
    assert "chunk.started" not in events
    assert {each.digest for each in app.times.values()} == {each.digest for each in before.values()}
    verify(app.spec)


def _remove_records(app: PlainApp) -> None:
    """As retention does: all but those of the last transaction of partition 0, and the first of these."""
    admin = AdminClient({"bootstrap.servers": app.broker.bootstrap})
    deleting = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, app.topic, incremental_configs=[deleting])
    for done in admin.incremental_alter_configs([topic]).values():
        done.result()
    for done in admin.delete_records([TopicPartition(app.topic, 0, app.count + 30)]).values():
        done.result()


def test_what_retention_removed_is_said(broker: Broker, tmp_path: Path) -> None:
    app = _timestamped("times-lost", tmp_path, broker).make()
    _remove_records(app)
    report = run(app.spec)
    assert [sentence for sentence in report.warnings if "keys that were written then and not since get -1" in sentence]
    assert app.migrated(0)[next(iter(app.old(0)))].startswith(b"\xff" * 8)


def test_chunks_do_not_get_other_times_than_those_before(broker: Broker, tmp_path: Path) -> None:
    app = _timestamped("times-changed", tmp_path, broker).make()
    run(app.spec)
    _flip(app.spec.home / app.times["0_0/orders"].folder)
    _remove_records(app)
    raises(ChangelogFailedError, "other ones by now", run, app.spec)
