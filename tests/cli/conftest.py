"""Commands, each in a process of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.commands import CommandServer
from tests.support import make_store, numbered


@pytest.fixture(scope="module")
def commands() -> Iterator[CommandServer]:
    with CommandServer() as server:
        yield server


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """The file of a small migration whose records stay as they are."""
    make_store(tmp_path / "old", numbered(300))
    file = tmp_path / "migration.toml"
    file.write_text(
        'name = "raw"\nwork_dir = "work"\n[source]\nformat = "rocksdb.raw"\npath = "old"\n'
        '[target]\nformat = "rocksdb.raw"\npath = "new"\n'
    )
    return file
