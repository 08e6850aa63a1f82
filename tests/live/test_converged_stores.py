"""Stores that the real Kafka Streams wrote, converged by the lazy adapter, and opened by the same version again."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate import DualReadStore
from tests.live.kafka_streams.program import (
    KEY_VALUE,
    TIMESTAMPED_KEY_VALUE,
    VERSIONS,
    make_state,
    open_state,
    require_live,
)

FORMATS = {KEY_VALUE: "kafka-streams.key-value", TIMESTAMPED_KEY_VALUE: "kafka-streams.timestamped-key-value"}


@pytest.fixture(autouse=True)
def _live() -> None:
    require_live()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("source", "target", "timestamp"),
    [(KEY_VALUE, TIMESTAMPED_KEY_VALUE, -1), (TIMESTAMPED_KEY_VALUE, KEY_VALUE, None)],
    ids=["plain to timestamped", "timestamped to plain"],
)
def test_a_converged_store_opens_in_its_owner(
    version: str, source: str, target: str, timestamp: int | None, tmp_path: Path
) -> None:
    app = tmp_path / "orders-app"
    expected = make_state(version, app, store="orders", kind=source, tasks=1, records=1500, seed=5)
    directory = app / "0_0" / "rocksdb" / "orders"
    before = {path.name for path in directory.iterdir()}

    with DualReadStore.open(directory, source=FORMATS[source], target=FORMATS[target]) as store:
        store.converge(400, None)
    with DualReadStore.open(directory, source=FORMATS[source], target=FORMATS[target]) as store:
        assert store.progress.old_keys_left > 0
        store.converge(None, None)
        assert store.is_converged

    assert not {"stateferry.json", "rocksdict-config.json"} & ({path.name for path in directory.iterdir()} - before)
    verdict = open_state(version, app, store="orders", kind=target, expected=expected, timestamp=timestamp)
    assert verdict.ok, verdict.difference
    assert not verdict.upgrade_mode("orders")
