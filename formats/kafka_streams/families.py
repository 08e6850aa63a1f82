"""What the formats of Kafka Streams have in common: its column families, and its versions."""

from __future__ import annotations

from functools import partial

from formats.format import Format, OwnerVersions

PLAIN_FAMILY = "default"
TIMESTAMPED_FAMILY = "keyValueWithTimestamp"
HEADERS_FAMILY = "keyValueWithTimestampAndHeaders"
SESSION_HEADERS_FAMILY = "sessionKeyValueWithHeaders"
OFFSETS = "offsets"
"""The system's own, since 4.3: changelog offsets, whether the store is open, and its position."""
VERSIONS = OwnerVersions("Kafka Streams", oldest="3.9", newest="4.3", example="4.1", families=((OFFSETS, "4.3"),))
"""The RocksDB of 3.9 opens table format 5, the one that new stores are written in, but not 6. Those of 3.0 and newer do
so too; what versions before 3.9 keep beside the records was not tried."""
kafka_streams_format = partial(
    Format, metadata_families=(OFFSETS,), versions=VERSIONS, has_changelog=True, keeps_keys_in_tasks=True
)
