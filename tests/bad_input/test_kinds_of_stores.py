"""Windows, sessions, histories: what cannot become what, and what a spec cannot say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bad_input.commands import CommandServer
from tests.bad_input.support import Migration
from tests.bad_input.test_spec_mistakes import misunderstood
from tests.dry_run.segmented import FAMILY, HOUR, MINUTE, NOON, hours, make_segments, sessions, timestamped, windows
from tests.support import KEY_VALUE, TIMESTAMPED, make_families, make_store, numbered

WINDOW = "kafka-streams.window"
SEGMENTED = "only windowed and session stores, by name, have segments by time"


@pytest.fixture
def visits(commands: CommandServer, tmp_path: Path) -> Migration:
    """Windows in two tasks."""
    source = make_segments(tmp_path / "visits-app", "visits", hours())
    sections: dict[str, Any] = {
        "name": "test",
        "work_dir": "work",
        "source": {"format": WINDOW, "path": source.name, "store": "visits"},
        "target": {"format": "kafka-streams.timestamped-window", "path": "new"},
    }
    return Migration(commands, tmp_path, source, sections)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("kafka-streams.session", "one value for each key and session"),
        (KEY_VALUE, "one value for each key"),
        ("kafka-streams.versioned", "the history of each key"),
        ("rocksdb.raw", "one value for each key"),
    ],
)
def test_windows_become_nothing_but_windows(visits: Migration, target: str, said: str) -> None:
    visits.set("target", format=target)

    visits.refused(
        f"{WINDOW} holds one value for each key and window, {target} holds {said}: nothing says how",
        "next: name what it can become in [target] format: kafka-streams.timestamped-window or ",
    )
    assert not visits.home.exists()


def test_the_nearest_of_what_windows_can_become_comes_first(visits: Migration) -> None:
    visits.set("target", format="kafka-streams.headers-session")

    visits.refused("[target] format: kafka-streams.headers-window or kafka-streams.timestamped-window")


def test_another_system_needs_a_new_state_directory(app: Migration) -> None:
    app.spec["target"] = {"format": "streamiz.key-value"}

    app.refused(
        f"{KEY_VALUE} and streamiz.key-value are of two systems, whose state directories differ",
        "the new store cannot take the old one's place",
        "next: name a path that does not exist yet in [target] path",
    )
    assert not app.home.exists()


def test_a_key_value_store_has_no_retention(app: Migration) -> None:
    app.set("source", retention_ms=HOUR)
    misunderstood(app, f"[source] retention_ms: {SEGMENTED}")


def test_nor_has_a_versioned_one_whose_history_stays_in_its_segments(app: Migration) -> None:
    app.set("source", format="kafka-streams.versioned", retention_ms=HOUR)
    app.set("target", format="kafka-streams.versioned", retention_ms=2 * HOUR)
    misunderstood(app, "[source] retention_ms: a versioned store's history stays in the segments that it lies in")


def test_nor_has_one_rocksdb_directory(visits: Migration) -> None:
    visits.spec["source"] = {"format": WINDOW, "path": "visits-app/0_0/visits", "retention_ms": HOUR}
    misunderstood(visits, f"[source] retention_ms: {SEGMENTED}")


def test_a_new_retention_needs_the_old_one(visits: Migration) -> None:
    visits.set("target", retention_ms=HOUR)
    misunderstood(visits, "[target] retention_ms needs [source] retention_ms", "how the old store's segments were made")


def test_a_segment_size_needs_its_retention(visits: Migration) -> None:
    visits.set("source", segment_ms=HOUR)
    misunderstood(visits, "[source] segment_ms says nothing without retention_ms")


def test_the_retention_of_the_old_store_must_be_the_one_that_it_was_made_with(visits: Migration) -> None:
    """Its segments are of an hour, so it was two hours; half of them would be looked for elsewhere."""
    visits.set("source", retention_ms=HOUR)
    visits.set("target", retention_ms=4 * HOUR)

    outcome = visits.run()

    assert outcome.code == 6
    assert "the retention was another one when it was written" in outcome.message
    assert "[source] retention_ms must be the one that the segments were made with" in outcome.message
    assert not visits.target.exists()
    visits.set("source", retention_ms=2 * HOUR)
    visits.spec["name"] = "again"
    assert visits.run().code == 0


@pytest.mark.parametrize("is_file", [False, True], ids=["directory", "file"])
def test_whatever_is_foreign_among_segments_is_refused(visits: Migration, is_file: bool) -> None:
    foreign = visits.source / "0_1/visits/visits.1763812800000.bak"
    if is_file:
        foreign.write_text("")
    else:
        make_store(foreign, numbered(3))

    visits.refused(f"{foreign} is no segment of the store 'visits'", "next: move it away")
    assert not visits.home.exists()


def test_a_file_that_is_named_like_a_segment_is_none(visits: Migration) -> None:
    foreign = visits.source / f"0_1/visits/visits.{NOON - HOUR}"
    foreign.write_text("")

    visits.refused(f"{foreign} is no segment of the store 'visits'", "next: move it away")


def test_two_segments_of_one_time_are_refused(visits: Migration) -> None:
    """Kafka Streams before 2.4 wrote a hyphen and the time to the minute."""
    make_store(visits.source / "0_1/visits/visits-202511221200", windows(NOON, 5))

    visits.refused(
        f"{visits.source}/0_1/visits has two segments of one time: visits-202511221200 and visits.{NOON}",
        "next: an older version of the application named one of them",
    )


def test_a_segment_of_an_older_name_is_read_and_renamed(visits: Migration) -> None:
    old = visits.source / f"0_1/visits/visits.{NOON}"
    old.rename(old.with_name("visits-202511221200"))

    report = visits.completes({})

    assert report["totals"]["records_in"] == report["totals"]["records_out"] > 0
    assert (visits.target / f"0_1/visits/visits.{NOON}/CURRENT").exists()
    assert not (visits.target / "0_1/visits/visits-202511221200").exists()


def test_sessions_named_as_windows_are_refused(visits: Migration) -> None:
    """What a window's key would have for its time is no time of the segment that it lies in."""
    make_segments(visits.source, "calls", {NOON: {"default": sessions(NOON)}})
    visits.set("source", store="calls")

    visits.refused(
        "sampled keys of 0_0/calls/calls.",
        "are not of the time of their segment",
        f"next: is {WINDOW} the format that the store has?",
    )
    assert visits.run(verb="plan").code == 6


def test_a_store_that_emits_on_close_is_called_by_its_name(visits: Migration) -> None:
    family = {"windowKeyValueWithHeaders": numbered(3, prefix=b"\0")}
    make_segments(visits.source, "closed", {NOON: family})
    visits.set("source", store="closed", format="kafka-streams.headers-window")
    visits.set("conversion", allow=["loss:headers"])

    visits.refused(
        f"closed.{NOON} is of a window store that emits when a window closes, which cannot be converted: its keys",
        "next: let the application restore it from its changelog",
    )


@pytest.mark.parametrize(
    ("store", "what"),
    [
        ("KSTREAM-OUTERSHARED-0000000007-store", "the list store of an outer or left join"),
        ("clicks-left-shared-join-store", "the list store of an outer or left join"),
        ("KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000012", "the subscription store of a foreign-key join"),
    ],
)
def test_kafka_streams_own_stores_are_copied_and_never_converted(app: Migration, store: str, what: str) -> None:
    records = numbered(20)
    make_families(app.source / "0_0/rocksdb" / store, {"default": records})
    app.set("source", store=store)

    app.refused(f"'{store}' is {what}, which cannot be converted: ", "next: leave it as it is, or copy it unchanged")
    assert not app.home.exists()

    app.set("target", format=KEY_VALUE)
    app.completes({f"0_0/rocksdb/{store}": records})


def test_two_unfinished_upgrades_are_refused_as_kafka_streams_itself_does(visits: Migration) -> None:
    both = {"default": windows(NOON), FAMILY: timestamped(windows(NOON)), "keyValueWithTimestampAndHeaders": {}}
    make_segments(visits.source, "half", {NOON: both})
    visits.set("source", store="half", format="kafka-streams.headers-window")
    visits.set("conversion", allow=["loss:headers"])

    visits.refused(
        f"has records in '{FAMILY}' and 'default': two upgrades of it are not finished, and its owner opens no such",
        "next: ",
    )


def test_history_is_lost_only_by_name(app: Migration) -> None:
    key = (-1).to_bytes(8, "big", signed=True) + b"k"
    make_store(app.source / "0_0/rocksdb/prices", {key: NOON.to_bytes(8, "big") + b"v"})
    app.set("source", store="prices", format="kafka-streams.versioned")

    app.refused("cannot hold the history that kafka-streams.versioned holds", 'allow = ["loss:history"]')

    app.set("target", format=TIMESTAMPED)
    app.set("conversion", allow=["loss:history"])
    app.completes({"0_0/rocksdb/prices": {b"k": NOON.to_bytes(8, "big") + b"v"}})


def test_values_without_a_time_need_one_to_become_versions(app: Migration) -> None:
    app.set("target", format="kafka-streams.versioned")

    app.refused(
        "kafka-streams.versioned says since when each value holds, and kafka-streams.key-value does not tell",
        "next: say it for all of them: [conversion] default_timestamp_ms",
    )

    app.set("conversion", default_timestamp_ms=NOON - 5 * MINUTE)
    app.completes({})


def test_more_segments_than_anyone_wants_are_refused(visits: Migration) -> None:
    visits.set("source", retention_ms=2 * HOUR)
    visits.set("target", retention_ms=24 * HOUR, segment_ms=1000)

    visits.refused(
        "a retention of 86,400,000 ms in segments of 1,000 ms is 86,400 RocksDB directories for each task",
        "next: check retention_ms and segment_ms",
    )
    assert not visits.home.exists()
