"""The ledger: append-only, ordered, fenced, and only for its own migration."""

import errno
import os
import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable

from migrate.batch.ledger import table
from migrate.batch.ledger.delta_log import LedgerLog, repair
from migrate.batch.ledger.receipts_in_force import Revision
from migrate.batch.ledger.table import Ledger, read_repaired
from migrate.errors import ChunkFailedError, ExitCode, FencedError, RefusedError
from migrate.model.journal import Journal
from migrate.model.ledger_row import LEDGER_SCHEMA, Row, Step, StoppedRun, chunk_row, read_detail
from migrate.model.receipt import Receipt
from migrate.model.values import Stored
from tests.shared.builders import receipt
from tests.support import raises, read_ledger


def _steps(rows: list[Row]) -> list[str]:
    return [str(row.step) for row in rows]


def test_there_is_no_ledger_yet(tmp_path: Path) -> None:
    assert read_ledger(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_hard_links_is_refused_before_delta_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", refuse)
    raises(RefusedError, "cannot make a hard link", Ledger, tmp_path, "m", "r1")
    assert not (tmp_path / "ledger" / "_delta_log").exists()


def test_rows_are_read_back_as_they_were_committed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "m", "r1")
    made = [receipt(None, b"\x00\xff", number=0), receipt(b"\x00\xff", None, number=1)]
    ledger.commit(*(chunk_row(one) for one in made))
    ledger.commit(ledger.row(Step.ASSEMBLED, store_partition="0_0/orders", detail={"folder": "new/r1/0_0/orders"}))
    rows = read_ledger(tmp_path)
    assert tuple(rows) == ledger.rows
    assert _steps(rows) == ["run", "chunk", "chunk", "assembled"]
    assert [row.sequence for row in rows] == [1, 2, 2, 3]
    assert [Receipt.model_validate_json(row.detail) for row in rows[1:3]] == made
    assert [row.keys for row in rows[1:3]] == [one.keys for one in made]
    assert (rows[1].records_in, rows[1].records_out, rows[1].rejected, rows[1].dropped) == (3, 1, 1, 1)
    assert (rows[3].store_partition, rows[3].facts) == ("0_0/orders", {"folder": "new/r1/0_0/orders"})
    assert all(row.committed_at_ms > 1_700_000_000_000 for row in rows)


def test_a_later_run_goes_on_where_the_first_one_stopped(tmp_path: Path) -> None:
    Ledger(tmp_path, "m", "r1").commit(chunk_row(receipt()))
    rows = Ledger(tmp_path, "m", "r2").rows
    assert [(row.run_id, str(row.step)) for row in rows] == [("r1", "run"), ("r", "chunk"), ("r2", "run")]


def test_a_second_run_fences_the_first_one_off(tmp_path: Path) -> None:
    first = Ledger(tmp_path, "m", "r1")
    first.commit(chunk_row(receipt(number=0)))
    second = Ledger(tmp_path, "m", "r2")
    with pytest.raises(FencedError, match="another run") as caught:
        first.commit(chunk_row(receipt(number=1)))
    assert caught.value.exit_code is ExitCode.REFUSED
    with pytest.raises(FencedError):
        first.commit(chunk_row(receipt(number=1)))
    second.commit(chunk_row(receipt(number=2)))
    numbers = [Receipt.model_validate_json(row.detail).number for row in read_ledger(tmp_path) if row.step == "chunk"]
    assert numbers == [0, 2]


@pytest.mark.parametrize("step", ["write_part", "as_entry", "write_new"])
def test_a_run_that_takes_over_within_a_commit_wins(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Ledger(tmp_path, "m", "r1")
    real = getattr(table, step)
    second: list[Ledger] = []

    def take_over(*arguments: object) -> object:
        monkeypatch.setattr(table, step, real)
        second.append(Ledger(tmp_path, "m", "r2"))
        return real(*arguments)

    monkeypatch.setattr(table, step, take_over)
    for _ in range(2):
        with pytest.raises(FencedError):
            first.commit(chunk_row(receipt(number=1)))
    second[0].commit(chunk_row(receipt(number=2)))
    assert tuple(read_ledger(tmp_path)) == second[0].rows
    assert [row.run_id for row in second[0].rows if row.step == "run"] == ["r1", "r2"]
    assert DeltaTable(str(tmp_path / "ledger")).version() == 3


def test_the_number_of_a_torn_commit_stays_taken(tmp_path: Path) -> None:
    """Or the commits after it would not have the numbers that their places in the log require."""
    first = Ledger(tmp_path, "m", "r1")
    Ledger(tmp_path, "m", "r2")
    newest = max((tmp_path / "ledger" / "_delta_log").glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:40])
    lost = max((tmp_path / "ledger").glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    lost.write_bytes(lost.read_bytes()[:40])
    assert [row.run_id for row in read_repaired(tmp_path)] == ["r1"]
    with pytest.raises(FencedError):
        first.commit(chunk_row(receipt()))
    assert [row.run_id for row in Ledger(tmp_path, "m", "r3").rows] == ["r1", "r3"]
    assert repair(LedgerLog(tmp_path)) == ()
    assert [row.run_id for row in read_repaired(tmp_path)] == ["r1", "r3"]


@pytest.mark.parametrize("number", [5000, 10**12], ids=["thousands", "more than can be listed"])
def test_a_file_with_a_far_number_is_named_and_the_gap_before_it_is_not_filled(number: int, tmp_path: Path) -> None:
    Ledger(tmp_path, "m", "r1").commit(chunk_row(receipt()))
    log = tmp_path / "ledger" / "_delta_log"
    (log / f"{number:020d}.json").write_text("{}\n")
    found = sorted(log.iterdir())
    for ask in (read_ledger, read_repaired, lambda home: Ledger(home, "m", "r2")):
        refused = raises(RefusedError, rf"lacks {number - 3:,} entries before .*{number:020d}\.json", ask, tmp_path)
        assert "move it out of the directory" in refused.hint
    assert sorted(log.iterdir()) == found


def test_a_run_that_was_refused_before_it_had_a_plan_does_not_bind_the_ledger(tmp_path: Path) -> None:
    Ledger(tmp_path, "mistaken", "r1")
    Ledger(tmp_path, "m", "r2").commit(chunk_row(receipt()))
    assert _steps(read_ledger(tmp_path)) == ["run", "run", "chunk"]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "m", "r1")
    ledger.commit(ledger.row(Step.ASSEMBLED).model_copy(update={"schema_version": LEDGER_SCHEMA + 1}))
    raises(RefusedError, f"has schema {LEDGER_SCHEMA + 1}", Ledger, tmp_path, "m", "r2")
    raises(RefusedError, "newer Stateferry", read_ledger, tmp_path)


def test_of_racing_runs_at_most_one_can_commit_in_the_end(tmp_path: Path) -> None:
    opened: list[Ledger] = []
    refused: list[Exception] = []
    gate = threading.Barrier(4)

    def open_ledger(run_id: str) -> None:
        gate.wait()
        try:
            opened.append(Ledger(tmp_path, "m", run_id))
        except FencedError as error:
            refused.append(error)

    threads = [threading.Thread(target=open_ledger, args=(f"r{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) + len(refused) == 4
    assert opened
    commits = 0
    for ledger in opened:
        try:
            ledger.commit(chunk_row(receipt()))
            commits += 1
        except FencedError:
            continue
    assert commits == 1
    rows = read_ledger(tmp_path)
    assert len({row.sequence for row in rows}) == len(rows)


def test_the_table_is_append_only_and_keeps_its_log(tmp_path: Path) -> None:
    Ledger(tmp_path, "m", "r1")
    configuration = DeltaTable(str(tmp_path / "ledger")).metadata().configuration
    assert configuration == {"delta.appendOnly": "true", "delta.enableExpiredLogCleanup": "false"}


def test_a_commit_is_synced_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path, "m", "r1")
    synced: list[Path] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    ledger.commit(chunk_row(receipt()))
    log = tmp_path / "ledger" / "_delta_log"
    assert [path.suffix for path in synced] == [".tmp", ""]
    assert synced[0].name.startswith(".00000000000000000002.json.")
    assert synced[1] == log


def test_a_commit_whose_last_sync_fails_is_not_blamed_on_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path, "m", "r1")
    entry = tmp_path / "ledger" / "_delta_log" / "00000000000000000002.json"

    def fail(_: int) -> None:
        if entry.exists():
            raise OSError(errno.EIO, "no sync")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ChunkFailedError, match="no sync"):
        ledger.commit(chunk_row(receipt()))
    ledger.check_not_fenced()
    monkeypatch.undo()
    with pytest.raises(FencedError):  # nothing follows a commit that may not be durable
        ledger.commit(chunk_row(receipt()))


def test_what_is_found_is_synced_before_anything_follows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that wrote the newest commit may have been killed before it was durable."""
    Ledger(tmp_path, "m", "r1").commit(chunk_row(receipt()))
    log = tmp_path / "ledger" / "_delta_log"
    synced: list[tuple[Path, int]] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").resolve(), len(list(log.glob("*.json")))))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    Ledger(tmp_path, "m", "r2")
    assert {(log / "00000000000000000002.json", 3), (log, 3)} <= set(synced)


def test_more_commits_than_a_checkpoint_takes(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "m", "r1")
    for number in range(120):
        ledger.commit(chunk_row(receipt(number=number)))
    numbers = [Receipt.model_validate_json(row.detail).number for row in read_ledger(tmp_path) if row.step == "chunk"]
    assert numbers == list(range(120))
    Ledger(tmp_path, "m", "r2")
    with pytest.raises(FencedError):
        ledger.commit(chunk_row(receipt()))


@pytest.mark.parametrize("kind", [Receipt, Revision, Journal, StoppedRun])
def test_a_detail_of_a_newer_release_is_refused(kind: type[Stored]) -> None:
    row = Row(migration_id="1f", run_id="r1", step=Step.CHUNK, detail='{"of a newer release": 1}')
    refused = raises(RefusedError, "something in the ledger cannot be understood", read_detail, row, kind, "something")
    assert refused.hint == "use the newer Stateferry that wrote it"
