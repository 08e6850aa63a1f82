"""The old store is put back from a copy, or the old code writes to it: no key is hidden, and none is decided silently.

RocksDB numbers manifests alike, so that a copy may have the manifest that the new store's directory speaks of.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import DualReadStore, RefusedError, SpecError
from migrate.dual import access, mark
from tests.dual.crash import copy_as_it_stands
from tests.dual.pairings import LOUD, PREFIXED, UPGRADE, Ground
from tests.support import UNKNOWN_TIMESTAMP, read_family

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


def begun(folder: Path, *, two: bool = True) -> Ground:
    """An old store that no adapter has seen."""
    ground = Ground(folder / "state", UPGRADE, two)
    ground.make(OLD)
    return ground


def converge_a_part(ground: Ground) -> None:
    with ground.open() as store:
        store.converge(50, None)
        store.put(MOVED, NEW)
        store.delete(GONE)


def put_back(ground: Ground, copy: Path) -> None:
    shutil.rmtree(ground.old)
    shutil.copytree(copy, ground.old)


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


def assert_asks(ground: Ground, why: str, shows: dict[str, dict[bytes, bytes]]) -> None:
    """Refused until told, however often; what each answer shows is the same after the next opening."""
    for _ in range(2):
        with pytest.raises(RefusedError, match=rf'{why}(?s:.*)on_foreign_writes="old-wins"'):
            ground.open()
    for wins, expected in shows.items():
        told = Ground(ground.base.with_name(f"{ground.base.name}-{wins}"), ground.pairing, ground.two)
        shutil.copytree(ground.base, told.base)
        with told.open(on_foreign_writes=wins) as store:
            assert dict(store.all()) == expected
        with told.open() as store:
            assert_shows(store, expected)


def test_a_copy_from_before_the_adapter_that_the_old_code_wrote_to(tmp_path: Path) -> None:
    ground = begun(tmp_path)
    shutil.copytree(ground.old, tmp_path / "copy")
    converge_a_part(ground)
    put_back(ground, tmp_path / "copy")
    by_old = {MOVED: BY_OLD, ADDED: BY_OLD, LEFT: BY_OLD}
    ground.write_old(by_old)
    old = seen(OLD | by_old)
    assert_asks(ground, "is not as an adapter left it", {"old-wins": old, "new-wins": old | {MOVED: NEW}})


def test_a_copy_from_before_the_adapter_that_nobody_wrote_to(tmp_path: Path) -> None:
    """Its manifest is the one that the adapter found at its first opening, and it has what was deleted since."""
    ground = begun(tmp_path)
    shutil.copytree(ground.old, tmp_path / "copy")
    converge_a_part(ground)
    put_back(ground, tmp_path / "copy")
    old = seen(OLD)
    assert_asks(ground, "is not as an adapter left it", {"old-wins": old, "new-wins": old | {MOVED: NEW}})


@pytest.mark.parametrize("opened", [1, 2, 3])
def test_a_copy_whose_manifest_has_the_number_that_the_new_store_speaks_of(tmp_path: Path, opened: int) -> None:
    """The manifest alone would vouch for it: one of these has been opened as often as the adapter opened the other."""
    ground = begun(tmp_path)
    shutil.copytree(ground.old, tmp_path / "copy")
    converge_a_part(ground)
    put_back(ground, tmp_path / "copy")
    for _ in range(opened):
        ground.write_old({ADDED: BY_OLD})
    assert_asks(ground, "is not as an adapter left it", {"old-wins": seen(OLD | {ADDED: BY_OLD})})


def test_a_copy_from_between_two_sessions(tmp_path: Path) -> None:
    """It has a stateferry.json of its own, which was right once."""
    ground = begun(tmp_path)
    with ground.open() as store:
        store.converge(20, None)
    shutil.copytree(ground.old, tmp_path / "copy")
    converge_a_part(ground)
    put_back(ground, tmp_path / "copy")
    expected = seen(OLD) | {MOVED: NEW}
    del expected[GONE]  # moved before the copy was made
    assert_asks(ground, "is not as an adapter left it", {"old-wins": expected, "new-wins": expected})


@pytest.mark.parametrize("write", [1, 2])
def test_a_copy_from_the_middle_of_an_opening(tmp_path: Path, write: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after the old directory's file has the new token."""
    ground = begun(tmp_path)
    with ground.open() as store:
        store.converge(20, None)
    writing: Callable[..., None] = mark._write

    def copying(directory: Path, content: bytes) -> None:
        nonlocal write
        write -= 1
        if not write:
            copy_as_it_stands(ground.old, tmp_path / "copy")
        writing(directory, content)

    with monkeypatch.context() as patched:
        patched.setattr(mark, "_write", copying)
        converge_a_part(ground)
    put_back(ground, tmp_path / "copy")
    expected = seen(OLD) | {MOVED: NEW}
    del expected[GONE]
    assert_asks(ground, "is not as an adapter left it", {"new-wins": expected})


@arrangements
def test_what_the_old_code_wrote_to_the_store_that_the_adapter_left(tmp_path: Path, two: bool) -> None:
    ground = begun(tmp_path, two=two)
    converge_a_part(ground)
    by_old = {MOVED: BY_OLD, ADDED: BY_OLD, LEFT: BY_OLD, GONE: BY_OLD}
    ground.write_old(by_old)
    old = seen(OLD | by_old)
    assert_asks(ground, "was written to by another program", {"old-wins": old, "new-wins": old | {MOVED: NEW}})


@arrangements
def test_what_the_old_code_wrote_after_the_store_had_converged(tmp_path: Path, two: bool) -> None:
    ground = begun(tmp_path, two=two)
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


@arrangements
def test_nobody_asks_where_the_old_store_was_only_opened(tmp_path: Path, two: bool) -> None:
    ground = begun(tmp_path, two=two)
    converge_a_part(ground)
    expected = seen(OLD) | {MOVED: NEW}
    del expected[GONE]
    ground.write_old({})
    with ground.open() as store:
        assert_shows(store, expected)


@arrangements
@pytest.mark.parametrize("kills", [1, 2])
def test_nobody_asks_after_openings_that_were_killed(
    tmp_path: Path, two: bool, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session is killed, with deletes in the old store that its file does not know of; then one that only begins."""
    ground = begun(tmp_path, two=two)
    with ground.open() as store:
        store.converge(50, None)
        store.put(MOVED, NEW)
        store.delete(GONE)
        ground = as_killed(ground)
    for _ in range(kills):
        ground = _killed_as_it_opens(ground, monkeypatch)
    expected = seen(OLD) | {MOVED: NEW}
    del expected[GONE]
    with ground.open() as store:
        assert_shows(store, expected)


def _killed_as_it_opens(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """RocksDB has made a new manifest, and the adapter's file knows nothing of it."""
    found: list[Ground] = []

    def kill(*_: object) -> str:
        found.append(as_killed(ground))
        return "token"

    with monkeypatch.context() as patched:
        patched.setattr(access, "write_mark", kill)
        ground.open().close()
    return found[0]


@pytest.mark.parametrize("write", [1, 2])
@pytest.mark.parametrize("session", [1, 2])
def test_nobody_asks_after_a_kill_between_the_two_files(
    tmp_path: Path, session: int, write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = begun(tmp_path)
    if session == 2:
        converge_a_part(ground)
    found: list[Ground] = []
    writing: Callable[..., None] = mark._write

    def as_it_stands(directory: Path, content: bytes) -> None:
        if b"token" in content:
            found.append(as_killed(ground))
        writing(directory, content)

    monkeypatch.setattr(mark, "_write", as_it_stands)
    with ground.open() as store:
        expected = dict(store.all())
        after = found[write - 1]
        copy = Ground(tmp_path / "found", UPGRADE, two=True)
        found.clear()
        shutil.copytree(after.base, copy.base)
    monkeypatch.undo()
    with copy.open() as store:
        assert_shows(store, expected)


def test_a_cursor_is_in_force_for_the_two_directories_that_it_was_written_to(tmp_path: Path) -> None:
    """Else every start would search the old store from its first key."""
    ground = begun(tmp_path)
    converge_a_part(ground)
    with ground.open() as store:
        assert store._access is not None
        assert store._access.sweep.low_water is not None


def test_files_of_the_release_before_are_taken_up(tmp_path: Path) -> None:
    """They have no token."""
    ground = begun(tmp_path)
    converge_a_part(ground)
    for directory in (ground.old, ground.path):
        known = mark.read_mark(directory)
        assert known is not None
        content = known.model_dump_json(exclude={"token", "previous_token", "is_at_rest"})
        (directory / "stateferry.json").write_text(content)
    expected = seen(OLD) | {MOVED: NEW}
    del expected[GONE]
    with ground.open() as store:
        assert_shows(store, expected)


def test_a_new_directory_for_a_copy_from_before_the_adapter_begins_anew(tmp_path: Path) -> None:
    ground = begun(tmp_path)
    shutil.copytree(ground.old, tmp_path / "copy")
    converge_a_part(ground)
    put_back(ground, tmp_path / "copy")
    shutil.rmtree(ground.path)
    with ground.open() as store:
        assert_shows(store, seen(OLD))


def test_a_whole_directory_of_one_database_goes_back_as_a_whole(tmp_path: Path) -> None:
    ground = begun(tmp_path, two=False)
    with ground.open() as store:
        store.converge(20, None)
    shutil.copytree(ground.old, tmp_path / "copy")
    converge_a_part(ground)
    put_back(ground, tmp_path / "copy")
    with ground.open() as store:
        assert_shows(store, seen(OLD))


def test_an_answer_that_is_not_known_is_refused(tmp_path: Path) -> None:
    ground = begun(tmp_path)
    with pytest.raises(SpecError, match="'newest-wins' is not known"):
        ground.open(on_foreign_writes="newest-wins")
    assert read_family(ground.old) == OLD
