"""The application that each test migrates."""

import re
from pathlib import Path

import pytest

from tests.broker.broker import Broker
from tests.live.changelog.app import Program


@pytest.fixture
def old(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Program:
    """The old version, which has not run yet."""
    return Program(broker.bootstrap, re.sub(r"\W+", "-", request.node.name).strip("-"), tmp_path / "state")
