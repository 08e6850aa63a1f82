"""Retries, as an onlooker counts them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from migrate.attempts import AttemptsSeen
from migrate.plan_model import Chunk
from migrate.receipt import Receipt, attempt_name
from migrate.rewriting import chunk_directory
from tests.migrate.builders import chunk, receipt

FIRST, SECOND = chunk(0, None, b"m"), chunk(1, b"m", None)


@pytest.fixture
def seen(tmp_path: Path) -> AttemptsSeen:
    return AttemptsSeen.of(tmp_path, "aaa", [FIRST, SECOND])


def _begin(home: Path, number: int, *, run: str = "aaa", partition: str = "db") -> Path:
    file = chunk_directory(home, partition, ".") / f"{attempt_name(run, number)}.0.sst"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x")
    return file


def _done(file: Path, of: Chunk, *, run: str = "aaa") -> Receipt:
    made = receipt(of.keys.start, of.keys.end, number=of.number)
    return made.model_copy(update={"attempt": file.name.partition(".")[0], "run_id": run})


def _counts(seen: AttemptsSeen) -> tuple[int, int]:
    return seen.at_work, seen.retries


def test_a_first_attempt_is_no_retry(tmp_path: Path, seen: AttemptsSeen) -> None:
    seen.look([], [FIRST, SECOND])
    assert _counts(seen) == (0, 0)
    file = _begin(tmp_path, 0)
    _begin(tmp_path, 1)
    seen.look([], [FIRST, SECOND])
    assert _counts(seen) == (2, 0)
    assert seen.last_write == pytest.approx(file.stat().st_mtime, abs=60)
    seen.look([_done(file, FIRST)], [SECOND])
    assert _counts(seen) == (1, 0)


def test_an_attempt_that_vanished_and_was_made_again_is_one(tmp_path: Path, seen: AttemptsSeen) -> None:
    file = _begin(tmp_path, 0)
    seen.look([], [FIRST, SECOND])
    file.unlink()
    seen.look([], [FIRST, SECOND])
    assert _counts(seen) == (0, 0)
    again = _begin(tmp_path, 0)
    seen.look([], [FIRST, SECOND])
    assert _counts(seen) == (1, 1)
    seen.look([_done(again, FIRST)], [SECOND])
    assert _counts(seen) == (0, 1)


def test_what_a_dead_worker_left_counts_at_the_first_look(tmp_path: Path, seen: AttemptsSeen) -> None:
    _begin(tmp_path, 0)
    seen.look([_done(_begin(tmp_path, 0), FIRST)], [SECOND])
    assert _counts(seen) == (0, 1)


def test_other_runs_and_other_store_partitions_are_other_work(tmp_path: Path, seen: AttemptsSeen) -> None:
    _begin(tmp_path, 0)
    _begin(tmp_path, 0, run="bbb")
    _begin(tmp_path, 0, partition="0_1/orders")
    (tmp_path / "chunks" / "aaa-db-0.breadcrumb").touch()
    seen.look([], [FIRST, SECOND])
    assert seen.retries == 0


def _pieces() -> Iterator[Chunk]:
    yield chunk(0, None, b"f")
    yield chunk(0, b"k", b"m")


def test_ranges_of_one_chunk_that_were_left_apart_are_no_retries(tmp_path: Path) -> None:
    seen = AttemptsSeen.of(tmp_path, "aaa", _pieces())
    _begin(tmp_path, 0)
    _begin(tmp_path, 0)
    seen.look([], list(_pieces()))
    assert _counts(seen) == (1, 0)
    _begin(tmp_path, 0)
    seen.look([], list(_pieces()))
    assert seen.retries == 1
