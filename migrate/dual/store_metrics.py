"""Metrics of lazy stores for Prometheus: collected on request, at no cost to a get or a put."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, StateSetMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from migrate.dual.converging import Converging
from migrate.dual.dual_store import DualReadStore
from migrate.stores.state_store import State


class StoreMetrics(Collector):
    """The progress of lazy stores, and of adapters inside processors, to be registered in an application's registry.

    One collector serves all of them: `stores` is read at each collection, and its keys become labels.
    """

    def __init__(self, stores: Mapping[str, Converging]) -> None:
        self._stores = stores

    def describe(self) -> Iterable[Metric]:
        """The metrics without values: the stores may not be open yet."""
        return StoreMetrics({}).collect()

    def collect(self) -> Iterator[Metric]:
        """The metrics of all stores, without waiting for a lock or reading a record."""
        label = ["store"]
        left = GaugeMetricFamily(
            "stateferry_store_old_keys_left", "Records in the old format, estimated.", labels=label
        )
        converged = GaugeMetricFamily("stateferry_store_converged", "1 once the old store is empty.", labels=label)
        state = StateSetMetricFamily("stateferry_store_state", "The state of the open store.", labels=label)
        moved = CounterMetricFamily(
            "stateferry_store_moved", "Old records moved since the store was opened, by what.", labels=["store", "by"]
        )
        rejected = GaugeMetricFamily(
            "stateferry_store_rejected", "Old records that the sweep could not convert.", labels=label
        )
        dropped = CounterMetricFamily(
            "stateferry_store_dropped", "Old records dropped by the function since the opening.", labels=label
        )
        superseded = CounterMetricFamily(
            "stateferry_store_superseded",
            "Old values inside a processor that were found beside a new one.",
            labels=label,
        )
        for name, store in list(self._stores.items()):
            progress = store.progress
            left.add_metric([name], progress.old_keys_left)
            converged.add_metric([name], store.is_converged)
            if isinstance(store, DualReadStore):  # inside a processor, the state is the host's
                state.add_metric([name], {str(each): store.state is each for each in State})
            for by in ("read", "write", "delete", "converge"):
                moved.add_metric([name, by], getattr(progress, f"moved_by_{by}"))
            rejected.add_metric([name], progress.rejected)
            dropped.add_metric([name], progress.dropped)
            superseded.add_metric([name], progress.superseded)
        yield from (left, converged, state, moved, rejected, dropped, superseded)


def write_metrics(path: str | Path, stores: Mapping[str, Converging]) -> None:
    """Write the metrics to a file for node_exporter's textfile collector, atomically.

    Args:
        path: the file, which is replaced; its name ends with ".prom" for the collector to read it.
        stores: the open stores or adapters, by the name that becomes their label.
    """
    registry = CollectorRegistry()
    registry.register(StoreMetrics(stores))
    write_to_textfile(str(path), registry)
