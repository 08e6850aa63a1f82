"""A short form of `python -m tests.kill`, which kills at every event."""

from __future__ import annotations

from pathlib import Path

from tests.kill.harness import Goal, kill_all
from tests.kill.scenarios import scenarios


def test_migrations_survive_whatever_kills_them(tmp_path: Path) -> None:
    every = scenarios()
    some = (*every[:2], *every[3::3])  # some of each kind, and every command but `abandon`
    tally = kill_all(Goal(kills=15, hits=0, seed=7, scenarios=some), tmp_path)
    assert tally.failures == []
    assert tally.kills >= 15
