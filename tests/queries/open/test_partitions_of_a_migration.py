"""Stores whose number of partitions changes: each side has its own, with the format of each store."""

from pathlib import Path

import pytest

from migrate import Spec, run
from migrate.queries.open.store_sources import MigrationStores
from tests.batch.run.test_partitions import KINDS, PLAIN, make_application, spread
from tests.support import KEY_VALUE, TIMESTAMPED, make_spec


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    app = KINDS["window"].make(make_application(tmp_path / "app", {"orders": spread(PLAIN, 2)}), 2, store="by-hour")
    moved = {"name": "by-hour", "format": "kafka-streams.window"}
    return make_spec(
        tmp_path,
        app,
        source_format=KEY_VALUE,
        target_format=TIMESTAMPED,
        source={"stores": ["orders", moved]},
        target={"partitions": 3},
        conversion={"allow": ["changelog"]},
    )


def _tasks(spec: Spec, side: str, store: str) -> list[str]:
    stores = MigrationStores(spec, side, stale=True, refresh=0)  # type: ignore[arg-type]
    return [site.partition.task for site in stores.sites(store)]


@pytest.mark.parametrize("store", ["orders", "by-hour"])
def test_each_side_has_its_own_partitions(spec: Spec, store: str) -> None:
    assert _tasks(spec, "live", store) == ["0_0", "0_1"]
    run(spec)
    assert _tasks(spec, "old", store) == ["0_0", "0_1"]
    assert _tasks(spec, "new", store) == ["0_0", "0_1", "0_2"]
    assert _tasks(spec, "live", store) == ["0_0", "0_1", "0_2"]


def test_a_store_that_moves_along_keeps_its_format(spec: Spec) -> None:
    run(spec)
    stores = MigrationStores(spec, "live", stale=True, refresh=0)
    assert stores.definition("orders").format == TIMESTAMPED
    assert stores.definition("by-hour").format == "kafka-streams.window"
    assert stores.is_new(stores.definition("by-hour"))
