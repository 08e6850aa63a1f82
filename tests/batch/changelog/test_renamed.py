"""Stores of an application get other names, and their records stay the same: at a real broker."""

import json
from pathlib import Path

from migrate import Spec, cutover, plan, run
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.stores.batch import ChangelogBatch
from tests.batch.changelog.support import NOW, TASKS
from tests.broker.broker import Broker
from tests.shared.registry_server import Registry, Version, serving
from tests.shared.windowed import checkpoint
from tests.support import KEY_VALUE, TIMESTAMPED, make_families, make_store, read_family

APP = "renamed-stores"
NAMES = {f"KSTREAM-AGGREGATE-STATE-STORE-000000000{old}": f"STORE-000000000{old + 1}" for old in (2, 5)}


def _records(store: str, number: int) -> dict[bytes, tuple[bytes, int]]:
    return {b"key-%03d-%d" % (each, number): (store.encode(), NOW - 1000 + each) for each in range(100)}


def _topic(store: str) -> str:
    return f"{APP}-{store}-changelog"


def _make(folder: Path, connection: Connection) -> None:
    with Cluster(connection) as cluster:
        for store in NAMES:
            cluster.create_topic(_topic(store), partitions=2, replication=1, settings={"cleanup.policy": "compact"})
    for number, task in enumerate(TASKS):
        lines = []
        for store in NAMES:
            records = _records(store, number)
            values, times = zip(*records.values(), strict=True)
            with Writer(connection, _topic(store), number, f"{store}-{number}") as writer:
                writer.write(ChangelogBatch(list(records), values, times))
                lines.append(f"{_topic(store)} {number} {writer.finish()}")
            entries = {key: at.to_bytes(8, "big") + value for key, (value, at) in records.items()}
            make_families(folder / task / "rocksdb" / store, {"keyValueWithTimestamp": entries})
        (folder / task / ".checkpoint").write_text(checkpoint(*lines), encoding="ascii")


def test_several_stores_at_once_keep_their_records_under_other_names(broker: Broker, tmp_path: Path) -> None:
    connection, folder = Connection(broker.bootstrap), tmp_path / "state" / APP
    _make(folder, connection)
    before = {task: (folder / task / ".checkpoint").read_text("ascii").splitlines()[2:] for task in TASKS}
    spec = Spec(
        name=APP,
        work_dir=tmp_path / "work",
        source={"format": TIMESTAMPED, "path": folder, "stores": list(NAMES)},
        target={"format": TIMESTAMPED, "stores": dict(reversed(NAMES.items()))},
        changelog={"bootstrap": broker.bootstrap, "application": "stopped"},  # its group has no offset
    )
    planned = plan(spec)
    assert planned.verdict.go
    assert planned.changelogs is not None
    assert {each.topic: each.new_topic for each in planned.changelogs.topics} == {
        _topic(old): _topic(new) for old, new in NAMES.items()
    }
    run(spec)
    cutover(spec)
    for number, task in enumerate(TASKS):
        lines = (folder / task / ".checkpoint").read_text("ascii").splitlines()
        assert {*before[task]} < {*lines}, "the old stores stay"
        for old, new in NAMES.items():
            with Cluster(connection) as cluster:
                ends = cluster.ends_of(_topic(new), number)
            found = {
                key: (value, at)
                for batch in read(connection, _topic(new), number, ends.start, ends.stable)
                for key, value, at in zip(batch.keys, batch.values, batch.timestamps, strict=True)
            }
            assert found == _records(old, number)
            assert f"{_topic(new)} {number} {ends.end - 2}" in lines  # a marker follows the last record
            stores = (folder / task / "rocksdb" / name for name in (old, new))
            assert len({str(read_family(store, "keyValueWithTimestamp")) for store in stores}) == 1


def test_plan_names_the_subject_that_lacks_the_new_schema(broker: Broker, tmp_path: Path) -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
    connection, app = Connection(broker.bootstrap), "renamed-subjects"
    topic, values = f"{app}-old-changelog", {b"key": b"\0" + (1).to_bytes(4, "big") + b"\x02"}
    with Cluster(connection) as cluster:
        cluster.create_topic(topic, partitions=1, replication=1, settings={"cleanup.policy": "compact"})
    with Writer(connection, topic, 0, app) as writer:
        writer.write(ChangelogBatch(list(values), list(values.values()), [NOW]))
        line = f"{topic} 0 {writer.finish()}"
    make_store(tmp_path / app / "0_0/rocksdb/old", values)
    (tmp_path / app / "0_0/.checkpoint").write_text(checkpoint(line), encoding="ascii")
    versions = [Version(1, schema), Version(2, schema.replace("id", "number"))]
    with serving(Registry({"elsewhere": versions})) as registry:
        avro = {"serde": "avro", "frame": "confluent", "registry": registry.url}
        (tmp_path / "function.py").write_text(
            "from dataclasses import replace\n\n\n"
            "def convert(record):\n    return replace(record, value={'number': record.value['id']})\n"
        )
        spec = Spec(
            name=app,
            work_dir=tmp_path / "work",
            source={"format": KEY_VALUE, "path": tmp_path / app, "store": "old"},
            target={"format": KEY_VALUE, "store": "new"},
            changelog={"bootstrap": broker.bootstrap, "application": "stopped"},
            conversion={
                "function": "function:convert",
                "value": {"from": {**avro, "ids": [1]}, "to": {**avro, "id": 2}},
            },
            base_dir=tmp_path,
        )
        planned = plan(spec)
    assert planned.verdict.go, planned.verdict
    (check,) = (each for each in planned.checks if each.name == "changelog.subject")
    assert (check.outcome, check.detail) == (
        "warning",
        f"schema 2 is not registered under {app}-new-changelog-value",
    )
