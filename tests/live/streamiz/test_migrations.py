"""Stores of the real Streamiz, migrated: it opens the new ones, reads all of them and works on."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from migrate import RefusedError, Spec, cutover, plan, run
from migrate.cli.main import main
from migrate.kafka.cluster import Cluster
from migrate.kafka.connection import Connection
from migrate.systems.checkpoint_file import read_checkpoint
from migrate.systems.streamiz import STREAMIZ
from tests.broker.broker import Broker
from tests.live.streamiz.adding import feed, inputs, rows, with_count
from tests.live.streamiz.make_vectors import FORMATS
from tests.live.streamiz.program import drive, require_streamiz, work
from tests.support import raises

HOUR, DAY = 3_600_000, 86_400_000
SETTINGS: dict[str, Any] = {"retention": 60 * DAY}
KEPT: dict[str, Any] = {"retention_ms": 60 * DAY}
BEGIN = 1_735_689_600_000


@pytest.fixture(autouse=True)
def _live() -> None:
    require_streamiz()


def spec_of(app: Path, kinds: tuple[str, str], /, **sections: Mapping[str, object]) -> Spec:
    """A migration of the store `kv` from one format to another, each the program's word for a kind or a format."""
    source, target = (f"streamiz.{FORMATS[each]}" if each in FORMATS else each for each in kinds)
    given: dict[str, Any] = {name: dict(section) for name, section in sections.items()}
    given["source"] = {"format": source, "path": app, "store": "kv"} | given.get("source", {})
    given["target"] = {"format": target} | given.get("target", {})
    return Spec(name=app.parent.name, work_dir=app.parent / "work", **given)


def lines_of(kind: str, count: int = 60) -> list[str]:
    """What is written to a store, an entry every six minutes, and so in six segments."""
    found = []
    for at in range(count):
        start = BEGIN + at * HOUR // 10
        window = [str(start)] if kind in ("win", "twin") else []
        found.append("\t".join([f"{at % 40:04x}", *window, f"{at:06x}" * (at % 5), str(start + 7)]))
    return found


@pytest.mark.parametrize("kind", FORMATS)
def test_a_store_goes_to_kafka_streams_and_comes_back(kind: str, tmp_path: Path) -> None:
    app, java, back = tmp_path / "old/app", tmp_path / "java/app", tmp_path / "new/app"
    before = drive(app, kind, lines_of(kind), **SETTINGS)
    theirs, is_windowed = f"kafka-streams.{FORMATS[kind]}", kind in ("win", "twin")
    kept: dict[str, Any] = KEPT if is_windowed else {}
    run(spec_of(app, (kind, theirs), source=kept, target=kept | {"path": java}))
    run(spec_of(java, (theirs, kind), source=kept, target=kept | {"path": back}))
    assert drive(back, kind, **SETTINGS) == before
    assert len(before) == (60 if is_windowed else 40)


@pytest.mark.parametrize(("old", "new", "time"), [("plain", "ts", 61_000), ("ts", "plain", -2)])
def test_timestamps_come_and_go_in_place(old: str, new: str, time: int, tmp_path: Path) -> None:
    app = tmp_path / "old/app"
    before = drive(app, old, lines_of(old))
    conversion = {"default_timestamp_ms": 61_000} if new == "ts" else {"allow": ("loss:timestamp",)}
    spec = spec_of(app, (old, new), conversion=conversion)
    run(spec)
    cutover(spec)
    expected = [f"{line.rpartition(chr(9))[0]}\t{time}" for line in before]
    assert drive(app, new) == expected
    assert len(drive(app, new, [f"ffff\t00\t{BEGIN}"])) == len(before) + 1


def test_windows_move_to_the_segments_of_another_interval(tmp_path: Path) -> None:
    app, new = tmp_path / "old/app", tmp_path / "new/app"
    before = drive(app, "win", lines_of("win"), **SETTINGS)
    target = {"path": new, "retention_ms": 90 * DAY, "segment_ms": HOUR // 2}
    spec = spec_of(app, ("win", "twin"), source=KEPT, target=target, conversion={"default_timestamp_ms": 5})
    run(spec)
    assert len(list((new / "0-0/kv").iterdir())) == 12
    found = drive(new, "twin", retention=90 * DAY, segment=HOUR // 2)
    assert found == [f"{line.rpartition(chr(9))[0]}\t5" for line in before]


def test_segments_of_another_interval_are_named_by_it(tmp_path: Path) -> None:
    app = tmp_path / "old/app"
    drive(app, "twin", lines_of("twin"), segment=2 * HOUR, **SETTINGS)
    target = {"path": tmp_path / "new/app", "retention_ms": 90 * DAY}
    with pytest.raises(RefusedError, match="its segments were made with another interval") as caught:
        run(spec_of(app, ("twin", "twin"), source=KEPT, target=target))
    assert "[source] segment_ms" in caught.value.hint
    run(spec_of(app, ("twin", "twin"), source={**KEPT, "segment_ms": 2 * HOUR}, target=target))
    assert drive(tmp_path / "new/app", "twin", **SETTINGS) == drive(app, "twin", segment=2 * HOUR, **SETTINGS)


@pytest.mark.parametrize(("retention", "segment"), [(2 * HOUR, HOUR), (HOUR + 1, HOUR // 2), (3 * HOUR, 2 * HOUR)])
def test_whole_segments_expire(retention: int, segment: int, tmp_path: Path) -> None:
    app = tmp_path / "old/app"
    settings: dict[str, Any] = {"retention": retention, "segment": segment}
    written = drive(app, "win", lines_of("win"), **settings)
    newest = BEGIN + 59 * HOUR // 10
    oldest = STREAMIZ.segments.oldest_kept(newest, retention, segment)
    assert written == drive(app, "win", **settings)
    starts = [BEGIN + at * HOUR // 10 for at in range(60)]
    assert sorted(int(line.split("\t")[1]) for line in written) == [each for each in starts if each >= oldest]


# Whole applications


def ends_of(broker: Broker, topic: str) -> dict[str, int]:
    with Cluster(Connection(broker.bootstrap)) as cluster:
        return {f"{topic}-{number}": cluster.ends_of(topic, number).end for number in (0, 1)}


def numbers_of(app: Path) -> dict[str, int]:
    """What `.checkpoint` says of each changelog partition."""
    lines = [line for task in ("0-0", "0-1") for line in read_checkpoint(app / task / ".checkpoint")]
    return {f"{topic}-{number}": offset for topic, number, offset in lines}


@pytest.mark.parametrize("kind", FORMATS)
def test_values_change_in_place_where_the_number_is_past_the_end(kind: str, broker: Broker, tmp_path: Path) -> None:
    app, topic = tmp_path / f"state/live-{kind}", f"live-{kind}-input"
    first, more = inputs(100), inputs(46, since=100)
    feed(broker.bootstrap, topic, first)
    assert work(app, kind, broker.bootstrap, topic, 100, **SETTINGS)["rows"] == rows(first, kind)
    work(app, kind, broker.bootstrap, topic, 0, **SETTINGS)  # changes nothing, and the number
    ends = ends_of(broker, f"{app.name}-kv-changelog")
    assert numbers_of(app) == {name: end + 1 for name, end in ends.items()}
    spec = spec_of(app, (kind, kind), conversion={"function": with_count, "allow": ("changelog",)})
    raises(RefusedError, "only the broker knows whether the changelog ends there", run, spec)
    dry = plan(spec, changelog_ends=ends)
    (check,) = (each for each in dry.checks if each.name == "source.clean")
    assert (check.outcome, dry.verdict.exit_code) == ("warning", 0)
    assert "that end is taken, as the owner counts its stops" in check.detail
    run(spec, changelog_ends=ends)
    cutover(spec)
    assert numbers_of(app) == ends
    feed(broker.bootstrap, topic, more)
    said = work(app, kind, broker.bootstrap, topic, 46, value="longcount", **SETTINGS)
    assert (said["rows"], said["restored"]) == (rows(first, kind, counted=more), 0)
    assert numbers_of(app) == ends_of(broker, f"{app.name}-kv-changelog")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_store_moves_with_its_changelog(kind: str, broker: Broker, tmp_path: Path) -> None:
    app, topic = tmp_path / f"state/moved-{kind}", f"moved-{kind}-input"
    first, more = inputs(100), inputs(46, since=100)
    feed(broker.bootstrap, topic, first)
    work(app, kind, broker.bootstrap, topic, 100, **SETTINGS)
    work(app, kind, broker.bootstrap, topic, 0, **SETTINGS)
    kept: dict[str, Any] = KEPT if kind in ("win", "twin") else {}
    spec = spec_of(
        app,
        (kind, kind),
        source=kept,
        target=kept | {"store": "kv2"},
        conversion={"function": with_count},
        changelog={"bootstrap": broker.bootstrap},
    )
    assert plan(spec).verdict.exit_code == 0
    run(spec)
    cutover(spec)
    settings = SETTINGS | {"store": "kv2", "value": "longcount"}
    elsewhere = work(tmp_path / f"elsewhere/{app.name}", kind, broker.bootstrap, topic, 0, **settings)
    expected = rows(first, kind, counted=())
    assert (elsewhere["rows"], elsewhere["restored"]) == (expected, len(expected))
    feed(broker.bootstrap, topic, more)
    said = work(app, kind, broker.bootstrap, topic, 46, **settings)
    assert (said["rows"], said["restored"]) == (rows(first, kind, counted=more), 0)


def test_what_is_to_be_done_about_the_newest_table_format_does_it(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app, topic, first = tmp_path / "state/newest", "newest-input", inputs(100)
    feed(broker.bootstrap, topic, first)
    work(app, "ts", broker.bootstrap, topic, 100, format=7)
    spec = spec_of(app, ("ts", "plain"), conversion={"allow": ("loss:timestamp",)})
    caught = raises(RefusedError, "has table format version 7", run, spec)
    assert all(each in caught.hint for each in ("SetFormatVersion(6)", "remove the task's directory"))
    raises(SystemExit, "", main, ["inspect", str(app)])
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("damaged") == said.count("nothing is damaged") == 2
    for task in ("0-0", "0-1"):
        shutil.rmtree(app / task)
    assert work(app, "ts", broker.bootstrap, topic, 0)["restored"] == 100
    run(spec)
    cutover(spec)
    assert work(app, "plain", broker.bootstrap, topic, 0)["rows"] == rows(first, "plain")
