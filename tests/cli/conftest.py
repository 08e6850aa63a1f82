"""Commands, each in a process of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.commands import CommandServer
from tests.support import make_store, numbered, spec_file


@pytest.fixture(scope="module")
def commands() -> Iterator[CommandServer]:
    with CommandServer() as server:
        yield server


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """The file of a small migration whose records stay as they are."""
    make_store(tmp_path / "old", numbered(300))
    return spec_file(tmp_path / "migration.toml", name="raw")
