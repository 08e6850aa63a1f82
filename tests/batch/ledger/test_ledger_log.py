"""The ledger's log has every row; a data file renders each commit, and either is written again from the other."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from migrate.batch.ledger.delta_log import LedgerLog, repair, write_part
from migrate.batch.ledger.table import Ledger, read_repaired
from migrate.errors import DamagedLedgerError, RefusedError
from migrate.model.ledger_row import Step, as_rows, chunk_row
from tests.shared.builders import receipt
from tests.support import read_delta, read_ledger


@pytest.fixture
def home(tmp_path: Path) -> Path:
    ledger = Ledger(tmp_path, "m", "r1")
    ledger.commit(*(chunk_row(receipt(bytes([number]), bytes([number + 1]), number=number)) for number in (254, 7)))
    ledger.commit(ledger.row(Step.ASSEMBLED, store_partition="0_0/\u2028orders", detail={"folder": "new/\u00e9\n"}))
    return tmp_path


def _flip(file: Path) -> None:
    """One bit of the first row."""
    content = file.read_bytes()
    at = content.index(b'\\"m\\"') + 2 if b'\\"m\\"' in content else content.index(b"stateferry.rows")
    file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])


def _entries(home: Path) -> list[Path]:
    return sorted((home / "ledger/_delta_log").glob("*.json"))


def _data_of(entry: Path) -> Path:
    (added,) = [json.loads(line)["add"] for line in entry.read_bytes().splitlines() if b'"add"' in line]
    return entry.parents[1] / str(added["path"])


def test_other_readers_of_delta_tables_see_the_same_rows(home: Path) -> None:
    rows = read_ledger(home)
    assert len(rows) == 4
    table = as_rows(read_delta(home / "ledger"), "the table")
    assert table == rows


def test_what_is_committed_meanwhile_is_seen(home: Path) -> None:
    log = LedgerLog(home)
    log.rows()
    Ledger(home, "m", "r2").commit(chunk_row(receipt(number=3)))
    assert log.rows() == read_ledger(home)
    assert log.rows()[-1].store_partition == "db"


@pytest.mark.parametrize("which", [1, -1])
@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: file.write_bytes(b"")])
def test_a_lost_data_file_is_written_again_with_its_entry(
    which: int, spoil: Callable[[Path], object], home: Path
) -> None:
    log = LedgerLog(home)
    before = log.rows()
    spoil(_data_of(_entries(home)[which]))
    assert read_ledger(home) == before
    assert read_repaired(home) == read_ledger(home) == log.rows() == before
    assert as_rows(read_delta(home / "ledger"), "the table") == before
    assert repair(LedgerLog(home)) == ()


@pytest.mark.parametrize("which", [0, 1, 2, -1])
@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: file.write_bytes(b""), _flip])
def test_a_lost_entry_is_written_again_from_its_data_file(
    which: int, spoil: Callable[[Path], object], home: Path
) -> None:
    log = LedgerLog(home)
    before = log.rows()
    entry = _entries(home)[which]
    if (which, spoil) == (-1, Path.unlink):
        return  # nothing tells that there was one
    spoil(entry)
    assert read_ledger(home) == before
    assert read_repaired(home) == read_ledger(home) == log.rows() == before
    assert repair(LedgerLog(home)) == ()
    assert as_rows(read_delta(home / "ledger"), "the table") == before


def test_what_is_damaged_is_set_aside_as_it_was_found(home: Path) -> None:
    entry, file = _entries(home)[1], _data_of(_entries(home)[2])
    _flip(entry)
    file.write_bytes(b"torn")
    found, sentences = entry.read_bytes(), list[str]()
    read_repaired(home, sentences.append)
    aside = home / "ledger-damaged"
    assert (aside / entry.name).read_bytes() == found
    assert (aside / file.name).read_bytes() == b"torn"
    assert sentences == [
        f"the ledger was damaged, and is repaired: {entry.name}, {file.name}; as found, they are in {aside}"
    ]


def test_a_repair_removes_checkpoints_which_may_name_what_is_lost(home: Path) -> None:
    DeltaTable(str(home / "ledger")).create_checkpoint()
    log = home / "ledger/_delta_log"
    assert [*log.glob("*checkpoint*")]
    _flip(_entries(home)[1])
    read_repaired(home)
    assert [*log.glob("*checkpoint*")] == []
    assert as_rows(read_delta(home / "ledger"), "the table") == read_ledger(home)


def test_an_entry_in_the_place_of_another_is_not_read(home: Path) -> None:
    before = read_ledger(home)
    shutil.copy(_entries(home)[1], _entries(home)[3])
    assert read_ledger(home) == read_repaired(home) == before


def test_a_data_file_in_the_place_of_another_stands_in_for_no_entry(home: Path) -> None:
    entry = _entries(home)[3]
    shutil.copy(_data_of(_entries(home)[1]), _data_of(entry))
    _flip(entry)
    with pytest.raises(DamagedLedgerError):
        read_ledger(home)


def test_a_lost_row_is_read_once_its_data_file_is_back(home: Path) -> None:
    before, entry = read_ledger(home), _entries(home)[2]
    file = _data_of(entry)
    content = file.read_bytes()
    file.write_bytes(b"")
    _flip(entry)
    log = LedgerLog(home)
    for _ in range(2):
        with pytest.raises(DamagedLedgerError):
            log.rows()
    file.write_bytes(content)
    assert log.rows() == before


@pytest.mark.parametrize("left", [0, 1, 2])
def test_entries_that_are_all_lost_are_written_again_but_for_one_that_may_not_have_been_committed(
    left: int, home: Path
) -> None:
    before, log = read_ledger(home), home / "ledger/_delta_log"
    for entry in _entries(home)[left:]:
        entry.unlink()
    if not left:
        shutil.rmtree(log)
    assert read_ledger(home) == read_repaired(home) == before[:-1]
    assert repair(LedgerLog(home)) == ()
    Ledger(home, "m", "r2")
    assert as_rows(read_delta(home / "ledger"), "the table") == read_ledger(home)


@pytest.mark.parametrize("which", [1, -1])
def test_a_row_that_is_lost_in_both_its_copies_is_not_read(which: int, home: Path) -> None:
    log = LedgerLog(home)
    before = log.rows()
    entry = _entries(home)[which]
    _data_of(entry).write_bytes(b"")
    _flip(entry)
    with pytest.raises(DamagedLedgerError, match="stateferry run SPEC repairs it"):
        read_ledger(home)
    assert read_repaired(home) == log.rows() == read_ledger(home)
    assert len(log.rows()) < len(before)
    assert len(_entries(home)) == 4, "the version stays taken"


def test_a_version_without_a_trace_is_a_gap(home: Path) -> None:
    entry = _entries(home)[2]
    _data_of(entry).unlink()
    entry.unlink()
    for ask in (read_ledger, read_repaired):
        with pytest.raises(RefusedError, match="lacks 1 entries before"):
            ask(home)


def test_a_table_that_another_program_compacts_and_checkpoints_keeps_its_rows(home: Path) -> None:
    before = read_ledger(home)
    table = DeltaTable(str(home / "ledger"))
    table.optimize.compact()
    table.create_checkpoint()
    assert read_repaired(home) == read_ledger(home) == before
    Ledger(home, "m", "r2").commit(chunk_row(receipt(number=3)))
    assert as_rows(read_delta(home / "ledger"), "the table") == read_ledger(home)
    _data_of(_entries(home)[1]).unlink()
    assert repair(LedgerLog(home)) == (), "that program may remove what it has taken out"
    assert read_repaired(home)[: len(before)] == before
    assert as_rows(read_delta(home / "ledger"), "the table") == read_ledger(home)


def test_what_another_program_takes_away_stays_in_the_ledger(home: Path) -> None:
    before = read_ledger(home)
    newest = _entries(home)[-1]
    removed = {"path": _data_of(newest).name, "deletionTimestamp": 1, "dataChange": True}
    (newest.parent / f"{int(newest.stem) + 1:020d}.json").write_text(json.dumps({"remove": removed}) + "\n")
    assert read_ledger(home) == before


def test_a_ledger_that_was_started_again_is_another_one(home: Path) -> None:
    log = LedgerLog(home)
    log.rows()
    (home / "ledger").rename(home / "of-before")
    Ledger(home, "other", "r2")
    assert [row.run_id for row in log.rows()] == ["r2"]


def test_a_ledger_that_was_started_again_is_another_one_though_its_entries_have_the_inodes_of_the_first(
    home: Path, tmp_path: Path
) -> None:
    log = LedgerLog(home)
    log.rows()
    another = Ledger(tmp_path / "another", "m", "r2")
    while len(_entries(tmp_path / "another")) < len(_entries(home)):
        another.commit(another.row(Step.RUN))
    for entry, other in zip(_entries(home), _entries(tmp_path / "another"), strict=True):
        entry.write_bytes(other.read_bytes())
    assert log.rows() == [*another.rows]


def test_no_byte_of_an_entry_changes_unnoticed(home: Path) -> None:
    entry = _entries(home)[1]
    content = entry.read_bytes()
    for at in range(len(content)):
        entry.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert LedgerLog(home).entries()[1].flaw, at


def test_another_program_may_change_the_table(home: Path) -> None:
    before = read_ledger(home)
    DeltaTable(str(home / "ledger")).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    assert "stateferry" in _entries(home)[-1].read_text(), "in the table's name"
    assert read_ledger(home) == before
    assert repair(LedgerLog(home)) == ()
    Ledger(home, "m", "r2")
    assert as_rows(read_delta(home / "ledger"), "the table") == read_ledger(home)


def test_a_data_file_with_other_rows_is_written_again(home: Path) -> None:
    before, file = read_ledger(home), _data_of(_entries(home)[1])
    size = file.stat().st_size
    write_part(file.parent, 1, [before[0].model_copy(update={"run_id": "r2"})]).replace(file)
    assert file.stat().st_size == size
    assert repair(LedgerLog(home)) == (file,)
    assert as_rows(read_delta(home / "ledger"), "the table") == read_ledger(home) == before


def test_a_data_file_with_columns_of_other_types_stands_in_for_no_entry(home: Path) -> None:
    entry = _entries(home)[1]
    content = pq.read_table(_data_of(entry))
    at = content.schema.get_field_index("run_id")
    pq.write_table(content.set_column(at, "run_id", content["run_id"].cast(pa.binary())), _data_of(entry))
    _flip(entry)
    with pytest.raises(DamagedLedgerError):
        read_ledger(home)


def test_the_data_file_of_a_run_that_came_too_late_stands_in_for_no_entry(home: Path) -> None:
    entry, row = _entries(home)[1], read_ledger(home)[0]
    write_part(home / "ledger", 1, [row.model_copy(update={"run_id": "late"})])
    _data_of(entry).write_bytes(b"")
    _flip(entry)
    with pytest.raises(DamagedLedgerError):
        read_ledger(home)
    assert "late" not in {row.run_id for row in read_repaired(home)}
