"""`import`: the rows of a table become the store that they were exported from, or a new one."""

import html
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from formats import Format
from formats.registry import FORMATS, get_format
from migrate import DryRunReport, Spec, abandon, export, finalize, plan, status, verify
from migrate import report as history
from migrate.batch.context import Context
from migrate.batch.importing import pin_table
from migrate.batch.run import run_with
from migrate.queries.side_by_side import SideBySideStores
from migrate.show.output import Output
from migrate.show.page.dry_run_page import dry_run_page
from migrate.show.page.run_page import run_page
from migrate.show.text.plan_text import show_plan
from migrate.show.text.report_text import show_history, show_run, show_status
from migrate.spec.spec import parse_spec
from tests.shared.imports import (
    FORMAT,
    RETENTION,
    SEGMENT,
    TEXT,
    databases_of,
    import_here,
    import_spec,
    make_application,
    records_of,
    spread,
    stored,
    text_rows,
    write_rows,
)
from tests.sorting import sorting

KNOWN = get_format(FORMAT)
MADE_OF_ROWS = [
    known for known in FORMATS if known.kind != "versioned" and known.system in ("kafka-streams", "streamiz")
]


@pytest.mark.parametrize("known", MADE_OF_ROWS, ids=lambda known: known.id)
def test_a_store_comes_back_as_it_was(tmp_path: Path, known: Format) -> None:
    records = records_of(known)
    make_application(known, tmp_path / "old/app", spread(known, records, 2))
    segments = {"retention_ms": RETENTION, "segment_ms": SEGMENT} if known.is_segmented else {}
    old = {"name": "old", "work_dir": "work", "source": {"path": "old/app", "store": "orders", "format": known.id}}
    export(parse_spec(old | {"target": {"format": known.id}}, base_dir=tmp_path), tmp_path / "table")
    spec = import_spec(tmp_path, target={"format": known.id, **segments}, run={"chunk_size": "8 KiB"})
    report = import_here(spec, tmp_path / "table")
    assert report.verification.ok
    assert report.totals.records_in == report.totals.records_out == report.verification.records == len(records)
    assert spec.target_path is not None
    wanted = [databases_of(known, mine, "orders") for mine in spread(known, records, 3)]
    assert stored(known, spec.target_path, 3) == wanted
    assert verify(spec).verification.ok
    assert verify(spec, mode="digest").verification.ok


def test_rows_of_any_table_make_a_new_store(tmp_path: Path) -> None:
    """With nulls, partition columns, columns that say where records were, and a file from before a column was there."""
    table = tmp_path / "table"
    first = text_rows(200, value=[None if number % 50 == 7 else str(number) for number in range(200)])
    del first["timestamp"]
    write_rows(table, {**first, "task": pa.array(["0_7"] * 200), "partition": pa.array([7] * 200, pa.int32())})
    second = {name: each[200:] for name, each in text_rows(300, timestamp=[None, 5_000] * 150).items()}
    write_rows(table, second, mode="append", schema_mode="merge")
    spec = import_spec(tmp_path, conversion=TEXT | {"allow": ["changelog"]})
    report = import_here(spec, table)
    assert (report.totals.records_in, report.totals.records_out, report.totals.not_carried) == (300, 296, 4)
    assert spec.target_path is not None
    wanted = {f"key-{n:05}".encode(): (-1, str(n).encode()) for n in range(200) if n % 50 != 7}
    wanted |= {f"key-{n:05}".encode(): (5 if n % 2 else -1, f"value {n}".encode()) for n in range(200, 300)}
    records = {}
    for number, databases in enumerate(stored(KNOWN, spec.target_path, 3)):
        for key, value in databases["."].items():
            assert spread(KNOWN, {key: value}, 3)[number]
            found = KNOWN.decode(key, value)
            records[key] = (found.timestamp_ms, found.value)
    assert records == wanted
    assert export(spec, tmp_path / "again").records == 296
    (record,) = SideBySideStores(spec).get("orders", "key-00201").records
    assert (record.verdict, record.new and record.new.value) == ("gone", "value 201")


def test_a_partition_column_of_the_table_may_be_needed(tmp_path: Path) -> None:
    rows = text_rows(4, value=["a", "a b", None, "é%"])
    table = write_rows(tmp_path / "table", rows, partition_by=["value"])
    spec = import_spec(tmp_path, conversion=TEXT | {"allow": ["changelog"]})
    assert import_here(spec, table).totals.records_out == 3
    assert spec.target_path is not None
    found = [value[8:] for each in stored(KNOWN, spec.target_path, 3) for value in each.get(".", {}).values()]
    assert sorted(found) == [b"a", b"a b", "é%".encode()]


def test_a_table_without_rows_makes_an_empty_store(tmp_path: Path) -> None:
    spec = import_spec(tmp_path, conversion=TEXT | {"allow": ["changelog"]})
    assert import_here(spec, write_rows(tmp_path / "table", text_rows(0))).totals.records_out == 0
    assert spec.target_path is not None
    assert stored(KNOWN, spec.target_path, 3) == [{}, {}, {}]


def test_the_version_stays_the_same(tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table", text_rows(30))
    write_rows(table, text_rows(5), mode="overwrite")
    spec = import_spec(tmp_path, conversion=TEXT | {"allow": ["changelog"]})
    pin_table(Context(spec), table, 0)
    write_rows(table, text_rows(7), mode="overwrite")
    pin_table(Context(spec), table, None)  # the same command again, after a kill
    assert DeltaTable(str(table)).version() == 2
    assert run_with(sorting, Context(spec)).totals.records_out == 30
    assert run_with(sorting, Context(spec)).totals.records_out == 30
    done = status(spec)
    assert (done.state, "the table is as it was" in done.next_step) == ("published", True)


def test_reports_show_the_table_and_no_empty_old_store(tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table", text_rows(3000))
    spec = import_spec(tmp_path, conversion=TEXT | {"allow": ["changelog"]})
    assert status(spec).next_step == "stateferry import SPEC --from TABLE"
    for text in shown(spec, plan(spec)):
        assert "of a table, which `stateferry import` names" in text
    pin_table(Context(spec), table, None)
    found, size = plan(spec), sum(each.stat().st_size for each in table.glob("*.parquet"))
    assert (found.verdict.exit_code, found.warnings, found.found, found.tried) == (0, (), None, None)
    assert found.cost is not None
    assert found.cost.new_bytes == size
    assert size <= found.cost.required_bytes < 2 * size
    assert found.sorting is not None
    assert 30 * 3000 < found.sorting.bytes < 60 * 3000
    assert found.imported == status(spec).imported
    done = import_here(spec, table)
    texts = *shown(spec, found), " ".join(show_run(done, Output())), dry_run_page(found), run_page(history(spec))
    for text in texts:
        assert f"3,000 rows of version 0 of {table}" in " ".join(html.unescape(text).split())
        assert str(spec.source_path) not in text


def shown(spec: Spec, found: DryRunReport) -> list[str]:
    """As text, without line breaks: what `status`, `report` and `plan` say."""
    output = Output()
    texts = show_status(status(spec), output), show_history(history(spec), output), show_plan(found, output)
    return [" ".join(" ".join(lines).split()) for lines in texts]


def test_an_empty_store_that_was_made_in_part_is_made_again(tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table", text_rows(30))
    spec = import_spec(tmp_path, conversion=TEXT | {"allow": ["changelog"]})
    pin_table(Context(spec), table, None)
    (spec.home / "imported.json").unlink()  # it comes last
    shutil.rmtree(spec.source_path / "0_2")
    assert import_here(spec, table).totals.records_out == 30


def test_abandon_and_finalize_leave_no_store_that_was_made_for_it(tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table", text_rows(30))
    spec = import_spec(tmp_path, conversion=TEXT | {"allow": ["changelog"]})
    pin_table(Context(spec), table)
    abandon(spec)
    assert not spec.home.exists()
    import_here(spec, table)
    finalize(spec)
    assert not spec.source_path.exists()
    assert run_with(sorting, Context(spec)).next_step.startswith("already migrated")
    assert len(DeltaTable(str(table)).file_uris()) == 1
