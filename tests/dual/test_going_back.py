"""The old store is put back from a copy, or the old code writes to it: no key is hidden, and none is decided silently.

RocksDB numbers manifests alike, so that a copy may have the manifest that the new store's directory speaks of.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from migrate import RefusedError, SpecError
from migrate.dual import access, opening
from migrate.stores import cursor_file
from tests.dual.crash import copy_as_it_stands
from tests.dual.half_way import (
    ADDED,
    BY_OLD,
    GONE,
    LEFT,
    MOVED,
    NEW,
    OLD,
    arrangements,
    as_killed,
    as_left,
    assert_shows,
    converge_a_part,
    killed_before_the_second_file,
    put_back,
    put_back_from_before,
    seen,
    started,
)
from tests.dual.pairings import LOUD, PREFIXED, Ground
from tests.support import raises, read_family


def assert_asks(ground: Ground, why: str, shows: dict[str, dict[bytes, bytes]]) -> None:
    """Refused until told, however often; what each answer shows is the same after the next opening."""
    for _ in range(2):
        raises(RefusedError, rf'{why}(?s:.*)on_foreign_writes="old-wins"', ground.open)
    for wins, expected in shows.items():
        told = Ground(ground.base.with_name(f"{ground.base.name}-{wins}"), ground.pairing, ground.two)
        shutil.copytree(ground.base, told.base)
        with told.open(on_foreign_writes=wins) as store:
            assert dict(store.all()) == expected
        with told.open() as store:
            assert_shows(store, expected)


@pytest.mark.parametrize("by_old", [{MOVED: BY_OLD, ADDED: BY_OLD, LEFT: BY_OLD}, {}], ids=["written to", "unwritten"])
def test_a_copy_from_before_the_adapter(tmp_path: Path, by_old: dict[bytes, bytes]) -> None:
    """Without writes its manifest is the one that the adapter found first, and it has what was deleted since."""
    ground = put_back_from_before(tmp_path)
    if by_old:
        ground.write_old(by_old)
    old = seen(OLD | by_old)
    assert_asks(ground, "is not as an adapter left it", {"old-wins": old, "new-wins": old | {MOVED: NEW}})


@pytest.mark.parametrize("opened", [1, 2, 3])
def test_a_copy_whose_manifest_has_the_number_that_the_new_store_speaks_of(tmp_path: Path, opened: int) -> None:
    """The manifest alone would be in force: one of these was opened as often as the adapter opened the other."""
    ground = put_back_from_before(tmp_path)
    for _ in range(opened):
        ground.write_old({ADDED: BY_OLD})
    assert_asks(ground, "is not as an adapter left it", {"old-wins": seen(OLD | {ADDED: BY_OLD})})


def test_a_copy_from_between_two_sessions(tmp_path: Path) -> None:
    """It has a stateferry.json of its own, which was right once."""
    ground = started(tmp_path)
    with ground.open() as store:
        store.converge(20, None)
    shutil.copytree(ground.old, tmp_path / "copy")
    converge_a_part(ground)
    put_back(ground, tmp_path / "copy")
    expected = as_left()  # what is gone was moved before the copy was made
    assert_asks(ground, "is not as an adapter left it", {"old-wins": expected, "new-wins": expected})


@pytest.mark.parametrize("write", [1, 2])
def test_a_copy_from_the_middle_of_an_opening(tmp_path: Path, write: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after the old directory's file has the new token."""
    ground = started(tmp_path)
    with ground.open() as store:
        store.converge(20, None)
    writing: Callable[..., None] = cursor_file._write

    def copying(directory: Path, content: bytes) -> None:
        nonlocal write
        write -= 1
        if not write:
            copy_as_it_stands(ground.old, tmp_path / "copy")
        writing(directory, content)

    with monkeypatch.context() as patched:
        patched.setattr(cursor_file, "_write", copying)
        converge_a_part(ground)
    put_back(ground, tmp_path / "copy")
    assert_asks(ground, "is not as an adapter left it", {"new-wins": as_left()})


def test_a_copy_from_within_a_session_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session has gone on until it wrote its cursor again."""
    monkeypatch.setattr(access, "_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(access, "_CURSOR_SECONDS", 0.0)
    ground = started(tmp_path)
    with ground.open() as store:
        store.put(MOVED, NEW)
        copy_as_it_stands(ground.old, tmp_path / "copy")
        store.delete(GONE)
        ground = as_killed(ground)
    put_back(ground, tmp_path / "copy")
    old = seen(OLD)
    assert_asks(ground, "is not as an adapter left it", {"new-wins": old | {MOVED: NEW}})


def test_a_copy_from_before_an_answer_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the two files left a copy that the new directory's file still belonged to."""
    ground = started(tmp_path)
    with ground.open() as store:
        store.converge(50, None)
        ground = killed_before_the_second_file(ground, monkeypatch, store.close)
    shutil.copytree(ground.old, tmp_path / "copy")
    ground.write_old({MOVED: BY_OLD})
    ground = killed_before_the_second_file(
        ground, monkeypatch, lambda: ground.open(on_foreign_writes="old-wins").close()
    )
    put_back(ground, tmp_path / "copy")
    expected = seen(OLD)
    del expected[MOVED]  # the new store's gave way to the one that was there before the copy was put back
    assert_asks(ground, "is not as an adapter left it", {"new-wins": expected})


@arrangements
def test_what_the_old_code_wrote_to_the_store_that_the_adapter_left(tmp_path: Path, two: bool) -> None:
    ground = started(tmp_path, two=two)
    converge_a_part(ground)
    by_old = {MOVED: BY_OLD, ADDED: BY_OLD, LEFT: BY_OLD, GONE: BY_OLD}
    ground.write_old(by_old)
    old = seen(OLD | by_old)
    assert_asks(ground, "was written to by another program", {"old-wins": old, "new-wins": old | {MOVED: NEW}})


@arrangements
def test_what_the_old_code_wrote_after_the_store_had_converged(tmp_path: Path, two: bool) -> None:
    ground = started(tmp_path, two=two)
    with ground.open() as store:
        store.put(MOVED, NEW)
        store.converge(None, None)
    ground.write_old({MOVED: BY_OLD, ADDED: BY_OLD})
    old = seen(OLD | {MOVED: BY_OLD, ADDED: BY_OLD})
    assert_asks(ground, "is not as an adapter left it", {"old-wins": old, "new-wins": old | {MOVED: NEW}})


@pytest.mark.parametrize("pairing", [LOUD, PREFIXED], ids=lambda pairing: pairing.name)
@arrangements
def test_old_wins_by_the_key_that_a_record_becomes(tmp_path: Path, two: bool, pairing: object) -> None:
    assert pairing in (LOUD, PREFIXED)
    ground = Ground(tmp_path / "state", LOUD if pairing is LOUD else PREFIXED, two)
    ground.make(OLD)
    with ground.open() as store:
        store.converge(50, None)
    ground.write_old({MOVED: BY_OLD})
    expected = ground.pairing.seen(OLD | {MOVED: BY_OLD})
    with ground.open(on_foreign_writes="old-wins") as store:
        assert dict(store.all()) == expected
        store.converge(None, None)
        assert dict(store.all()) == expected


@pytest.mark.parametrize("wins", ["old-wins", "new-wins"])
def test_what_the_old_code_put_while_the_store_was_about_to_be_opened_is_found(
    tmp_path: Path, wins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = started(tmp_path)
    converge_a_part(ground)
    open_old: Callable[..., Any] = opening._open_old

    def late(*arguments: object) -> object:
        ground.write_old({ADDED: BY_OLD})
        return open_old(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(opening, "_open_old", late)
        store = ground.open(on_foreign_writes=wins)
    with store:
        assert_shows(store, as_left() | seen({ADDED: BY_OLD}))


def test_an_answer_that_is_not_known_is_refused(tmp_path: Path) -> None:
    ground = started(tmp_path)
    raises(SpecError, "'newest-wins' is not known", ground.open, on_foreign_writes="newest-wins")
    assert read_family(ground.old) == OLD
