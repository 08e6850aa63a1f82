"""Dual reading in a real Faust under SIGKILL: values are those of a model, in plain new code, rebuilt, taken over."""

from pathlib import Path

from tests.broker.broker import Broker
from tests.live.faust.adapting import World


def test_values_survive_kills_in_the_middle(broker: Broker, tmp_path: Path) -> None:
    world = World(broker.bootstrap, "adapter-killed", tmp_path, 3, keys=1500)
    world.take_adapter()
    world.kill(6)
    world.compact()
    world.take_over()
    world.converge()
    world.check_plain_code()


def test_so_do_those_of_the_old_code_without_an_adapter(broker: Broker, tmp_path: Path) -> None:
    """Else the other test would prove nothing about the adapter."""
    world = World(broker.bootstrap, "adapter-control", tmp_path, 5, keys=200)
    world.kill(3)
    world.check_plain_code()
