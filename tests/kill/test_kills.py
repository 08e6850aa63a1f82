"""A short form of `python -m tests.kill`, which kills at every event."""

from pathlib import Path

from tests.kill.adapter import kill_adapter
from tests.kill.harness import Goal, kill_all
from tests.kill.on_spark import ON_SPARK, Jobs
from tests.kill.scenarios import WINDOWS, scenarios
from tests.kill.zygote import Zygote


def test_migrations_survive_whatever_kills_them(tmp_path: Path) -> None:
    every = scenarios()
    some = (*every[:2], *every[3::3])  # some of each kind, and every command but `abandon`
    tally = kill_all(Goal(kills=15, hits=0, seed=7, scenarios=some), tmp_path)
    assert tally.failures == []
    assert tally.kills >= 15


def test_what_an_adapter_acknowledged_outlives_its_process(tmp_path: Path) -> None:
    with Zygote() as zygote:
        for two in (False, True):
            kill_adapter(tmp_path / f"{two=}", 8, zygote, two=two)


def test_segments_that_move_survive_it_too(tmp_path: Path) -> None:
    mine = tuple(scenario for scenario in scenarios() if scenario.kind is WINDOWS)
    tally = kill_all(Goal(kills=12, hits=0, seed=3, scenarios=mine), tmp_path)
    assert tally.failures == []
    assert tally.kills >= 12


def test_runs_over_several_processes_survive_it_too(tmp_path: Path) -> None:
    goal = Goal(kills=6, hits=0, seed=5, scenarios=(ON_SPARK,), has_events=False)
    tally = kill_all(goal, tmp_path, victims=Jobs)
    assert tally.failures == []
    assert tally.kills >= 6
