"""What is found out at a real broker before a run begins: each fault by its check, with what to do about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from migrate import RefusedError, catch_up, cutover, doctor, plan, report, run, status
from migrate.batch.changelog import application_group as stopped
from migrate.batch.preflight.check import CheckReport
from migrate.batch.status.history import report as history_of
from migrate.kafka import cluster as kafka_client
from migrate.kafka.cluster import Cluster, Committed
from migrate.kafka.connection import Connection
from migrate.show.output import Output
from migrate.show.page.dry_run_page import dry_run_page
from migrate.show.page.run_page import run_page
from migrate.show.text.report_text import changelog_rows, show_run, show_status, show_switch
from migrate.spec.spec import Spec
from tests.broker.broker import USERS, Broker
from tests.broker.rights import allow
from tests.support import KEY_VALUE, TIMESTAMPED, make_store

PROCESS = "1477ab13-d536-4f37-b598-08c4349be21c"


@dataclass(frozen=True)
class App:
    """A stopped application with two tasks, whose changelog has ten records in each partition."""

    name: str
    folder: Path
    broker: Broker

    @property
    def topic(self) -> str:
        return f"{self.name}-orders-changelog"

    @property
    def cluster(self) -> Cluster:
        return Cluster(Connection(self.broker.bootstrap))

    def spec(self, **sections: Any) -> Spec:  # noqa: ANN401
        content: dict[str, Any] = {
            "name": "orders",
            "work_dir": self.folder / "work",
            "source": {"format": KEY_VALUE, "path": self.folder / self.name, "store": "orders"},
            "target": {"format": TIMESTAMPED, "store": "orders-v2"},
            "conversion": {"function": lambda record: record},
            "changelog": {"bootstrap": self.broker.bootstrap},
        }
        for name, section in sections.items():
            content[name] = {**content.get(name, {}), **section}
        return Spec(**content)

    def make(self, *, partitions: int = 2, count: int = 10, settings: dict[str, str] | None = None) -> App:
        with self.cluster as cluster:
            cluster.create_topic(
                self.topic,
                partitions=partitions,
                replication=1,
                settings={"cleanup.policy": "compact", **(settings or {})},
            )
            cluster.set_committed(self.name, {(self.topic, 0): Committed(0)})
        for number in (0, 1):
            self.at(number, count - 1)
            make_store(self._task(number) / "rocksdb" / "orders", {b"%d" % each: b"v" for each in range(count)})
            if number < partitions:
                self.write(number, count)
        (self.folder / self.name / "kafka-streams-process-metadata").write_text(f'{{"processId":"{PROCESS}"}}')
        return self

    def _task(self, number: int) -> Path:
        task = self.folder / self.name / f"0_{number}"
        task.mkdir(parents=True, exist_ok=True)
        return task

    def at(self, number: int, offset: int) -> None:
        """State the last offset that a store has applied."""
        (self._task(number) / ".checkpoint").write_text(f"0\n1\n{self.topic} {number} {offset}\n")

    def write(self, number: int, count: int, topic: str = "") -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for each in range(count):
            producer.produce(topic=topic or self.topic, partition=number, key=b"%d" % each, value=b"v")
        producer.flush()

    def checks(self, **sections: Any) -> dict[str, CheckReport]:  # noqa: ANN401
        """Those of changelogs, as `doctor` reports them."""
        report = doctor(self.spec(**sections))
        return {each.name: each for each in report.checks if each.name.startswith("changelog.")}

    def refusal(self, said: str, *, fence: bool = False, **sections: Any) -> RefusedError:  # noqa: ANN401
        """That of a run, which leaves nothing behind."""
        with pytest.raises(RefusedError, match=said) as caught:
            run(self.spec(**sections), fence=fence)
        assert caught.value.exit_code == 6
        assert caught.value.hint
        assert not (self.folder / "work/orders/snapshot").exists()
        return caught.value


@pytest.fixture
def app(request: pytest.FixtureRequest, tmp_path: Path, broker: Broker) -> App:
    return App(request.node.name.removeprefix("test_").replace("[", "-").strip("]")[:60], tmp_path, broker)


def test_a_stopped_application_passes_and_what_is_not_known_is_said(app: App) -> None:
    found = app.make().checks()
    outcomes = {name: each.outcome for name, each in found.items()}
    assert set(outcomes.values()) == {"ok"}, found
    assert found["changelog.group"].detail == f"group {app.name} has no members"
    assert found["changelog.position"].detail == "every store has all that its changelog has"
    assert "changelog.writer" not in found


def test_a_plan_says_the_way_its_price_and_how_long_the_tail_is(app: App) -> None:
    app.make().write(1, 3)
    report = plan(app.spec())
    assert report.verdict.go
    found = report.changelogs
    assert found is not None
    assert (found.way, found.records, found.tail_records, found.is_most) == ("new-topic", 20, 3, False)
    assert {(each.topic, each.new_topic) for each in found.topics} == {(app.topic, f"{app.name}-orders-v2-changelog")}
    assert found.write_seconds > 0
    rows = changelog_rows(found)
    assert "[target] names a new store" in rows["way"]
    assert rows["topics"] == f"{app.topic} -> {app.name}-orders-v2-changelog"
    assert "3 records that the stores lack: stateferry catch-up takes about" in rows["tail"]
    assert "outputs are doubled" in rows["way back"]
    assert "the new store is moved out again" in dry_run_page(report)


def test_the_old_topic_is_not_taken_for_a_foreign_one_where_no_way_is_chosen(app: App) -> None:
    app.make()
    changelogs: tuple[dict[str, str], ...] = ({}, {"way": "new-topic"})
    for changelog in changelogs:
        report = plan(app.spec(target={"store": None}, changelog=changelog))
        failed = {each.name: each.fix for each in report.checks if each.outcome == "failed"}
        assert [*failed] == ["conversion.allowed"]
        assert failed["conversion.allowed"].startswith("name the store that the new code declares in [target] store")
        assert report.changelogs is None
        assert report.changelog.startswith("the changelog would no longer match the store")


def test_an_application_that_runs_is_waited_for(app: App) -> None:
    app.make()
    with _member(app):
        check = app.checks()["changelog.group"]
        assert (check.outcome, check.exit_code) == ("waiting", 6)
        error = app.refusal("has 1 member, on ")
    assert "45 s by default" in error.hint


@contextmanager
def _member(app: App) -> Iterator[None]:
    """A consumer in the application's group."""
    consumer = Consumer({"bootstrap.servers": app.broker.bootstrap, "group.id": app.name})
    consumer.subscribe([app.topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    try:
        yield
    finally:
        consumer.close()


def test_an_open_transaction_is_refused_and_ended_where_it_is_of_a_dead_instance_here(app: App) -> None:
    app.make()
    left = _left_open(app, f"{app.name}-{PROCESS}-2")
    error = app.refusal(f"a transaction is open in {app.topic}, partition 1, from offset 10 on")
    assert "transaction.timeout.ms" in error.hint
    assert "--fence" in error.hint
    assert app.checks()["changelog.transactions"].outcome == "waiting"
    with _member(app):
        app.refusal("has 1 member", fence=True)
    report = run(app.spec(), fence=True)
    assert report.state == "verified"
    (shown,) = status(app.spec()).changelogs
    assert (shown.topic, shown.records, shown.verified) == (app.topic, 20, True)
    assert f"{shown.new_topic}: 20 records, read back and equal" in run_page(history_of(app.spec()))
    with app.cluster as cluster:
        ends = cluster.ends_of(app.topic, 1)
    assert ends.stable == ends.end
    left = _left_open(app, f"{app.name}-{PROCESS}-2")
    with _member(app):
        found = catch_up(app.spec(), fence=True)
    assert (found.behind, "has 1 member" in found.application) == (2, True)
    assert found.next_step.startswith("the application still runs: once it has stopped, stateferry catch-up SPEC")
    assert "2 offsets" in catch_up(app.spec()).next_step
    found = catch_up(app.spec(), fence=True)
    assert (found.behind, found.next_step.startswith("nothing is behind: stateferry cutover")) == (0, True)
    del left


def test_a_transaction_of_another_host_is_not_ended(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopped, "_MOST_THREADS", 2)  # each takes a quarter of a second
    app.make()
    left = _left_open(app, f"{app.name}-another-process-1")
    error = app.refusal("a transaction is open", fence=True)
    assert "of an instance on another host" in error.hint
    left.abort_transaction()


def _left_open(app: App, transactional_id: str) -> Producer:
    """A producer that has written two records, and commits nothing."""
    producer = Producer({"bootstrap.servers": app.broker.bootstrap, "transactional.id": transactional_id})
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(2):
        producer.produce(topic=app.topic, partition=1, key=b"k", value=b"v")
    producer.flush()
    return producer


def test_an_empty_partition_needs_no_position(app: App) -> None:
    app.make(count=0).at(1, -4)
    assert run(app.spec()).state == "verified"


@pytest.mark.parametrize(
    "offset, said",
    [
        (20, "is at 21 of .*, partition 1, which ends at 10: the topic was recreated, or is another one"),
        (-4, "says that its position is unknown, so its files alone are not the state"),
    ],
    ids=["ahead", "unknown"],
)
def test_a_store_that_is_not_a_part_of_its_changelog_is_refused(app: App, offset: int, said: str) -> None:
    app.make().at(1, offset)
    app.refusal(said)


def test_what_retention_removed_is_missed(app: App) -> None:
    app.make(settings={"cleanup.policy": "compact,delete"}).at(1, 2)
    admin = AdminClient({"bootstrap.servers": app.broker.bootstrap})
    for done in admin.delete_records([TopicPartition(app.topic, 1, 7)]).values():
        done.result(30)
    error = app.refusal("is at 3 of .*, partition 1, which begins at 7 by now: its retention has removed records")
    assert "lost-tombstones" in error.hint
    allowed = app.checks(conversion={"allow": ["lost-tombstones"]})["changelog.position"]
    assert (allowed.outcome, "which begins at 7 by now" in allowed.detail) == ("warning", True)
    app.at(1, 9)
    plain: dict[str, Any] = {"target": {"store": None}, "conversion": {"function": None}}
    times = app.checks(**plain, changelog={"timestamps": "changelog"})["changelog.times"]
    assert (times.outcome, "begins at offset 7" in times.detail) == ("warning", True)


def test_settings_that_keep_nothing_are_named(app: App) -> None:
    app.make(settings={"cleanup.policy": "delete", "min.insync.replicas": "2", "max.message.bytes": "500"})
    found = {each.name: each for each in plan(app.spec()).checks}["changelog.messages"]
    assert (found.outcome, "max.message.bytes of" in found.detail) == ("warning", True)
    assert "max.request.size" in found.fix
    app.refusal("has 1 replica and min.insync.replicas = 2: nothing can be written to it")
    plain = app.checks(target={"store": None}, conversion={"function": None})["changelog.settings"]
    assert (plain.outcome, "is not compacted" in plain.detail) == ("warning", True)


def test_records_that_the_broker_removes_as_too_old_are_counted(app: App) -> None:
    """The old records are new by their times; the converted ones get the spec's, of 1970."""
    app.make(settings={"cleanup.policy": "compact,delete", "retention.ms": "86400000"})

    def checked(default_ms: int) -> CheckReport:
        found = plan(app.spec(conversion={"default_timestamp_ms": default_ms}))
        check = next(each for each in found.checks if each.name == "changelog.retention")
        assert found.verdict.go
        assert found.verdict.sentence.endswith(f"; but {check.detail}") == (check.outcome == "warning")
        assert found.verdict.next_step.startswith("raise retention.ms") == (check.outcome == "warning")
        return check

    assert checked(int(time.time() * 1000)).outcome == "ok"
    found = checked(1000)
    assert (found.outcome, "about 20 of 20 records are older than retention.ms" in found.detail) == ("warning", True)
    unknown = checked(-1)
    assert (unknown.outcome, "do not tell their records' times" in unknown.detail) == ("warning", True)
    spec = app.spec(conversion={"default_timestamp_ms": 1000})
    said = "20 records in it are older than its retention.ms: the broker removes them, and a restore lacks them"
    ended = run(spec)
    assert (ended.changelogs[0].verified, ended.changelogs[0].outdated, said in ended.changelog) == (True, 20, True)
    page = run_page(report(spec))
    assert "20 of them older than its retention.ms" in page
    assert 'class="banner good"' not in page
    assert "raise retention.ms of that topic" in page
    assert said in report(spec).changelog
    before = status(spec)
    done = cutover(spec)
    assert said in done.changelog
    for lines in (show_run(ended, Output()), show_status(before, Output()), show_switch(done, Output())):
        attention = " ".join(" ".join(lines).partition("attention")[2].split())
        assert attention.startswith("the broker removes 20 records from ")
        assert "lacks what it removes: raise retention.ms of that topic" in attention
    assert [each.kind for each in status(spec).concerns] == ["retention"]


def test_a_new_topic_keeps_the_times_that_the_broker_stamped_in_the_old_one(app: App) -> None:
    app.make(settings={"message.timestamp.type": "LogAppendTime"})
    app.refusal("message.timestamp.type = LogAppendTime", target={"store": None}, changelog={"way": "append"})
    assert run(app.spec()).changelogs[0].verified
    with app.cluster as cluster:
        made = cluster.topic(f"{app.name}-orders-v2-changelog")
    assert made is not None
    assert made.settings["message.timestamp.type"] == "CreateTime"


def test_input_that_waits_under_the_old_name_is_refused(app: App) -> None:
    app.make()
    name = f"{app.name}-orders-repartition"
    with app.cluster as cluster:
        cluster.create_topic(name, partitions=1, replication=1, settings={})
        app.write(0, 2, name)
        cluster.set_committed(app.name, {(name, 0): Committed(1)})
        assert "Grouped.as" in app.refusal(f"{name}, partition 0, has input that the application has not read").hint
        cluster.set_committed(app.name, {(name, 0): Committed(2)})
    assert app.checks()["changelog.repartition"].detail == f"{name} read to the end"


def test_other_internal_topics_with_records_are_named_unless_they_are_meant_to_stay(app: App) -> None:
    make_store(app.make()._task(0) / "rocksdb" / "customers", {b"c": b"v"})
    names = """customers-changelog orders-v2-changelog buffer-changelog emptied-changelog by-customer-repartition
        read-repartition FK-JOIN-SUBSCRIPTION-RESPONSE-07-topic some-topic"""
    with app.cluster as cluster:
        for name in names.split():
            topic = f"{app.name}-{name}"
            cluster.create_topic(topic, partitions=2, replication=1, settings={})
            app.write(0, 3, topic)
            app.write(1, 2, topic)
        _delete(app, "buffer-changelog", 1)
        _delete(app, "emptied-changelog", 3)
        read = {(f"{app.name}-read-repartition", 0): Committed(3), (f"{app.name}-read-repartition", 1): Committed(2)}
        cluster.set_committed(app.name, {**read, (f"{app.name}-by-customer-repartition", 0): Committed(1)})
    report = plan(app.spec())
    (found,) = [each for each in report.checks if each.name == "changelog.other-topics"]
    assert found.outcome == "warning"
    assert found.detail == "3 internal topics of the application beside the migrated: " + "; ".join(
        (
            f"{app.name}-FK-JOIN-SUBSCRIPTION-RESPONSE-07-topic holds 5 records that the application has not read",
            f"{app.name}-buffer-changelog holds 3 records, and its store has no directory here",
            f"{app.name}-by-customer-repartition holds 4 records that the application has not read",
        )
    )
    assert 'other_topics = "leave"' in found.fix
    assert changelog_rows(report.changelogs)["other stores"] == "customers: left as they are"
    meant = app.checks(changelog={"other_topics": "leave"})["changelog.other-topics"]
    assert (meant.outcome, "holds 3 records" in meant.detail) == ("ok", True)
    plain: dict[str, Any] = {"target": {"store": None}, "conversion": {"function": None}}
    assert app.checks(**plain)["changelog.other-topics"].detail == "keys and values keep their form"


def _delete(app: App, name: str, count: int) -> None:
    """The first keys of each partition."""
    producer = Producer({"bootstrap.servers": app.broker.bootstrap})
    for number in (0, 1):
        for each in range(count):
            producer.produce(topic=f"{app.name}-{name}", partition=number, key=b"%d" % each, value=None)
    producer.flush()


def test_rights_that_are_missing_are_named_before_anything_is_written(app: App, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    lines = app.broker.properties("worker")
    config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    secure: dict[str, Any] = {"changelog": {"bootstrap": app.broker.secure_bootstrap, "config": config}}
    app.make()
    app.refusal("Group authorization failed", **secure)
    read = {("GROUP", f"{app.name}*"): ["READ"], ("TOPIC", f"{app.topic}*"): ["READ", "DESCRIBE_CONFIGS"]}
    allow(app.broker, {**read, ("TOPIC", f"{app.name}*"): ["DESCRIBE"]})
    app.refusal("cannot ask for the offsets of group stateferry-orders", **secure)
    allow(app.broker, {("GROUP", "stateferry-*"): ["READ"]})
    error = app.refusal(f"cannot create topic {app.name}-orders-v2-changelog", **secure)
    assert USERS["worker"] not in f"{error}"
    error = app.refusal(
        f"this user may not WRITE the topic {app.topic}",
        target={"store": None},
        changelog={**secure["changelog"], "way": "append"},
    )
    assert "docs/changelogs.md" in error.hint
    allow(app.broker, {("TOPIC", f"{app.name}*"): ["CREATE", "READ", "WRITE"]})
    app.refusal("Transactional Id authorization failed", **secure)
    assert app.checks(**secure)["changelog.authorised"].outcome == "ok"


def test_a_broker_that_is_not_there_is_refused(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "REACH_SECONDS", 1)
    app.make()
    check = app.checks(changelog={"bootstrap": "localhost:1"})
    assert (check["changelog.broker"].outcome, check["changelog.broker"].exit_code) == ("failed", 6)
    assert {each.outcome for name, each in check.items() if name != "changelog.broker"} == {"not run"}
