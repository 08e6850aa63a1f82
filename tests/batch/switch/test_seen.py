"""An old store is removed only where the new one is seen in its place, and nothing that is not ours ever."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import RefusedError, Spec, abandon, cutover, finalize, rollback, run, status
from migrate.batch.ledger.standing import Standing
from tests.batch.switch.support import (
    DATA,
    FIRST,
    LEFT_FOR_GOOD,
    PARTITIONS,
    STORES,
    TASKS,
    Application,
    StopAt,
    StoppedError,
    content,
    make_application,
    write_to,
)
from tests.shared.commands import CommandServer
from tests.shared.windowed import MINUTE, make_segments, windowed_spec, windows
from tests.support import (
    copy_fixture,
    kafka_spec,
    make_families,
    make_store,
    numbered,
    raises,
    read_families,
    read_ledger,
    to_toml,
    tree_state,
)

MARKER = "stateferry-folder.json"


def _created_again(store: Path) -> None:
    """As Kafka Streams does from the changelog: another RocksDB."""
    shutil.rmtree(store)
    make_families(store, {"default": {}, "keyValueWithTimestamp": numbered(5)})


LOST = pytest.mark.parametrize("lose", [shutil.rmtree, _created_again], ids=["gone", "created again"])


@LOST
def test_nothing_is_freed_where_no_new_store_is_seen(lose: Callable[[Path], None], app: Application) -> None:
    cutover(app.spec)
    for partition in PARTITIONS:
        lose(app.live(partition))
    before = content(app.spec.home / "old")
    for moved_away in (False, True):
        raises(RefusedError, r"no new store is seen in .*orders-app", finalize, app.spec, moved_away=moved_away)
    assert content(app.spec.home / "old") == before
    assert status(app.spec).state == "cut over"


@LOST
def test_stores_of_tasks_that_moved_away_are_named_and_need_a_word(
    lose: Callable[[Path], None], app: Application
) -> None:
    cutover(app.spec)
    for store in STORES:
        lose(app.live(f"{TASKS[1]}/{store}"))
    gone = tuple(f"{TASKS[1]}/{store}" for store in STORES)
    before = content(app.spec.home / "old")
    refused = raises(RefusedError, f"2 of 4 new stores are not seen in .*: {', '.join(gone)}", finalize, app.spec)
    assert "--moved-away" in refused.hint
    assert content(app.spec.home / "old") == before
    report = finalize(app.spec, moved_away=True)
    assert (report.state, report.moved_away) == ("finalized", gone)
    assert {path.name for path in app.spec.home.iterdir()} == LEFT_FOR_GOOD
    assert finalize(app.spec).moved_away == ()


def test_the_command_has_the_word(app: Application, commands: CommandServer) -> None:
    spec = app.base / "migration.toml"
    sections = app.spec.model_dump(mode="json", exclude_none=True, exclude={"conversion", "run"})
    spec.write_text(to_toml(sections))
    cutover(app.spec)
    shutil.rmtree(app.live(FIRST))
    outcome = commands.run(["finalize", str(spec)])
    assert (outcome.code, FIRST in outcome.message) == (6, True)
    outcome = commands.run(["finalize", "--moved-away", str(spec)])
    assert (outcome.code, FIRST in outcome.out) == (0, True), outcome.err


def test_a_finalize_that_was_killed_checks_again(app: Application) -> None:
    cutover(app.spec)
    raises(StoppedError, "", finalize, app.spec, on_event=StopAt("finalize.intended"))
    volume = app.path.rename(app.base / "volume")
    app.path.mkdir()
    raises(RefusedError, "no new store is seen", finalize, app.spec)
    assert {path.name for path in app.spec.home.iterdir()} > LEFT_FOR_GOOD
    app.path.rmdir()
    volume.rename(app.path)
    assert finalize(app.spec).state == "finalized"


def test_a_published_directory_is_looked_at_too(folder: Path) -> None:
    spec = kafka_spec(folder, make_application(folder))
    run(spec)
    new = folder / "new/orders-app"
    kept = new.rename(folder / "kept")
    copy_fixture(folder / "other").rename(new)
    before = content(spec.home)
    raises(RefusedError, "no new store is seen", finalize, spec)
    shutil.rmtree(new)
    kept.rename(new)
    shutil.rmtree(new / "0_1" / "rocksdb" / "refunds")
    raises(RefusedError, r"1 of 4 new stores are not seen in .*: 0_1/refunds", finalize, spec)
    assert {*before} <= {*content(spec.home)}
    assert finalize(spec, moved_away=True).moved_away == ("0_1/refunds",)


def _windowed(base: Path) -> tuple[Path, Spec]:
    store = base / "app" / "0_0" / "win"
    make_segments(store, windows(80, until=60 * MINUTE), 15 * MINUTE)
    return store, windowed_spec(base, "kafka-streams.window", "kafka-streams.timestamped-window")


def test_a_store_whose_segments_have_all_expired_since_is_seen(tmp_path: Path) -> None:
    store, spec = _windowed(tmp_path)
    run(spec)
    cutover(spec)
    for segment in store.iterdir():
        shutil.rmtree(segment)
    raises(RefusedError, "no new store is seen", finalize, spec)
    make_families(store / f"win.{600 * MINUTE}", {"default": {}, "keyValueWithTimestamp": numbered(5)})
    assert finalize(spec).state == "finalized"


def test_a_segmented_store_that_was_created_again_is_not(tmp_path: Path) -> None:
    store, spec = _windowed(tmp_path)
    run(spec)
    cutover(spec)
    for segment in sorted(store.iterdir()):
        _created_again(segment)
    raises(RefusedError, "no new store is seen", finalize, spec)


def test_what_is_not_ours_is_left_by_finalize_and_named(app: Application) -> None:
    cutover(app.spec)
    home = app.spec.home
    other = make_store(home / "old" / "0_0" / "backup", numbered(3))
    note = app.shelved(FIRST) / "note.txt"
    note.write_text("mine")
    (home / ".git").mkdir()
    report = finalize(app.spec)
    assert {*report.left_over} >= {home / ".git", note, other / "CURRENT"}
    assert read_families(other)["default"] == numbered(3)
    assert {path.name for path in home.iterdir()} == {*LEFT_FOR_GOOD, ".git", "old"}
    assert [path.name for path in app.shelved(FIRST).iterdir()] == ["note.txt"]


def test_a_store_that_was_put_where_an_old_one_was_is_not_removed(app: Application) -> None:
    cutover(app.spec)
    shutil.rmtree(app.shelved(FIRST))
    make_store(app.shelved(FIRST), numbered(3))
    finalize(app.spec)
    assert read_families(app.shelved(FIRST))["default"] == numbered(3)


def test_a_note_beside_a_new_store_outlives_the_way_back(app: Application) -> None:
    cutover(app.spec)
    write_to(app.live(FIRST), family=DATA)
    (app.live(FIRST) / "note.txt").write_text("mine")
    rollback(app.spec, discard_new_writes=True)
    assert app.standing() == {"old"}
    assert (app.staged(FIRST) / "note.txt").read_text() == "mine"
    raises(RefusedError, "was written to since it was assembled", cutover, app.spec)


def _half_way(app: Application) -> Path:
    """The old store was created again after the snapshot, and is where the new one was; the ledger records nothing."""
    raises(StoppedError, "", cutover, app.spec, on_event=StopAt("cutover.exchanged"))
    shutil.rmtree(app.spec.home / "ledger")
    (staged,) = [path for path in app.spec.home.glob(f"new/*/{FIRST}")]
    return staged


def _other_identity(store: Path) -> None:
    (store / "IDENTITY").write_text("00000000-0000-4000-8000-000000000000")


def test_the_only_copy_of_an_old_store_is_never_abandoned(later: Application) -> None:
    """A backup that was restored, or a restore from the changelog, has another identity than its snapshot."""
    _other_identity(later.live(FIRST))
    staged = _half_way(later)
    before = content(staged)
    raises(RefusedError, f"may hold one: {FIRST}", abandon, later.spec)
    assert content(staged) == before
    shutil.rmtree(later.live(FIRST))
    staged.rename(later.live(FIRST))
    assert abandon(later.spec).removed == later.spec.home
    assert content(later.live(FIRST)) == before


def test_nor_is_it_removed_by_a_run(later: Application) -> None:
    _other_identity(later.live(FIRST))
    staged = _half_way(later)
    before = content(staged)
    run(later.spec)
    run(later.spec)
    assert content(staged) == before
    raises(RefusedError, f"may hold one: {FIRST}", abandon, later.spec)


def test_nor_where_the_ledger_lost_the_switch_alone(later: Application) -> None:
    _other_identity(later.live(FIRST))
    raises(StoppedError, "", cutover, later.spec, on_event=StopAt("cutover.exchanged"))
    (staged,) = later.spec.home.glob(f"new/*/{FIRST}")
    ledger = later.spec.home / "ledger"
    while Standing(later.spec.home, read_ledger(later.spec.home)).step is not None:
        max((ledger / "_delta_log").glob("*.json")).unlink()
        for shortcut in (ledger / "_delta_log").glob("*checkpoint*"):
            shortcut.unlink()
    raises(RefusedError, f"may hold one: {FIRST}", abandon, later.spec)
    assert staged.is_dir()


def test_a_migration_whose_ledger_is_lost_can_be_abandoned_where_the_old_stores_are_seen(app: Application) -> None:
    shutil.rmtree(app.spec.home / "ledger")
    before = tree_state(app.path)
    assert abandon(app.spec).removed == app.spec.home
    assert not app.spec.home.exists()
    assert tree_state(app.path) == before


def test_without_a_ledger_and_the_application_nothing_is_abandoned(app: Application) -> None:
    shutil.rmtree(app.spec.home / "ledger")
    app.path.rename(app.base / "volume")
    app.path.mkdir()
    raises(RefusedError, "may hold one", abandon, app.spec)
