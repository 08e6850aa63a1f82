"""Kafka Streams' column families, and its versions."""

from __future__ import annotations

from formats.format import OwnerVersions

PLAIN_FAMILY = "default"
TIMESTAMPED_FAMILY = "keyValueWithTimestamp"
HEADERS_FAMILY = "keyValueWithTimestampAndHeaders"
SESSION_HEADERS_FAMILY = "sessionKeyValueWithHeaders"
OFFSETS = "offsets"
"""The system's own, since 4.3: changelog offsets, whether the store is open, and its position."""
VERSIONS = OwnerVersions("Kafka Streams", oldest="3.9", newest="4.3", example="4.1", families=((OFFSETS, "4.3"),))
"""3.9 carries RocksDB 7.9, which opens table format 5, the one that new stores are written in, but not 6. Versions
before 3.9 carry older ones, and none was tried."""
