"""A short form of `python -m tests.live.changelog`: the tool is killed in the middle, and run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.broker import Broker
from tests.live.changelog.kills import kill_changelogs


@pytest.mark.parametrize(("kills", "seed"), [(8, 1), (50, 2)])
def test_changelogs_survive_whatever_kills_the_tool(broker: Broker, tmp_path: Path, kills: int, seed: int) -> None:
    assert kill_changelogs(broker.bootstrap, tmp_path, kills, seed).total() >= kills
