"""Names of Kafka Streams' column families."""

from __future__ import annotations

PLAIN_FAMILY = "default"
TIMESTAMPED_FAMILY = "keyValueWithTimestamp"
HEADERS_FAMILY = "keyValueWithTimestampAndHeaders"
SESSION_HEADERS_FAMILY = "sessionKeyValueWithHeaders"
OFFSETS = "offsets"
"""The system's own, since 4.3: changelog offsets, whether the store is open, and its position."""
