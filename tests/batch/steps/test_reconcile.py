"""Files against the ledger at the start of a run: what is taken over, what is removed, and what is left alone."""

import shutil
from pathlib import Path

import pytest

from migrate.batch.context import Context
from migrate.batch.ledger.receipts_in_force import Revision
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger
from migrate.batch.steps.assemble import LINKS
from migrate.batch.steps.reconcile import reconcile, revise
from migrate.model.key_range import KeyRange
from migrate.model.ledger_row import chunk_row
from migrate.model.receipt import Receipt
from tests.shared.builders import PARTITION, chunk, plan, rewrite
from tests.support import make_store, numbered, raw_spec, read_family, read_ledger

OLDER = "r"
"""The run that `rewrite` writes for; it has a row in the ledger."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "old", numbered(100))


@pytest.fixture
def context(store: Path, tmp_path: Path) -> Context:
    context = Context(raw_spec(tmp_path, store))
    Ledger(context.home, "m", OLDER)
    return context


def _reconcile(context: Context) -> tuple[list[Receipt], Ledger]:
    _open(context)
    reconcile(context)
    return context.standing.receipts, context.ledger


def _open(context: Context) -> None:
    context.standing = Standing(context.home, read_ledger(context.home), plan())
    context.open_ledger("m")


def test_a_receipt_that_was_not_committed_is_adopted(context: Context, store: Path) -> None:
    found = rewrite(context.home, store, chunk(0, None, b"key-00000050"))
    (mine,), ledger = _reconcile(context)
    assert (mine.keys, mine.written[0].digest) == (found.keys, found.written[0].digest)
    assert mine.run_id == context.run_id
    assert Standing(context.home, ledger.rows).recorded == [mine]
    assert not (context.home / found.files[0]).exists()


def test_what_reaches_into_a_committed_interval_is_not_taken_over(context: Context, store: Path) -> None:
    done = rewrite(context.home, store, chunk(0, None, b"key-00000050"))
    Ledger(context.home, "m", OLDER).commit(chunk_row(done))
    late = rewrite(context.home, store, chunk(1, b"key-00000040", b"key-00000090"))
    in_force, ledger = _reconcile(context)
    assert in_force == Standing(context.home, ledger.rows).recorded == [done]
    assert not (context.home / late.files[0]).exists()


def test_of_two_attempts_at_one_interval_one_is_taken_over(context: Context, store: Path) -> None:
    for _ in range(2):
        rewrite(context.home, store, chunk(0, None, b"key-00000050"))
    in_force, ledger = _reconcile(context)
    assert [receipt.keys for receipt in in_force] == [KeyRange(end=b"key-00000050")]
    assert len(Standing(context.home, ledger.rows).recorded) == 1


def test_a_receipt_without_its_files_is_no_receipt(context: Context, store: Path) -> None:
    found = rewrite(context.home, store, chunk())
    (context.home / found.files[0]).unlink()
    assert _reconcile(context)[0] == []


def test_what_a_run_that_the_ledger_does_not_know_makes_is_left_alone(context: Context, store: Path) -> None:
    """A newer run: its driver may have lost this host's ledger to us, its workers do not know yet."""
    live = rewrite(context.home, store, chunk())
    folder = (context.home / live.files[0]).parent
    for file in list(folder.iterdir()):
        file.rename(file.with_name(file.name.replace(f"{OLDER}-", "ffffffffffff-", 1)))
    (folder / ".ffffffffffff-000001-0123abcd.receipt.json.7.tmp").touch()
    shutil.copytree(store, context.home / "new" / "ffffffffffff" / PARTITION.id)
    shutil.copytree(folder, context.home / "new" / "ffffffffffff" / LINKS)
    beside = context.spec.base_dir / ".new.stateferry-ffffffffffff"
    beside.mkdir()
    before = sorted(context.home.glob("[cn]*/**/*"))
    assert _reconcile(context)[0] == []
    assert sorted(context.home.glob("[cn]*/**/*")) == before
    assert beside.is_dir()


def test_what_an_older_run_left_is_removed(context: Context, store: Path) -> None:
    left = rewrite(context.home, store, chunk())
    file = context.home / left.files[0]
    file.with_name(f"{left.attempt}.receipt.json").unlink()
    shutil.copytree(store, context.home / "new" / OLDER / PARTITION.id)
    beside = context.spec.base_dir / f".new.stateferry-{OLDER}"
    beside.mkdir()
    _reconcile(context)
    assert [path.exists() for path in (file, context.home / "new" / OLDER, beside)] == [False] * 3


def test_an_old_store_is_not_removed_from_any_place(context: Context, store: Path) -> None:
    """A cut-over that was killed leaves it where the new one was, and a damaged ledger may not tell."""
    shutil.copytree(store, context.home / "snapshot" / PARTITION.id)
    slot = Path(shutil.copytree(store, context.home / "new" / OLDER / PARTITION.id))
    _reconcile(context)
    assert read_family(slot) == numbered(100)


def test_a_receipt_of_a_function_that_was_replaced_is_not_adopted(context: Context, store: Path) -> None:
    found = rewrite(context.home, store, chunk())
    _open(context)
    revise(context, Revision(number=1, function={"function": "2:another"}, by="me"))
    reconcile(context)
    assert context.standing.receipts == []
    assert not (context.home / found.files[0]).exists()


def test_a_receipt_of_a_revision_whose_row_is_lost_does_not_count(context: Context, store: Path) -> None:
    found = rewrite(context.home, store, chunk())
    _open(context)
    context.commit(chunk_row(found.model_copy(update={"revision": "1-abc"})))
    reconcile(context)
    assert context.standing.receipts == []
