"""A versioned store that is made from its changelog alone has the value of each time within its retention."""

import random
from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from formats import get_format
from migrate import SpecError, restore, run, verify
from migrate.batch.chunk.restore_store import HistoryRules, RestoreTask
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.model.restored import Pinned
from migrate.model.store_partition import StorePartition
from migrate.spec.spec import Spec, parse_spec
from tests.batch.changelog.support import NOW
from tests.broker.broker import Broker
from tests.support import raises, read_family

VERSIONED = get_format("kafka-streams.versioned")
RETENTION = 3_600_000
Log = list[tuple[bytes, bytes | None, int]]
"""(key, value, time) of each record."""


def _log(records: int, seed: int = 1) -> Log:
    """Records of more time than the retention; some come late, some too late, some again, and one of seven deletes."""
    rng = random.Random(seed)
    keys = [b"key-%d" % number * (1 + number % 3) for number in range(40)]
    times = sorted(
        rng.sample(range(NOW - 3 * RETENTION, NOW), records), key=lambda at: at + rng.choice((0, 0, 900_000))
    )
    log = [(rng.choice(keys), None if rng.random() < 0.15 else b"%d" % at, at) for at in times]
    late = [(key, b"too late", NOW - RETENTION - 2 * at) for at, (key, _, _) in enumerate(rng.sample(log, 20), 900_000)]
    again = [(key, b"again", at) for key, _, at in log[-200::5]]
    return [*log, *again, *late]


def _expected(log: Log) -> dict[bytes, list[tuple[int, bytes | None]]]:
    """(since when, what) of each key, of all times that the store answers for, without regard to its segments."""
    kept: dict[bytes, dict[int, bytes | None]] = defaultdict(dict)
    newest = -1
    for key, value, at in log:
        if at >= newest - RETENTION:
            newest = max(newest, at)
            kept[key][at] = value
    return {key: found for key, values in kept.items() if (found := _since(sorted(values.items()), newest - RETENTION))}


def _since(changes: list[tuple[int, bytes | None]], oldest: int) -> list[tuple[int, bytes | None]]:
    """What holds from the oldest time on; a deletion that changes nothing is none."""
    before = [value for at, value in changes if at <= oldest]
    found = [(oldest, before[-1] if before else None), *(each for each in changes if each[0] > oldest)]
    differing = [
        found[0],
        *(each for each, was in zip(found[1:], found, strict=False) if (each[1], was[1]) != (None, None)),
    ]
    return [] if differing == [(oldest, None)] else differing


def _stored(directory: Path, newest: int) -> dict[bytes, list[tuple[int, bytes | None]]]:
    """The same of a store, read from disk."""
    changes: dict[bytes, dict[int, bytes | None]] = defaultdict(dict)
    for key, value in read_family(directory, "default").items():
        record = VERSIONED.decode(key, value)
        if record.history is None:
            changes[record.key][record.timestamp_ms or 0] = record.value
            continue
        changes[record.key].setdefault(record.history.valid_to_ms, None)
        changes[record.key] |= {each.valid_from_ms: each.value for each in record.history.versions}
    every = {key: _since(sorted(values.items()), newest - RETENTION) for key, values in changes.items()}
    return {key: found for key, found in every.items() if found}


def _made(broker: Broker, topic: str, log: Log) -> None:
    with Cluster(Connection(broker.bootstrap)) as cluster:
        cluster.create_topic(topic, partitions=1, replication=1, settings={})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 3})
    for key, value, at in log:
        producer.produce(topic, key=key, value=value, timestamp=at)
    assert producer.flush(30) == 0


def _spec(broker: Broker, base: Path, name: str, **more: object) -> Spec:
    content = {
        "name": name,
        "work_dir": "work",
        "source": {"format": VERSIONED.id, "store": "orders", "changelog": True, "subtopology": 0, **more},
        "target": {"format": VERSIONED.id, "path": f"new/{name}"},
        "changelog": {"bootstrap": broker.bootstrap, "application_id": name, "application": "stopped"},
    }
    return parse_spec(content, base_dir=base)


def test_every_time_has_its_value(broker: Broker, tmp_path: Path) -> None:
    log = _log(3000, 2)
    _made(broker, "versions-back-orders-changelog", log)
    spec = _spec(broker, tmp_path, "versions-back", retention_ms=RETENTION)
    report = restore(spec)
    newest = max(at for _, _, at in log)
    assert _stored(spec.source_path / "0_0/rocksdb/orders", newest) == _expected(log)
    assert (report.records, report.tombstones) == (len(log), 0)
    assert report.expired >= 20
    run(spec)
    assert spec.target_path is not None
    assert _stored(spec.target_path / "0_0/rocksdb/orders", newest) == _expected(log)
    assert verify(spec).verification.ok
    assert (spec.target_path / "0_0/.checkpoint").read_text().endswith(f"orders-changelog 0 {len(log) - 1}\n")


@pytest.mark.parametrize("segment_ms", [60_000, 1_000_000, 4_000_000])
def test_little_memory_and_other_segments_make_the_same(segment_ms: int, broker: Broker, tmp_path: Path) -> None:
    log, topic = _log(3000, segment_ms), f"versions-of-{segment_ms}"
    _made(broker, topic, log)
    partition = StorePartition(id="0_0/orders", store="orders", task="0_0", path=Path("0_0/rocksdb/orders"))
    task = partial(
        RestoreTask,
        home=str(tmp_path),
        folder="",
        connection=Connection(broker.bootstrap),
        pinned=Pinned(partition=partition, topic=topic, number=0, start=0, end=len(log)),
        format=VERSIONED.id,
        segments=None,
        history=HistoryRules(RETENTION, segment_ms),
    )
    newest = max(at for _, _, at in log)
    found = [tmp_path / task(memory=memory).work().folder / "store" for memory in (48 << 20, 50_000)]
    assert _stored(found[0], newest) == _expected(log)
    assert read_family(found[1], "default") == read_family(found[0], "default")


def test_the_retention_must_be_known(broker: Broker, tmp_path: Path) -> None:
    raises(SpecError, r"nothing but \[source\] retention_ms", _spec, broker, tmp_path, "versions-unknown")
