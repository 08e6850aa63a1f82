"""Shared commits: as often as their pace says, in a tenth of the time at most, and nothing is left out."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from migrate.batch.ledger import table as shared_commits
from migrate.batch.ledger.table import Ledger, SharedCommits
from migrate.errors import FencedError
from migrate.model.ledger_row import Row, chunk_row
from migrate.model.receipt import Receipt
from tests.shared.builders import receipt
from tests.support import read_ledger


class SlowLedger(Ledger):
    """A ledger whose commits take as many seconds as the test says."""

    now = 0.0
    cost = 0.0

    def commit(self, *rows: Row) -> None:
        super().commit(*rows)
        self.now += self.cost


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlowLedger:
    ledger = SlowLedger(tmp_path, "m", "r1")
    monkeypatch.setattr(shared_commits, "time", SimpleNamespace(monotonic=lambda: ledger.now, time=time.time))
    return ledger


def _committed(home: Path) -> list[list[int]]:
    """The numbers of the chunks in each commit."""
    commits: dict[int, list[int]] = {}
    for row in read_ledger(home):
        if row.step == "chunk":
            commits.setdefault(row.sequence, []).append(Receipt.model_validate_json(row.detail).number)
    return list(commits.values())


def test_what_ends_within_a_quarter_of_a_second_shares_a_commit(ledger: SlowLedger, tmp_path: Path) -> None:
    commits = SharedCommits[Row](ledger.commit)
    for number in range(9):
        commits.add(chunk_row(receipt(number=number)))
        ledger.now += 0.1
        assert commits.commit_due() is (number in (2, 5, 8))
    assert _committed(tmp_path) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert not commits.commit()


def test_slow_commits_take_a_tenth_of_the_time(ledger: SlowLedger) -> None:
    ledger.cost, made = 0.5, 0
    commits = SharedCommits[Row](ledger.commit)
    while ledger.now < 100:
        commits.add(chunk_row(receipt()))
        made += commits.commit_due()
        ledger.now += 0.01
    assert made * ledger.cost == pytest.approx(10, rel=0.05)


def test_what_waits_is_committed_on_request(ledger: SlowLedger, tmp_path: Path) -> None:
    commits = SharedCommits[Row](ledger.commit)
    commits.add(*(chunk_row(receipt(number=number)) for number in range(2)))
    assert not commits.commit_due()
    assert commits.commit()
    assert _committed(tmp_path) == [[0, 1]]


def test_what_waits_is_refused_once_another_run_has_taken_over(ledger: SlowLedger, tmp_path: Path) -> None:
    commits = SharedCommits[Row](ledger.commit)
    commits.add(chunk_row(receipt()))
    Ledger(tmp_path, "m", "r2")
    for _ in range(2):
        with pytest.raises(FencedError):
            commits.commit()
    assert _committed(tmp_path) == []
