"""A short form of `python -m tests.kill`, which kills at every event."""

from pathlib import Path

import pytest

from tests.kill.adapter import kill_adapter
from tests.kill.harness import Goal, kill_all
from tests.kill.on_spark import ON_SPARK, Jobs, SparkSubmit
from tests.kill.scenarios import PARTITIONS, WINDOWS, scenarios
from tests.kill.sorted_keys import SORTED, Cluster, kill_executors
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


_PARTITIONS = tuple(scenario for scenario in scenarios() if scenario.kind is PARTITIONS)


@pytest.mark.parametrize("kills", [6, 40])
def test_another_number_of_partitions_survives_it_too(tmp_path: Path, kills: int) -> None:
    tally = kill_all(Goal(kills=kills, hits=0, seed=11, scenarios=_PARTITIONS), tmp_path)
    assert tally.failures == []
    assert tally.kills >= kills


@pytest.mark.parametrize("kills", [6, pytest.param(40, marks=pytest.mark.timeout(3600))])
def test_another_number_of_partitions_survives_it_on_spark(tmp_path: Path, kills: int) -> None:
    goal = Goal(kills=kills, hits=0, seed=13, scenarios=_PARTITIONS, has_events=False)
    tally = kill_all(goal, tmp_path, victims=SparkSubmit)
    assert tally.failures == []
    assert tally.kills >= kills


@pytest.mark.parametrize("kills", [6, 40])
def test_sorted_keys_survive_a_driver_that_is_killed(tmp_path: Path, kills: int) -> None:
    goal = Goal(kills=kills, hits=0, seed=17, scenarios=(SORTED,), has_events=False)
    tally = kill_all(goal, tmp_path, victims=Cluster)
    assert tally.failures == []
    assert tally.kills >= kills


@pytest.mark.parametrize("kills", [6, 40])
def test_sorted_keys_survive_executors_that_are_killed(tmp_path: Path, kills: int) -> None:
    assert kill_executors(kills, 19, tmp_path) >= kills
