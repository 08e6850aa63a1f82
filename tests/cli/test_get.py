"""`stateferry get`: what a person sees of a key in both stores, at each stage of a migration."""

import json
import struct
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from migrate import load_spec
from migrate.errors import StoreNotReadyError
from migrate.queries.side_by_side import SideBySideStores
from tests.shared.commands import CommandServer, Outcome
from tests.shared.windowed import MINUTE, make_segments, session_key, session_time, window_key
from tests.support import make_store, open_store

FUNCTION = """
from formats import StateRecord

def convert(record):
    value = record.value
    return None if record.key == "dropped" else StateRecord(record.key, {**value, "total": value["price"] * 2})
"""
SPEC = """
name = "orders"
work_dir = "work"
[source]
path = "app"
format = "{source}"
{stores}
[target]
format = "{target}"
{new}
[conversion]
allow = ["changelog", "drop", "unclean-source"]
{conversion}
[run]
on_reject = "skip"
max_rejects = 9
"""
TOTALS = """
function = "totals:convert"
py_files = ["totals.py"]
key = { from = { serde = "string" }, to = { serde = "string" } }
value = { from = { serde = "json" }, to = { serde = "json" } }
"""


def write_spec(
    folder: Path,
    source: str = "kafka-streams.key-value",
    target: str = "kafka-streams.timestamped-key-value",
    *,
    stores: str = 'store = "orders"',
    new: str = "",
    conversion: str = TOTALS,
) -> Path:
    file = folder / "migration.toml"
    file.write_text(SPEC.format(source=source, target=target, stores=stores, new=new, conversion=conversion))
    (folder / "totals.py").write_text(FUNCTION)
    return file


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Of two partitions."""
    for number in range(2):
        records = {f"key-{each}".encode(): b'{"price": %d}' % each for each in range(number, 20, 2)}
        records |= {b"dropped": b"{}", b"bad": b"{}"} if number == 0 else {}
        make_store(tmp_path / f"app/0_{number}/rocksdb/orders", records)
    return write_spec(tmp_path)


def got(commands: CommandServer, spec: Path, *arguments: str) -> str:
    found = commands.run(["get", str(spec), *arguments])
    assert (found.code, found.err) == (0, "")
    return found.out


def records(commands: CommandServer, spec: Path, *arguments: str) -> list[dict[str, Any]]:
    report = json.loads(got(commands, spec, *arguments, "--json"))
    return [each for each in report["records"] if each["verdict"] != "nowhere"]


def refused(commands: CommandServer, spec: Path, *arguments: str) -> Outcome:
    found = commands.run(["get", str(spec), *arguments])
    assert found.code in (2, 6)
    assert found.out == ""
    return found


def test_a_key_is_shown_from_the_start_to_the_end(commands: CommandServer, spec: Path) -> None:
    stages = {
        "not started": ("", "not there yet"),
        "verified": ("run --no-spark", "equal"),
        "cut over": ("cutover", "equal"),
        "rolled back": ("rollback", "equal"),
        "cut over ": ("cutover", "equal"),
        "finalized": ("finalize --yes", "gone"),
    }
    for state, (verb, verdict) in stages.items():
        if verb:
            name, *options = verb.split()
            done = commands.run([name, str(spec), *options])
            assert done.code == 0, done.err
        text = got(commands, spec, "key-7")
        assert f"; the migration is {state.strip()}\n" in text
        assert f"0_1/orders: {verdict}\n" in text
        (found,) = records(commands, spec, "key-7")
        assert found["verdict"] == verdict
        assert (found["old"] is None) == (verdict == "gone")
        assert (found["new"] is None) == (verdict == "not there yet")
    assert found["new"]["value"] == {"price": 7, "total": 14}


def test_the_fields_stand_in_columns_and_what_differs_is_marked(commands: CommandServer, spec: Path) -> None:
    commands.run(["run", str(spec), "--no-spark"])
    commands.run(["cutover", str(spec)])
    with open_store(spec.parent / "app/0_1/rocksdb/orders") as database:
        column = database.get_column_family("keyValueWithTimestamp")
        column[b"key-7"] = struct.pack(">q", 1_700_000_000_000) + b'{"price": 7, "total": 15}'
        del column
    assert got(commands, spec, "key-7").splitlines() == [
        "orders: kafka-streams.key-value -> kafka-streams.timestamped-key-value; the migration is cut over",
        "",
        "0_1/orders: different",
        "  the new record is not what the conversion makes of the old one",
        "               old      converted     new",
        ' key           "key-7"  "key-7"       "key-7"',
        " value.price   7        7             7",
        " value.total            14            15                                       differs",
        " timestamp_ms           -1 (unknown)  1700000000000 (2023-11-14 22:13:20 UTC)  differs",
    ]


def test_records_that_do_not_arrive_say_why(commands: CommandServer, spec: Path) -> None:
    commands.run(["run", str(spec), "--no-spark"])
    assert "the conversion rejects the old record: the function raised KeyError: 'price'" in got(commands, spec, "bad")
    assert "0_0/orders: dropped\n  the function drops it" in got(commands, spec, "dropped")
    assert "neither store has such a record" in got(commands, spec, "none")


def test_a_key_of_bytes_is_text_or_hex_or_base64(commands: CommandServer, tmp_path: Path) -> None:
    make_store(tmp_path / "app/0_0/rocksdb/orders", {b"key": b"text", b"\x00\xff": b"\x01\x02"})
    spec = write_spec(tmp_path, conversion="")
    for key in (["key"], ["0x6b6579"], ["a2V5", "--base64"]):
        (found,) = records(commands, spec, *key)
        assert found["old"]["value_bytes"]["text"] == "text"
    text = got(commands, spec, "0x00FF")
    assert "0x00ff" in text
    assert "0x0102" in text
    assert records(commands, spec, "0x0") == records(commands, spec, "0x6b65") == []


def test_all_windows_of_a_key_are_shown_or_one(commands: CommandServer, tmp_path: Path) -> None:
    own = {window_key(key, start * MINUTE): b"%s %d" % (key, start) for key in (b"a", b"ab") for start in range(3)}
    make_segments(tmp_path / "app/0_0/orders", own, 60 * MINUTE)
    spec = write_spec(tmp_path, "kafka-streams.window", "kafka-streams.timestamped-window", conversion="")
    assert [each["old"]["window_start_ms"] for each in records(commands, spec, "a")] == [0, MINUTE, 2 * MINUTE]
    (one,) = records(commands, spec, "a", "--window", str(MINUTE))
    assert one["old"]["value_bytes"]["text"] == "a 1"
    assert "3 records: 3 not there yet" in got(commands, spec, "ab")
    assert records(commands, spec, "a", "--window", "7") == []
    for text in ("x", "1,2,3", "-1", "", "\u0661"):
        assert "is not START or START,END" in refused(commands, spec, "a", f"--window={text}").err


def test_sessions_are_shown_by_their_times(commands: CommandServer, tmp_path: Path) -> None:
    own = {session_key(b"a", start, start + 5): b"%d" % start for start in (100, 200)}
    make_segments(tmp_path / "app/0_0/orders", own, 60 * MINUTE, time=session_time)
    spec = write_spec(tmp_path, "kafka-streams.session", "kafka-streams.headers-session", conversion="")
    assert [each["old"]["window_end_ms"] for each in records(commands, spec, "a")] == [105, 205]
    (one,) = records(commands, spec, "a", "--window", "200,205")
    assert one["old"]["window_start_ms"] == 200


def test_a_store_is_named_where_there_are_several(commands: CommandServer, tmp_path: Path) -> None:
    for name in ("orders", "refunds"):
        make_store(tmp_path / f"app/0_0/rocksdb/{name}", {b"key": name.encode()})
    spec = write_spec(tmp_path, stores='stores = ["orders", "refunds"]', conversion="")
    (found,) = records(commands, spec, "key", "--store", "refunds")
    assert found["store_partition"] == "0_0/refunds"
    assert "the spec has several stores: orders, refunds" in refused(commands, spec, "key").err


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["1", "--store", "order"], "the spec has no store 'order'\n  next: it has orders"),
        (["1", "--window", "7"], "a store of kafka-streams.key-value has no windows"),
        (["seven"], "'seven' is not a key of this store: not a whole number"),
        (["9999999999999"], "'9999999999999' is not a key of this store"),
        (["AAA", "--base64"], "'AAA' is not a key of this store"),
        (["%", "--base64"], "'%' is not a key of this store: not base64"),
    ],
)
def test_mistakes_say_what_there_is(
    commands: CommandServer, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    make_store(tmp_path / "app/0_0/rocksdb/orders", {struct.pack(">i", 7): b"text"})
    number = 'key = { from = { serde = "int32" }, to = { serde = "int32" } }'
    spec = write_spec(tmp_path, conversion=number)
    assert len(records(commands, spec, "7")) == 1
    assert sentence in refused(commands, spec, *arguments).err


def test_a_terminal_is_not_taken_over(commands: CommandServer, tmp_path: Path) -> None:
    hostile = "\x1b[31m\x07\u202e\r<script>"
    make_store(
        tmp_path / "app/0_0/rocksdb/orders", {hostile.encode(): json.dumps({"price": 1, hostile: hostile}).encode()}
    )
    text = got(commands, write_spec(tmp_path), hostile)
    assert "not there yet" in text
    assert text.replace("\n", "").isprintable()


def test_stores_that_are_exchanged_while_they_are_read_are_never_mixed_up(commands: CommandServer, spec: Path) -> None:
    """Each answer is of both stores, or an error: the store is never said to be gone, or not to be there yet."""
    assert commands.run(["run", str(spec), "--no-spark"]).code == 0
    stores, end = SideBySideStores(load_spec(spec)), threading.Event()

    def ask() -> Counter[str]:
        found: Counter[str] = Counter()
        while not end.is_set():
            try:
                keys = stores.get("orders", "key-7").records, stores.first("orders", "key-1", 30).records
            except StoreNotReadyError:
                found["not ready"] += 1
                continue
            found.update(each.verdict for records in keys for each in records if each.verdict != "nowhere")
        return found

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(ask) for _ in range(2)]
        try:
            for verb in ("cutover", "rollback") * 4:
                done = commands.run([verb, str(spec)])
                assert done.code == 0, done.err
        finally:
            end.set()
        found = sum((reader.result() for reader in readers), Counter[str]())
    assert found["equal"] > 20
    assert found.keys() <= {"equal", "not ready"}
