"""A short form of `python -m tests.live.quix.kills`: the tool is killed in the middle, and run again."""

from pathlib import Path

from tests.broker.broker import Broker
from tests.live.quix.kills import kill_changelogs


def test_state_survives_whatever_kills_the_tool(broker: Broker, tmp_path: Path) -> None:
    assert kill_changelogs(broker.bootstrap, tmp_path, 6, seed=1).total() >= 6
