"""A migration to spoil."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_input.support import Migration, app_migration, raw_migration
from tests.shared.commands import Commands, CommandServer, InProcess


@pytest.fixture(scope="session")
def commands(commands: CommandServer) -> Commands:
    """In this process; one that has to be prepared runs in a process of its own."""
    return InProcess(commands)


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """A folder in memory, where the system offers that: these tests are not about disks."""
    shared = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="stateferry-test-", dir=shared if os.access(shared, os.W_OK) else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def folder(memory: Path) -> Iterator[Path]:
    """An empty one."""
    made = Path(tempfile.mkdtemp(dir=memory))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def app(commands: Commands, folder: Path) -> Migration:
    """The store `orders` of a real Kafka Streams application, plain to timestamped."""
    return app_migration(commands, folder)


@pytest.fixture
def raw(commands: Commands, folder: Path) -> Migration:
    """A RocksDB directory with 4000 records, copied in several chunks."""
    return raw_migration(commands, folder)
