"""A key in the old store, converted, and in the new store: of each kind of store, whatever a conversion changes."""

import base64
import json
import re
import struct
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formats import StateRecord, Window
from formats.encoding.varint import pack_varint
from migrate import Spec, cutover, run
from migrate.batch.context import Context
from migrate.batch.run import run_with
from migrate.errors import RefusedError, SpecError, StoreNotReadyError, UnknownStateStoreError
from migrate.queries.get_report import GetReport, SideBySide, differences
from migrate.queries.json_values import json_bytes
from migrate.queries.side_by_side import MOST_RECORDS, SideBySideStores
from migrate.show.output import Output
from migrate.show.sides import GetForm, get_page, show_get
from tests.queries.open.test_migration import KilledError, cut_over_renamed, kill_at
from tests.shared.totals import JSON, totals_spec
from tests.shared.windowed import MINUTE, make_segments, session_key, session_time, window_key, windowed_spec
from tests.sorting import sorting
from tests.support import KEY_VALUE, TIMESTAMPED, make_families, make_spec, make_store, open_store, read_family

VERSIONED = "kafka-streams.versioned"
WINDOWS = ("kafka-streams.window", "kafka-streams.timestamped-window")
SESSIONS = ("kafka-streams.session", "kafka-streams.headers-session")
ALLOW = ["changelog", "unclean-source"]
SINCE = struct.pack(">q", 90_000)
LATEST = struct.pack(">q", -1)
SPAN = 60 * MINUTE


def _found(report: GetReport) -> list[SideBySide]:
    return [each for each in report.records if each.verdict != "nowhere"]


def _verdicts(report: GetReport) -> list[str]:
    return [each.verdict for each in _found(report)]


def _plain(folder: Path, records: dict[bytes, bytes], into: str = TIMESTAMPED, /, **sections: Any) -> Spec:  # noqa: ANN401
    make_store(folder / "app/0_0/rocksdb/orders", records)
    conversion = {"allow": ALLOW, **sections.pop("conversion", {})}
    sections = {"source": {"store": "orders"}, "target": {"path": None}, **sections}
    return make_spec(
        folder, folder / "app", source_format=KEY_VALUE, target_format=into, conversion=conversion, **sections
    )


@pytest.mark.parametrize("size", [MINUTE, 10 * SPAN])
def test_windows_of_one_key_among_keys_that_it_begins(tmp_path: Path, size: int) -> None:
    keys = (b"", b"a", b"a\0", b"ab", b"ab" + bytes(12))
    own = {window_key(key, start * 30 * MINUTE): key + b" %d" % start for key in keys for start in range(5)}
    make_segments(tmp_path / "app/0_0/win", own, size)
    make_segments(tmp_path / "app/0_1/win", {window_key(b"other", 7): b"x"}, size)
    retention = {"retention_ms": 3 * size, "segment_ms": size}
    spec = windowed_spec(tmp_path, *WINDOWS, source=retention, target=retention, conversion={"allow": ALLOW})
    stores = SideBySideStores(spec)
    assert set(_verdicts(stores.get("win", "a"))) == {"not there yet"}
    run(spec)
    cutover(spec)
    for key in keys:
        report = stores.get("win", f"0x{key.hex()}")
        starts = [each.old.window_start_ms for each in _found(report) if each.old]
        assert starts == [start * 30 * MINUTE for start in range(5)]
        assert {each.store_partition for each in _found(report)} == {"0_0/win"}
        assert {each.old.key_bytes.hex for each in _found(report) if each.old} == {
            (window_key(key, start * 30 * MINUTE)).hex() for start in range(5)
        }
    with pytest.raises(SpecError, match="a window is given by its START alone"):
        stores.get("win", "ab", Window(0, 7))
    (one,) = _found(stores.get("win", "ab", Window(30 * MINUTE)))
    assert one.old is not None
    assert one.old.value_bytes.text == "ab 1"
    assert [each.store_partition for each in stores.first("win", "b", 10).records] == ["0_1/win"]
    assert len(stores.first("win", None, 100).records) == 26


def test_a_window_that_only_the_new_store_has_is_shown(tmp_path: Path) -> None:
    make_segments(tmp_path / "app/0_0/win", {window_key(b"a", 0): b"0", window_key(b"a", 9): b"9"}, SPAN)
    spec = windowed_spec(tmp_path, *WINDOWS, conversion={"allow": ALLOW})
    run(spec)
    cutover(spec)
    with open_store(tmp_path / "app/0_0/win/win.0") as database:
        column = database.get_column_family("keyValueWithTimestamp")
        column[window_key(b"a", 5)] = bytes(8) + b"5"
        del column[window_key(b"a", 9)]
        del column
    report = SideBySideStores(spec).get("win", "a")
    assert [(each.verdict, (each.old or each.new).window_start_ms) for each in _found(report)] == [  # type: ignore[union-attr]
        ("equal", 0),
        ("extra", 5),
        ("missing", 9),
    ]


def test_windows_beyond_the_limit_are_told_of(tmp_path: Path) -> None:
    own = {window_key(b"a", start): b"v" for start in range(3 * MOST_RECORDS)}
    make_segments(tmp_path / "app/0_0/win", own, SPAN)
    spec = windowed_spec(tmp_path, *WINDOWS, conversion={"allow": ALLOW})
    run(spec)
    report = SideBySideStores(spec).get("win", "a")
    assert (len(report.records), report.is_complete) == (MOST_RECORDS, False)
    assert _verdicts(report) == ["equal"] * MOST_RECORDS
    assert [each.old.window_start_ms for each in report.records if each.old] == list(range(MOST_RECORDS))


def test_sessions_are_compared_by_both_times(tmp_path: Path) -> None:
    times = [(0, 5), (0, 6), (7, 7), (7, SPAN + 3)]
    own = {session_key(key, *each): b"%d-%d" % each for key in (b"a", b"ab") for each in times}
    make_segments(tmp_path / "app/0_0/win", own, SPAN, time=session_time)
    spec = windowed_spec(tmp_path, *SESSIONS, conversion={"allow": ALLOW})
    run(spec)
    stores = SideBySideStores(spec)
    found = _found(stores.get("win", "a"))
    assert [(each.old.window_start_ms, each.old.window_end_ms) for each in found if each.old] == times
    assert {each.verdict for each in found} == {"equal"}
    assert {each.new.headers for each in found if each.new} == {()}
    assert len(_found(stores.get("win", "ab", Window(7, SPAN + 3)))) == 1
    assert _found(stores.get("win", "ab", Window(7, SPAN + 4))) == []
    with pytest.raises(SpecError, match="a session is given by START,END"):
        stores.get("win", "ab", Window(7))


def test_of_a_versioned_store_the_latest_value_is_shown(tmp_path: Path) -> None:
    keys = [b"key-%03d" % number for number in range(40)]
    latest = {LATEST + key: SINCE + b"now" for key in keys}
    former = {struct.pack(">q", 1) + key: struct.pack(">qqqi", 90_000, 61_000, 61_000, 4) + b"then" for key in keys}
    make_families(tmp_path / "app/0_0/rocksdb/orders", {"default": latest | former})
    spec = make_spec(
        tmp_path,
        tmp_path / "app",
        source_format=VERSIONED,
        target_format=TIMESTAMPED,
        source={"store": "orders"},
        conversion={"allow": [*ALLOW, "loss:history"]},
    )
    run(spec)
    stores = SideBySideStores(spec)
    (found,) = _found(stores.get("orders", "key-007"))
    assert found.verdict == "equal"
    assert found.new is not None
    assert (found.new.value_bytes.text[8:], found.new.timestamp_ms) == ("now", 90_000)
    some = stores.first("orders", "key-030", 5)
    assert [each.new.key_bytes.text for each in some.records if each.new] == [f"key-{n:03}" for n in range(30, 35)]
    assert set(_verdicts(stores.first("orders", None, 100))) == {"equal"}
    assert len(stores.first("orders", None, 100).records) == 40


def test_a_plain_store_that_becomes_a_versioned_one(tmp_path: Path) -> None:
    spec = _plain(tmp_path, {b"a": b"1", b"b": b"2"}, VERSIONED, conversion={"default_timestamp_ms": 5})
    run(spec)
    stores = SideBySideStores(spec)
    (found,) = _found(stores.get(None, "a"))
    assert (found.verdict, found.new and found.new.timestamp_ms) == ("equal", 5)
    assert _verdicts(stores.first(None)) == ["equal"] * 2


def _other_keys(record: StateRecord) -> StateRecord | None:
    if record.value == b"drop":
        return None
    if record.value == b"reject":
        raise ValueError("no such order")
    return replace(record, key=record.key + b"!")


def test_a_conversion_that_changes_keys_drops_and_rejects(tmp_path: Path) -> None:
    records = {b"ab": b"1", b"ba": b"2", b"cd": b"drop", b"ef": b"reject"}
    spec = _plain(
        tmp_path,
        records,
        conversion={"allow": [*ALLOW, "drop", "key-change"], "function": _other_keys},
        run={"on_reject": "skip", "max_rejects": 1},
    )
    run(spec)
    stores = SideBySideStores(spec)
    (moved,) = _found(stores.get(None, "ab"))
    assert (moved.verdict, moved.changes) == ("equal", ("key", "timestamp_ms"))
    assert moved.new is not None
    assert moved.new.key_bytes.text == "ab!"
    (dropped,), (rejected,) = (_found(stores.get(None, key)) for key in ("cd", "ef"))
    assert (dropped.verdict, dropped.converted, dropped.new) == ("dropped", None, None)
    assert (rejected.verdict, rejected.reason) == ("rejected", "the function raised ValueError: no such order")
    (by_new_key,) = _found(stores.get(None, "ab!"))
    assert (by_new_key.verdict, by_new_key.old) == ("extra", None)
    assert sorted(_verdicts(stores.first(None))) == ["dropped", "equal", "equal", "rejected"]


def test_an_old_avro_value_is_shown_as_it_was_written(tmp_path: Path) -> None:
    schemas = {
        "from": [{"name": "name", "type": "string"}, {"name": "visits", "type": "int"}],
        "to": [
            {"name": "full", "aliases": ["name"], "type": "string"},
            {"name": "visits", "type": "long"},
            {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        ],
    }
    sides = {}
    for side, fields in schemas.items():
        (tmp_path / f"{side}.avsc").write_text(json.dumps({"type": "record", "name": "Person", "fields": fields}))
        sides[side] = {"serde": "avro", "frame": "none", "schema": f"{side}.avsc"}
    spec = _plain(tmp_path, {b"k": pack_varint(3) + b"Ada" + pack_varint(7)}, conversion={"value": sides})
    for verb, verdict in ((None, "not there yet"), (run, "equal"), (cutover, "equal")):
        if verb is not None:
            verb(spec)
        (found,) = _found(SideBySideStores(spec).get(None, "k"))
        assert found.verdict == verdict
        assert (found.old and found.old.value) == {"name": "Ada", "visits": 7}
        assert (found.converted and found.converted.value) == {"full": "Ada", "visits": 7, "tags": []}
        assert found.changes == ("value.name", "value.full", "value.tags", "timestamp_ms")


def test_a_key_that_is_in_none_of_several_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        make_store(tmp_path / f"app/0_{number}/rocksdb/orders", {b"k%d" % number: b"v"})
    spec = make_spec(
        tmp_path,
        tmp_path / "app",
        source_format=KEY_VALUE,
        target_format=TIMESTAMPED,
        source={"store": "orders"},
        target={"path": None},
        conversion={"allow": ALLOW},
    )
    for verb in (None, run, cutover):
        if verb is not None:
            verb(spec)
        report = SideBySideStores(spec).get(None, "none")
        assert [each.verdict for each in report.records] == ["nowhere"] * 3
        assert len(_found(SideBySideStores(spec).get(None, "k2"))) == 1
    monkeypatch.setattr("migrate.queries.side_by_side.MOST_RECORDS", 1)
    report = SideBySideStores(spec).get(None, "k2")  # partitions without the key do not count
    assert [each.store_partition for each in _found(report)] == ["0_2/orders"]
    assert report.is_complete


def test_a_report_ends_after_some_bytes(tmp_path: Path) -> None:
    value = bytes(5 << 20)
    spec = _plain(tmp_path, {b"%d" % number: value for number in range(9)})
    report = SideBySideStores(spec).first(None, None, 9)
    assert (len(report.records), report.is_complete) == (4, False)
    assert report.records[0].old is not None
    assert len(report.records[0].old.value_bytes.hex) < 600
    assert SideBySideStores(spec).get(None, "7").is_complete


@pytest.mark.parametrize("levels", [90, 200, 500, 100_000])
def test_a_value_of_many_levels_does_not_break_the_report(tmp_path: Path, levels: int) -> None:
    spec = _plain(tmp_path, {b"a": b"[" * levels + b"]" * levels, b"b": b"[]"}, conversion={"value": JSON})
    deep, plain = SideBySideStores(spec).first(None).records
    assert (plain.old and plain.old.value) == []
    assert deep.old is not None
    assert bool(deep.old.problem) == (levels > 90)
    report = SideBySideStores(spec).get(None, "a")
    assert json.loads(Output().document(report))
    assert get_page(GetForm("orders", ["orders"]), report)


def test_paths_tell_names_with_dots_from_objects(tmp_path: Path) -> None:
    def dotted(record: StateRecord) -> StateRecord:
        return replace(record, value={**record.value, "a.b": 2, "\ud83d": 3})

    text = b'{"a.b":1,"a":{"b":1}}'
    spec = _plain(tmp_path, {b"k": text}, conversion={"value": JSON, "function": dotted})
    (found,) = SideBySideStores(spec).get(None, "k").records
    assert found.verdict == "rejected"  # half a surrogate pair is no text
    assert found.old is not None
    made = differences(found.old, found.old.model_copy(update={"value": {"a.b": 2, "a": {"b": 3}, "\ud83d": 3}}))
    assert made == ('value["a.b"]', "value.a.b", "value.\ud83d")


def test_numbers_are_shown_as_they_are_stored_and_kept_where_nobody_touched_them(tmp_path: Path) -> None:
    def marked(record: StateRecord) -> StateRecord:
        return replace(record, value={**record.value, "v": 2})

    text = b'{"price":14.7600, "total":123456789012345678.12,"none":-0}'
    spec = _plain(tmp_path, {b"k": text}, conversion={"value": JSON, "function": marked})
    run(spec)
    report = SideBySideStores(spec).get(None, "k")
    (found,) = report.records
    assert (found.verdict, found.changes) == ("equal", ("value.v", "timestamp_ms"))
    for shown in (
        Output().document(report),
        "\n".join(show_get(Output().readable(report), Output())),
        get_page(GetForm("orders", ["orders"]), report),
        json_bytes(report.model_dump()).decode(),
        report.model_dump_json(),
    ):
        for number in ("14.7600", "123456789012345678.12", "-0"):
            assert len(re.findall(rf"(?<![\d.]){number}(?![\d.])", shown)) >= 3, shown
    assert json.loads(Output().document(report))["records"][0]["new"]["value"]["price"] == 14.76


def test_json_keys_and_values_stay_byte_for_byte_without_a_function(tmp_path: Path) -> None:
    records = {b'{"id" : %d.0}' % number: b' [ 1.50,"\\u00e9" ] ' for number in range(3)}
    spec = _plain(tmp_path, records, KEY_VALUE, conversion={"value": JSON, "key": JSON})
    run(spec)
    cutover(spec)
    assert read_family(tmp_path / "app/0_0/rocksdb/orders") == records
    report = SideBySideStores(spec).first(None)
    assert _verdicts(report) == ["equal"] * 3


def _as_number(record: StateRecord) -> StateRecord:
    return replace(record, key=int(record.key))


def test_json_keys_that_a_function_would_have_written_again_are_refused(tmp_path: Path) -> None:
    """Without its spaces the key has another hash."""
    spec = _plain(tmp_path, {b'{"a" : 1}': b"x"}, conversion={"key": JSON, "function": lambda r: r, "allow": ALLOW})
    with pytest.raises(RefusedError, match="the new key may belong to another partition"):
        run(spec)


@pytest.mark.parametrize("partitions", [None, 1])
def test_windows_whose_new_keys_only_the_function_knows(tmp_path: Path, partitions: int | None) -> None:
    own = {window_key(b"%d" % key, at * SPAN): b"x" for key in range(12) for at in range(2)}
    make_segments(tmp_path / "app/0_0/win", own, SPAN)
    key = {"from": {"serde": "string"}, "to": {"serde": "int64"}}
    spec = windowed_spec(
        tmp_path,
        conversion={"key": key, "function": _as_number, "allow": [*ALLOW, "key-change", "unverified"]},
        target={"partitions": partitions, "path": "new/app"},
        run={"verify": "off"},
    )
    run_with(sorting, Context(spec))
    stores = SideBySideStores(spec)
    assert _verdicts(stores.get(None, "10")) == ["equal"] * 2
    assert _verdicts(stores.first(None)) == ["equal"] * len(own)
    assert not stores.get(None, "99").records


def test_json_keys_with_spaces_are_found_in_windows(tmp_path: Path) -> None:
    own = {window_key(b'{"a" : 1}', 30 * MINUTE): b"x"}
    make_segments(tmp_path / "app/0_0/win", own, 10 * SPAN)
    spec = windowed_spec(tmp_path, "kafka-streams.window", conversion={"key": JSON, "allow": ALLOW})
    run(spec)
    key = base64.b64encode(b'{"a" : 1}').decode()
    assert _verdicts(SideBySideStores(spec).get(None, key, is_base64=True)) == ["equal"]


def test_half_a_surrogate_pair_can_be_printed(tmp_path: Path) -> None:
    spec = _plain(tmp_path, {b"k": b'{"\\ud83d":"\\ud83d"}'}, conversion={"value": JSON})
    report = SideBySideStores(spec).get(None, "k")
    (found,) = json.loads(Output().document(report))["records"]
    assert found["old"]["value"] == {"\ud83d": "\ud83d"}
    assert "\n".join(show_get(Output().readable(report), Output())).encode()
    assert get_page(GetForm("orders", ["orders"]), report).encode()


def test_a_store_with_a_new_name_is_found_under_both(tmp_path: Path) -> None:
    spec = _plain(tmp_path, {b"a": b"1"})
    run(spec)
    cut_over_renamed(spec)
    named = spec.model_copy(update={"target": spec.target.model_copy(update={"store": "orders-2"})})
    stores = SideBySideStores(named)
    for name in ("orders", "orders-2", None):
        report = stores.get(name, "a")
        assert (report.store, report.new_store, _verdicts(report)) == ("orders", "orders-2", ["equal"])
    with pytest.raises(UnknownStateStoreError, match="no store 'orders-3'"):
        stores.get("orders-3", "a")
    with open_store(tmp_path / "app/0_0/rocksdb/orders-2") as database:
        column = database.get_column_family("keyValueWithTimestamp")
        column[b"a"] = bytes(8) + b"2"
        del column
    assert _verdicts(stores.get("orders", "a")) == ["different"]


def test_a_source_that_is_not_there_is_no_missing_key(tmp_path: Path) -> None:
    spec = _plain(tmp_path, {b"a": b"1"}, source={"store": "refunds"})
    with pytest.raises(UnknownStateStoreError, match="refunds"):
        SideBySideStores(spec).get(None, "a")


# Values that get a field, in two partitions


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return totals_spec(tmp_path)


def test_a_store_that_is_missing_in_the_middle_of_a_switch_is_waited_for(
    spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As between the two renames of a file system that cannot exchange directories."""
    monkeypatch.setattr("migrate.queries.side_by_side._MOVING_SECONDS", 0.3)
    run(spec)
    with pytest.raises(KilledError):
        cutover(spec, on_event=kill_at("cutover.positioned", 1))
    place, aside = spec.source_path / "0_1/rocksdb/orders", spec.home / "aside"
    place.rename(aside)
    with pytest.raises(StoreNotReadyError):
        SideBySideStores(spec).get("orders", "key-007")
    threading.Timer(0.1, lambda: aside.rename(place)).start()
    assert _verdicts(SideBySideStores(spec).get("orders", "key-007")) == ["equal"]


def test_the_first_keys_of_a_range_are_shown_in_their_order(spec: Spec) -> None:
    run(spec)
    report = SideBySideStores(spec).first("orders", "key-050", 3)
    assert [each.old.key for each in report.records if each.old] == ["key-050", "key-052", "key-054"]
    assert not report.is_complete
    every = SideBySideStores(spec).first("orders", None, 1000)
    assert every.is_complete
    assert len(every.records) == 102
    assert {each.verdict for each in every.records} == {"equal", "rejected", "dropped"}
