"""What a dry run tells of segments, of unfinished upgrades, and of what a record holds."""

import json
import struct
from pathlib import Path

import pytest

from formats import Headers
from formats.encoding.varint import pack_varint
from migrate import Spec
from tests.dry_run.segmented import (
    FAMILY,
    HEADERS_WINDOW,
    HOUR,
    MINUTE,
    NOON,
    RETENTION,
    SESSION,
    TIMESTAMPED_WINDOW,
    WINDOW,
    an_unfinished_upgrade,
    hours,
    make_segments,
    moved,
    sessions,
    unfinished_upgrades,
    windowed,
    windows,
)
from tests.dry_run.support import nothing_changes, planned
from tests.shared.commands import CommandServer
from tests.support import make_families, make_spec, to_toml


def text_of(commands: CommandServer, spec: Spec, *options: str) -> str:
    file = spec.base_dir / "migration.toml"
    content = json.loads(spec.model_dump_json(exclude_none=True, exclude={"run": {"time_budget"}}))
    content.pop("run")
    file.write_text(to_toml({key: value for key, value in content.items()}))
    return " ".join(commands.run(["plan", str(file), *options]).out.split())


def test_segments_that_stay_say_so(tmp_path: Path, commands: CommandServer) -> None:
    spec = windowed(tmp_path)
    report = planned(spec)
    assert [
        (each.store_partition, len(each.old), len(each.new), each.expired_before_ms) for each in report.segments
    ] == [
        ("0_0/visits", 5, 5, None),
        ("0_1/visits", 5, 5, None),
    ]
    shown = text_of(commands, spec)
    assert "0_0/visits 5 segments, which keep their names: 2025-11-22 12:00:00 UTC to 2025-11-22 16:00:00 UTC" in shown
    assert "every segment keeps its records: the application must open the new store with the retention" in shown


@pytest.mark.parametrize("full", [False, True], ids=["sample", "full"])
def test_what_is_left_behind_is_counted_by_hand(tmp_path: Path, full: bool) -> None:
    """40 minutes before the newest record begins a segment of 20 minutes, or lies in one."""
    spec = moved(tmp_path, 40 * MINUTE)
    times = [struct.unpack(">q", key[-12:-4])[0] for each in hours().values() for key in each["default"]]
    kept_from = (max(times) - 40 * MINUTE) // (20 * MINUTE) * (20 * MINUTE)
    with nothing_changes(tmp_path):
        report = planned(spec, full=full)
    expired = 2 * sum(time < kept_from for time in times)
    assert 0 < expired < 2 * len(times)
    assert (report.found.expired, report.tried.expired, report.tried.converted) == (
        expired,
        expired,
        2 * len(times) - expired,
    )
    for each in report.segments:
        assert each.expired_before_ms == kept_from
        assert [segment.start_ms for segment in each.new] == list(range(kept_from, max(times) + 1, 20 * MINUTE))
        assert all(len(segment.made_of) == 1 for segment in each.new)


def test_a_sample_estimates_what_is_left_behind(tmp_path: Path) -> None:
    segments = {NOON + hour * HOUR: {"default": windows(NOON + hour * HOUR, 4000)} for hour in range(4)}
    spec = moved(tmp_path, HOUR, segments)
    exact, estimated = planned(spec, full=True), planned(spec, sample=400)
    assert not estimated.found.exact
    assert exact.found.expired == pytest.approx(estimated.found.expired, rel=0.15)
    assert estimated.found.expired > 0


def test_the_text_reports_new_segments_and_expired_records(tmp_path: Path, commands: CommandServer) -> None:
    shown = text_of(commands, moved(tmp_path, 40 * MINUTE), "--full")
    assert "5 segments, which become 3: 2025-11-22 16:00:00 UTC to 2025-11-22 16:40:00 UTC" in shown
    assert "none from before 2025-11-22 16:00:00 UTC" in shown
    assert "records are older than the new retention and are not copied: the application would delete them too" in shown


def test_records_of_an_unfinished_upgrade_are_named(tmp_path: Path, commands: CommandServer) -> None:
    spec = an_unfinished_upgrade(tmp_path)
    report = planned(spec)
    assert (report.found.unfinished, report.found.shadowed, report.found.records) == (180, 10, 300)
    roles = {(f.name, f.role) for database in report.found.databases for f in database.families}
    assert roles == {("default", "older"), (FAMILY, "records")}
    expected = "180 records in the pre-upgrade column family are converted too; 10 of them have been replaced since"
    assert expected in text_of(commands, spec)


def test_a_large_half_upgraded_store_is_estimated(tmp_path: Path) -> None:
    formats = {"source_format": TIMESTAMPED_WINDOW, "target_format": HEADERS_WINDOW}
    spec = moved(tmp_path, 100 * MINUTE, unfinished_upgrades(), **formats)
    exact, sampled = planned(spec, full=True).found, planned(spec, sample=300).found
    assert sampled.at_least <= exact.records <= sampled.at_most
    assert sampled.records == pytest.approx(exact.records, rel=0.3)


def test_an_example_shows_window_headers_and_timestamp_in_words(tmp_path: Path) -> None:
    key = b"k" + struct.pack(">qi", NOON, 7)
    headers = Headers.of([("trace", b"abc"), ("raw", b"\xff\x00"), ("none", None)]).encoded
    value = pack_varint(len(headers)) + headers + struct.pack(">q", NOON + 1000) + b"v"
    segments = {NOON: {"keyValueWithTimestampAndHeaders": {key: value}}}
    spec = windowed(
        tmp_path, segments, source_format=HEADERS_WINDOW, target_format=WINDOW,
        conversion={"allow": ["loss:headers", "loss:timestamp"]},
    )  # fmt: skip
    tried = planned(spec).tried
    example = tried.examples[0]
    assert dict(example.old_fields) == {
        "window": "from 1763812800000 = 2025-11-22 12:00:00 UTC",
        "sequence number": "7",
        "timestamp": "1763812801000 = 2025-11-22 12:00:01 UTC",
        "headers": 'trace = "abc", raw = 0xff00, none = null',
    }
    assert set(dict(example.fields)) == {"window", "sequence number"}


def test_an_example_shows_a_session_and_decoded_values(tmp_path: Path) -> None:
    application = make_segments(tmp_path / "calls-app", "calls", {})
    key = b"\0\0\0\x2a" + struct.pack(">qq", NOON + 5000, NOON)
    for task in ("0_0", "0_1"):
        make_families(application / task / f"calls/calls.{NOON}", {"default": {key: b'{"n": 1}' + b" " * 300}})
    change = {"key": {"from": {"serde": "int32"}, "to": {"serde": "int32"}}}
    change["value"] = {"from": {"serde": "json"}, "to": {"serde": "json"}}
    spec = make_spec(
        tmp_path,
        application,
        source_format=SESSION,
        target_format="kafka-streams.headers-session",
        source={"store": "calls"},
        conversion={**change, "allow": ["changelog", "unclean-source"]},
    )
    report = planned(spec)
    assert report.tried is not None, report.verdict
    assert dict(report.tried.examples[0].fields) == {
        "session": "from 1763812800000 = 2025-11-22 12:00:00 UTC to 1763812805000 = 2025-11-22 12:00:05 UTC",
        "headers": "none",
        "key": "42",
        "value": '{"n": 1}',
    }


def test_sessions_named_as_windows_are_recognised(tmp_path: Path) -> None:
    spec = windowed(tmp_path, {NOON: {"default": sessions(NOON)}}, target_format=TIMESTAMPED_WINDOW)
    tried = planned(spec).tried
    assert {each.format for each in tried.look_alikes} == {SESSION}
    right = tmp_path / "right"
    right.mkdir()
    spec = windowed(right, {NOON: {"default": sessions(NOON)}}, source_format=SESSION, target_format=SESSION)
    tried = planned(spec).tried
    assert tried.look_alikes == ()


def test_the_cost_does_not_count_what_is_left_behind_nor_a_segment_twice(tmp_path: Path) -> None:
    spec = moved(tmp_path, 2 * HOUR + 10 * MINUTE)
    report = planned(spec)
    (tmp_path / "other").mkdir()
    same = planned(windowed(tmp_path / "other"))
    assert report.cost.required_bytes <= same.cost.required_bytes
    assert spec.source.retention_ms == RETENTION
