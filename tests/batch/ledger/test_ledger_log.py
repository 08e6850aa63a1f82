"""The ledger's log holds the same rows as its table, or an error states that the table has to be read."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from migrate.batch.ledger.delta_log import IncompleteLogError, LedgerLog
from migrate.batch.ledger.table import Ledger, read_ledger, read_repaired
from migrate.errors import DamagedLedgerError, RefusedError
from migrate.model.ledger_row import LEDGER_SCHEMA, Step, chunk_row
from tests.shared.builders import receipt


@pytest.fixture
def home(tmp_path: Path) -> Path:
    ledger = Ledger(tmp_path, "m", "r1")
    ledger.commit(*(chunk_row(receipt(bytes([number]), bytes([number + 1]), number=number)) for number in (254, 7)))
    ledger.commit(ledger.row(Step.ASSEMBLED, store_partition="0_0/\u2028orders", detail={"folder": "new/\u00e9\n"}))
    return tmp_path


def _needs_the_table(home: Path) -> bool:
    with pytest.raises(IncompleteLogError):
        LedgerLog(home).rows()
    return True


def _entries(home: Path) -> list[Path]:
    return sorted((home / "ledger/_delta_log").glob("*.json"))


def test_there_is_no_ledger_yet(tmp_path: Path) -> None:
    assert _needs_the_table(tmp_path)
    assert read_ledger(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_the_log_alone_has_every_row(home: Path) -> None:
    assert LedgerLog(home).rows() == read_ledger(home)
    assert len(LedgerLog(home).rows()) == 4


def test_what_is_committed_meanwhile_is_seen(home: Path) -> None:
    log = LedgerLog(home)
    log.rows()
    Ledger(home, "m", "r2").commit(chunk_row(receipt(number=3)))
    assert log.rows() == read_ledger(home)
    assert log.rows()[-1].store_partition == "db"


@pytest.mark.parametrize("which", [1, -1])
def test_a_row_whose_data_was_lost_is_stored_again_from_its_log_entry(which: int, home: Path) -> None:
    log = LedgerLog(home)
    before = log.rows()
    entry = _entries(home)[which]
    (added,) = [json.loads(line)["add"] for line in entry.read_bytes().splitlines() if b'"add"' in line]
    (home / "ledger" / added["path"]).write_bytes(b"")
    assert read_repaired(home) == read_ledger(home) == before
    assert log.rows() == LedgerLog(home).rows() == before


@pytest.mark.parametrize("which", [1, -1])
def test_a_row_that_is_lost_in_both_its_copies_is_not_read(which: int, home: Path) -> None:
    log = LedgerLog(home)
    before = log.rows()
    entry = _entries(home)[which]
    (added,) = [json.loads(line)["add"] for line in entry.read_bytes().splitlines() if b'"add"' in line]
    (home / "ledger" / added["path"]).write_bytes(b"")
    entry.write_bytes(entry.read_bytes().replace(b'\\"m\\"', b'\\"n\\"'))
    assert read_repaired(home) == read_ledger(home)
    assert log.rows() == LedgerLog(home).rows() == read_ledger(home)
    assert len(log.rows()) < len(before)


def test_a_missing_data_file_loses_no_row(home: Path) -> None:
    before = read_ledger(home)
    next((home / "ledger").glob("*.parquet")).unlink()
    assert _needs_the_table(home)
    assert read_ledger(home) == before


@pytest.mark.parametrize("which", [1, 2])
def test_a_missing_entry_loses_no_row(which: int, home: Path) -> None:
    before = read_ledger(home)
    _entries(home)[which].unlink()
    assert _needs_the_table(home)
    assert read_ledger(home) == before


def test_a_row_that_is_lost_in_both_copies_is_damage(home: Path) -> None:
    entry = _entries(home)[2]
    (added,) = [json.loads(line)["add"] for line in entry.read_bytes().splitlines() if b'"add"' in line]
    (home / "ledger" / added["path"]).unlink()
    entry.unlink()
    assert _needs_the_table(home)
    with pytest.raises(DamagedLedgerError, match="stateferry run SPEC repairs it"):
        read_ledger(home)


def test_a_table_that_somebody_compacted_is_still_read(home: Path) -> None:
    from deltalake import DeltaTable

    before = read_ledger(home)
    DeltaTable(str(home / "ledger")).optimize.compact()
    assert _needs_the_table(home)
    assert read_ledger(home) == before


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "m", "r1")
    ledger.commit(ledger.row(Step.ASSEMBLED).model_copy(update={"schema_version": LEDGER_SCHEMA + 1}))
    with pytest.raises(RefusedError, match=f"schema {LEDGER_SCHEMA + 1}"):
        LedgerLog(tmp_path).rows()


def test_log_and_table_hold_the_same_number_of_rows(home: Path) -> None:
    """One data file for each commit: what the shortcut relies on."""
    files = list((home / "ledger").glob("*.parquet"))
    assert len(files) == len(_entries(home)) - 1
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in files) == len(LedgerLog(home).rows())


def test_a_commit_that_takes_rows_away_is_left_to_the_table(home: Path) -> None:
    newest = _entries(home)[-1]
    (added,) = [json.loads(line)["add"] for line in newest.read_bytes().splitlines() if b'"add"' in line]
    removed = {"path": added["path"], "deletionTimestamp": added["modificationTime"], "dataChange": True}
    (newest.parent / f"{int(newest.stem) + 1:020d}.json").write_text(json.dumps({"remove": removed}) + "\n")
    assert _needs_the_table(home)
    assert len(read_ledger(home)) == 3


def test_a_ledger_that_was_started_again_is_another_one(home: Path) -> None:
    log = LedgerLog(home)
    log.rows()
    (home / "ledger").rename(home / "of-before")
    Ledger(home, "other", "r2")
    assert [row.run_id for row in log.rows()] == ["r2"]
