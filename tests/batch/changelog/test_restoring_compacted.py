"""An old store from a changelog that the broker has really compacted: before its reading began, or in the middle."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from migrate import RefusedError, restore, run
from migrate.kafka.writer import Writer
from migrate.model.reports import RestoreReport
from migrate.stores.batch import ChangelogBatch
from tests.batch.changelog.lost import Lost, make_lost
from tests.batch.changelog.support import NOW, TASKS, WINDOW
from tests.batch.switch.support import StopAt, StoppedError
from tests.broker.broker import Broker
from tests.broker.topics import compact_soon, ends_of, messages_of, set_topic
from tests.shared.windowed import window_key
from tests.support import KEY_VALUE, TIMESTAMPED, raises

ROUNDS, GONE = 4, 30
Make = Callable[..., Lost]


@pytest.fixture
def make(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Make:
    return partial(make_lost, request.node.name, tmp_path, broker)


def _write_history(lost: Lost, **settings: str) -> int:
    """Let every key change again and again, others come and go, and some be aborted: the store is the same at the end.

    Each transaction ends a segment of the topic, whose marker has the broker's time. Returns how many records were
    written; `settings`: of the topic.
    """
    app = lost.app
    compact_soon(app.broker.bootstrap, app.topic)
    set_topic(app.broker.bootstrap, app.topic, **settings)
    for number in range(len(TASKS)):
        records = app.old(number)
        for turn in range(ROUNDS):
            gone = [b"gone-%d-%d" % (turn, each) for each in range(GONE)]
            if app.kind == WINDOW:
                gone = [window_key(key, NOW) for key in gone]
            app.write(app.topic, number, {key: (b"value %d" % turn, NOW) for key in (*records, *gone)})
            app.write(app.topic, number, dict.fromkeys(gone, (None, NOW)))
            with suppress(StoppedError), Writer(app.connection, app.topic, number, f"{app.name}-aborted") as writer:
                writer.write(ChangelogBatch([*records], [b"aborted"] * len(records), [NOW] * len(records)))
                raise StoppedError("before the end")
        app.write(app.topic, number, records)
    return sum(end for _, end in ends_of(app.broker.bootstrap, app.topic))


def _held(lost: Lost) -> int:
    """How many records the topic has, aborted ones left out."""
    return sum(1 for _ in messages_of(lost.app.broker.bootstrap, lost.app.topic))


def _wait_compacted(lost: Lost, most: int, *, rewrite: bool = True) -> None:
    """Wait until so few are left. `rewrite`: write a last record of each partition again, which ends a segment."""
    deadline = time.monotonic() + 60
    while _held(lost) > most:
        assert time.monotonic() < deadline, f"{_held(lost)} records are left"
        for number in range(len(TASKS) if rewrite else 0):
            key, record = max(lost.app.old(number).items())
            lost.app.write(lost.app.topic, number, {key: record})
        time.sleep(0.3)


def _assert_back(lost: Lost, report: RestoreReport) -> None:
    spec = lost.spec()
    was = lost.entries(lost.there)
    assert report.keys == sum(map(len, was))
    assert lost.entries(spec.source_path) == was
    run(spec)
    assert spec.target_path is not None
    assert lost.entries(spec.target_path) == was


@pytest.mark.parametrize(
    ("kind", "tombstones"), [(TIMESTAMPED, "stay"), (WINDOW, "go"), (KEY_VALUE, "go"), (WINDOW, "stay")]
)
def test_a_compacted_changelog(kind: str, tombstones: str, make: Make) -> None:
    lost = make(kind)
    written = _write_history(lost, delete_retention_ms="86400000" if tombstones == "stay" else "1")
    keys = sum(len(lost.app.old(number)) for number in range(len(TASKS)))
    deletes = ROUNDS * GONE * len(TASKS)
    _wait_compacted(lost, keys + (deletes if tombstones == "stay" else 0) + 20)
    report = restore(lost.spec())
    assert report.records < written / 2
    assert (report.tombstones > deletes / 2) == (tombstones == "stay"), report
    _assert_back(lost, report)


def test_what_is_compacted_between_a_kill_and_the_next_restore(make: Make) -> None:
    lost = make(TIMESTAMPED)
    written = _write_history(lost, min_compaction_lag_ms="3600000")
    raises(StoppedError, "", restore, lost.spec(), on_event=StopAt("restore.committed"))
    set_topic(lost.app.broker.bootstrap, lost.app.topic, min_compaction_lag_ms="0")
    _wait_compacted(lost, written // 2, rewrite=False)
    report = restore(lost.spec())
    assert report.records < written
    _assert_back(lost, report)


def test_a_start_that_is_gone_when_it_is_read(make: Make) -> None:
    """As retention removes it, of windows."""
    lost = make(WINDOW)
    _write_history(lost, delete_retention_ms="1")
    raises(StoppedError, "", restore, lost.spec(), on_event=StopAt("restore.pinned"))
    admin = AdminClient({"bootstrap.servers": lost.app.broker.bootstrap})
    for done in admin.delete_records([TopicPartition(lost.app.topic, 1, 100)]).values():
        done.result(30)
    error = raises(RefusedError, "begins at offset 100, and was to be read from 0 on", restore, lost.spec())
    assert "stateferry abandon SPEC" in error.hint
