"""One recorded run, for all tests that look at it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.disk import KILL
from tests.durability.recording import Recording, record_verb
from tests.durability.trace import require_strace
from tests.shared.refunds import make_migration


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A run that nothing disturbed."""
    require_strace()
    base = tmp_path_factory.mktemp("calm").resolve() / "base"
    make_migration(base)
    return record_verb(base)


@pytest.fixture
def base(calm: Recording) -> Iterator[Path]:
    """The directory of the recorded run, for a test to write over: paths are part of what was recorded."""
    yield calm.base
    disk = calm.disk()
    for call in calm.calls:
        disk.apply(call)
    disk.write_to(calm.base, KILL)
