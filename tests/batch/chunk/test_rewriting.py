"""One attempt at a chunk: what is durable when, and what it shares with other attempts: nothing."""

from pathlib import Path

import pytest

from formats import StateRecord
from migrate.batch.chunk.rewrite_chunk import rewrite_chunk
from migrate.batch.ledger.receipts_in_force import has_files
from migrate.model.receipt import read_receipt
from migrate.spec.conversion_ref import ConversionRef
from tests.shared.builders import chunk, rewrite, rewrite_task
from tests.support import RAW, make_store, numbered


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "db", numbered(100))


def test_the_receipt_lies_beside_its_files(store: Path, tmp_path: Path) -> None:
    made = rewrite(tmp_path, store, chunk())
    file = tmp_path / str(made.written[0].file)
    beside = file.with_name(f"{made.attempt}.receipt.json")
    assert read_receipt(beside) == made
    assert sorted(file.parent.iterdir()) == sorted([file, beside])


def test_two_attempts_at_one_chunk_share_no_file(store: Path, tmp_path: Path) -> None:
    """As under speculation: the twin of a task writes while the first one does, or after it."""
    first, twin = rewrite(tmp_path, store, chunk()), rewrite(tmp_path, store, chunk())
    assert first.attempt != twin.attempt
    assert set(first.files).isdisjoint(twin.files)
    assert [written.digest for written in first.written] == [written.digest for written in twin.written]


def test_an_attempt_that_fails_takes_away_its_own_files_only(store: Path, tmp_path: Path) -> None:
    def fail(record: StateRecord) -> StateRecord:
        raise OSError("the disk is gone")

    first = rewrite(tmp_path, store, chunk())
    before = sorted((tmp_path / "chunks").rglob("*"))
    with pytest.raises(OSError, match="gone"):
        rewrite_chunk(rewrite_task(tmp_path, store, chunk(), ConversionRef(RAW, RAW, function=fail)))
    assert sorted((tmp_path / "chunks").rglob("*")) == before
    assert has_files(first, tmp_path)
