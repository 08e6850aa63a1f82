"""The rows of real stores, read in this process: every record once, by ranges, sides and selections."""

import itertools
import pickle
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Rdict, WriteBatch

from formats.kafka_streams.versioned import LATEST, key_in
from formats.serdes.text import StringSerde
from migrate import cutover, finalize, rollback, run, snapshot
from migrate.errors import (
    ConversionError,
    CorruptionError,
    MigrationError,
    RefusedError,
    SpecError,
    StoreNotReadyError,
    UnknownStateStoreError,
)
from migrate.queries.open.partition import StoreDefinition
from migrate.rows.row_source import RowSelection, RowSide, RowSource, rows_of_path, rows_of_spec
from migrate.spec.spec import Spec
from tests.queries.support import application, signed
from tests.queries.views.made import NAME, key_value, segmented
from tests.shared.windowed import MINUTE, session_key, session_time, window_key, window_time, windows
from tests.support import (
    KEY_VALUE,
    RAW,
    TIMESTAMPED,
    flip_byte,
    kafka_spec,
    make_families,
    make_store,
    numbered,
    open_store,
)

SMALL = 20_000
"""Bytes of a range: a store of a few thousand records has several."""


def of(app: Path, format_id: str = KEY_VALUE, selection: RowSelection | None = None, **more: Any) -> RowSource:  # noqa: ANN401
    return rows_of_path(app, NAME, StoreDefinition(format_id, **more), selection or RowSelection())


def read(source: RowSource, range_bytes: int = SMALL) -> list[dict[str, Any]]:
    """The rows, as another process reads them."""
    tasks, reading = pickle.loads(pickle.dumps((source.tasks(range_bytes), source.reading)))
    batches = [batch for task in tasks for batch in reading.read(task)]
    assert all(batch.schema == source.schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def test_every_record_is_a_row_of_its_task(tmp_path: Path) -> None:
    partitions = [numbered(3000, seed=seed, prefix=b"%d-" % seed) for seed in range(3)]
    app = key_value(tmp_path, *partitions)
    source = of(app)
    found = read(source)
    assert [(row["task"], row["partition"], row["key"], row["value"]) for row in found] == [
        (f"0_{number}", number, key, value)
        for number, records in enumerate(partitions)
        for key, value in records.items()
    ]
    tasks = source.tasks(SMALL)
    assert [each.number for each in tasks if each.task == "0_1"] == [*range(len(tasks) // 3)] != [0]
    assert len(source.tasks()) == 3


def test_what_is_only_in_the_log_is_read(tmp_path: Path) -> None:
    records = numbered(50)
    (tmp_path / "app/0_0/rocksdb").mkdir(parents=True)
    make_store(tmp_path / "app/0_0/rocksdb" / NAME, records, flush=False)
    assert {row["key"]: row["value"] for row in read(of(tmp_path / "app"))} == records


def test_a_store_without_records_has_no_rows(tmp_path: Path) -> None:
    source = of(key_value(tmp_path, {}))
    assert read(source) == []
    assert source.schema.names[:4] == ["task", "partition", "key", "value"]


def test_columns_are_chosen_and_in_order(tmp_path: Path) -> None:
    app = key_value(tmp_path, numbered(20))
    source = of(app, selection=RowSelection(columns=("key", "task")))
    assert source.schema.names == ["key", "task"]
    assert [*read(source)[0]] == ["key", "task"]
    with pytest.raises(SpecError, match="did you mean 'value'"):
        _ = of(app, selection=RowSelection(columns=("key", "valu"))).schema


@pytest.mark.parametrize(
    "low, high", [(b"2-00000500", None), (None, b"2-00000500"), (b"1-", b"2-"), (b"2-00000007", b"2-00001700")]
)
def test_a_range_of_keys_is_read_alone(tmp_path: Path, low: bytes | None, high: bytes | None) -> None:
    partitions = [numbered(2000, seed=seed, prefix=b"%d-" % seed) for seed in range(3)]
    wanted = [
        key for records in partitions for key in records if (low is None or key >= low) and (high is None or key < high)
    ]
    source = of(key_value(tmp_path, *partitions), selection=RowSelection(from_key=low, to_key=high))
    assert [row["key"] for row in read(source)] == wanted != []
    ranges = [piece.keys for task in source.tasks(SMALL) for piece in task.pieces]
    assert all(low is None or (keys.start is not None and keys.start >= low) for keys in ranges)
    assert all(high is None or (keys.end is not None and keys.end <= high) for keys in ranges)


def test_no_key_is_between_a_key_and_itself(tmp_path: Path) -> None:
    app = key_value(tmp_path, numbered(20))
    assert read(of(app, selection=RowSelection(from_key=b"key-00000003", to_key=b"key-00000003"))) == []


@pytest.mark.parametrize("format_id, time_of", [("window", window_time), ("session", session_time)])
@pytest.mark.parametrize("low, high", [(None, None), (b"a", b"ab\x00"), (b"ab", None), (None, b"\x01"), (b"", b"a")])
def test_every_segment_is_read_and_keys_that_begin_others_too(
    tmp_path: Path, format_id: str, time_of: Callable[[bytes], int], low: bytes | None, high: bytes | None
) -> None:
    records = windows(4000, until=20 * MINUTE)
    if format_id == "session":
        records = {session_key(key[:-12], 5, window_time(key)): value for key, value in records.items()}
    segments: dict[int, dict[bytes, bytes]] = {}
    for key, value in records.items():
        segments.setdefault(time_of(key) // MINUTE * MINUTE, {})[key] = value
    suffix = 12 if format_id == "window" else 16
    wanted = [
        (key[:-suffix], value)
        for key, value in records.items()
        if (low is None or key[:-suffix] >= low) and (high is None or key[:-suffix] < high)
    ]
    source = of(segmented(tmp_path, segments), f"kafka-streams.{format_id}", RowSelection(from_key=low, to_key=high))
    assert sorted((row["key"], row["value"]) for row in read(source)) == sorted(wanted) != []
    assert 1 < len(source.tasks(SMALL)) < len(segments)
    assert len(source.tasks()) == 1


def test_segments_come_and_go_while_an_application_runs(tmp_path: Path) -> None:
    segments = {start: {window_key(b"a", start): b"%d" % start} for start in range(0, 5 * MINUTE, MINUTE)}
    app = segmented(tmp_path, segments)
    source = of(app, "kafka-streams.window")
    tasks = [replace(task, is_in_use=True) for task in source.tasks(1)]
    shutil.rmtree(app / "0_0" / NAME / f"{NAME}.0")
    make_store(app / "0_0" / NAME / f"{NAME}.{7 * MINUTE}", {window_key(b"b", 7 * MINUTE): b"new"})
    found = [row["value"] for task in tasks for batch in source.read(task) for row in batch.to_pylist()]
    assert found == [*(b"%d" % start for start in segments if start), b"new"]
    stopped = [replace(task, is_in_use=False) for task in tasks]
    with pytest.raises(StoreNotReadyError, match="was removed or replaced"):
        [*source.read(stopped[0])]
    shutil.rmtree(app / "0_0" / NAME)
    for task in (tasks[0], tasks[-1], replace(tasks[-1], pieces=())):
        with pytest.raises(StoreNotReadyError, match="was removed or replaced"):
            [*source.read(task)]


def test_versions_are_rows_once(tmp_path: Path) -> None:
    keys = [b"k%04d" % number for number in range(800)]
    records = {key_in(LATEST, key): (5).to_bytes(8, "big") + key for key in keys}
    source = of(
        key_value(tmp_path, records), "kafka-streams.versioned", RowSelection(from_key=b"k0100", to_key=b"k0300")
    )
    assert [row["key"] for row in read(source)] == keys[100:300]


def test_records_of_before_an_upgrade_are_merged(tmp_path: Path) -> None:
    old, new = numbered(300), {b"key-00000007": bytes(8) + b"newer", b"key-9": bytes(8) + b"new"}
    (tmp_path / "app/0_0/rocksdb").mkdir(parents=True)
    make_families(tmp_path / "app/0_0/rocksdb" / NAME, {"default": old, "keyValueWithTimestamp": new})
    found = {row["key"]: (row["value"], row["timestamp"]) for row in read(of(tmp_path / "app", TIMESTAMPED))}
    assert len(found) == 301
    assert found[b"key-00000007"][0] == b"newer"
    assert found[b"key-00000008"] == (old[b"key-00000008"], None)


def test_each_column_family_of_any_bytes_is_read(tmp_path: Path) -> None:
    families = {"default": numbered(5), "second": numbered(7)}
    source = rows_of_path(make_families(tmp_path / "db", families), "db", StoreDefinition(RAW), RowSelection())
    found = read(source)
    assert {name: {row["key"]: row["value"] for row in found if row["family"] == name} for name in families} == families
    assert {(row["task"], row["partition"]) for row in found} == {("", None)}


def test_a_running_applications_store_is_read_as_of_one_opening(tmp_path: Path) -> None:
    app = key_value(tmp_path, numbered(20_000), numbered(2000, seed=1))
    source = of(app)
    with open_store(app / "0_0/rocksdb" / NAME) as database, _held(app / "0_0/.lock"):
        task, *others = source.tasks(SMALL)
        assert others
        assert task.is_in_use and not any(each.is_in_use or each.task == "0_0" for each in others)
        assert len(others) > 1
        _write(database, b"key-00019998")
        reading = source.read(task)
        first = next(reading)
        _write(database, b"key-00019999")
        last = [row for batch in reading for row in batch.to_pylist()]
    assert first.num_rows < 20_000
    assert [row["value"] == b"written since" for row in last[-2:]] == [True, False]


def _write(database: Rdict, key: bytes) -> None:
    batch = WriteBatch(raw_mode=True)
    batch.put(key, b"written since")
    database.write(batch)
    database.flush()


def _held(lock: Path) -> Any:  # noqa: ANN401
    from migrate.stores.lock import holding_locks

    lock.touch()
    return holding_locks([lock])


def _damaged(place: Path) -> None:
    table = next(place.glob("*.sst"))
    flip_byte(table, table.stat().st_size // 2)


def _gone(place: Path) -> None:
    shutil.rmtree(place)


def _replaced(place: Path) -> None:
    shutil.rmtree(place)
    make_store(place, numbered(10))


@pytest.mark.parametrize(
    "happens, error, said",
    [
        (_damaged, CorruptionError, "cannot be read"),
        (_gone, StoreNotReadyError, "was removed or replaced"),
        (_replaced, StoreNotReadyError, "was removed or replaced"),
    ],
)
def test_what_cannot_be_read_whole_is_an_error(
    tmp_path: Path, happens: Callable[[Path], None], error: type[MigrationError], said: str
) -> None:
    app = key_value(tmp_path, numbered(3000), numbered(3000))
    source = of(app)
    tasks = source.tasks(SMALL)
    happens(app / "0_1/rocksdb" / NAME)
    with pytest.raises(error, match=said) as raised:
        for task in tasks:
            for _ in source.read(task):
                pass
    assert raised.value.hint


@pytest.mark.parametrize("name", ["MANIFEST-*", "CURRENT"])
def test_a_store_that_cannot_be_opened_is_an_error(tmp_path: Path, name: str) -> None:
    app = key_value(tmp_path, numbered(3))
    file = next((app / "0_0/rocksdb" / NAME).glob(name))
    file.write_bytes(file.read_bytes()[:5])
    with pytest.raises(MigrationError, match="0_0") as raised:
        read(of(app))
    assert raised.value.hint


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    app = key_value(tmp_path, numbered(3))
    with pytest.raises(UnknownStateStoreError) as raised:
        rows_of_path(app, "order", StoreDefinition(KEY_VALUE), RowSelection()).tasks()
    assert "did you mean 'orders'" in str(raised.value)


def test_another_format_is_refused(tmp_path: Path) -> None:
    app = key_value(tmp_path, numbered(3))
    with pytest.raises(RefusedError, match="it has no column family 'keyValueWithTimestamp'"):
        of(app, TIMESTAMPED).tasks()


def test_a_store_that_an_adapter_still_converts_is_refused(tmp_path: Path) -> None:
    from migrate import DualReadStore

    app = key_value(tmp_path, numbered(3))
    place = app / "0_0/rocksdb" / NAME
    DualReadStore.open(place, source=KEY_VALUE, target=TIMESTAMPED).close()
    with pytest.raises(RefusedError, match="its records are in two places"):
        of(app, TIMESTAMPED).tasks()


def test_a_serde_that_does_not_fit_ends_the_reading_unless_that_is_permitted(tmp_path: Path) -> None:
    app = key_value(tmp_path, {b"a": b"text", b"b": b"\xff\xfe"})
    with pytest.raises(ConversionError, match="0_0"):
        read(of(app, value=StringSerde()))
    a, b = read(of(app, selection=RowSelection(is_permissive=True), value=StringSerde()))
    assert (a["value"], a["_error"], b["value"]) == ("text", None, None)
    assert b["_error"]


SIDES: tuple[RowSide | None, ...] = (None, "old", "new", "snapshot")
ORDERS = {"source": {"stores": ["orders"]}, "target": {"path": None}}


def sides(spec: Spec) -> Iterator[tuple[str, str | None, str]]:
    """(side, resolved, format) of each that can be read."""
    for side in SIDES:
        try:
            source = rows_of_spec(spec, side=side)
            keys = [row["key"] for row in read(source)]
        except MigrationError:
            continue
        assert keys == [*signed(b"A")]
        yield str(side), source.side, source.definition.format


def test_each_side_is_read_from_the_start_to_the_end(tmp_path: Path) -> None:
    spec = kafka_spec(tmp_path, application(tmp_path), **ORDERS)
    before = [("None", "old", KEY_VALUE), ("old", "old", KEY_VALUE)]
    assert [*sides(spec)] == before
    run(spec)
    made = [("new", "new", TIMESTAMPED)]
    assert [*sides(spec)] == before + made
    cutover(spec)
    after = [("None", "new", TIMESTAMPED)]
    assert [*sides(spec)] == after + before[1:] + made
    rollback(spec)
    assert [*sides(spec)] == before + made
    run(spec)
    cutover(spec)
    finalize(spec)
    assert [*sides(spec)] == after + made


def test_a_snapshot_holds_still(tmp_path: Path) -> None:
    app = application(tmp_path)
    spec = kafka_spec(tmp_path, app, **ORDERS, run={"source": "snapshot"})
    with pytest.raises(RefusedError, match="there is no snapshot"):
        rows_of_spec(spec, side="snapshot").tasks()
    (app / "0_0/.checkpoint").write_text("0\n1\napp-orders-changelog 0 400\n")
    snapshot(spec)
    with open_store(app / "0_0/rocksdb/orders") as database:
        database[b"since"] = b"written"
    assert [row["key"] for row in read(rows_of_spec(spec, side="snapshot"))] == [*signed(b"A")]
    assert [row["key"] for row in read(rows_of_spec(spec, side="old"))] == [*signed(b"A"), b"since"]


def test_a_cut_over_between_two_uses_is_an_error_and_then_the_new_store(tmp_path: Path) -> None:
    spec = kafka_spec(tmp_path, application(tmp_path), **ORDERS)
    run(spec)
    source = rows_of_spec(spec)
    tasks = source.tasks()
    cutover(spec)
    with pytest.raises(StoreNotReadyError, match="was removed or replaced"):
        [*source.read(tasks[0])]
    with pytest.raises(StoreNotReadyError, match="in another format"):
        source.tasks()
    assert rows_of_spec(spec).side == "new"


def test_one_of_several_stores_is_named(tmp_path: Path) -> None:
    app = application(tmp_path)
    make_store(app / "0_0/rocksdb/others", numbered(3))
    spec = kafka_spec(tmp_path, app, source={"stores": ["orders", "others"]}, target={"path": None})
    assert len(read(rows_of_spec(spec, "others"))) == 3
    with pytest.raises(SpecError, match="several stores: orders, others"):
        rows_of_spec(spec)
    with pytest.raises(UnknownStateStoreError, match="no store 'other'"):
        rows_of_spec(spec, "other")


def test_the_same_files_have_the_same_state(tmp_path: Path) -> None:
    app = key_value(tmp_path, numbered(2000), numbered(2000, seed=1))
    source = of(app)
    states = [source.state_of(task) for task in source.tasks(SMALL)]
    assert len(set(states)) == 2
    assert states == [source.state_of(task) for task in source.tasks(SMALL)]
    with open_store(app / "0_0/rocksdb" / NAME) as database:
        database[b"a"] = b"b"
    again = [source.state_of(task) for task in source.tasks(SMALL)]
    assert again[0] != states[0]
    assert again[-1] == states[-1]


def test_ranges_of_ones_own_are_read(tmp_path: Path) -> None:
    source = of(key_value(tmp_path, numbered(2000)))
    tasks = source.tasks(SMALL)
    pieces = tuple(itertools.chain.from_iterable(task.pieces for task in tasks))
    together = replace(tasks[0], pieces=pieces)
    assert sum(batch.num_rows for batch in source.read(together)) == 2000
