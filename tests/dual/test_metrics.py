"""Metrics of a lazy store: what an application's registry says of it."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from migrate import DualReadStore
from migrate.dual.store_metrics import StoreMetrics, write_metrics
from tests.support import KEY_VALUE, TIMESTAMPED, make_store, numbered


def _open(path: Path, count: int) -> DualReadStore:
    make_store(path, numbered(count))
    return DualReadStore.open(path, source=KEY_VALUE, target=TIMESTAMPED, changelog=True)


def test_it_follows_a_store_until_it_has_converged(tmp_path: Path) -> None:
    store = _open(tmp_path / "orders", 100)
    stores = {"orders": store}
    registry = CollectorRegistry(auto_describe=True)
    registry.register(StoreMetrics(stores))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"stateferry_store_{name}", {"store": "orders", **labels})

    def state(name: str) -> float | None:
        return value("state", stateferry_store_state=name)

    assert (value("converged"), state("RUNNING"), state("ERROR")) == (0, 1, 0)
    left = value("old_keys_left")
    assert left is not None
    assert left > 50
    store.put(b"key-00000001", b"\x00" * 8 + b"new")
    store.delete(b"key-00000002")
    assert store.converge(max_records=10, max_millis=None) == 10
    moved = {by: value("moved_total", by=by) for by in ("read", "write", "delete", "converge")}
    assert moved == {"read": 0, "write": 1, "delete": 1, "converge": 10}
    store.converge(None, None)
    assert (value("converged"), value("old_keys_left"), value("rejected")) == (1, 0, 0)
    assert value("moved_total", by="converge") == 98
    store.close()
    assert (state("RUNNING"), state("NOT_RUNNING")) == (0, 1)


def test_one_collector_serves_all_stores_that_there_are_at_the_time(tmp_path: Path) -> None:
    stores: dict[str, DualReadStore] = {}
    registry = CollectorRegistry(auto_describe=True)
    registry.register(StoreMetrics(stores))
    for name in ("orders", "refunds"):
        stores[name] = _open(tmp_path / name, 10)
    try:
        found = {name: registry.get_sample_value("stateferry_store_converged", {"store": name}) for name in stores}
        assert found == {"orders": 0, "refunds": 0}
    finally:
        for store in stores.values():
            store.close()


def test_the_same_comes_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    file = tmp_path / "metrics/store.prom"
    store = _open(tmp_path / "orders", 10)
    try:
        for _ in range(2):
            write_metrics(file, {"orders": store})
    finally:
        store.close()
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    names = {family.name for family in text_string_to_metric_families(file.read_text())}
    assert names == {
        f"stateferry_store_{name}"
        for name in ("old_keys_left", "converged", "state", "moved", "rejected", "dropped", "superseded")
    }


def test_a_store_that_converges_during_a_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the question whether there is dual access and the answer, another thread may have ended it."""
    store = _open(tmp_path / "orders", 10)
    access = store._access
    looks = iter([access])
    monkeypatch.setattr(DualReadStore, "_access", property(lambda _: next(looks, None)), raising=False)
    assert store.progress.old_keys_left > 0
    monkeypatch.undo()
    store.close()
