"""Streamiz' stores, migrated: in place, to Kafka Streams and back. Bytes are worked out here from its layout."""

import struct
from pathlib import Path
from typing import Any

import pytest

from migrate import RefusedError, Spec, cutover, doctor, plan, rollback, run, snapshot
from migrate.errors import SpecError
from tests.support import make_families, make_spec, make_store, raises, read_families, read_family
from tests.systems.test_streamiz import HOUR, as_streamiz_writes, write_version

STREAMIZ = "streamiz.timestamped-key-value"
KAFKA = "kafka-streams.timestamped-key-value"
PLAIN = {b"key-%03d" % number: b"v" * number for number in range(300)}
TIMES = {key: 1_700_000_000_000 + number for number, key in enumerate(PLAIN)}
SIZED = {key: struct.pack("<qi", TIMES[key], len(value)) + value for key, value in PLAIN.items()}
BIG_ENDIAN = {key: struct.pack(">q", TIMES[key]) + value for key, value in PLAIN.items()}
TASKS = ("0-0", "0-1", "3-12")


def streamiz(tmp_path: Path, records: dict[bytes, bytes]) -> Path:
    """An application with one store in three tasks, another that is not migrated, and a changelog for each."""
    app = tmp_path / "StateDir" / "billing"
    for task in TASKS:
        number = int(task.partition("-")[2])
        make_store(app / task / "rocksdb/totals", records)
        make_store(app / task / "rocksdb/other", {b"k": b"v"})
        lines = [("billing-other-changelog", number, 7), ("billing-totals-changelog", number, 42)]
        (app / task / ".checkpoint").write_bytes(as_streamiz_writes(lines))
        (app / task / ".checkpoint.rec").write_bytes(as_streamiz_writes([(*line[:2], 3) for line in lines]))
    return app


def spec_of(tmp_path: Path, app: Path, formats: tuple[str, str], store: str, /, **sections: Any) -> Spec:  # noqa: ANN401
    sections["source"] = {"store": store, **sections.get("source", {})}
    return make_spec(tmp_path, app, source_format=formats[0], target_format=formats[1], **sections)


def test_a_plain_store_becomes_a_timestamped_one_in_place_and_back(tmp_path: Path) -> None:
    app = streamiz(tmp_path, PLAIN)
    spec = spec_of(
        tmp_path,
        app,
        ("streamiz.key-value", STREAMIZ),
        "totals",
        target={"path": None},
        conversion={"default_timestamp_ms": 61000},
    )
    checkpoint = (app / "0-0/.checkpoint").read_bytes()
    run(spec)
    cutover(spec)
    for task in TASKS:
        found = read_families(app / task / "rocksdb/totals")
        assert found == {
            "default": {key: struct.pack("<qi", 61000, len(value)) + value for key, value in PLAIN.items()}
        }
        assert read_family(app / task / "rocksdb/other") == {b"k": b"v"}
    assert (app / "0-0/.checkpoint").read_bytes() == checkpoint
    rollback(spec)
    assert all(read_family(app / task / "rocksdb/totals") == PLAIN for task in TASKS)
    assert (app / "0-0/.checkpoint").read_bytes() == checkpoint


def test_a_store_moves_to_kafka_streams_and_back(tmp_path: Path) -> None:
    app = streamiz(tmp_path, SIZED)
    there = spec_of(tmp_path, app, (STREAMIZ, KAFKA), "totals", target={"path": "java/billing"})
    run(there)
    java = tmp_path / "java/billing"
    assert sorted(folder.name for folder in java.iterdir()) == ["0_0", "0_1", "3_12"]
    for task in ("0_0", "0_1", "3_12"):
        assert read_families(java / task / "rocksdb/totals") == {"default": {}, "keyValueWithTimestamp": BIG_ENDIAN}
        changelog = f"billing-totals-changelog {task.partition('_')[2]} 41"
        assert (java / task / ".checkpoint").read_text() == f"0\n1\n{changelog}\n"
    back = spec_of(
        tmp_path, java, (KAFKA, STREAMIZ), "totals", target={"path": "dotnet/billing"}, name="back", work_dir="work-2"
    )
    run(back)
    for task in TASKS:
        new = tmp_path / "dotnet/billing" / task
        assert read_families(new / "rocksdb/totals") == {"default": SIZED}
        number = int(task.partition("-")[2])
        assert (new / ".checkpoint").read_bytes() == as_streamiz_writes([("billing-totals-changelog", number, 42)])
        assert not (new / ".checkpoint.rec").exists()


def windows(starts: range, head: str) -> dict[bytes, bytes]:
    """A record in each window; its value begins with its time, and its size where Streamiz writes it."""
    sized = head.endswith("i")
    return {
        b"k" + struct.pack(">qi", start, 0): struct.pack(head, start + 1, *([2] if sized else [])) + b"ab"
        for start in starts
    }


def test_a_window_store_moves_to_the_segments_of_kafka_streams(tmp_path: Path) -> None:
    app = tmp_path / "billing"
    for start in range(0, 6 * HOUR, HOUR):
        make_store(app / f"0-0/hourly/hourly.{start}", windows(range(start, start + HOUR, HOUR // 4), "<qi"))
    formats = ("streamiz.timestamped-window", "kafka-streams.timestamped-window")
    spec = spec_of(
        tmp_path,
        app,
        formats,
        "hourly",
        source={"retention_ms": 24 * HOUR},
        target={"path": "java/billing", "retention_ms": 24 * HOUR, "segment_ms": 4 * HOUR},
    )
    run(spec)
    store = tmp_path / "java/billing/0_0/hourly"
    assert {folder.name: read_families(folder) for folder in store.iterdir()} == {
        f"hourly.{start}": {
            "default": {},
            "keyValueWithTimestamp": windows(range(start, min(start + 4 * HOUR, 6 * HOUR), HOUR // 4), ">q"),
        }
        for start in (0, 4 * HOUR)
    }


@pytest.mark.parametrize("told", [{}, {"source": {"retention_ms": HOUR}}, {"target": {"retention_ms": HOUR}}])
def test_segments_are_not_moved_without_both_retentions(tmp_path: Path, told: dict[str, dict[str, int]]) -> None:
    app = tmp_path / "billing"
    make_store(app / "0-0/hourly/hourly.0", windows(range(1), "<qi"))
    formats = ("streamiz.timestamped-window", "kafka-streams.timestamped-window")
    with pytest.raises(SpecError, match=r"retention_ms .*"):
        run(spec_of(tmp_path, app, formats, "hourly", **told))


def test_what_is_plain_is_not_taken_for_timestamped(tmp_path: Path) -> None:
    app = streamiz(tmp_path, PLAIN)
    with pytest.raises(RefusedError):
        run(
            spec_of(tmp_path, app, (STREAMIZ, "streamiz.key-value"), "totals", conversion={"allow": ["loss:timestamp"]})
        )


def test_a_family_of_another_system_is_refused(tmp_path: Path) -> None:
    app = tmp_path / "billing"
    make_families(app / "0-0/rocksdb/totals", {"default": {}, "keyValueWithTimestamp": BIG_ENDIAN})
    with pytest.raises(RefusedError, match=r"is not streamiz\.timestamped-key-value: it has a column family"):
        run(spec_of(tmp_path, app, (STREAMIZ, KAFKA), "totals"))


def test_a_snapshot_is_refused_where_the_position_may_be_past_the_last_record(tmp_path: Path) -> None:
    app = streamiz(tmp_path, PLAIN)
    spec = spec_of(
        tmp_path,
        app,
        ("streamiz.key-value", STREAMIZ),
        "totals",
        target={"path": None},
        run={"source": "snapshot"},
    )
    caught = raises(RefusedError, r"Streamiz 1\.7 and newer may write a position", snapshot, spec)
    assert "stop the application for the whole run" in (caught.hint or "")
    for task in TASKS:
        write_version(app / task / "rocksdb/totals", "7.7.3")
    snapshot(spec)


@pytest.mark.parametrize(
    ("target", "path", "number"), [(STREAMIZ, None, 40), (STREAMIZ, "dotnet/billing", 40), (KAFKA, "java/billing", 39)]
)
def test_where_stops_are_counted_the_end_of_the_changelog_is_taken(
    target: str, path: str | None, number: int, tmp_path: Path
) -> None:
    app = streamiz(tmp_path, SIZED)
    (tmp_path / "upper.py").write_text(
        "from dataclasses import replace\n\ndef convert(record):\n    return replace(record, value=b'V' * 20)\n"
    )
    spec = spec_of(
        tmp_path,
        app,
        (STREAMIZ, target),
        "totals",
        target={"path": path},
        conversion={"function": "upper:convert", "allow": ["changelog"]},
    )
    ends = {f"billing-totals-changelog-{each}": 40 for each in (0, 1, 12)}
    with pytest.raises(RefusedError, match=r"ends at 43, and 0-1/totals is at 42"):
        run(spec, changelog_ends={**ends, "billing-totals-changelog-1": 43})
    (check,) = (each for each in doctor(spec, changelog_ends=ends).checks if each.name == "source.clean")
    assert check.outcome == "warning"
    assert "position 42 of billing-totals-changelog-0, which ends at 40" in check.detail
    run(spec, changelog_ends=ends)
    if path is None:
        cutover(spec)
    new = next((app if path is None else tmp_path / path).glob("3?12")) / ".checkpoint"
    assert new.read_text().splitlines()[-1] == f"billing-totals-changelog 12 {number}"


def test_of_a_long_retention_only_the_segments_that_are_there_count(tmp_path: Path) -> None:
    app = tmp_path / "billing"
    for start in range(0, 6 * HOUR, HOUR):
        make_store(app / f"0-0/hourly/hourly.{start}", windows(range(start, start + HOUR, HOUR // 4), "<qi"))
    formats, days = ("streamiz.timestamped-window",) * 2, 24 * HOUR
    spec = spec_of(
        tmp_path,
        app,
        formats,
        "hourly",
        source={"retention_ms": 60 * days},
        target={"path": "new/billing", "retention_ms": 90 * days},
    )
    assert plan(spec).verdict.exit_code == 0
    run(spec)
    assert len(list((tmp_path / "new/billing/0-0/hourly").iterdir())) == 6


def test_stores_that_stay_behind_are_named(tmp_path: Path) -> None:
    app = streamiz(tmp_path, SIZED)
    make_store(app / f"0-1/hourly/hourly.{HOUR}", windows(range(HOUR, HOUR + 1), "<qi"))
    spec = spec_of(tmp_path, app, (STREAMIZ, KAFKA), "totals")
    said = "stores that the spec does not name stay behind: hourly, other;"
    assert [said in warning for warning in plan(spec).warnings] == [True]
    assert [said in warning for warning in run(spec).warnings] == [True]
    inside = spec_of(
        tmp_path, app, (STREAMIZ, "streamiz.key-value"), "totals", conversion={"allow": ["loss:timestamp"]}, name="in"
    )
    assert not any("stay behind" in warning for warning in plan(inside).warnings)


@pytest.mark.parametrize("task", ["global", "__prices__/0_0"])
def test_a_dry_run_knows_which_tasks_stay_with_kafka_streams(task: str, tmp_path: Path) -> None:
    app = tmp_path / "billing"
    make_families(app / task / "rocksdb/totals", {"keyValueWithTimestamp": BIG_ENDIAN})
    spec = spec_of(tmp_path, app, (KAFKA, STREAMIZ), "totals")
    assert plan(spec).verdict.exit_code == 6
    raises(RefusedError, "no name of two numbers", run, spec)
