"""An old store as the adapter left it is accepted without `on_foreign_writes`, whichever process was killed."""

import shutil
from pathlib import Path

import pytest

from migrate.stores import cursor_file
from migrate.stores.rocksdb.live import open_live
from tests.dual.half_way import (
    GONE,
    MOVED,
    NEW,
    OLD,
    arrangements,
    as_killed,
    as_left,
    assert_shows,
    converge_a_part,
    killed_as_it_opens,
    killed_at_file,
    put_back,
    put_back_from_before,
    seen,
    started,
)


@arrangements
def test_an_old_store_that_was_only_opened_is_accepted(tmp_path: Path, two: bool) -> None:
    ground = started(tmp_path, two=two)
    converge_a_part(ground)
    ground.write_old({})
    with ground.open() as store:
        assert_shows(store, as_left())


@arrangements
@pytest.mark.parametrize("kills", [1, 2])
def test_a_store_is_accepted_after_killed_openings(
    tmp_path: Path, two: bool, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session is killed, with deletes in the old store that its file does not know of; then one that only begins."""
    ground = started(tmp_path, two=two)
    with ground.open() as store:
        store.converge(50, None)
        store.put(MOVED, NEW)
        store.delete(GONE)
        ground = as_killed(ground)
    for _ in range(kills):
        ground = killed_as_it_opens(ground, monkeypatch)
    with ground.open() as store:
        assert_shows(store, as_left())


@pytest.mark.parametrize("write", [1, 2])
@pytest.mark.parametrize("session", [1, 2])
def test_a_store_is_accepted_after_a_kill_between_the_two_files(
    tmp_path: Path, session: int, write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = started(tmp_path)
    if session == 2:
        converge_a_part(ground)
    killed = killed_at_file(write, ground, monkeypatch, lambda: ground.open().close())
    with killed.open() as store:
        assert_shows(store, as_left() if session == 2 else seen(OLD))


def test_a_cursor_is_in_force_for_the_two_directories_that_it_was_written_to(tmp_path: Path) -> None:
    """Else every start would search the old store from its first key."""
    ground = started(tmp_path)
    converge_a_part(ground)
    with ground.open() as store:
        assert store._access is not None
        assert store._access.sweep.low_water is not None


def test_the_cursor_is_in_force_for_the_next_opening_alone(tmp_path: Path) -> None:
    ground = started(tmp_path)
    converge_a_part(ground)
    cursor = cursor_file.read_cursor(ground.old)
    assert cursor is not None
    for in_force in (True, False):
        with open_live(ground.old) as database:
            assert cursor.is_in_force(database) == in_force


def test_files_of_the_release_before_are_taken_up(tmp_path: Path) -> None:
    """They have no token."""
    ground = started(tmp_path)
    converge_a_part(ground)
    for directory in (ground.old, ground.path):
        known = cursor_file.read_cursor(directory)
        assert known is not None
        content = known.model_dump_json(exclude={"token", "previous_token", "is_at_rest"})
        (directory / "stateferry.json").write_text(content)
    with ground.open() as store:
        assert_shows(store, as_left())


def test_a_new_directory_for_a_copy_from_before_the_adapter_starts_again(tmp_path: Path) -> None:
    ground = put_back_from_before(tmp_path)
    shutil.rmtree(ground.path)
    with ground.open() as store:
        assert_shows(store, seen(OLD))


def test_a_whole_directory_of_one_database_goes_back_as_a_whole(tmp_path: Path) -> None:
    ground = started(tmp_path, two=False)
    with ground.open() as store:
        store.converge(20, None)
    shutil.copytree(ground.old, tmp_path / "copy")
    converge_a_part(ground)
    put_back(ground, tmp_path / "copy")
    with ground.open() as store:
        assert_shows(store, seen(OLD))
