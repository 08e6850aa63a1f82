"""Dual reading in Quix Streams under SIGKILL: sums are those of a model, in plain new code, rebuilt, taken over."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker.broker import Broker
from tests.live.quix.campaign import begin, converge, kill, rebuild, take_over

GUARANTEES = ["at-least-once", "exactly-once"]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_sums_survive_kills_in_the_middle(guarantee: str, broker: Broker, tmp_path: Path) -> None:
    world = begin(broker.bootstrap, tmp_path, guarantee, seed=3)
    kill(world, "dual", 6)
    if guarantee == "at-least-once":
        world.compact()
    take_over(world)
    converge(world)
    rebuild(world, "new")


def test_so_do_those_of_the_old_code_without_an_adapter(broker: Broker, tmp_path: Path) -> None:
    """Else the other tests would prove nothing about the adapter."""
    world = begin(broker.bootstrap, tmp_path, "at-least-once", seed=5, keys=50)
    kill(world, "old", 3)
    rebuild(world, "old")


def test_a_delete_is_not_undone_by_what_only_the_changelog_has(broker: Broker, tmp_path: Path) -> None:
    """The old code has sent a value there and dies before it commits: that value is on no disk until a rebuild."""
    world = begin(broker.bootstrap, tmp_path, "at-least-once", seed=7, keys=5)
    world.send([(b"gone", 5)])
    assert world.live(replace(world.life, dies_after="produced")) is None
    world.send([(b"gone", None)])
    dual = replace(world.life, code="dual")
    assert world.live(dual) is not None
    world.wipe()
    assert world.live(dual) is not None
    world.assert_kept("new")


def test_a_restore_that_is_not_over_is_not_looked_at(broker: Broker, tmp_path: Path) -> None:
    """Between a partition's assignment and its restore, its store is empty, and that looks like converged."""
    world = begin(broker.bootstrap, tmp_path, "at-least-once", seed=9, keys=400)
    world.wipe()
    world.send([(b"key-%05d" % number, 1) for number in range(400)])
    assert world.live(replace(world.life, code="dual")) is not None
    world.assert_kept("new")


def test_without_changelogs_it_converges_on_its_disk(broker: Broker, tmp_path: Path) -> None:
    world = begin(broker.bootstrap, tmp_path, "at-least-once", seed=11, keys=50, use_changelog=False)
    converge(world)
    assert world.live(replace(world.life, code="new")) is not None
    world.assert_kept("new")
