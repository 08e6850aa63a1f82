"""Stores that are made from rows get their changelogs with them: at a real broker."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from formats.partitioners import PARTITIONERS
from migrate import RefusedError, Spec, SpecError, abandon, plan, run, status, verify
from migrate.batch.context import Context
from migrate.batch.importing import pin_table
from migrate.batch.run import run_with
from migrate.kafka.cluster import Cluster, Committed, Topic
from migrate.kafka.connection import Connection
from migrate.kafka.reader import read
from migrate.model.events import Event
from tests.broker.broker import Broker
from tests.shared.imports import TEXT, TIME, import_here, import_spec, text_rows, write_rows
from tests.sorting import sorting
from tests.support import raises

MURMUR2 = PARTITIONERS["murmur2"]
DAY = 24 * 3_600_000
NOW = int(time.time()) * 1000
Records = dict[bytes, tuple[bytes | None, int]]


class Filling:
    """An import of a table of some rows into an application that has not started yet."""

    def __init__(self, broker: Broker, base: Path, name: str, **sections: Any) -> None:  # noqa: ANN401
        self.connection, self.base, self.name = Connection(broker.bootstrap), base, name
        self.topic = f"{name}-orders-changelog"
        self.rows = text_rows(200)
        self.target = {"path": f"new/{name}", "partitions": 3, **sections.pop("target", {})}
        self.sections = sections

    @property
    def spec(self) -> Spec:
        merged: dict[str, Any] = {
            "target": self.target,
            "conversion": {**TEXT, "allow": []},
            "changelog": {"bootstrap": self.connection.bootstrap},
        }
        return import_spec(self.base, **{**merged, **self.sections})

    @property
    def table(self) -> Path:
        table = self.base / "table"
        return table if table.exists() else write_rows(table, self.rows)

    def expected(self) -> list[Records]:
        found: list[Records] = [{} for _ in range(3)]
        columns = (self.rows[name].to_pylist() for name in ("key", "value"))
        for number, (key, value) in enumerate(zip(*columns, strict=True)):
            found[MURMUR2(key.encode(), 3)][key.encode()] = (
                value.encode(),
                max(1, number),
            )  # no client writes a time of 0
        return found

    def written(self) -> list[Records]:
        with Cluster(self.connection) as cluster:
            return [self._written(cluster, number) for number in range(3)]

    def _written(self, cluster: Cluster, number: int) -> Records:
        ends, found = cluster.ends_of(self.topic, number), Records()
        for batch in read(self.connection, self.topic, number, ends.start, ends.stable):
            found |= dict(zip(batch.keys, zip(batch.values, batch.timestamps, strict=True), strict=True))
            assert len(found) <= ends.end
        return found

    def made(self) -> Topic | None:
        with Cluster(self.connection) as cluster:
            return cluster.topic(self.topic)

    def lines(self) -> dict[int, int]:
        """By task, the offset in the topic that its checkpoint names."""
        assert self.spec.target_path is not None
        found = {}
        for number in range(3):
            (line,) = (self.spec.target_path / f"0_{number}" / ".checkpoint").read_text("ascii").splitlines()[2:]
            topic, partition, offset = line.split()
            assert (topic, int(partition)) == (self.topic, number)
            found[number] = int(offset)
        return found

    def last(self) -> dict[int, int]:
        """By partition, the offset of its last record, which a marker follows."""
        with Cluster(self.connection) as cluster:
            return {number: cluster.ends_of(self.topic, number).end - 2 for number in range(3)}


def test_the_new_changelog_has_every_row(broker: Broker, tmp_path: Path) -> None:
    filling = Filling(broker, tmp_path, "filled-whole")
    report = import_here(filling.spec, filling.table)
    assert (report.state, report.concerns) == ("published", ())
    assert filling.written() == filling.expected()
    assert filling.lines() == filling.last()
    topic = filling.made()
    assert topic is not None
    assert (topic.partitions, topic.settings["cleanup.policy"]) == (3, "compact")
    assert status(filling.spec).state == "published"
    assert verify(filling.spec).verification.ok
    assert run_with(sorting, Context(filling.spec)).state == "published"


def test_it_is_restored_as_the_store_is(broker: Broker, tmp_path: Path) -> None:
    filling = Filling(broker, tmp_path, "filled-restored")
    import_here(filling.spec, filling.table)
    known = filling.spec.target.format
    lost = Spec(
        name="lost",
        work_dir=tmp_path / "work",
        source={"format": known, "store": "orders", "changelog": True, "subtopology": 0},
        target={"format": known, "path": tmp_path / "restored" / filling.name},
        changelog={"bootstrap": filling.connection.bootstrap, "application_id": filling.name, "application": "stopped"},
    )
    assert run(lost).totals.records_out == 200


def test_a_task_without_a_row_has_a_position(broker: Broker, tmp_path: Path) -> None:
    """Else an application with exactly-once wipes all stores of that task."""
    filling = Filling(broker, tmp_path, "filled-empty")
    filling.rows = text_rows(1)
    import_here(filling.spec, filling.table)
    (where,) = (number for number, records in enumerate(filling.expected()) if records)
    assert filling.lines() == {number: 0 if number == where else -4 for number in range(3)}
    assert filling.written() == filling.expected()


def test_a_windowed_changelog_keeps_what_the_store_keeps(broker: Broker, tmp_path: Path) -> None:
    target = {"format": "kafka-streams.timestamped-window", "retention_ms": 100 * DAY, "segment_ms": DAY}
    filling = Filling(broker, tmp_path, "filled-windows", target=target)
    filling.rows = text_rows(50, timestamp=[NOW * 1000] * 50)
    filling.rows |= {"window_start": filling.rows["timestamp"], "sequence": pa.array([0] * 50, pa.int32())}
    import_here(filling.spec, filling.table)
    topic = filling.made()
    assert topic is not None
    assert (topic.settings["cleanup.policy"], topic.settings["retention.ms"]) == ("compact,delete", str(101 * DAY))


@pytest.mark.parametrize("kind", ["session", "window", "key-value"])
def test_records_have_the_times_of_their_windows(broker: Broker, tmp_path: Path, kind: str) -> None:
    """A store of these kinds tells no other time. The broker removes what is older than the retention."""
    is_segmented = kind != "key-value"
    target = {"format": f"kafka-streams.{kind}"} | ({"retention_ms": DAY, "segment_ms": DAY} if is_segmented else {})
    filling = Filling(broker, tmp_path, f"filled-times-{kind}", target=target)
    del filling.rows["timestamp"]
    started = pa.array([NOW * 1000] * 200, TIME)
    more = {"window_start": started, "window_end": started, "sequence": pa.array([0] * 200, pa.int32())}
    wanted = {"session": ("window_start", "window_end"), "window": ("window_start", "sequence")}.get(kind, ())
    filling.rows |= {name: more[name] for name in wanted}
    import_here(filling.spec, filling.table)
    records = [each for number in filling.written() for each in number.values()]
    assert len(records) == 200
    assert {at for _, at in records} == {NOW if is_segmented else -1}


def test_an_import_killed_anywhere_is_finished_by_the_next_one(broker: Broker, tmp_path: Path) -> None:
    for number, name in enumerate(("intended", "claimed", "created", "opened", "written", "committed", "verified")):
        base = tmp_path / name
        base.mkdir()
        filling = Filling(broker, base, f"filled-{number}")
        pin_table(Context(filling.spec), filling.table)

        def stop(event: Event, wanted: str = f"changelog.{name}") -> None:
            if event.name == wanted:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_with(sorting, Context(filling.spec, stop))
        assert run_with(sorting, Context(filling.spec)).state == "published"
        assert filling.written() == filling.expected()
        assert filling.lines() == filling.last()


def test_a_plan_asks_the_broker_and_makes_nothing(broker: Broker, tmp_path: Path) -> None:
    filling = Filling(broker, tmp_path, "filled-planned")
    pin_table(Context(filling.spec), filling.table)
    planned = plan(filling.spec)
    assert planned.verdict.go, planned.verdict
    found = {each.name: each.detail for each in planned.checks if each.name.startswith("changelog.")}
    assert found.keys() == {f"changelog.{name}" for name in ("broker", "group", "topic", "authorised")}
    assert found["changelog.group"] == f"there is no group {filling.name}: the application has not started yet"
    assert found["changelog.topic"] == filling.topic
    assert planned.changelogs is not None
    assert {each.new_topic for each in planned.changelogs.topics} == {filling.topic}
    assert filling.made() is None


def test_a_topic_that_is_there_is_left_alone(broker: Broker, tmp_path: Path) -> None:
    filling = Filling(broker, tmp_path, "filled-foreign")
    with Cluster(filling.connection) as cluster:
        cluster.create_topic(filling.topic, partitions=3, replication=1, settings={})
    error = raises(RefusedError, f"{filling.topic} exists already", import_here, filling.spec, filling.table)
    assert "delete it and run the command again" in error.hint
    abandon(filling.spec)
    assert filling.made() is not None


def test_an_application_that_has_read_is_asked_for_its_members(broker: Broker, tmp_path: Path) -> None:
    filling = Filling(broker, tmp_path, "filled-known")
    with Cluster(filling.connection) as cluster:
        cluster.create_topic("filled-input", partitions=3, replication=1, settings={})
        cluster.set_committed(filling.name, {("filled-input", 0): Committed(0)})
    pin_table(Context(filling.spec), filling.table)
    group = next(each for each in plan(filling.spec).checks if each.name == "changelog.group")
    assert group.detail == f"group {filling.name} has no members"


def test_one_that_is_given_up_leaves_no_topic(broker: Broker, tmp_path: Path) -> None:
    filling = Filling(broker, tmp_path, "filled-given-up")
    pin_table(Context(filling.spec), filling.table)

    def stop(event: Event) -> None:
        if event.name == "changelog.committed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_with(sorting, Context(filling.spec, stop))
    assert filling.made() is not None
    abandon(filling.spec)
    assert filling.made() is None


def test_two_hosts_do_not_fill_one_topic(broker: Broker, tmp_path: Path) -> None:
    """The second has other rows, and had looked for the topic before it was there."""
    first, second = (Filling(broker, tmp_path / name, "filled-twice") for name in ("first", "second"))
    second.rows = text_rows(100)
    for each in (first, second):
        each.base.mkdir()
        pin_table(Context(each.spec), each.table)

    def come_between(event: Event) -> None:
        if event.name == "changelog.intended":
            assert run_with(sorting, Context(first.spec)).state == "published"

    raises(
        RefusedError, f"has claimed {second.topic}, partition 0", run_with, sorting, Context(second.spec, come_between)
    )
    assert first.written() == first.expected()
    assert second.spec.target_path is not None
    assert not second.spec.target_path.exists()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"way": "append"}, "about an old changelog"),
        ({"missing": "leave"}, "about an old changelog"),
        ({"timestamps": "changelog"}, "about an old changelog"),
    ],
)
def test_there_is_no_old_changelog(tmp_path: Path, section: Mapping[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        import_spec(tmp_path, conversion={**TEXT, "allow": []}, changelog={"bootstrap": "localhost:1", **section})
