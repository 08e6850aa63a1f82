"""Where the file system cannot exchange two directories: two renames, and what a kill between them leaves."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from migrate import Spec, cutover, rollback, verify
from migrate.batch.ledger.standing import read_standing
from migrate.batch.switch.locked_migration import LockedMigration
from migrate.batch.switch.store_locations import StoreLocations
from migrate.model.events import Event
from migrate.stores.files import ExchangeUnsupportedError
from tests.batch.switch.support import (
    FIRST,
    FOREIGN_LINE,
    PARTITIONS,
    TASKS,
    Application,
    StopAt,
    StoppedError,
    content,
    lone_records,
)
from tests.support import read_family

THIRD = PARTITIONS[2]


@pytest.fixture(autouse=True)
def _no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: Path) -> None:
        raise ExchangeUnsupportedError

    monkeypatch.setattr(f"{StoreLocations.__module__}.exchange", unsupported)
    monkeypatch.setattr(f"{LockedMigration.__module__}.can_exchange", lambda _: False)


@contextmanager
def killed_before_a_rename_to(target: Path) -> Iterator[None]:
    """The process dies when it is about to put a directory there."""
    rename = Path.rename

    def rename_or_die(self: Path, name: Path) -> Path:
        if name == target:
            raise StoppedError(str(target))
        return rename(self, name)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(Path, "rename", rename_or_die)
        yield


def lines(app: Application) -> dict[str, list[str]]:
    """Of each task's `.checkpoint`, heading included, in any order."""
    return {task: sorted(app.checkpoint(task).read_text().splitlines()) for task in TASKS}


def old_files(app: Application) -> dict[str, dict[str, bytes]]:
    return {partition: content(app.live(partition)) for partition in PARTITIONS}


def check_gap(app: Application, missing: str) -> None:
    """One store partition is away, and no line says otherwise: Kafka Streams would restore it from its beginning."""
    assert [partition for partition in PARTITIONS if not app.live(partition).exists()] == [missing]
    assert {app.offset(partition) for partition in PARTITIONS} == {None}
    assert FOREIGN_LINE in app.checkpoint("0_0").read_text()
    assert "orders-app-customers-changelog 1 242" in app.checkpoint("0_1").read_text()


def _die_from_aside(rename: Callable[[Path, Path], Path], path: Path, to: Path) -> Path:
    if path.suffix == ".new":
        raise StoppedError(str(path))
    return rename(path, to)


def test_there_and_back(app: Application) -> None:
    old, said = old_files(app), lines(app)
    cutover(app.spec, on_event=StopAt(look=app.check_whole))
    assert app.standing() == {"new"}
    assert {partition: content(app.shelved(partition)) for partition in PARTITIONS} == old
    assert lines(app) == said
    assert verify(app.spec).verification.ok
    rollback(app.spec, on_event=StopAt(look=app.check_whole))
    assert old_files(app) == old
    assert lines(app) == said


@pytest.mark.parametrize("partition", [FIRST, THIRD])
@pytest.mark.parametrize(("killed", "after"), [(cutover, cutover), (cutover, rollback), (rollback, rollback)])
def test_a_switch_killed_between_the_two_is_finished_or_taken_back(
    killed: Callable[[Spec], object], after: Callable[[Spec], object], partition: str, app: Application
) -> None:
    old, said = old_files(app), lines(app)
    if killed is rollback:
        cutover(app.spec)
    with killed_before_a_rename_to(app.live(partition)):
        killed(app.spec)
    check_gap(app, partition)
    after(app.spec)
    assert {each: content(app.shelved(each) if after is cutover else app.live(each)) for each in PARTITIONS} == old
    assert lines(app) == said
    assert cutover(app.spec).state == "cut over"
    assert app.standing() == {"new"}


def test_a_rollback_killed_before_the_new_store_is_back_in_its_place(app: Application) -> None:
    old = old_files(app)
    cutover(app.spec)
    staged = app.spec.home / read_standing(app.spec.home).journal.exchanges[0].staged

    def die(event: Event) -> None:
        """From here on: the old store goes through the staged place on its way."""
        if event.name == "rollback.intended":
            rename = Path.rename
            patch.setattr(Path, "rename", lambda self, to: _die_from_aside(rename, self, to))

    with pytest.MonkeyPatch.context() as patch, pytest.raises(StoppedError):
        rollback(app.spec, on_event=die)
    assert not staged.exists()
    rollback(app.spec)
    assert old_files(app) == old
    assert cutover(app.spec).state == "cut over"
    assert app.standing() == {"new"}


@pytest.mark.parametrize("verb", [cutover, rollback])
def test_lines_that_are_taken_out_and_put_back_are_durable_before_the_end(
    verb: Callable[..., object], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    if verb is rollback:
        cutover(app.spec)
    durable: dict[Path, str] = {}
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        if (file := Path(f"/proc/self/fd/{descriptor}").resolve() / ".checkpoint").exists():
            durable[file] = file.read_text()

    def look(name: str) -> None:
        if name in ("cutover.done", "rollback.done"):
            assert durable == {app.checkpoint(task): app.checkpoint(task).read_text() for task in TASKS}

    monkeypatch.setattr(os, "fsync", fsync)
    watch = StopAt(look=look)
    verb(app.spec, on_event=watch)
    assert watch.seen[f"{verb.__name__}.done"] == 1


@pytest.mark.parametrize("name", ["cutover.exchanged", "cutover.done"])
def test_killed_at_an_event(name: str, app: Application) -> None:
    said = lines(app)
    with pytest.raises(StoppedError):
        cutover(app.spec, on_event=StopAt(name))
    assert {app.offset(partition) for partition in PARTITIONS} == {None} or name == "cutover.done"
    cutover(app.spec)
    assert (app.standing(), lines(app)) == ({"new"}, said)
    with pytest.raises(StoppedError):
        rollback(app.spec, on_event=StopAt(name.replace("cutover", "rollback")))
    rollback(app.spec)
    assert (app.standing(), lines(app)) == ({"old"}, said)


def test_without_an_exchange_a_lone_directory_is_switched_too(lone: Spec) -> None:
    before = content(lone.source_path)
    with killed_before_a_rename_to(lone.source_path):
        cutover(lone)
    assert not lone.source_path.exists()
    rollback(lone)
    assert content(lone.source_path) == before
    cutover(lone)
    assert read_family(lone.source_path) == lone_records()
