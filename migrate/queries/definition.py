"""What a person says of a store: the files tell neither the serdes nor the times that its application configures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from formats import Format
from formats.serde import BYTES, Serde
from migrate.systems import known_format


@dataclass(frozen=True)
class StoreDefinition:
    """How to read the store of one name."""

    format: str
    """The id of its format, such as `kafka-streams.timestamped-key-value`."""
    key: Serde = BYTES
    value: Serde = BYTES
    family: str | None = None
    """The column family of a format that holds any, such as `rocksdb.raw`; None: the only one there is."""
    retention_ms: int | None = None
    """Older records are left out; None: none is."""
    segment_ms: int | None = None
    """The time in ms that each segment covers; None: as the system derives it from the retention."""
    window_size_ms: int | None = None
    """The size of each window, which a window store does not hold; None: results have no window end."""
    partitions: int | None = None
    """The number of partitions of the store, on all hosts; None: not known."""

    @cached_property
    def stored(self) -> Format:
        """The format with these serdes. Raises SpecError where there is none of this id."""
        return replace(known_format(self.format), key_serde=self.key, value_serde=self.value)
