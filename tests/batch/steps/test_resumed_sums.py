"""A full verification of sorted keys that was killed goes on where it stopped, and finds what it would have found."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import Spec, VerificationError, status, verify
from migrate.batch.chunk.sorting import SortWork
from migrate.batch.ledger.standing import Standing
from migrate.batch.steps import comparisons
from migrate.model.ledger_row import Step
from tests.batch.steps import test_sorted_verification as damage
from tests.batch.steps.test_sorted_verification import RECORDS, Store
from tests.batch.switch.support import StopAt, StoppedError
from tests.shared.imports import TEXT, import_here, import_spec, text_rows, write_rows
from tests.support import raises, read_ledger


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each task has added up is committed."""
    monkeypatch.setattr(comparisons, "SECONDS_BETWEEN_COMMITS", 0.0)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """A migration whose new stores are verified and published."""
    spec = damage._spec(tmp_path)
    damage._run(spec)
    return spec


def _killed(spec: Spec, commits: int) -> None:
    raises(StoppedError, "", verify, spec, on_event=StopAt("verify.ranges-committed", commits))
    assert len(Standing(spec.home, read_ledger(spec.home)).compared_so_far) == commits


def _tasks(spec: Spec) -> int:
    """How many commits a whole verification makes."""
    whole = StopAt()
    verify(spec, on_event=whole)
    return whole.seen["verify.ranges-committed"]


@pytest.mark.parametrize("share", [0.2, 0.7, 1.0])
def test_the_rest_alone_is_read(spec: Spec, share: float) -> None:
    whole = _tasks(spec)
    assert whole > 6
    done = int(whole * share)
    _killed(spec, done)
    assert (status(spec).verifying is None) == (done == 0)
    watch = StopAt()
    found = verify(spec, on_event=watch).verification
    assert (found.ok, found.records) == (True, len(RECORDS))
    assert watch.seen["verify.resumed"] == 1
    assert watch.seen["verify.ranges-committed"] == whole - done
    assert found.records_before == (len(RECORDS) if share == 1 else found.records_before)
    assert read_ledger(spec.home)[-1].step is Step.VERIFIED
    assert verify(spec).verification.records_before == 0  # it has ended


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("change", [damage._lose, damage._misplace, damage._alter])
def test_what_is_wrong_is_found_after_a_kill(spec: Spec, change: Callable[[Store], None], share: float) -> None:
    whole = _tasks(spec)
    change(lambda number: damage._store(spec, number))
    raises(StoppedError, "", verify, spec, on_event=StopAt("verify.ranges-committed", int((whole - 1) * share)))
    raises(VerificationError, "the new store is not what the old one converts to", verify, spec)


def test_a_range_with_a_misplaced_key_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sums are those of the old records, which are placed alike."""
    monkeypatch.setattr(SortWork, "place", damage.place_in_the_first)
    spec, whole = damage._spec(tmp_path), StopAt()
    raises(VerificationError, "0 keys missing", damage._run, spec)
    raises(VerificationError, "0 keys missing", verify, spec, on_event=whole)
    _killed(spec, whole.seen["verify.ranges-committed"])
    raises(VerificationError, "0 keys missing", verify, spec)


def test_sums_of_files_that_were_changed_since_do_not_count(spec: Spec) -> None:
    _killed(spec, _tasks(spec))
    damage._alter(lambda number: damage._store(spec, number))
    raises(VerificationError, "1 differing", verify, spec)


def test_sums_of_a_table_whose_file_was_touched_do_not_count(tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table", text_rows(300))
    spec = import_spec(tmp_path, conversion=TEXT | {"allow": ["changelog"]})
    import_here(spec, table)
    _killed(spec, _tasks(spec))
    for file in table.glob("*.parquet"):
        os.utime(file)
    watch = StopAt()
    found = verify(spec, on_event=watch).verification
    assert (found.records, found.records_before, watch.seen["verify.resumed"]) == (300, 0, 0)
