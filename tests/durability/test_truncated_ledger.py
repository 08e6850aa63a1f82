"""A ledger of which a power cut, or a damaged disk, took any one file: the next run finishes all the same.

What is lost with a row is not lost: receipts lie beside the chunks, and every later step can be repeated.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from migrate import run
from migrate.errors import ExitCode, RefusedError
from migrate.model.events import Event
from migrate.spec.spec import load_spec
from tests.durability.disk import KILL, Disk
from tests.shared.refunds import chunks_done, make_migration, result_of


@dataclass(frozen=True, slots=True)
class Stopped:
    """A migration that has come to some point: what is below `base`, again and again."""

    base: Path
    disk: Disk
    result: dict[str, object]
    """Of a migration that nobody disturbed."""
    chunks: int
    done: int
    """Chunks that have their receipts and files."""
    point: int
    """Which one of POINTS."""

    def restore(self) -> None:
        """As it was when it stopped."""
        self.disk.write_to(self.base, KILL)

    @property
    def ledger(self) -> list[Path]:
        """Its files, by name below `base`: the log's, then the data's."""
        folder = self.base / "work" / "test" / "ledger"
        return [*sorted((folder / "_delta_log").iterdir()), *sorted(folder.glob("*.parquet"))]


pytestmark = pytest.mark.usefixtures("commit_per_chunk")
POINTS = [("chunk.committed", 3), ("assemble.committed", 2), ("publish.committed", 1)]


@pytest.fixture(scope="module", params=POINTS, ids=["after some chunks", "after assembling", "finished"])
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    name, occurrence = request.param
    base = tmp_path_factory.mktemp("stopped").resolve() / "base"
    spec = load_spec(make_migration(base))
    seen: Counter[str] = Counter()
    at: list[tuple[Disk, int]] = []

    def listener(event: Event) -> None:
        seen[event.name] += 1
        if event.name == name and seen[name] == occurrence:
            at.append((Disk(base), chunks_done(spec)))

    run(spec, on_event=listener)
    ((disk, done),) = at
    return Stopped(base, disk, result_of(base), chunks_done(spec), done, POINTS.index(request.param))


def _keep(share: int) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        file.write_bytes(file.read_bytes()[: file.stat().st_size * share // 100])

    return damage


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": _keep(0),
    "half": _keep(50),
    "removed": Path.unlink,
}


def test_a_ledger_that_lost_a_file_loses_no_work(stopped: Stopped, subtests: pytest.Subtests) -> None:
    """Each file in another way, at each point in another one."""
    damages = [*DAMAGES.values()]
    for number, file in enumerate(_files(stopped), stopped.point):
        _lose(file, damages[number % len(damages)], stopped, subtests)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_ledger_that_lost_a_file_in_any_way_loses_no_work(
    damage: str, stopped: Stopped, subtests: pytest.Subtests
) -> None:
    for file in _files(stopped):
        _lose(file, DAMAGES[damage], stopped, subtests)


def _files(stopped: Stopped) -> list[Path]:
    stopped.restore()
    assert len(stopped.ledger) > 8
    return stopped.ledger


def _lose(file: Path, damage: Callable[[Path], None], stopped: Stopped, subtests: pytest.Subtests) -> None:
    with subtests.test(str(file.relative_to(stopped.base))):
        stopped.restore()
        damage(file)
        _check(stopped)


def _check(stopped: Stopped) -> None:
    spec = load_spec(stopped.base / "migration.toml")
    seen: Counter[str] = Counter()

    def count(event: Event) -> None:
        seen[event.name] += 1

    try:
        assert run(spec, on_event=count).state == "published"
    except RefusedError as error:
        assert POINTS[stopped.point][0] == "publish.committed", error
        assert error.exit_code is ExitCode.REFUSED
        assert error.hint
    assert seen["chunk.started"] == stopped.chunks - stopped.done
    assert result_of(stopped.base) == stopped.result
