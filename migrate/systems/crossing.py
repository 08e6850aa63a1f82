"""From one system's `.checkpoint` to another's: the same position in other words.

What it holds for a changelog whose records up to 41 were applied:

| system               | number                   |
|----------------------|--------------------------|
| Kafka Streams        | 41, the last one applied |
| Streamiz since 1.7   | 42, the next one         |
| Streamiz before that | 41, the last one applied |

Every version of Streamiz restores from the number that it finds, so that is what is taken for the next one: a record
that is applied again does no harm, one that is left out does. In `global` it is the other way round (Kafka Streams
writes the next one there, Streamiz since 1.7 the last one); those lines are never a store's own, and stay behind.

Source: Streamiz.Kafka.Net.Processors.Internal ProcessorStateManager, StoreChangelogReader, GlobalStateManager;
org.apache.kafka.streams.processor.internals ProcessorStateManager, GlobalStateManagerImpl.
"""

from __future__ import annotations

from collections.abc import Iterable

from migrate.model.store_partition import Line
from migrate.systems.base import System
from migrate.systems.checkpoint_file import OFFSET_UNKNOWN


def translated(lines: Iterable[Line], source: System, target: System) -> tuple[Line, ...]:
    """A store's lines, by which `target` restores from where `source` would have.

    An unknown position stays one, and one before the first record becomes one: all of the changelog is restored.
    """
    shift = target.ahead - source.ahead
    return tuple(
        (topic, number, offset + shift if min(offset, offset + shift) >= 0 else OFFSET_UNKNOWN)
        for topic, number, offset in lines
    )
