"""What is left to do: the plan without the intervals that are done."""

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from migrate.batch.ledger.receipts_in_force import pending_chunks, totals_of
from migrate.batch.ledger.standing import Standing
from migrate.model.key_range import KeyRange
from migrate.model.ledger_row import Row, Step, chunk_row
from migrate.model.plan import Chunk
from tests.shared.builders import chunk, plan, receipt, written

BOUNDS = st.lists(st.integers(1, 255), unique=True, max_size=12)


def _tiles(bounds: list[int]) -> list[KeyRange]:
    edges = [None, *(bytes([bound]) for bound in sorted(bounds)), None]
    return [KeyRange(start=start, end=end) for start, end in pairwise(edges)]


@given(old=BOUNDS, new=BOUNDS, finished=st.sets(st.integers(0, 12)))
def test_a_resume_with_other_chunks_does_exactly_the_rest(old: list[int], new: list[int], finished: set[int]) -> None:
    done = [keys for number, keys in enumerate(_tiles(old)) if number in finished]
    receipts = [receipt(keys.start, keys.end) for keys in done]
    chunks = [chunk(number, keys.start, keys.end) for number, keys in enumerate(_tiles(new))]
    pending = pending_chunks(plan(*chunks), receipts)
    for key in (b"", *(bytes([value]) for value in range(256))):
        assert sum(key in part.keys for part in pending) == (not any(key in keys for keys in done))
    by_number = {made.number: made.keys for made in chunks}
    for part in pending:
        assert (by_number[part.number].start or b"") <= (part.keys.start or b"")


def test_nothing_done_leaves_the_plan_as_it_is() -> None:
    chunks = (chunk(0, None, b"m"), chunk(1, b"m", None))
    assert pending_chunks(plan(*chunks), []) == list(chunks)


def test_a_part_of_another_store_partition_is_another_part() -> None:
    chunks: list[Chunk] = [chunk(0, partition="0_0/a"), chunk(0, partition="0_1/a")]
    assert pending_chunks(plan(*chunks), [receipt(partition="0_0/a")]) == [chunks[1]]


def _row(step: Step) -> Row:
    return Row(migration_id="m", run_id="r", step=step)


def test_a_chunk_whose_file_is_gone_is_not_done(tmp_path: Path) -> None:
    (tmp_path / "there.sst").touch()
    kept = receipt(None, b"b", outputs=(written(file="there.sst"),))
    lost = receipt(b"b", b"c", number=1, outputs=(written(file="there.sst"), written(file="gone.sst")))
    without_rejects = receipt(b"c", b"d", number=2, outputs=(written(file="there.sst"),), rejects_file="gone.parquet")
    empty = receipt(b"d", None, number=3, outputs=(written(0),))
    rows = [_row(Step.RUN), *map(chunk_row, (kept, lost, without_rejects, empty)), _row(Step.ASSEMBLED)]
    assert Standing(tmp_path, rows).receipts == [kept, empty]


def test_totals_add_up() -> None:
    totals = totals_of([receipt(), receipt()])
    assert (totals.chunks, totals.records_in, totals.records_out, totals.dropped, totals.rejected) == (2, 6, 2, 2, 2)
    assert (totals.bytes_in, totals.task_seconds) == (60, 1.0)
    assert totals_of([]).chunks == 0
