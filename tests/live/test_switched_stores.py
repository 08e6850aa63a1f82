"""Cut-over and rollback in a state directory of the real Kafka Streams, opened in between by the same version of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate import RefusedError, Spec, cutover, load_spec, rollback, run, snapshot
from tests.live.kafka_streams.program import (
    KEY_VALUE,
    TIMESTAMPED_KEY_VALUE,
    VERSIONS,
    Verdict,
    make_state,
    open_state,
    require_live,
)
from tests.live.test_migrated_stores import write_spec


@pytest.fixture(autouse=True)
def _live() -> None:
    require_live()


def _spec(folder: Path, extra: str = "") -> Spec:
    file = write_spec(folder, source="key-value", target="timestamped-key-value", extra=extra)
    file.write_text(file.read_text().replace('path = "new/orders-app"', ""))
    return load_spec(file)


def _open(
    version: str, app: Path, expected: Path, *, kind: str, timestamp: int | None, in_place: bool = False
) -> Verdict:
    verdict = open_state(
        version, app, store="orders", kind=kind, expected=expected, timestamp=timestamp, in_place=in_place
    )
    assert verdict.ok, verdict.difference
    return verdict


@pytest.mark.parametrize("version", VERSIONS)
def test_there_and_back(version: str, tmp_path: Path) -> None:
    app = tmp_path / "state" / "orders-app"
    expected = make_state(version, app, store="orders", kind=KEY_VALUE, tasks=2, records=1500, seed=23)
    spec = _spec(tmp_path)
    run(spec)
    cutover(spec)

    verdict = _open(version, app, expected, kind=TIMESTAMPED_KEY_VALUE, timestamp=-1, in_place=True)
    assert not verdict.upgrade_mode("orders")

    with pytest.raises(RefusedError, match="written to since the cut-over"):
        rollback(spec)
    rollback(spec, discard_new_writes=True)
    _open(version, app, expected, kind=KEY_VALUE, timestamp=None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_snapshot_takes_the_place_of_a_store_that_has_gone_on(version: str, tmp_path: Path) -> None:
    app = tmp_path / "state" / "orders-app"
    expected = make_state(version, app, store="orders", kind=KEY_VALUE, tasks=2, records=1500, seed=29)
    spec = _spec(tmp_path, extra='source = "snapshot"')
    snapshot(spec)
    _open(version, app, expected, kind=KEY_VALUE, timestamp=None, in_place=True)  # which writes, too

    run(spec)
    cutover(spec)

    verdict = _open(version, app, expected, kind=TIMESTAMPED_KEY_VALUE, timestamp=-1)
    assert not verdict.upgrade_mode("orders")
