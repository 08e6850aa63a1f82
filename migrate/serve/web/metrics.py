"""The service's metrics, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double each counter
        self._registry = CollectorRegistry()
        self._requests = self._counter("requests", "Answers, by what was asked and their status.", "endpoint", "status")
        self._seconds = Histogram(
            "stateferry_serve_seconds",
            "From a request's head to the end of its answer.",
            ["endpoint"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self.retries = self._counter("retries", "Reads that were asked again while their store was being replaced.")
        self.forwarded = self._counter("forwarded", "Requests to other hosts, by their end.", "end")
        self.streamed = self._counter("streamed_records", "Records of this host in streamed scans.")
        self.scans = Gauge("stateferry_serve_scans", "Scans and pages being read.", registry=self._registry)
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"stateferry_serve_{name}", what, labels, registry=self._registry)

    def watch(self, held: Callable[[], float]) -> None:
        """Tell the bytes of answers that are held."""
        gauge = Gauge("stateferry_serve_held_bytes", "Of answers that are made or being sent.", registry=self._registry)
        gauge.set_function(held)

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        """Count one answer."""
        found = self._known.get((endpoint, status))
        if found is None:
            found = self._requests.labels(endpoint, str(status)), self._seconds.labels(endpoint)
            self._known[endpoint, status] = found
        found[0].inc()
        found[1].observe(seconds)

    @property
    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)
