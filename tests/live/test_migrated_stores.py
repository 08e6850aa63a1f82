"""Stores that the real Kafka Streams wrote, migrated, and opened again by the same version of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from migrate import load_spec, run
from migrate.survey.inspection import inspect
from tests.live.kafka_streams.program import (
    KEY_VALUE,
    TIMESTAMPED_KEY_VALUE,
    VERSIONS,
    make_state,
    open_state,
    require_live,
)

FIXTURE = Path(__file__).parents[1] / "fixtures" / "kafka-streams-4.0.1"
TASKS = 2
RECORDS = 1500


@pytest.fixture(autouse=True)
def _live() -> None:
    require_live()


def write_spec(folder: Path, *, source: str, target: str, extra: str = "") -> Path:
    spec = folder / "migration.toml"
    spec.write_text(
        f"""
        name = "orders"
        work_dir = "work"
        [source]
        format = "kafka-streams.{source}"
        path = "state/orders-app"
        store = "orders"
        [target]
        format = "kafka-streams.{target}"
        path = "new/orders-app"
        [run]
        chunk_size = "64 KiB"
        {extra}
        """
    )
    return spec


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_store_opens_as_a_timestamped_one(version: str, tmp_path: Path) -> None:
    app = tmp_path / "state" / "orders-app"
    expected = make_state(
        version,
        app,
        store="orders",
        kind=KEY_VALUE,
        tasks=TASKS,
        records=RECORDS,
        seed=7,
        other_stores={"customers": TIMESTAMPED_KEY_VALUE},
    )

    report = run(load_spec(write_spec(tmp_path, source="key-value", target="timestamped-key-value")))

    assert report.verification.ok
    assert report.totals.chunks > TASKS
    verdict = open_state(
        version,
        tmp_path / "new" / "orders-app",
        store="orders",
        kind=TIMESTAMPED_KEY_VALUE,
        expected=expected,
        timestamp=-1,
        other_stores={"customers": TIMESTAMPED_KEY_VALUE},
    )
    assert verdict.ok, verdict.difference
    assert not verdict.upgrade_mode("orders")
    assert verdict.records("orders") == report.totals.records_out


@pytest.mark.parametrize("version", VERSIONS)
def test_a_timestamped_store_opens_as_a_plain_one(version: str, tmp_path: Path) -> None:
    app = tmp_path / "state" / "orders-app"
    expected = make_state(
        version, app, store="orders", kind=TIMESTAMPED_KEY_VALUE, tasks=TASKS, records=RECORDS, seed=11
    )
    allow = '[conversion]\nallow = ["loss:timestamp"]'
    spec = write_spec(tmp_path, source="timestamped-key-value", target="key-value", extra=allow)

    report = run(load_spec(spec))

    verdict = open_state(
        version, tmp_path / "new" / "orders-app", store="orders", kind=KEY_VALUE, expected=expected, timestamp=None
    )
    assert verdict.ok, verdict.difference
    assert verdict.records("orders") == report.totals.records_out


@pytest.mark.parametrize("version", VERSIONS)
def test_a_migrated_store_opens_under_exactly_once(version: str, tmp_path: Path) -> None:
    app = tmp_path / "state" / "orders-app"
    expected = make_state(version, app, store="orders", kind=KEY_VALUE, tasks=1, records=200, seed=3)

    run(load_spec(write_spec(tmp_path, source="key-value", target="timestamped-key-value")))

    verdict = open_state(
        version,
        tmp_path / "new" / "orders-app",
        store="orders",
        kind=TIMESTAMPED_KEY_VALUE,
        expected=expected,
        timestamp=-1,
        exactly_once=True,
    )
    assert verdict.ok, verdict.difference


def test_every_version_opens_what_an_older_one_wrote_and_we_migrated(tmp_path: Path) -> None:
    shutil.copytree(FIXTURE / "orders-app", tmp_path / "state" / "orders-app")
    run(load_spec(write_spec(tmp_path, source="key-value", target="timestamped-key-value")))

    for version in VERSIONS:
        verdict = open_state(
            version,
            tmp_path / "new" / "orders-app",
            store="orders",
            kind=TIMESTAMPED_KEY_VALUE,
            expected=FIXTURE / "expected",
            timestamp=-1,
        )
        assert verdict.ok, f"{version}: {verdict.difference}"
        assert not verdict.upgrade_mode("orders")


@pytest.mark.parametrize("version", VERSIONS)
def test_families_of_a_migrated_store_are_those_its_owner_knows(version: str, tmp_path: Path) -> None:
    app = tmp_path / "state" / "orders-app"
    make_state(version, app, store="orders", kind=KEY_VALUE, tasks=1, records=100, seed=5)
    before = {family.name for family in inspect(app).databases[0].families}

    run(load_spec(write_spec(tmp_path, source="key-value", target="timestamped-key-value")))

    (database,) = inspect(tmp_path / "new" / "orders-app", digest=True).databases
    assert {family.name for family in database.families} == before | {"keyValueWithTimestamp"}
    assert {family.name: family.records for family in database.families}["default"] == 0
