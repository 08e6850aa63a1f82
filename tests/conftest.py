"""Settings for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Examples open real RocksDB directories, on machines that have other things to do: no example is too slow.
settings.register_profile("storage", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("storage")
