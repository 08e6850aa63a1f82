"""Places of a store partition that is several RocksDB directories: they stand, and move, together."""

import shutil
from pathlib import Path

import pytest

from migrate.batch.identity import store_state
from migrate.batch.switch.locked_migration import is_as_it_was
from migrate.batch.switch.store_locations import StoreLocations, sync_names
from migrate.errors import RefusedError
from migrate.model.journal import Exchange
from migrate.model.store_partition import ChangelogOffsets, StorePartition
from migrate.stores.files import ExchangeUnsupportedError, can_exchange, exchange
from migrate.stores.rocksdb.layout import rocksdb_identities
from tests.batch.switch.support import content
from tests.support import make_store, open_store

DATABASES = ("win.0", "win.60000")
WINDOWED = StorePartition(id="0_0/win", store="win", task="0_0", path=Path("0_0/win"), databases=DATABASES)
BOTH_WAYS = pytest.mark.parametrize("can", [True, False], ids=["exchange", "two renames"])


@pytest.fixture
def places(tmp_path: Path) -> StoreLocations:
    """Two segments, the old ones live and the new ones staged."""
    application, home = tmp_path / "app", tmp_path / "work"
    staged = Path("new", "run", "0_0", "win")
    for number, database in enumerate(DATABASES):
        make_store(application / "0_0" / "win" / database, {b"old": b"%d" % number})
        make_store(home / staged / database, {b"new": b"%d" % number})
    (application / "0_0" / "other").mkdir()
    return StoreLocations.of(application, home, _entry(application, home, staged))


def _entry(application: Path, home: Path, staged: Path) -> Exchange:
    live = application / WINDOWED.path
    return Exchange(
        partition=WINDOWED,
        new_partition=WINDOWED,
        staged=staged,
        old=Path("old", WINDOWED.id),
        old_names=tuple(sorted(rocksdb_identities(live))),
        new_names=tuple(sorted(rocksdb_identities(home / staged))),
        old_state=store_state(WINDOWED.below(live)),
        new_state=store_state(WINDOWED.below(home / staged)),
        before=ChangelogOffsets(),
        after=ChangelogOffsets(),
    )


def _allow(monkeypatch: pytest.MonkeyPatch, *, can: bool) -> None:
    def unsupported(*_: Path) -> None:
        raise ExchangeUnsupportedError

    if not can:
        monkeypatch.setattr(f"{StoreLocations.__module__}.exchange", unsupported)


def stand(places: StoreLocations) -> tuple[str, str, str]:
    """Of live, staged and old."""
    return places.at(places.live), places.at(places.staged), places.at(places.old)


def test_each_place_is_recognized_by_all_identities(places: StoreLocations) -> None:
    assert len(places.entry.old_names) == len(places.entry.new_names) == 2
    assert stand(places) == ("old", "new", "none")
    assert (places.old_store, places.new_store, places.is_switched) == (places.live, places.staged, False)


@BOTH_WAYS
def test_there_and_back_moves_all_databases_and_nothing_beside(
    can: bool, places: StoreLocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    _allow(monkeypatch, can=can)
    old, new = content(places.live), content(places.staged)
    places.make_new_live()
    assert stand(places) == (("new", "old", "none") if can else ("new", "none", "old"))
    places.set_old_aside()
    sync_names([places], places.old.parents[2])
    assert stand(places) == ("new", "none", "old")
    assert (places.old_store, places.new_store, places.is_switched) == (places.old, places.live, True)
    assert (content(places.live), content(places.old)) == (new, old)
    places.bring_old_back()
    assert stand(places) == ("new", "old", "none")
    places.make_old_live()
    sync_names([places], places.old.parents[2])
    assert stand(places) == ("old", "new", "none")
    assert (content(places.live), content(places.staged)) == (old, new)
    assert {path.name for path in places.live.parent.iterdir()} == {"win", "other"}


@BOTH_WAYS
def test_every_move_may_be_repeated(can: bool, places: StoreLocations, monkeypatch: pytest.MonkeyPatch) -> None:
    _allow(monkeypatch, can=can)
    for move in (places.make_new_live, places.set_old_aside):
        move()
        move()
    assert stand(places) == ("new", "none", "old")
    for move in (places.bring_old_back, places.make_old_live):
        move()
        move()
    assert stand(places) == ("old", "new", "none")


def test_segments_that_expire_or_are_made_do_not_hide_the_new_store(places: StoreLocations) -> None:
    places.make_new_live()
    places.set_old_aside()
    shutil.rmtree(places.live / DATABASES[0])
    assert places.at(places.live) == "new"
    make_store(places.live / "win.120000", {b"later": b"1"})
    assert places.at(places.live) == "new"
    shutil.rmtree(places.live / DATABASES[1])
    assert places.at(places.live) == "other"
    assert (places.is_switched, places.new_store) == (True, places.live)
    places.bring_old_back()
    places.make_old_live()
    assert (places.at(places.live), places.at(places.staged)) == ("old", "other")


def test_an_old_store_that_lost_or_got_a_segment_is_the_old_one_but_not_as_it_was(places: StoreLocations) -> None:
    make_store(places.live / "win.120000", {b"old": b"later"})
    assert (places.at(places.live), places.old_store) == ("old", places.live)
    shutil.rmtree(places.live / DATABASES[0])
    assert places.at(places.live) == "old"
    assert not is_as_it_was(places, places.live, places.entry.old_state)
    shutil.rmtree(places.live)
    with pytest.raises(RefusedError, match="is neither in"):
        _ = places.old_store


def test_the_state_is_that_of_all_databases(places: StoreLocations) -> None:
    then = places.entry.old_state
    assert is_as_it_was(places, places.live, then)
    make_store(places.live / DATABASES[1], {b"more": b"1"})
    assert not is_as_it_was(places, places.live, then)
    shutil.rmtree(places.live / DATABASES[1])
    assert not is_as_it_was(places, places.live, then)
    assert not is_as_it_was(places, places.old, then)


def test_a_store_that_was_opened_and_not_written_to_is_as_it_was(places: StoreLocations) -> None:
    """Opening it makes a new manifest, and no more than that."""
    with open_store(places.live / DATABASES[0]):
        pass
    assert store_state(WINDOWED.below(places.live)).files != places.entry.old_state.files
    assert is_as_it_was(places, places.live, places.entry.old_state)


def test_two_renames_that_were_stopped_between_are_finished_either_way(
    places: StoreLocations, monkeypatch: pytest.MonkeyPatch
) -> None:
    _allow(monkeypatch, can=False)
    places.old.parent.mkdir(parents=True)
    places.live.rename(places.old)  # as a cut-over leaves it
    assert stand(places) == ("none", "new", "old")
    assert (places.old_store, places.new_store) == (places.old, places.staged)
    places.bring_old_back()
    assert stand(places) == ("none", "new", "old")
    places.make_old_live()
    assert stand(places) == ("old", "new", "none")
    places.live.rename(places.old)
    places.make_new_live()
    assert stand(places) == ("new", "none", "old")
    places.bring_old_back()
    aside = places.old.with_name(".win.new")
    places.live.rename(aside)  # as a rollback leaves it
    assert (places.old_store, places.new_store) == (places.staged, aside)
    places.make_old_live()
    assert stand(places) == ("old", "new", "none")
    assert not aside.exists()


def test_exchange_swaps_two_directories_or_raises(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / folder.name).touch()
    if not can_exchange(tmp_path):
        pytest.skip("this file system has no exchange")
    exchange(first, second)
    assert [path.name for path in first.iterdir()] == ["second"]
    assert [path.name for path in second.iterdir()] == ["first"]
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second"}
    with pytest.raises(FileNotFoundError):
        exchange(first, tmp_path / "third")
