"""A store that is half converged, and what may happen to its directories then."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import DualReadStore
from migrate.dual import access
from migrate.stores import cursor_file
from tests.dual.crash import copy_as_it_stands
from tests.dual.pairings import UPGRADE, Ground
from tests.support import UNKNOWN_TIMESTAMP

KEYS = [b"key-%03d" % number for number in range(100)]
OLD = {key: b"old " + key for key in KEYS}
MOVED, LEFT, GONE, ADDED = KEYS[3], KEYS[90], KEYS[5], b"key-001x"
"""ADDED lies among the keys that have moved."""
NEW = UNKNOWN_TIMESTAMP + b"by the new code"
BY_OLD = b"by the old code"
arrangements = pytest.mark.parametrize("two", [False, True], ids=["one-database", "two-databases"])


def seen(records: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """As the new format shows old records."""
    return {key: UNKNOWN_TIMESTAMP + value for key, value in records.items()}


def started(folder: Path, *, two: bool = True) -> Ground:
    """An old store that no adapter has seen."""
    ground = Ground(folder / "state", UPGRADE, two)
    ground.make(OLD)
    return ground


def converge_a_part(ground: Ground) -> None:
    with ground.open() as store:
        store.converge(50, None)
        store.put(MOVED, NEW)
        store.delete(GONE)


def as_left() -> dict[bytes, bytes]:
    """What the store shows then."""
    return {key: value for key, value in (seen(OLD) | {MOVED: NEW}).items() if key != GONE}


def put_back(ground: Ground, copy: Path) -> None:
    shutil.rmtree(ground.old)
    shutil.copytree(copy, ground.old)


def put_back_from_before(folder: Path) -> Ground:
    """A store of two databases whose old one is as it was before an adapter converged a part of it."""
    ground = started(folder)
    shutil.copytree(ground.old, folder / "copy")
    converge_a_part(ground)
    put_back(ground, folder / "copy")
    return ground


def as_killed(ground: Ground) -> Ground:
    """The files as the running store's process would leave them."""
    after = Ground(ground.base.with_name(f"{ground.base.name}-killed"), ground.pairing, ground.two)
    copy_as_it_stands(ground.base, after.base)
    return after


def assert_shows(store: DualReadStore, expected: dict[bytes, bytes]) -> None:
    """In every way of reading, before and after it converges."""
    for _ in range(2):
        assert dict(store.all()) == expected
        assert store.multi_get(sorted(expected)) == [expected[key] for key in sorted(expected)]
        store.converge(None, None)
        assert store.is_converged


def killed_as_it_opens(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """RocksDB has made a new manifest, and the adapter's file knows nothing of it."""
    found: list[Ground] = []

    def kill(*_: object) -> str:
        found.append(as_killed(ground))
        return "token"

    with monkeypatch.context() as patched:
        patched.setattr(access, "write_cursor", kill)
        ground.open().close()
    return found[0]


def killed_before_the_second_file(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]
) -> Ground:
    return killed_at_file(2, ground, monkeypatch, work)


def killed_at_file(number: int, ground: Ground, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> Ground:
    """As the files stand before `work` writes a cursor for the time `number`."""
    left: list[bytes] = []
    writing: Callable[..., None] = cursor_file._write

    def as_it_stands(directory: Path, content: bytes) -> None:
        if b"token" in content:
            left.append(content)
            if len(left) == number:
                as_killed(ground)
        writing(directory, content)

    with monkeypatch.context() as patched:
        patched.setattr(cursor_file, "_write", as_it_stands)
        work()
    return Ground(ground.base.with_name(f"{ground.base.name}-killed"), ground.pairing, ground.two)
