"""All systems, by the first part of the format id."""

from __future__ import annotations

from migrate.systems.base import System
from migrate.systems.kafka_streams import KafkaStreams
from migrate.systems.lone_rocksdb import LoneRocksDB
from migrate.systems.streamiz import Streamiz

_SYSTEMS: dict[str, System] = {
    "kafka-streams": KafkaStreams(),
    "streamiz": Streamiz(),
    "rocksdb": LoneRocksDB(),
}


def get_system(name: str, *, has_stores: bool) -> System:
    """The system of a format; without stores by name, `path` is one RocksDB directory whatever the format."""
    return _SYSTEMS[name] if has_stores else _SYSTEMS["rocksdb"]
