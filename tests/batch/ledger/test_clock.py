"""A clock that is set back between two runs: order is a matter of the ledger's own numbers."""

import time
from pathlib import Path

import pytest

from migrate import cutover, rollback, run, status
from tests.batch.switch.support import StopAt, StoppedError
from tests.support import make_store, numbered, raises, raw_spec, read_family, read_ledger

pytestmark = pytest.mark.usefixtures("commit_per_chunk")
A_YEAR = 365 * 86_400.0


def test_a_clock_that_is_set_back_between_runs_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_store(tmp_path / "old", numbered(1500))
    spec = raw_spec(tmp_path, source, target={"path": None}, run={"chunk_size": "4 KiB", "snapshot": "copy"})
    raises(StoppedError, "", run, spec, on_event=StopAt("chunk.committed", 3))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - A_YEAR)
    report = run(spec)
    assert report.chunks_done_before == 3
    cutover(spec)
    assert status(spec).state == "cut over"
    rollback(spec)
    assert status(spec).state == "rolled back"
    assert read_family(source) == numbered(1500)
    rows = read_ledger(spec.home)
    assert [row.sequence for row in rows] == sorted(row.sequence for row in rows)
    assert rows[-1].committed_at_ms < rows[0].committed_at_ms
