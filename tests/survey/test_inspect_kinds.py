"""Windows, sessions, histories, unfinished upgrades: recognised by names, or described by a hint."""

import struct
from pathlib import Path

import pytest

from migrate import inspect
from migrate.survey.inspect_report import StoreReport
from tests.dry_run.segmented import FAMILY, HOUR, NOON, hours, make_segments, sessions, windows
from tests.shared.commands import CommandServer
from tests.support import make_families, make_store, numbered

WINDOW, SESSION = "kafka-streams.window", "kafka-streams.session"
PLAIN, VERSIONED = "kafka-streams.key-value", "kafka-streams.versioned"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An application without stores."""
    (tmp_path / "app/0_0").mkdir(parents=True)
    (tmp_path / "app/0_0/.checkpoint").write_text("0\n0\n")
    return tmp_path / "app"


def store_of(app: Path) -> StoreReport:
    (store,) = inspect(app).stores
    return store


def test_windows_and_sessions_are_both_possible_and_the_sample_is_a_hint(app: Path) -> None:
    make_segments(app, "visits", hours(), tasks=["0_0"])
    make_segments(app, "calls", {NOON: {"default": sessions(NOON, 90)}}, tasks=["0_0"])
    calls, visits = inspect(app).stores
    assert (visits.kind, visits.formats, visits.hint) == (
        "windowed or session",
        (SESSION, WINDOW),
        f"its records look like {WINDOW}",
    )
    assert (calls.formats, calls.hint) == ((SESSION, WINDOW), f"its records look like {SESSION}")
    assert (visits.segments, visits.first_segment_ms, visits.last_segment_ms) == (5, NOON, NOON + 4 * HOUR)
    found = {each.format: (each.sampled, each.decoded, each.alike) for each in calls.likeness}
    assert found[SESSION] == (90, 90, 90)
    assert found[WINDOW][:2] == (90, 90)
    assert found[WINDOW][2] < 5


@pytest.mark.parametrize(
    ("family", "kind", "format_id"),
    [
        (FAMILY, "window", "kafka-streams.timestamped-window"),
        ("keyValueWithTimestampAndHeaders", "window", "kafka-streams.headers-window"),
        ("sessionKeyValueWithHeaders", "session", "kafka-streams.headers-session"),
    ],
)
def test_column_families_identify_the_kind_of_store(app: Path, family: str, kind: str, format_id: str) -> None:
    make_segments(app, "visits", {NOON: {family: windows(NOON, 20)}}, tasks=["0_0"])
    store = store_of(app)
    assert (store.kind, store.formats, store.hint, store.unsupported) == (kind, (format_id,), "", None)


def test_a_plain_store_may_be_versioned_for_all_that_its_families_tell(app: Path) -> None:
    make_store(app / "0_0/rocksdb/plain", numbered(300))
    latest = {struct.pack(">q", -1) + key: struct.pack(">q", NOON) + value for key, value in numbered(30).items()}
    make_store(app / "0_0/rocksdb/prices", latest)
    plain, prices = inspect(app).stores
    assert (plain.formats, plain.hint) == ((PLAIN, VERSIONED), f"its records do not look like {VERSIONED}")
    assert (prices.formats, prices.hint) == ((PLAIN, VERSIONED), f"its records look like {VERSIONED}")


def test_records_of_an_unfinished_upgrade_are_counted(app: Path, commands: CommandServer) -> None:
    make_families(app / "0_0/rocksdb/half", {"default": numbered(60, prefix=b"old"), FAMILY: numbered(40)})
    store = store_of(app)
    assert (store.formats, store.unfinished, store.records) == (("kafka-streams.timestamped-key-value",), 60, 100)
    assert (
        "upgrade mode: about 60 records are still in the pre-upgrade column family"
        in commands.run(["inspect", str(app)]).out
    )


@pytest.mark.parametrize(
    ("name", "is_certain", "what"),
    [
        ("KSTREAM-OUTERSHARED-0000000007-store", True, "the list store of an outer or left join"),
        ("clicks-outer-shared-join-store", True, "the list store of an outer or left join"),
        ("KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000012", True, "the subscription store of a foreign-key join"),
        ("newsletter-subscription-store", False, "the subscription store of a foreign-key join"),
    ],
)
def test_stores_of_kafka_streams_own_are_recognised_by_name(
    app: Path, commands: CommandServer, name: str, is_certain: bool, what: str
) -> None:
    make_store(app / "0_0/rocksdb" / name, numbered(3))
    store = store_of(app)
    assert store.unsupported is not None
    assert (store.unsupported.name, store.unsupported.is_certain) == (what, is_certain)
    shown = " ".join(commands.run(["inspect", str(app)]).out.split())
    assert (
        f"{'this is' if is_certain else 'possibly'} {what}, which cannot be converted: {store.unsupported.reason}"
        in shown
    )
    assert ("cannot be converted" in shown.split(name)[1].split(what)[0]) == is_certain


def test_windows_emitted_on_close_are_recognised_by_family_or_likely_by_keys(app: Path) -> None:
    key, value = b"\0" + struct.pack(">q", NOON) + b"user" + bytes(4), struct.pack(">q", NOON) + b"v"
    make_segments(app, "told", {NOON: {"windowKeyValueWithHeaders": {key: b"\0" + value}}}, tasks=["0_0"])
    guessed = {key[:9] + b"%d" % number + bytes(4): value for number in range(9)}
    make_segments(app, "guessed", {NOON: {"default": guessed}}, tasks=["0_0"])
    make_segments(app, "zeros", {NOON: {"default": {b"\0" + key: b"v" for key in windows(NOON)}}}, tasks=["0_0"])
    by_name = {store.name: store.unsupported for store in inspect(app).stores}
    told, maybe = by_name["told"], by_name["guessed"]
    assert told is not None
    assert maybe is not None
    assert (told.is_certain, maybe.is_certain) == (True, False)
    assert told.name == maybe.name == "a window store that emits when a window closes"
    assert by_name["zeros"] is None


def test_segments_are_one_line_for_each_task_unless_all_is_asked_for(app: Path, commands: CommandServer) -> None:
    make_segments(app, "visits", hours())
    shown = commands.run(["inspect", str(app)]).out
    told = [line for line in shown.splitlines() if line.startswith(("0_0/visits", "0_1/visits"))]
    assert len(told) == 2
    assert all("5 segments, 2025-11-22 12:00:00 UTC to 2025-11-22 16:00:00 UTC, " in line for line in told)
    assert "visits: 10 segments, 2025-11-22 12:00:00 UTC to 2025-11-22 16:00:00 UTC; " in shown
    assert commands.run(["inspect", str(app), "--verbose"]).out.count("/visits/visits.") == 10
