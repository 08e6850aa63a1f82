"""What is answered of each kind of store, and of keys that can be spelled in several ways."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from formats.avro.schema import AvroSchema
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.json_text import JsonSerde
from formats.serdes.numeric import NumberSerde
from migrate.queries.open.partition import StoreDefinition
from migrate.queries.queryable_stores import QueryableStores
from tests.serve.services import TEXT, Asked, serving
from tests.shared.windowed import MINUTE, TIMESTAMPED, make_segments, session_key, session_time, window_key
from tests.support import KEY_VALUE, copy_fixture, fixture_records, make_store

KAFKA = "kafka-streams"


def _window(start: int, value: str, end: int | None, **more: object) -> dict[str, object]:
    return {"key": "a", "value": value, **more, "window": {"start": start, "end": end}}


def _lines(asked: Asked) -> list[Any]:
    *records, end = map(json.loads, asked.get("/stores/s/all").text.splitlines())
    assert end == {"end": True, "records": len(records)}
    return records


def test_windows_of_a_key_over_their_segments(tmp_path: Path) -> None:
    starts = [0, MINUTE, 5 * MINUTE]
    records = {window_key(b"a", start): b"at %d" % start for start in starts} | {window_key(b"ab", MINUTE): b"other"}
    make_segments(tmp_path / "app" / "0_0" / "s", records, 2 * MINUTE)
    definition = StoreDefinition(f"{KAFKA}.window", TEXT, TEXT, window_size_ms=MINUTE)
    expected = [_window(start, f"at {start}", start + MINUTE) for start in starts]
    with serving(QueryableStores.of_directory(tmp_path / "app", {"s": definition})) as asked:
        path = "/stores/s/windows/a"
        assert asked.found(path) == {"key": "a", "records": expected, "complete": True}
        assert asked.found(f"{path}?from=1&to={5 * MINUTE}")["records"] == expected[1:]
        assert asked.found(f"{path}?limit=1") == {"key": "a", "records": expected[:1], "complete": False}
        assert asked.found("/stores/s/windows/none")["records"] == []
        assert [each for each in _lines(asked) if each["key"] == "a"] == expected


def test_windows_have_timestamps_where_the_format_has(tmp_path: Path) -> None:
    value = struct.pack(">q", 77) + b"v"
    make_segments(tmp_path / "app" / "0_0" / "s", {window_key(b"a", 0): value}, MINUTE, family=TIMESTAMPED)
    definition = StoreDefinition(f"{KAFKA}.timestamped-window", TEXT, TEXT)
    with serving(QueryableStores.of_directory(tmp_path / "app", {"s": definition})) as asked:
        assert asked.found("/stores/s/windows/a")["records"] == [_window(0, "v", None, timestamp=77)] == _lines(asked)


def test_sessions_of_a_key(tmp_path: Path) -> None:
    times = [(0, 10), (20, 50), (5 * MINUTE, 5 * MINUTE)]
    records = {session_key(b"a", *each): b"%d" % each[0] for each in times} | {session_key(b"ab", 5, 15): b"other"}
    make_segments(tmp_path / "app" / "0_0" / "s", records, MINUTE, time=session_time)
    expected = [_window(start, str(start), end) for start, end in times]
    definition = StoreDefinition(f"{KAFKA}.session", TEXT, TEXT)
    with serving(QueryableStores.of_directory(tmp_path / "app", {"s": definition})) as asked:
        assert asked.found("/stores/s/sessions/a")["records"] == expected
        assert asked.found("/stores/s/sessions/a?from=10&to=20")["records"] == expected[:2]
        assert asked.found("/stores/s/sessions/a?from=11&to=19")["records"] == []
        assert [each for each in _lines(asked) if each["key"] == "a"] == expected
        assert "session store" in asked.problem("/stores/s/keys/a", 400)


def test_a_version_is_asked_by_its_time(tmp_path: Path) -> None:
    make_store(tmp_path / "app" / "0_0" / "rocksdb" / "s", {b"\xff" * 8 + b"a": struct.pack(">q", 100) + b"newest"})
    definition = StoreDefinition(f"{KAFKA}.versioned", TEXT, TEXT)
    newest = {"key": "a", "value": "newest", "timestamp": 100, "valid_to": None}
    with serving(QueryableStores.of_directory(tmp_path / "app", {"s": definition})) as asked:
        assert asked.found("/stores/s/keys/a") == asked.found("/stores/s/keys/a?as_of=100") == newest
        asked.problem("/stores/s/keys/a?as_of=99", 404)
        for path in ("range", "all", "windows/a"):
            assert "versioned store" in asked.problem(f"/stores/s/{path}", 400)


def test_what_kafka_streams_wrote_is_answered(tmp_path: Path) -> None:
    app = copy_fixture(tmp_path)
    with serving(QueryableStores.of_directory(app, {"orders": StoreDefinition(KEY_VALUE, TEXT, TEXT)})) as asked:
        for task in ("0_0", "0_1", "0_2"):
            for key, value, _ in fixture_records(task, "orders")[::97]:
                assert asked.found(f"/stores/orders/keys/{key.decode()}")["value"] == value.decode()


@pytest.mark.parametrize("is_reverse", [False, True])
def test_pages_go_on_behind_a_key_however_it_is_spelled(tmp_path: Path, *, is_reverse: bool) -> None:
    """Written again, each of these keys would lie elsewhere in the order."""
    spelled = [
        b'{ "a": 1}',
        b'{ "a": 2}',
        b'{"a" : 3}',
        b'{"a":4.0}',
        b'{"a":4e0}',
        b"null",
        b'"\\u00e9"',
        '"é"'.encode(),
    ]
    _check_pages(tmp_path, JsonSerde(), spelled, [json.loads(each) for each in sorted(spelled)], is_reverse=is_reverse)


def test_numbers_of_json_are_answered_as_they_are_stored(tmp_path: Path) -> None:
    stored = b'{"price": 14.7600, "none": -0, "tiny": [1e-400]}'
    make_store(tmp_path / "app/0_0/rocksdb/s", {b"a": stored})
    definition = StoreDefinition(KEY_VALUE, TEXT, JsonSerde())
    with serving(QueryableStores.of_directory(tmp_path / "app", {"s": definition})) as asked:
        for path in ("keys/a", "all", "range"):
            assert '"value":{"price":14.7600,"none":-0,"tiny":[1e-400]}' in asked.get(f"/stores/s/{path}").text


@pytest.mark.parametrize("is_reverse", [False, True])
def test_pages_of_keys_of_several_schemas(tmp_path: Path, *, is_reverse: bool) -> None:
    serde = AvroSerde(((1, AvroSchema('"long"')), (2, AvroSchema('"string"'))), "confluent", "key")
    stored = [b"\0\0\0\0\x01" + bytes([2 * number]) for number in range(4)] + [b"\0\0\0\0\x02\x02a"]
    _check_pages(tmp_path, serde, stored, [0, 1, 2, 3, "a"], is_reverse=is_reverse)


def _check_pages(folder: Path, serde: Any, stored: list[bytes], keys: list[object], *, is_reverse: bool) -> None:  # noqa: ANN401
    make_store(folder / "app" / "0_0" / "rocksdb" / "s", {each: b"\0\0\0\x07" for each in stored})
    definition = StoreDefinition(KEY_VALUE, serde, NumberSerde("int32"))
    with serving(QueryableStores.of_directory(folder / "app", {"s": definition})) as asked:
        found, cursor = [], ""
        for _ in stored:
            page = asked.found(f"/stores/s/range?limit=1&reverse={str(is_reverse).lower()}{cursor}")
            found += page["records"]
            cursor = f"&cursor={page['cursor']}"
        assert page["cursor"] is None
        assert found == [{"key": key, "value": 7} for key in (keys[::-1] if is_reverse else keys)]
