"""Commands, each in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shared.commands import CommandServer


@pytest.fixture(scope="module")
def commands() -> Iterator[CommandServer]:
    with CommandServer() as server:
        yield server
