"""Stores that lack records of their changelog: who says so, what comes next, and where that ends."""

import struct
from pathlib import Path

import pytest

from migrate import RefusedError, catch_up, cutover, doctor, plan, run, status
from migrate.batch.preflight.check import CheckReport
from migrate.errors import BrokerError
from migrate.kafka.cluster import Cluster, Committed
from migrate.kafka.reader import read
from migrate.model.reports import Behind
from migrate.show.text.report_text import behind_in_words
from migrate.spec.spec import Spec
from tests.batch.changelog.support import NOW, App, convert
from tests.broker.broker import Broker
from tests.kafka.streams_group import join
from tests.support import TIMESTAMPED, make_store, raises
from tests.systems.test_streamiz import as_streamiz_writes

_LATER = {b"later-%d" % each: (b"new", NOW) for each in range(3)}


def _check(spec: Spec, name: str) -> CheckReport:
    return next(each for each in doctor(spec).checks if each.name == name)


def test_every_report_names_the_catch_up_and_what_it_costs(tmp_path: Path, broker: Broker) -> None:
    app = App("behind", tmp_path, broker).make()
    spec = app.spec
    app.write(app.topic, 1, _LATER)
    check = _check(spec, "changelog.position")
    assert (check.outcome, check.detail) == ("warning", f"0_1/orders is 3 records behind {app.topic}")
    assert "stateferry catch-up SPEC brings these records" in check.fix
    assert "before the cut-over, stateferry catch-up SPEC" in doctor(spec).next_step
    dry = plan(spec)
    assert dry.verdict.next_step.endswith("stateferry run SPEC, stateferry catch-up SPEC, stateferry cutover SPEC")
    assert dry.cost is not None and dry.changelogs is not None
    assert dry.cost.downtime_seconds > dry.cost.total_seconds + dry.changelogs.catch_up_seconds
    report = run(spec)
    assert "stateferry catch-up SPEC brings the 3 records that the new stores lack; then" in report.next_step
    found = status(spec)
    assert found.next_step in report.next_step
    assert behind_in_words(found.behind) == "3 records that the new stores lack: a catch-up takes about 3.0 s"
    again = plan(spec).changelogs
    assert again is not None
    assert (again.records, again.tail_records) == (0, 3)
    assert spec.changelog is not None
    away = spec.model_copy(update={"changelog": spec.changelog.model_copy(update={"bootstrap": "localhost:1"})})
    assert behind_in_words(status(away).behind) == "unknown: the broker does not answer"
    catch_up(spec)
    assert status(spec).behind == Behind()
    assert "catch-up" not in status(spec).next_step
    assert _check(spec, "changelog.position").detail == "every store has all that its changelog has"


def test_nothing_is_appended_to_a_changelog_that_has_records_which_the_store_lacks(
    tmp_path: Path, broker: Broker
) -> None:
    app = App("behind-appended", tmp_path, broker, way="append").make()
    app.write(app.topic, 1, _LATER)
    caught = raises(RefusedError, r"0_1/orders is 3 records behind .*, and no catch-up is possible", run, app.spec)
    assert "start and stop the old application once, cleanly" in caught.hint
    with Cluster(app.connection) as cluster:
        assert cluster.ends_of(app.topic, 1).end < 2 * app.count


def _unsaid(app: App) -> Spec:
    """The spec without the word that the application has stopped."""
    assert app.spec.changelog is not None
    return app.spec.model_copy(update={"changelog": app.spec.changelog.model_copy(update={"application": None})})


def test_where_nothing_tells_whether_the_application_runs_its_user_has_to(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("unknown-members", tmp_path, broker).make()
    for is_joined in (False, True):
        if is_joined:
            join(broker.bootstrap, app.name, app.topic)
        check = _check(_unsaid(app), "changelog.group")
        assert (check.outcome, check.exit_code) == ("failed", 6)
        assert "shows no offset of a group unknown-members" in check.detail
        with pytest.raises(RefusedError, match="nothing tells whether the application runs") as caught:
            run(_unsaid(app))
        assert '[changelog] application = "stopped"' in caught.value.hint
        check = _check(app.spec, "changelog.group")
        assert (check.outcome, "is what [changelog] application says" in check.detail) == ("warning", True)
        assert "kafka-streams-groups.sh" in check.fix

    def no_answer(*_: object) -> None:
        raise BrokerError("no answer", hint="again")

    monkeypatch.setattr(Cluster, "group", no_answer)
    assert _check(_unsaid(app), "changelog.group").outcome == "failed"  # nothing is waited for that nobody saw


def test_members_that_cannot_be_asked_about_are_found_out_by_those_that_write(tmp_path: Path, broker: Broker) -> None:
    app = App("found-members", tmp_path, broker).make()
    with Cluster(app.connection) as cluster:
        cluster.set_committed(app.name, {(app.topic, 1): Committed(2, "AgAAAYvPeoAA", 0)})
        spec = _unsaid(app)
        run(spec)
        join(broker.bootstrap, app.name, app.topic)
        before = cluster.ends_of("__consumer_offsets", 0).stable
        plan(spec)
        status(spec)
        check = _check(spec, "changelog.group")
        assert (check.outcome, "cannot be read" in check.detail) == ("warning", True)
        assert app.name not in _commits(app, before), "by a command that only reads"
        for command in (lambda: run(app.spec), lambda: cutover(app.spec), lambda: cutover(spec)):
            raises(RefusedError, "the application runs: group found-members has members", command)
        assert "has members" in catch_up(spec).application
        assert cluster.committed(app.name) == {(app.topic, 1): Committed(2, "AgAAAYvPeoAA", 0)}


def _commits(app: App, since: int) -> str:
    """The groups that have committed offsets since then."""
    with Cluster(app.connection) as cluster:
        end = cluster.ends_of("__consumer_offsets", 0).stable
    batches = read(app.connection, "__consumer_offsets", 0, since, end)
    keys = [key for batch in batches for key in batch.keys]
    return " ".join(repr(key) for key in keys if key[:2] in (b"\0\0", b"\0\1"))


def test_a_catch_up_goes_past_a_store_whose_owner_counted_its_stops(tmp_path: Path, broker: Broker) -> None:
    app = App("streamiz-behind", tmp_path, broker)
    with Cluster(app.connection) as cluster:
        cluster.create_topic(app.topic, partitions=2, replication=1, settings={"cleanup.policy": "compact"})
    for number, position in ((0, 24), (1, 20)):
        records = {b"key-%d-%d" % (number, each): (b"value", NOW) for each in range(20)}
        app.write(app.topic, number, records)
        stored = {key: struct.pack("<qi", time, len(value)) + value for key, (value, time) in records.items()}
        make_store(tmp_path / f"streamiz/0-{number}/rocksdb/orders", stored)
        lines = [(app.topic, number, position)]
        (tmp_path / f"streamiz/0-{number}/.checkpoint").write_bytes(as_streamiz_writes(lines))
    app.write(app.topic, 1, _LATER)
    spec = Spec(
        name=app.name,
        work_dir=tmp_path / "work",
        source={"format": "streamiz.timestamped-key-value", "path": tmp_path / "streamiz", "store": "orders"},
        target={"format": "streamiz.timestamped-key-value", "store": "orders2"},
        conversion={"function": convert},
        changelog={"bootstrap": broker.bootstrap, "application": "stopped"},
    )
    run(spec)
    report = catch_up(spec)
    assert [(each.store_partition, each.records) for each in report.tails] == [("0-1/orders", 3)]
    assert cutover(spec).state == "cut over"


def test_a_streamiz_position_past_the_end_is_said_and_its_store_moves_with_its_changelog(
    tmp_path: Path, broker: Broker
) -> None:
    values = {b"key-%d" % each: b"value-%d" % each for each in range(20)}
    app = App("streamiz", tmp_path, broker)
    with Cluster(app.connection) as cluster:
        cluster.create_topic(app.topic, partitions=1, replication=1, settings={"cleanup.policy": "compact"})
    app.write(app.topic, 0, {key: (value, NOW) for key, value in values.items()})  # and a marker behind them
    stored = {key: struct.pack("<qi", NOW, len(value)) + value for key, value in values.items()}
    make_store(tmp_path / "streamiz/0-0/rocksdb/orders", stored)
    (tmp_path / "streamiz/0-0/.checkpoint").write_bytes(as_streamiz_writes([(app.topic, 0, 24)]))
    spec = Spec(
        name=app.name,
        work_dir=tmp_path / "work",
        source={"format": "streamiz.timestamped-key-value", "path": tmp_path / "streamiz", "store": "orders"},
        target={"format": TIMESTAMPED, "path": tmp_path / "java/streamiz", "store": "orders2"},
        conversion={"function": convert},
        changelog={"bootstrap": broker.bootstrap, "application": "stopped"},
    )
    check = _check(spec, "changelog.position")
    assert (check.outcome, "is at 24 of" in check.detail) == ("warning", True)
    assert run(spec).state == "published"
    assert app.restored(0) == {key: (value + b"!", NOW) for key, value in values.items()}
    line = (tmp_path / "java/streamiz/0_0/.checkpoint").read_text(encoding="ascii").splitlines()[2]
    assert line == f"{app.new_topic} 0 {len(values) - 1}"
