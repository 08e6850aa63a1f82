"""An old store that is made from its changelog alone: what it holds, how it goes on from there, and what is refused."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from migrate import ChangelogFailedError, RefusedError, SpecError, abandon, finalize, plan, restore, run, status, verify
from migrate.batch.chunk.restore_store import RestoreTask
from migrate.kafka.cluster import Cluster
from migrate.kafka.writer import Writer
from migrate.model.changelogs import Segments
from migrate.model.events import RESTORE_EVENTS
from migrate.model.restored import Pinned, RestoredRecord, RestoredStore
from migrate.model.store_partition import StorePartition
from migrate.model.values import read_sealed, with_seal
from migrate.spec.spec import parse_spec
from migrate.stores.batch import ChangelogBatch
from tests.batch.changelog.lost import Lost, make_lost
from tests.batch.changelog.support import FAMILIES, NOW, WINDOW, Record, on_spark
from tests.batch.switch.support import StopAt, StoppedError
from tests.broker.broker import Broker
from tests.support import KEY_VALUE, TIMESTAMPED, raises, read_family, to_toml

Make = Callable[..., Lost]


@pytest.fixture
def make(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Make:
    return partial(make_lost, request.node.name, tmp_path, broker)


@pytest.mark.parametrize("kind", [KEY_VALUE, TIMESTAMPED, WINDOW])
def test_a_lost_disk_comes_back(kind: str, make: Make) -> None:
    lost = make(kind)
    lost.app.write(lost.app.topic, 0, _changes(lost))
    spec = lost.spec()
    report = restore(spec)
    held = [len(each) for each in lost.entries(lost.there)]
    assert (report.keys, report.tombstones, report.store_partitions) == (sum(held) - 1, 1, 2)
    assert plan(spec).verdict.go
    run(spec)
    assert spec.target_path is not None
    was, now = lost.entries(lost.there), lost.entries(spec.target_path)
    assert now[1] == was[1]
    changed = {key for key in was[0] | now[0] if was[0].get(key) != now[0].get(key)}
    assert changed == {*_changes(lost)}
    old = (lost.there / "0_1" / ".checkpoint").read_text()
    assert (spec.target_path / "0_1" / ".checkpoint").read_text() == old
    assert status(spec).state == "published"
    assert verify(spec).verification.ok


def _changes(lost: Lost) -> dict[bytes, Record]:
    """One key is deleted, another one changed."""
    first, second = sorted(lost.app.old(0))[:2]
    return {first: (None, NOW + 1), second: (b"changed", NOW + 2)}


def test_it_is_converted_like_any_other(make: Make) -> None:
    lost = make(KEY_VALUE)
    spec = lost.spec(target={"format": TIMESTAMPED, "store": "orders2"})
    run(spec)
    assert spec.target_path is not None
    for number, new in enumerate(lost.entries(spec.target_path, "orders2", TIMESTAMPED)):
        assert new == {key: b"\xff" * 8 + value for key, (value, _) in lost.app.old(number).items() if value}


def test_what_was_made_of_it_is_removed_in_the_end(make: Make) -> None:
    lost = make()
    spec = lost.spec()
    assert "the changelog is as it was; when sure, stateferry finalize" in run(spec).next_step
    assert finalize(spec).left_over == ()
    assert not spec.source_path.exists()
    assert (status(spec).state, run(spec).state) == ("finalized", "finalized")


@pytest.mark.parametrize("event", RESTORE_EVENTS)
def test_a_restore_that_was_stopped_goes_on(event: str, make: Make) -> None:
    lost = make()
    spec = lost.spec()
    raises(StoppedError, "", restore, spec, on_event=StopAt(event))
    if event != "restore.finished":
        (found,) = [each for each in plan(spec).checks if each.name == "source.found"]
        assert found.detail.startswith("the old store is not made from its changelog yet")
    restore(spec)
    assert lost.entries(spec.source_path) == lost.entries(lost.there)
    abandon(spec)
    assert not spec.home.exists()


def test_what_is_aborted_is_left_out(make: Make) -> None:
    lost = make()
    (key,) = sorted(lost.app.old(0))[:1]
    with suppress(StoppedError), Writer(lost.app.connection, lost.app.topic, 0, "aborted") as writer:
        writer.write(ChangelogBatch([key], [b"never"], [NOW]))
        raise StoppedError("before the end")
    restore(lost.spec())
    assert lost.entries(lost.spec().source_path) == lost.entries(lost.there)


def test_an_application_that_went_on_is_noticed(make: Make) -> None:
    lost = make()
    spec = lost.spec()
    restore(spec)
    lost.app.write(lost.app.topic, 0, _changes(lost))
    error = raises(RefusedError, "was read up to there: the application went on", run, spec)
    assert "stateferry abandon SPEC" in error.hint


def test_a_topic_that_was_made_again_is_noticed(make: Make) -> None:
    lost = make()
    spec = lost.spec()
    raises(StoppedError, "", restore, spec, on_event=StopAt("restore.pinned"))
    with Cluster(lost.app.connection) as cluster:
        topic = cluster.topic(lost.app.topic)
        assert topic is not None
        cluster.delete_topic(topic)
        cluster.create_topic(topic.name, partitions=2, replication=1, settings={})
    raises(RefusedError, "was made again since its reading began", restore, spec)


def test_a_transaction_that_stays_open_is_said(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = make()
    monkeypatch.setattr("migrate.batch.changelog.broker_access._PATIENCE_SECONDS", 1.0)
    with Writer(lost.app.connection, lost.app.topic, 0, "open") as writer:
        writer.write(ChangelogBatch([b"key"] * 500, [b"never"] * 500, [NOW] * 500))
        writer._producer.flush(30)
        raises(ChangelogFailedError, "a transaction is open in", restore, lost.spec())
    restore(lost.spec())


def test_a_topic_that_is_no_changelog(broker: Broker, make: Make) -> None:
    lost = make()
    topic = lost.app.topic.replace("orders", "plain")
    with Cluster(lost.app.connection) as cluster:
        cluster.create_topic(topic, partitions=1, replication=1, settings={})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value=b"no key")
    assert producer.flush(30) == 0
    raises(ChangelogFailedError, "offset 0: a record without a key", restore, lost.spec({"store": "plain"}))


def test_a_topic_that_lost_records_is_noticed(make: Make) -> None:
    lost = make()
    spec = lost.spec()
    restore(spec)
    file = spec.home / "restored.json"
    record = RestoredRecord.model_validate_json(read_sealed(file.read_bytes())[0])
    further = tuple(each.model_copy(update={"end": each.end + 1}) for each in record.pinned)
    longer = record.model_copy(update={"pinned": further})
    file.write_bytes(with_seal(longer.model_dump_json(indent=1)).encode())
    raises(RefusedError, "was to be read up to .*: it lost records", restore, spec)
    file.write_text("{}")
    raises(RefusedError, "restored.json is damaged", restore, spec)


def test_it_is_made_on_spark_too(make: Make) -> None:
    lost = make()
    spec = lost.spec()
    file = lost.app.base / "lost.toml"
    file.write_text(to_toml(spec.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
    on_spark("run", file)
    assert spec.target_path is not None
    assert lost.entries(spec.target_path) == lost.entries(lost.there)


def test_there_is_nothing_to_read(make: Make) -> None:
    lost = make()
    raises(RefusedError, r"there is no topic .*-ordres-changelog", restore, lost.spec({"store": "ordres"}))
    (found,) = [each for each in plan(lost.spec()).checks if each.name == "source.found"]
    assert (found.outcome, found.detail) == ("failed", "the old store is not made from its changelog yet")
    assert "stateferry restore SPEC" in found.fix
    raises(SpecError, "needs no changelog", restore, lost.app.spec)


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("source", {"subtopology": None}, "no topic tells the first number"),
        ("source", {"store": None}, "says which one it is"),
        ("source", {"format": WINDOW, "retention_ms": None, "segment_ms": None}, "which segments its records"),
        ("source", {"format": "kafka-streams.versioned"}, "and what has expired"),
        ("source", {"changelog": None, "path": "state"}, "subtopology has no effect"),
        ("target", {"path": None}, "name a new one in"),
        ("changelog", None, "says where that is"),
    ],
)
def test_what_a_spec_lacks(section: str, change: dict[str, Any] | None, message: str, tmp_path: Path) -> None:
    content: dict[str, Any] = {
        "name": "lost",
        "work_dir": "work",
        "source": {"format": TIMESTAMPED, "store": "orders", "changelog": True, "subtopology": 0},
        "target": {"format": TIMESTAMPED, "path": "new/shop"},
        "changelog": {"bootstrap": "broker:9092", "application_id": "shop"},
    }
    parse_spec(content, base_dir=tmp_path)
    changed = {**content, section: None if change is None else {**content[section], **change}}
    with pytest.raises(SpecError, match=message):
        parse_spec({name: each for name, each in changed.items() if each is not None}, base_dir=tmp_path)


def _task(lost: Lost, folder: Path, segments: Segments | None) -> RestoreTask:
    """Reads the first partition, of which only some records fit in memory at a time."""
    (folder / "made").mkdir(parents=True)
    place = Path("0_0", "orders") if lost.app.kind == WINDOW else Path("0_0", "rocksdb", "orders")
    partition = StorePartition(id="0_0/orders", store="orders", task="0_0", path=place)
    with Cluster(lost.app.connection) as cluster:
        ends = cluster.ends_of(lost.app.topic, 0)
    pinned = Pinned(partition=partition, topic=lost.app.topic, number=0, start=ends.start, end=ends.stable)
    return RestoreTask(str(folder), "made", lost.app.connection, pinned, lost.app.kind, segments, memory=2000)


def _made(task: RestoreTask, found: RestoredStore) -> dict[bytes, bytes]:
    store = Path(task.home, found.folder, "store")
    family = FAMILIES[task.format]
    return {key: value for name in found.databases for key, value in read_family(store / name, family).items()}


def test_more_records_than_memory_holds(make: Make, tmp_path: Path) -> None:
    lost = make(count=1000)
    lost.app.write(lost.app.topic, 0, _changes(lost))
    task = _task(lost, tmp_path / "home", None)
    found = task.work()
    records = lost.app.old(0) | _changes(lost)
    entries = {key: lost.app._entry(value, at) for key, (value, at) in records.items() if value}
    assert _made(task, found) == entries
    assert (found.keys, found.tombstones) == (len(entries), 1)


def test_segments_expire_while_it_is_read(make: Make, tmp_path: Path) -> None:
    """The first records are the oldest: they are written, and have expired when the newest ones come."""
    lost = make(WINDOW, count=1000)
    newest = b"newest" + (NOW + 40 * 3_600_000).to_bytes(8, "big") + bytes(4)
    lost.app.write(lost.app.topic, 0, {newest: (b"newest", NOW)})
    task = _task(lost, tmp_path / "home", Segments("orders", 3_600_000, 7_200_000, None, {}))
    found = task.work()
    assert _made(task, found) == {newest: lost.app._entry(b"newest", NOW)}
    assert found.keys == 1
    assert found.databases == (f"orders.{(NOW + 40 * 3_600_000) // 3_600_000 * 3_600_000}",)
