"""Where all records take a moment, all are converted; where they do not, the verdict names the sample."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import migrate
from migrate.dry_run import dry_run, source_reader
from migrate.errors import ExitCode, RejectedError
from tests.dry_run.support import Planned, nothing_changes, planned
from tests.dry_run.test_exactness import plan_with
from tests.support import make_store, numbered, raw_spec

RECORDS = 12_000
BAD = b"key-00007001"


def reject_one(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    if key == BAD:
        raise ValueError("an order without a customer")
    return key, value


def summary(report: Planned) -> tuple[bool, int, bool]:
    return report.tried.is_full, report.tried.records, report.verdict.go


def test_one_bad_record_of_many_is_found_before_the_run_finds_it(tmp_path: Path) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", numbered(RECORDS)))
    with nothing_changes(tmp_path):
        all_of_them, a_sample = plan_with(spec, reject_one), plan_with(spec, reject_one, sample=100)
    assert summary(all_of_them) == (True, RECORDS, False)
    assert all_of_them.verdict.exit_code == ExitCode.FAILED == RejectedError("").exit_code
    assert "1 of 12,000 records cannot be converted" in all_of_them.verdict.sentence
    assert a_sample.verdict.go
    assert "as far as a sample of 81 records shows (--full converts all records)" in a_sample.verdict.sentence


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, ""), (1, "; the one record was converted"), (RECORDS, "; all 12,000 records were converted")],
)
def test_the_verdict_says_that_all_were_converted(tmp_path: Path, count: int, said: str) -> None:
    report = planned(raw_spec(tmp_path, make_store(tmp_path / "state", numbered(count))))
    assert report.verdict.sentence == f"go: nothing stands in the way{said}"
    assert (report.found.records, report.found.exact) == (count, True)


def test_what_would_take_long_is_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", numbered(RECORDS)))
    monkeypatch.setattr(source_reader, "ALL_SECONDS", 1e-6)
    is_full, tried, go = summary(planned(spec))
    assert (is_full, tried < RECORDS, go) == (False, True, True)


def test_all_records_that_take_longer_than_estimated_are_given_up_for_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measured piece is fast, and what comes later is not."""
    spec = raw_spec(tmp_path, make_store(tmp_path / "state", numbered(RECORDS)))
    monkeypatch.setattr(source_reader, "_PATIENCE", 0.0)
    with nothing_changes(tmp_path):
        report = planned(spec)
    is_full, tried, go = summary(report)
    assert (is_full, tried < RECORDS, go) == (False, True, True)
    assert not report.found.exact
    assert report.found.at_least <= RECORDS <= report.found.at_most


def test_a_bad_record_found_before_that_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    def count(event: migrate.Event) -> None:
        nonlocal read
        read += event.facts.get("records", 0)

    def now() -> float:
        return time.monotonic() + (3600 if read > int(BAD[4:]) else 0)

    spec = raw_spec(tmp_path, make_store(tmp_path / "state", numbered(RECORDS)))
    monkeypatch.setattr(dry_run, "SAMPLE", 100)
    monkeypatch.setattr(source_reader, "time", SimpleNamespace(monotonic=now))
    report = plan_with(spec, reject_one, on_event=count)
    assert (report.tried.is_full, report.tried.rejected, report.verdict.go) == (False, 1, False)
    assert report.tried.converted + report.tried.rejected == report.tried.records < RECORDS
    assert "an order without a customer" in report.verdict.sentence
