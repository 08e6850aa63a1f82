"""Changelogs that a run writes at a real broker: whole, also after a kill at any point, and compared for real."""

import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from migrate import cutover, run, verify
from migrate.batch.changelog import write_topics as write
from migrate.batch.changelog.write_topics import begin_writing, end_writing
from migrate.batch.chunk import write_changelog as produce
from migrate.batch.chunk.executor import Executor, Finished
from migrate.batch.chunk.task import Task
from migrate.batch.chunk.write_changelog import Confirmed, write_records
from migrate.batch.ledger.changelog_standing import ChangelogStanding
from migrate.batch.ledger.standing import Standing
from migrate.errors import ChangelogFailedError, ExitCode, InterruptedMigrationError, RefusedError, VerificationError
from migrate.kafka.claims import read_claims
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.kafka.writer import Writer
from migrate.model.changelogs import Changelog
from migrate.model.events import RUN_EVENTS
from migrate.model.ledger_row import Step
from migrate.stores.batch import ChangelogBatch
from tests.batch.changelog.support import NOW, TASKS, WINDOW, App, beside_a_function, killed, on_spark
from tests.broker.broker import Broker
from tests.shared.windowed import checkpoint
from tests.support import KEY_VALUE, make_families, raises, read_ledger

EVENTS = [name for name in RUN_EVENTS if name.startswith("changelog.")]


@pytest.fixture
def app(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> App:
    """An application named after its test."""
    name = request.node.name.replace("[", "-").replace("]", "").replace("_", "-")
    return App(name[-40:].strip("-"), tmp_path, broker).make()


@pytest.mark.parametrize(("kind", "way"), [(KEY_VALUE, "append"), (WINDOW, "new-topic"), (WINDOW, "append")])
def test_a_restore_gives_the_new_store(kind: str, way: str, broker: Broker, tmp_path: Path) -> None:
    app = App(f"{kind.rpartition('-')[2]}-{way}", tmp_path, broker, kind, way).make()
    report = run(app.spec)
    assert app.all_restored()
    (changelog,) = report.changelogs
    dropped = 6 if way == "append" else 0
    assert (changelog.records, changelog.tombstones, changelog.verified) == (2 * app.count, dropped, True)
    assert (changelog.topic, changelog.new_topic) == (app.topic, app.new_topic)
    with Cluster(app.connection) as there:
        old, new = there.topic(app.topic), there.topic(app.new_topic)
    assert old is not None
    assert new is not None
    assert (new.partitions, new.replication, new.settings) == (old.partitions, old.replication, old.settings)
    claims = read_claims(app.connection, f"stateferry-{app.name}")
    ends = {(app.topic, number): app.last_offset(number) for number in range(len(TASKS))}
    assert {place: (claim.state, claim.last) for place, claim in claims.items()} == {
        place: ("written", last) for place, last in ends.items()
    }


@pytest.mark.parametrize("way", ["new-topic", "append"])
def test_a_run_killed_anywhere_is_finished_by_the_next_one(way: str, broker: Broker, tmp_path: Path) -> None:
    app = App(f"killed-{way}", tmp_path, broker, way=way).make()
    before = app.old_state()
    for event in EVENTS:
        killed("run", event, app)
        assert way == "append" or app.old_state() == before, event
    seen: list[str] = []
    report = run(app.spec, on_event=lambda event: seen.append(event.name))
    assert not [name for name in seen if name.startswith("changelog.")]
    assert report.changelogs[0].verified
    assert report.changelogs[0].records == 2 * app.count
    assert app.all_restored()
    rows = read_ledger(app.spec.home)
    parts = [(row.store_partition, row.database, row.start_key) for row in rows if row.step is Step.PRODUCED]
    assert len(parts) == len({*parts}) > 4, "each part once, and several of each partition"


def test_attempts_that_were_lost_write_nothing_once_the_stores_are_cut_over(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[Task] = []

    def lose(_: Executor, tasks: Iterable[Task], **__: object) -> Iterator[Finished]:
        lost.extend(tasks)
        raise InterruptedMigrationError("killed")

    with monkeypatch.context() as patch, pytest.raises(InterruptedMigrationError):
        patch.setattr(write, "run_all", lose)
        run(app.spec)
    attempts = [_paused(app, task, method) for task, method in zip(lost, ("__enter__", "finish"), strict=True)]
    try:
        run(app.spec)
        cutover(app.spec)
        with Cluster(app.connection) as there:
            ends = there.ends(app.new_topic, range(len(TASKS)))
            for each in attempts:
                each.send_signal(signal.SIGCONT)
            late, fenced = (each.communicate(timeout=60)[0] for each in attempts)
            assert "written by another command, or was" in late
            assert "write to topic" in fenced
            assert there.ends(app.new_topic, range(len(TASKS))) == ends
    finally:
        for each in attempts:
            each.kill()
    assert app.all_restored()


def test_what_a_killed_run_left_open_is_not_taken_for_the_applications(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("left-open", tmp_path, broker, way="append").make()

    def lose(_: Executor, tasks: Iterable[Task], **__: object) -> Iterator[Finished]:
        paused = _paused(app, next(iter(tasks)), "finish")
        paused.kill()
        paused.communicate()
        raise InterruptedMigrationError("killed")

    with monkeypatch.context() as patch, pytest.raises(InterruptedMigrationError):
        patch.setattr(write, "run_all", lose)
        run(app.spec)
    with Cluster(app.connection) as there:
        assert any(each.stable < each.end for each in there.ends(app.topic, range(len(TASKS))).values())
    run(app.spec)
    assert app.all_restored()


def _paused(app: App, task: Task, method: str) -> subprocess.Popen[str]:
    """A process that has come up to a writer's method."""
    file = app.base / f"{method}.task"
    file.write_bytes(pickle.dumps(task))
    command = [sys.executable, "-m", "tests.batch.changelog.lost_writer", str(file), method]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    found = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert found is not None
    assert found.si_status == signal.SIGSTOP
    return process


def test_an_attempt_that_has_begun_ends_with_its_command(broker: Broker, tmp_path: Path) -> None:
    connection = Connection(broker.bootstrap)
    with Cluster(connection) as there:
        there.create_topic("begun", partitions=1, replication=1, settings={})
        begin_writing(tmp_path, ["of-an-attempt", "of-another"])
        with Writer(connection, "begun", 0, "of-an-attempt") as attempt:
            attempt.write(ChangelogBatch([b"key"], [b"value"], [NOW]))
            end_writing(there, tmp_path)
            raises(ChangelogFailedError, "", attempt.finish)
        ends = there.ends("begun", [0])[0]
    assert not any(map(len, read(connection, "begun", 0, 0, ends.stable)))
    assert ends.stable == ends.end
    assert not list((tmp_path / "changelog").iterdir())


def test_what_another_writer_did_is_found(app: App) -> None:
    run(app.spec)
    (gone, _), (other, (value, at)) = list(app.expected(1).items())[:2]
    offset = app.write(app.new_topic, 1, {gone: (None, NOW), other: (value, at + 1), b"new": (b"value", NOW)})
    assert offset is not None
    raised = raises(VerificationError, "", verify, app.spec)
    where = f"{app.new_topic}, partition 1, key"
    assert raised.message.splitlines() == [
        "the changelog does not hold the new store: 1 key missing, 1 differing, 1 extra",
        f'  - missing in the changelog: {where} "{gone.decode()}"',
        f'  - differing: {where} "{other.decode()}", offset {offset - 1}: timestamp should be {at}, is {at + 1}',
        f'  - extra in the changelog: {where} "new", offset {offset}: the new store has no such entry',
    ]
    assert raised.exit_code == ExitCode.MISMATCH
    assert not ChangelogStanding(read_ledger(app.spec.home)).is_verified
    raises(VerificationError, "", run, app.spec)
    with Cluster(app.connection) as there:
        topic = there.topic(app.new_topic)
        assert topic is not None
        there.delete_topic(topic)
    assert run(app.spec).changelogs[0].verified
    assert verify(app.spec).changelogs[0].verified
    assert app.all_restored()


def test_a_tombstone_that_is_not_written_is_missed(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("revived", tmp_path, broker, way="append").make()

    def without_tombstones(
        there: Connection, changelog: Changelog, name: str, permit: str, batches: Iterator[ChangelogBatch]
    ) -> Confirmed:
        return write_records(there, changelog, name, permit, (batch for batch in batches if None not in batch.values))

    monkeypatch.setattr(produce, "write_records", without_tombstones)
    raised = raises(VerificationError, "", run, app.spec)
    assert f'missing in the changelog: {app.topic}, partition 0, key "drop-0": a tombstone' in raised.message


def test_a_changelog_in_use_is_compared_until_an_application_writes_to_it(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(app.spec)
    monkeypatch.setattr(Standing, "is_in_use", True)
    assert verify(app.spec).changelogs[0].verified
    app.write(app.new_topic, 1, {b"new": (b"value", NOW)})
    (changelog,) = verify(app.spec).changelogs
    assert not changelog.verified
    assert f"an application has written to {app.new_topic}, partition 1, since it was filled" in changelog.note


def test_a_foreign_topic_is_refused_and_left(app: App) -> None:
    with Cluster(app.connection) as there:
        there.create_topic(app.new_topic, partitions=2, replication=1, settings={})
        for _ in range(2):
            caught = raises(RefusedError, "exists already, and this migration did not make it", run, app.spec)
            assert "if nobody needs it, delete it" in caught.hint
        topic = there.topic(app.new_topic)
        assert topic is not None
        there.delete_topic(topic)
    assert run(app.spec).changelogs[0].verified


def test_spark_writes_the_same(broker: Broker, tmp_path: Path) -> None:
    app = App("on-spark", tmp_path, broker, kind=WINDOW).make()
    on_spark("run", beside_a_function(app))
    assert app.all_restored()


def test_a_versioned_history_is_written_in_the_order_of_time(broker: Broker, tmp_path: Path) -> None:
    app = App("versioned", tmp_path, broker, kind="kafka-streams.versioned")
    keys = [b"key-%02d" % number for number in range(40)]
    latest = {struct.pack(">q", -1) + key: struct.pack(">q", 90_000 - at) + b"now" for at, key in enumerate(keys)}
    former = {
        struct.pack(">q", 1) + key: struct.pack(">qqqi", 90_000 - at, 61_000 + at, 61_000 + at, 4) + b"then"
        for at, key in enumerate(keys)
    }
    make_families(tmp_path / app.name / "0_0" / "rocksdb" / "orders", {"default": latest | former})
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}  # what is so old would be compacted
    with Cluster(app.connection) as there:
        there.create_topic(app.topic, partitions=1, replication=1, settings=settings)
    last = app.write(app.topic, 0, {b"key": (b"value", NOW)})
    line = checkpoint(f"{app.topic} 0 {last}")
    (tmp_path / app.name / "0_0" / ".checkpoint").write_text(line, encoding="ascii")
    assert run(app.spec).changelogs[0].verified
    (batch,) = read(app.connection, app.new_topic, 0, 0, 80)
    wanted = [(61_000 + at, key, b"then!") for at, key in enumerate(keys)]
    wanted += [(90_000 - at, key, b"now!") for at, key in reversed([*enumerate(keys)])]
    assert [*zip(batch.timestamps, batch.keys, batch.values, strict=True)] == wanted
    app.write(app.new_topic, 0, {keys[0]: (b"other!", 61_000)})
    raises(VerificationError, "value should be", verify, app.spec)
