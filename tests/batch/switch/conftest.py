"""Migrations that are verified and not cut over yet, restored for each test in a tenth of a second."""

from collections.abc import Callable
from pathlib import Path

import pytest

from migrate import Spec, run, snapshot
from tests.bad_input.conftest import folder, memory
from tests.batch.switch.support import (
    FROM_SNAPSHOT,
    Application,
    go_on,
    in_place_spec,
    lone_records,
    lone_spec,
    make_application,
    restore,
)
from tests.support import make_store

__all__ = ["folder", "memory"]


def _kept(place: Path, prepare: Callable[[Path], None]) -> Path:
    """`place` as `prepare` leaves it, kept beside: paths are part of what a verification vouches for."""
    place.mkdir()
    prepare(place)
    return place.rename(place.with_name(f"{place.name}.pristine"))


@pytest.fixture(scope="session")
def _verified(memory: Path) -> Path:
    return _kept(memory / "live", lambda place: _run(in_place_spec(place, make_application(place))))


@pytest.fixture(scope="session")
def _from_snapshot(memory: Path) -> Path:
    return _kept(memory / "later", _snapshot_and_run)


@pytest.fixture(scope="session")
def _lone(memory: Path) -> Path:
    return _kept(memory / "lone", _make_and_run)


def _run(spec: Spec) -> None:
    run(spec)


def _make_and_run(place: Path) -> None:
    make_store(place / "state", lone_records())
    run(lone_spec(place))


def _snapshot_and_run(place: Path) -> None:
    application = make_application(place)
    spec = in_place_spec(place, application, **FROM_SNAPSHOT)
    snapshot(spec)
    go_on(application)
    run(spec)


@pytest.fixture
def fresh(folder: Path) -> Application:
    """Nothing has begun."""
    path = make_application(folder)
    return Application(folder, path, in_place_spec(folder, path))


@pytest.fixture
def app(_verified: Path) -> Application:
    """Two stores of a real application in two tasks, run from the live directory."""
    place = _verified.with_name("live")
    restore(_verified, place)
    path = place / "orders-app"
    return Application(place, path, in_place_spec(place, path))


@pytest.fixture
def later(_from_snapshot: Path) -> Application:
    """The same from a snapshot; the old application went on meanwhile, and was stopped again."""
    place = _from_snapshot.with_name("later")
    restore(_from_snapshot, place)
    path = place / "orders-app"
    return Application(place, path, in_place_spec(place, path, **FROM_SNAPSHOT), went_on=True)


@pytest.fixture
def lone(_lone: Path) -> Spec:
    """A RocksDB directory alone."""
    place = _lone.with_name("lone")
    restore(_lone, place)
    return lone_spec(place)
