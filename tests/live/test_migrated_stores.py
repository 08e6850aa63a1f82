"""Stores that the real Kafka Streams wrote, migrated, and opened again by it."""

import shutil
from pathlib import Path

import pytest

from migrate import Spec, cutover, run, snapshot
from migrate.survey.inspection import inspect
from tests.live.kafka_streams.program import TIMESTAMPED_KEY_VALUE, VERSIONS, make_state, open_state, require_live
from tests.support import FIXTURE, KEY_VALUE, TIMESTAMPED, make_spec

PLAIN = "key-value"


@pytest.fixture(autouse=True)
def _live() -> None:
    require_live()


def _spec(folder: Path, **sections: object) -> Spec:
    app = folder / "state/orders-app"
    sections = {"source": {"store": "orders"}, **sections}
    return make_spec(folder, app, source_format=KEY_VALUE, target_format=TIMESTAMPED, **sections)


def _open(version: str, app: Path, expected: Path, *, timestamp: int | None = -1, in_place: bool = False) -> None:
    kind = PLAIN if timestamp is None else TIMESTAMPED_KEY_VALUE
    verdict = open_state(
        version, app, store="orders", kind=kind, expected=expected, timestamp=timestamp, in_place=in_place
    )
    assert verdict.ok, f"{version}: {verdict.difference}"
    assert not verdict.upgrade_mode("orders")


def test_every_version_opens_what_an_older_one_wrote_and_we_migrated(tmp_path: Path) -> None:
    shutil.copytree(FIXTURE / "orders-app", tmp_path / "state/orders-app")
    run(_spec(tmp_path))
    for version in VERSIONS:
        _open(version, tmp_path / "new/orders-app", FIXTURE / "expected")


@pytest.mark.parametrize("version", VERSIONS)
def test_families_of_a_migrated_store_are_those_its_owner_knows(version: str, tmp_path: Path) -> None:
    app = tmp_path / "state/orders-app"
    make_state(version, app, store="orders", kind=PLAIN, tasks=1, records=100, seed=5)
    before = {family.name for family in inspect(app).databases[0].families}
    run(_spec(tmp_path))
    (database,) = inspect(tmp_path / "new/orders-app", digest=True).databases
    assert {family.name for family in database.families} == before | {"keyValueWithTimestamp"}
    assert {family.name: family.records for family in database.families}["default"] == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_snapshot_takes_the_place_of_a_store_that_has_gone_on(version: str, tmp_path: Path) -> None:
    app = tmp_path / "state/orders-app"
    expected = make_state(version, app, store="orders", kind=PLAIN, tasks=2, records=1500, seed=29)
    spec = _spec(tmp_path, target={"path": None}, run={"source": "snapshot"})
    snapshot(spec)
    _open(version, app, expected, timestamp=None, in_place=True)  # which writes, too
    run(spec)
    cutover(spec)
    _open(version, app, expected)
