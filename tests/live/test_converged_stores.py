"""Stores that the real Kafka Streams wrote, converged by the lazy adapter, and opened by the same version again."""

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
MADE = {"plain": KEY_VALUE, "timestamped": TIMESTAMPED_KEY_VALUE}
CONVERGED = {"plain": TIMESTAMPED_KEY_VALUE, "timestamped": KEY_VALUE}


@pytest.fixture(autouse=True)
def _live() -> None:
    require_live()


@pytest.mark.parametrize("version", VERSIONS)
def test_converged_stores_open_in_their_owner(version: str, tmp_path: Path) -> None:
    app = tmp_path / "orders-app"
    one, other = MADE
    expected = make_state(
        version, app, store=one, kind=MADE[one], tasks=1, records=1500, seed=5, other_stores={other: MADE[other]}
    )
    for name in MADE:
        _converge(app / "0_0" / "rocksdb" / name, FORMATS[MADE[name]], FORMATS[CONVERGED[name]])
    verdict = open_state(
        version,
        app,
        store=one,
        kind=CONVERGED[one],
        expected=expected,
        other_stores={other: CONVERGED[other]},
    )
    assert verdict.ok, verdict.difference
    assert not any(verdict.upgrade_mode(name) for name in MADE)


def _converge(directory: Path, source: str, target: str) -> None:
    """In two sessions."""
    before = {path.name for path in directory.iterdir()}
    with DualReadStore.open(directory, source=source, target=target) as store:
        store.converge(400, None)
    with DualReadStore.open(directory, source=source, target=target) as store:
        assert store.progress.old_keys_left > 0
        store.converge(None, None)
        assert store.is_converged
    assert not {"stateferry.json", "rocksdict-config.json"} & ({path.name for path in directory.iterdir()} - before)
