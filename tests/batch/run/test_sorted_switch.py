"""What follows a run that sorts: a replay, a cut-over, the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats import StateRecord
from migrate import RejectedError, cutover, finalize, rejects, rollback, status, verify
from migrate.batch.context import Context
from migrate.batch.replay import replay_with
from migrate.batch.run import run_with
from tests.batch.run.test_partitions import PLAIN, TIMED, make_application, published, spread
from tests.batch.run.test_sorted_keys import CONVERTED, NUMBERS, RECORDS, backwards, rekeyed, sort, to_long
from tests.sorting import sorting
from tests.support import make_store, raises, raw_spec, read_families

FEW = NUMBERS[:3]
ALLOWED = ["key-change", "unclean-source"]
TURNED = {key[::-1]: value for key, value in PLAIN.items()}


def picky(record: StateRecord) -> StateRecord:
    if int(record.key) in FEW:
        raise ValueError("not this one")
    return to_long(record)


@pytest.mark.parametrize("on_reject", ["fail", "skip"])
def test_a_replay_sorts_everything_again(tmp_path: Path, on_reject: str) -> None:
    """What was rejected may get a key of any range."""
    app = make_application(tmp_path / "app", {"orders": spread(RECORDS, 2)})
    how = {"on_reject": on_reject}
    spec = rekeyed(tmp_path, app, 3, conversion={"function": picky}, run=how)
    if on_reject == "fail":
        raises(RejectedError, "not this one", sort, spec)
    else:
        raises(RejectedError, "", sort, spec)
        assert rejects(spec).rejected == len(FEW)
    assert not (tmp_path / "new").exists()
    fixed = rekeyed(tmp_path, app, 3, conversion={"function": to_long}, run=how)
    report = replay_with(sorting, Context(fixed))
    assert report.totals.records_out == len(RECORDS)
    assert report.verification.ok
    assert published(fixed, TIMED) == spread(CONVERTED, 3)


def test_a_cut_over_in_place_and_the_way_back(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", PLAIN)
    conversion = {"function": backwards, "allow": ALLOWED}
    spec = raw_spec(tmp_path, store, conversion=conversion, run={"chunk_size": "16 KiB"})
    spec = spec.model_copy(update={"target": spec.target.model_copy(update={"path": None})})
    run_with(sorting, Context(spec))
    assert status(spec).state == "verified"
    assert verify(spec, mode="digest").verification.ok
    cutover(spec)
    assert read_families(store)["default"] == TURNED
    rollback(spec)
    assert read_families(store)["default"] == PLAIN
    cutover(spec)
    finalize(spec)
    assert read_families(store)["default"] == TURNED
