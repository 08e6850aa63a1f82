"""`export`: every record is a row of the table, a version for each export, and an interrupted one goes on."""

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import pytest
from deltalake import DeltaTable

from migrate import (
    ExportReport,
    MigrationError,
    Spec,
    SpecError,
    StoreNotReadyError,
    cutover,
    export,
    finalize,
    rollback,
    run,
    snapshot,
)
from migrate.batch.chunk import executor
from migrate.batch.chunk.processes import ProcessExecutor, open_processes
from tests.rows.exported import (
    RANGES,
    SMALL_RANGES,
    TASKS,
    TEXT,
    by_task,
    entries,
    expected,
    files,
    last_actions,
    orders_spec,
    rows,
    unfinished,
)
from tests.shared.locks import WRITE_TO_STORE, another_process
from tests.support import make_store, numbered, open_store, raises, raw_spec


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return orders_spec(tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "exports" / "orders"


def store_of(spec: Spec, task: str) -> Path:
    return spec.source_path / task / "rocksdb" / "orders"


def test_each_record_is_a_row_of_its_task(spec: Spec, table: Path) -> None:
    report = export(spec, table)
    assert by_task(rows(table)) == expected()
    assert (report.store, report.side, report.table) == ("orders", "old", table)
    assert (report.ranges, report.kept_ranges, report.files) == (RANGES, 0, RANGES)
    assert report.records == sum(map(len, expected().values()))
    assert report.version == DeltaTable(str(table)).version() == len(entries(table)) - 1


def test_each_range_has_a_file_and_a_transaction(spec: Spec, table: Path) -> None:
    export(spec, table)
    found = DeltaTable(str(table))
    names = [f"{task}/orders/{number}" for task in TASKS for number in range(RANGES // 3)]
    assert len(found.file_uris()) == RANGES
    assert {found.transaction_version(f"stateferry-export/{name}") for name in names} == {1}
    assert found.transaction_version("stateferry-export") == 1
    assert found.metadata().partition_columns == ["task"]
    export(spec, table)
    assert {DeltaTable(str(table)).transaction_version(f"stateferry-export/{name}") for name in names} == {2}


def test_delta_rs_answers_queries_of_it(spec: Spec, table: Path) -> None:
    export(spec, table)
    query = "select task, count(*) as n, count(distinct key) as k from t group by task order by task"
    program = (
        "import sys; from deltalake import DeltaTable, QueryBuilder\n"
        f"found = QueryBuilder().register('t', DeltaTable(sys.argv[1])).execute({query!r}).read_all()\n"
        "print([found.column(name).to_pylist() for name in ('task', 'n', 'k')], flush=True)\n"
        "import os; os._exit(0)"
    )
    counts = [len(each) for each in expected().values()]
    done = subprocess.run([sys.executable, "-c", program, table], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([[*TASKS], counts, counts])


def test_a_later_export_shows_the_state_of_then(spec: Spec, table: Path) -> None:
    first = export(spec, table)
    with open_store(store_of(spec, "0_1")) as store:
        store[b"new"] = b"later"
        del store[next(iter(expected()["0_1"]))]
    second = export(spec, table)
    before, after = expected(), expected()
    after["0_1"] = {**dict([*after["0_1"].items()][1:]), b"new": b"later"}
    assert by_task(rows(table, first.version)) == before
    assert by_task(rows(table, second.version)) == by_task(rows(table)) == after
    assert rows(table, first.version - 1) == []
    assert by_task(rows(table, second.version - 1)) == before


def test_columns_are_chosen_and_may_be_others_next_time(tmp_path: Path, table: Path) -> None:
    spec = orders_spec(tmp_path, conversion={**TEXT, "allow": ["changelog"]})
    all_of_them = export(spec, table)
    few = export(spec, table, columns=["key", "partition"])
    assert [each.name for each in all_of_them.columns] == ["task", "partition", "key", "value"]
    assert [each.name for each in few.columns] == ["task", "key", "partition"]
    assert {row["key"].encode() for row in rows(table)} == {key for each in expected().values() for key in each}
    assert {*rows(table)[0]} == {"task", "key", "partition"}
    assert {*rows(table, all_of_them.version)[0]} == {"task", "partition", "key", "value"}
    found = [DeltaTable(str(table), version=each.version) for each in (all_of_them, few)]
    assert [[field.name for field in each.schema().fields] for each in found] == [
        ["task", "partition", "key", "value"],
        ["task", "key", "partition"],
    ]
    assert found[0].metadata().id == found[1].metadata().id
    again = export(spec, table, columns=["key", "partition"])
    assert not any("metaData" in action for action in last_actions(table))
    assert again.records == all_of_them.records


def test_an_unknown_column_is_named_before_anything_is_written(spec: Spec, table: Path) -> None:
    error = raises(SpecError, "no column 'vlue'", export, spec, table, columns=["key", "vlue"])
    assert "value" in error.hint
    assert not table.exists()


def test_each_side_can_be_exported_at_every_stage(spec: Spec, tmp_path: Path) -> None:
    table = tmp_path / "live"
    history: list[ExportReport] = []

    def live(side: str) -> None:
        history.append(export(spec, table))
        assert history[-1].side == side
        assert ("timestamp" in rows(table)[0]) == (side == "new")

    def named(side: Literal["old", "new"]) -> None:
        folder = tmp_path / side
        assert export(spec, folder, side=side).side == side
        assert by_task(rows(folder)) == expected()
        assert ("timestamp" in rows(folder)[0]) == (side == "new")

    live("old")
    raises(StoreNotReadyError, "is not assembled yet", export, spec, tmp_path / "early", side="new")
    run(spec)
    live("old")
    named("new")
    cutover(spec)
    live("new")
    named("old")
    rollback(spec)
    live("old")
    cutover(spec)
    finalize(spec)
    live("new")
    raises(MigrationError, "", export, spec, tmp_path / "late", side="old")
    assert not (tmp_path / "early").exists() and not (tmp_path / "late").exists()
    assert [by_task(rows(table, each.version)) for each in history] == [expected()] * len(history)


def test_a_snapshot_is_one_instant(tmp_path: Path, table: Path) -> None:
    spec = orders_spec(tmp_path, run={**SMALL_RANGES, "source": "snapshot"})
    snapshot(spec)
    with open_store(store_of(spec, "0_1")) as store:
        store[b"new"] = b"later"
    export(spec, table, side="snapshot")
    assert by_task(rows(table)) == expected()


def test_what_a_killed_export_had_finished_is_kept(spec: Spec, table: Path) -> None:
    before = unfinished(spec, table)
    written = files(table)
    assert rows(table) == []
    report = export(spec, table)
    assert (report.kept_ranges, report.version) == (RANGES, before.version)
    assert files(table) == written
    assert by_task(rows(table)) == expected()


def test_ranges_of_a_store_that_changed_since_are_read_again(spec: Spec, table: Path) -> None:
    unfinished(spec, table)
    with open_store(store_of(spec, "0_2")) as store:
        store[b"new"] = b"later"
    report = export(spec, table)
    assert 0 < report.kept_ranges == sum("task=0_2" not in name for name in files(table))
    after = expected()
    after["0_2"][b"new"] = b"later"
    assert by_task(rows(table)) == after


@pytest.mark.parametrize("how", ["other columns", "another side", "a file is gone", "a file is torn"])
def test_nothing_else_is_taken_for_a_finished_range(tmp_path: Path, table: Path, how: str) -> None:
    spec = orders_spec(tmp_path, run={**SMALL_RANGES, "source": "snapshot"})
    unfinished(spec, table)
    victim = sorted(table.rglob("*.parquet"))[0]
    choice: dict[str, Any] = {}
    if how == "other columns":
        choice["columns"] = ["key"]
    elif how == "another side":
        snapshot(spec)
        choice["side"] = "snapshot"
    elif how == "a file is gone":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:-1])
    report = export(spec, table, **choice)
    assert report.kept_ranges == (RANGES - 1 if "file" in how else 0)
    keys = {task: {*each} for task, each in expected().items()}
    assert {task: {row["key"] for row in rows(table) if row["task"] == task} for task in TASKS} == keys
    assert len(rows(table)) == report.records


def test_what_no_version_has_is_removed_and_what_is_not_ours_stays(spec: Spec, table: Path) -> None:
    first = export(spec, table)
    unfinished(spec, table)
    with open_store(store_of(spec, "0_0")) as store:
        store[b"new"] = b"later"
    folder = table / "task=0_0"
    stale = {path.name for path in folder.iterdir()} - {Path(uri).name for uri in DeltaTable(str(table)).file_uris()}
    torn, theirs = folder / ".part-00001-00000-0123456789ab.snappy.parquet.tmp", folder / "notes.txt"
    torn.write_bytes(b"torn")
    theirs.write_bytes(b"mine")
    export(spec, table)
    left = {path.name for path in folder.iterdir()}
    assert stale and not stale & left
    assert not torn.exists() and theirs.exists()
    assert by_task(rows(table, first.version)) == expected()


def test_a_store_in_use_is_exported_as_of_one_opening(spec: Spec, table: Path) -> None:
    with another_process(WRITE_TO_STORE, store_of(spec, "0_1")):
        report = export(spec, table)
        assert report.ranges == RANGES // 3 * 2 + 1
        after = expected()
        after["0_1"] |= {b"flushed": b"1", b"in memory": b"2"}
        assert by_task(rows(table)) == after


@pytest.mark.parametrize("engine, opened", [("auto", []), ("portable", [2])])
def test_several_jobs_write_the_same(
    tmp_path: Path, table: Path, engine: str, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the start of a process, where threads get as far."""
    found: list[int] = []

    def counted(slots: int) -> AbstractContextManager[ProcessExecutor]:
        found.append(slots)
        return open_processes(slots)

    monkeypatch.setattr(executor, "open_processes", counted)
    spec = orders_spec(tmp_path, run={**SMALL_RANGES, "engine": engine})
    report = export(spec, table, jobs=2)
    assert by_task(rows(table)) == expected()
    assert (report.ranges, found) == (RANGES, opened)
    raises(SpecError, "no work gets done by 0 processes", export, spec, table, jobs=0)


def test_a_bare_directory_has_no_task(tmp_path: Path) -> None:
    records = numbered(2000)
    make_store(tmp_path / "old", records)
    table = tmp_path / "a folder" / "table"
    report: ExportReport = export(raw_spec(tmp_path, tmp_path / "old"), str(table))
    found = rows(table)
    assert {row["key"]: row["value"] for row in found} == records
    assert {(row["task"], row["partition"]) for row in found} == {(None, None)}
    assert report.files == 1


def test_an_empty_store_is_a_table_without_rows(tmp_path: Path) -> None:
    make_store(tmp_path / "old", {b"a": b"1"})
    with open_store(tmp_path / "old") as store:
        del store[b"a"]
    report = export(raw_spec(tmp_path, tmp_path / "old"), tmp_path / "table")
    assert (report.records, report.files, report.ranges) == (0, 0, 1)
    assert rows(tmp_path / "table") == []
    make_store(tmp_path / "old", {b"b": b"2"})
    assert export(raw_spec(tmp_path, tmp_path / "old"), tmp_path / "table").records == 1
