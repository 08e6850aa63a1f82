"""The old code has its store back for a while: the adapter asks which store wins, and finds whatever it put."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from migrate import DualReadStore, RefusedError
from migrate.dual import opening
from migrate.stores.cursor_file import read_cursor
from migrate.stores.rocksdb.live import open_live
from tests.support import raises

PUT = b"k001x"
"""Below the low-water mark by then."""
wins = pytest.mark.parametrize("wins", ["old-wins", "new-wins"])


def _old_code(directory: Path, keys: list[bytes]) -> None:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    database = Rdict(str(directory), options)
    for key in keys:
        database[key] = b"by the old code"
    database.close()


def _opened(folder: Path, on_foreign_writes: str = "refuse") -> DualReadStore:
    return DualReadStore.open(
        folder / "new",
        old_path=folder / "old",
        source="rocksdb.raw",
        target="rocksdb.raw",
        convert=lambda record: record,
        on_foreign_writes=on_foreign_writes,
    )


@pytest.fixture
def half_converged(tmp_path: Path) -> Path:
    _old_code(tmp_path / "old", [b"k%03d" % number for number in range(100)])
    with _opened(tmp_path) as store:
        store.converge(50, None)
    return tmp_path


def _assert_found(store: DualReadStore) -> None:
    assert PUT in dict(store.all())
    store.converge(None, None)
    assert store.is_converged
    assert store.get(PUT) == b"by the old code"


@wins
def test_what_the_old_code_put_between_two_sessions_is_found(half_converged: Path, wins: str) -> None:
    _old_code(half_converged / "old", [PUT])
    raises(RefusedError, "was written to by another program", _opened, half_converged)
    with _opened(half_converged, wins) as store:
        _assert_found(store)


@wins
def test_what_the_old_code_put_while_the_store_was_about_to_be_opened_is_found(
    half_converged: Path, wins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_old: Callable[..., Any] = opening._open_old

    def late(*arguments: object) -> object:
        _old_code(half_converged / "old", [PUT])
        return open_old(*arguments)

    monkeypatch.setattr(opening, "_open_old", late)
    with _opened(half_converged, wins) as store:
        _assert_found(store)


def test_the_cursor_is_in_force_for_the_next_opening_alone(half_converged: Path) -> None:
    cursor = read_cursor(half_converged / "old")
    assert cursor is not None
    for in_force in (True, False):
        with open_live(half_converged / "old") as database:
            assert cursor.is_in_force(database) == in_force
