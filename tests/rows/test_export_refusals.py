"""What `export` refuses, with the table as it was; and what goes wrong in the middle of it."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from migrate import Spec, SpecError, export
from migrate.batch.chunk.executor import in_process
from migrate.errors import (
    ChunkFailedError,
    ConversionError,
    CorruptionError,
    FencedError,
    MigrationError,
    RefusedError,
    SourceChangedError,
)
from migrate.rows.export_log import ExportLog, table_of
from migrate.rows.export_table import _ranges, _table_schema, _task_of
from migrate.rows.row_source import rows_of_spec
from tests.rows.exported import by_task, entries, expected, orders_spec, rows, unfinished
from tests.support import (
    KEY_VALUE,
    flip_byte,
    make_store,
    numbered,
    open_store,
    raises,
    raw_spec,
    small_disk,
    tree_state,
)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return orders_spec(tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def refused(message: str, spec: Spec, table: Path, **how: Any) -> RefusedError:  # noqa: ANN401
    """The refusal, with everything as it was."""
    before = tree_state(table.parent)
    error = raises(RefusedError, message, export, spec, table, **how)
    assert tree_state(table.parent) == before
    assert error.hint
    return error


def test_a_directory_of_something_else(spec: Spec, table: Path) -> None:
    table.mkdir()
    (table / "notes.txt").write_text("mine")
    refused("is not empty, and no Delta table", spec, table)


@pytest.mark.parametrize("given", ["s3://bucket/orders", "file:///data/orders", Path("s3a://bucket/orders")])
def test_a_url(spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | Path) -> None:
    monkeypatch.chdir(tmp_path)
    raises(RefusedError, "is no path: tables lie in directories, and not in object stores", export, spec, given)
    assert not [*tmp_path.glob("*:")]


def test_a_file(spec: Spec, table: Path) -> None:
    table.write_text("mine")
    refused("is no directory", spec, table)


def test_a_table_of_somebody_else(spec: Spec, table: Path) -> None:
    import pyarrow as pa

    write_deltalake(str(table), pa.table({"key": [b"a"]}))
    refused("is a Delta table that no export has made", spec, table)


def test_the_export_of_another_store(tmp_path: Path, table: Path) -> None:
    spec = orders_spec(tmp_path, source={"stores": ["orders", "refunds"]})
    raises(SpecError, "several stores: orders, refunds", export, spec, table)
    export(spec, table, store="refunds")
    assert by_task(rows(table)) == expected("refunds")
    refused("export of another store: store refunds", spec, table, store="orders")


def test_a_table_that_another_host_exports_to(spec: Spec, table: Path, tmp_path: Path) -> None:
    """Its state directory has the same path there, and other tasks."""
    app = spec.source_path
    (app / "0_0").rename(tmp_path / "0_0")
    export(spec, table)
    for task in ("0_1", "0_2"):
        (app / task).rename(tmp_path / task)
    (tmp_path / "0_0").rename(app / "0_0")
    refused("has rows of the tasks 0_1, 0_2, and of none .* which are 0_0: does another host", spec, table)
    (tmp_path / "0_1").rename(app / "0_1")  # after a rebalance some are there
    export(spec, table)
    assert by_task(rows(table)) == {task: expected()[task] for task in ("0_0", "0_1")}


@pytest.mark.parametrize("inside", ["orders-app", "orders-app/0_0/rocksdb/export", "work/test/out", "new/orders-app/x"])
def test_a_place_among_the_files_of_the_migration(tmp_path: Path, inside: str) -> None:
    spec = orders_spec(tmp_path, target={"path": "new/orders-app"})
    before = tree_state(tmp_path)
    raises(RefusedError, "would lie inside|is not empty", export, spec, tmp_path / inside)
    (tmp_path / "link").symlink_to(tmp_path / "orders-app")
    raises(RefusedError, "would lie inside", export, spec, tmp_path / "link" / "0_0" / "x")
    (tmp_path / "link").unlink()
    assert tree_state(tmp_path) == before


def test_a_path_that_delta_rs_cannot_open(spec: Spec, tmp_path: Path) -> None:
    raises(RefusedError, "delta-rs opens no table", export, spec, tmp_path / "a%20b")
    assert not (tmp_path / "a%20b").exists()


def append(table: Path) -> None:
    import pyarrow as pa

    row = {"task": ["0_0"], "partition": pa.array([0], pa.int32()), "key": [b"theirs"], "value": [b"theirs"]}
    write_deltalake(str(table), pa.table(row), mode="append")


@pytest.mark.parametrize(
    "change",
    [
        append,
        lambda table: DeltaTable(str(table)).delete("task = '0_0'"),
        lambda table: DeltaTable(str(table)).alter.set_table_properties({"delta.appendOnly": "false"}),
    ],
    ids=["append", "delete", "properties"],
)
def test_a_table_that_another_program_has_changed(spec: Spec, table: Path, change: Callable[[Path], None]) -> None:
    version = export(spec, table).version
    change(table)
    refused(f"another program has written version {version + 1} of the table", spec, table)


def test_compaction_by_another_program_is_no_change(spec: Spec, table: Path) -> None:
    first = export(spec, table)
    DeltaTable(str(table)).optimize.compact()
    assert len(DeltaTable(str(table)).file_uris()) == 3
    DeltaTable(str(table)).vacuum(dry_run=False)
    DeltaTable(str(table)).create_checkpoint()
    with open_store(spec.source_path / "0_0/rocksdb/orders") as store:
        store[b"new"] = b"later"
    last = export(spec, table)
    after = expected()
    after["0_0"][b"new"] = b"later"
    assert by_task(rows(table)) == by_task(rows(table, last.version)) == after
    assert by_task(rows(table, first.version)) == expected()


def test_a_log_with_a_gap_or_a_torn_entry(spec: Spec, table: Path) -> None:
    export(spec, table)
    second = entries(table)[1]
    content = second.read_bytes()
    second.write_bytes(content[:-9])
    refused("cannot be read", spec, table)
    second.unlink()
    refused("lacks version 1", spec, table)
    second.write_bytes(content)
    export(spec, table)


def test_a_table_whose_log_is_gone(spec: Spec, table: Path) -> None:
    export(spec, table)
    shutil.rmtree(table / "_delta_log")
    refused("is not empty, and no Delta table", spec, table)


def test_a_log_that_was_not_begun(spec: Spec, table: Path) -> None:
    """A kill before the first entry leaves a directory, and no table."""
    (table / "_delta_log").mkdir(parents=True)
    export(spec, table)
    assert by_task(rows(table)) == expected()


def opened(spec: Spec, table: Path) -> ExportLog:
    made_of = table_of(_table_schema(rows_of_spec(spec).schema), "orders")
    return ExportLog(table, f"store orders of {spec.source_path}", made_of)


def test_of_two_exports_that_meet_one_goes_on(spec: Spec, table: Path) -> None:
    export(spec, table)
    first, second = opened(spec, table), opened(spec, table)
    first.keep()
    error = raises(FencedError, "another program has committed version", second.keep)
    assert "run the same command again" in error.hint
    raises(FencedError, "another program has committed version", second.publish, [])
    first.publish([])
    assert rows(table) == []


def test_a_second_export_waits_for_no_lock(spec: Spec, table: Path) -> None:
    export(spec, table)
    descriptor = os.open(table, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        refused("another export into .* is at work", spec, table)
    finally:
        os.close(descriptor)
    export(spec, table)


def test_a_file_that_is_gone_is_not_published(spec: Spec, table: Path) -> None:
    version = export(spec, table).version
    unfinished(spec, table)
    log = opened(spec, table)
    ranges = [*log.finished().values()]
    (table / ranges[3].path).unlink()
    raises(RefusedError, "is not as it was written", log.publish, ranges)
    assert by_task(rows(table, version)) == by_task(rows(table)) == expected()


def test_a_store_that_changes_meanwhile(spec: Spec, table: Path) -> None:
    """Ranges of one task would be of different moments."""
    log, source = opened(spec, table), rows_of_spec(spec)
    tasks = [_task_of(source, each, table) for each in source.tasks(16 << 10)]
    with open_store(spec.source_path / "0_1/rocksdb/orders") as store:
        store[b"new"] = b"later"
    error = raises(
        SourceChangedError,
        "0_1/orders has changed",
        lambda: _ranges(log, source, tasks, spec, in_process, is_alone=True),
    )
    assert "stateferry snapshot" in error.hint
    assert len(log.finished()) == 0 or {each.task for each in opened(spec, table).finished().values()} == {"0_0"}
    assert rows(table) == []
    export(spec, table)
    assert by_task(rows(table))["0_1"][b"new"] == b"later"


def test_a_damaged_file_ends_it_and_the_table_stays(spec: Spec, table: Path) -> None:
    version = export(spec, table).version
    largest = max((spec.source_path / "0_2/rocksdb/orders").glob("*.sst"), key=lambda file: file.stat().st_size)
    flip_byte(largest, largest.stat().st_size // 2)
    raises(CorruptionError, "", export, spec, table)
    assert by_task(rows(table)) == expected()
    flip_byte(largest, largest.stat().st_size // 2)
    assert export(spec, table).kept_ranges > 0
    assert by_task(rows(table)) == by_task(rows(table, version)) == expected()


def test_a_record_that_cannot_be_decoded_ends_it(tmp_path: Path, table: Path) -> None:
    make_store(tmp_path / "old", {**numbered(2000), b"key-\xff": b"1"})
    text = {"from": {"serde": "string"}, "to": {"serde": "string"}}
    error = raises(ConversionError, "", export, raw_spec(tmp_path, tmp_path / "old", conversion={"key": text}), table)
    assert error.key == b"key-\xff"
    assert rows(table) == []


def test_a_full_disk(tmp_path: Path) -> None:
    records = numbered(30_000, value_size=400)
    make_store(tmp_path / "old", records)
    spec = raw_spec(tmp_path, tmp_path / "old", run={"chunk_size": "1 MiB"})
    with small_disk(tmp_path / "disk", "16m") as disk:
        table, filler = disk / "table", disk / "filler"
        filler.write_bytes(bytes(8 << 20))
        error = raises(ChunkFailedError, "No space left on device", export, spec, table)
        assert "make space" in error.hint
        assert rows(table) == []
        assert not [*table.rglob("*.tmp")]
        filler.unlink()
        report = export(spec, table)
        assert report.kept_ranges > 0
        assert {row["key"]: row["value"] for row in rows(table)} == records


def test_an_old_store_that_is_not_made_from_its_changelog_yet(tmp_path: Path) -> None:
    spec = Spec(
        name="back",
        work_dir=tmp_path / "work",
        source={"format": KEY_VALUE, "store": "orders", "changelog": True, "subtopology": 0},
        target={"format": KEY_VALUE, "path": tmp_path / "new/app"},
        changelog={"bootstrap": "localhost:1", "application_id": "app"},
    )
    error = raises(MigrationError, "the old store is not made from its changelog yet", export, spec, tmp_path / "out")
    assert "stateferry restore SPEC makes it" in error.hint
