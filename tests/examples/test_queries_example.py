"""The example of queries: every answer is right, at each stage of the migration."""

from pathlib import Path

import pytest

from examples.queries.__main__ import main


def test_a_store_answers_all_through_its_migration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tmp_path / "queries", orders=2_000) == 0
    out = capsys.readouterr().out
    assert "answers, 0 wrong or failed" in out
    rows = [line.split("  ")[0] for line in out[out.index("Answers to") :].splitlines() if line]
    assert rows.count("after cutover") == 2
    assert {"before", "run", "after rollback", "after finalize", "all"} <= set(rows)
