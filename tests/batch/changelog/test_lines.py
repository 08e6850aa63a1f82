"""What a side file says of a changelog that was written for a new store."""

from __future__ import annotations

import pytest

from migrate.batch.changelog.store_changelogs import line_after
from migrate.systems import System
from migrate.systems.checkpoint_file import OFFSET_UNKNOWN
from migrate.systems.kafka_streams import KafkaStreams
from migrate.systems.streamiz import Streamiz


@pytest.mark.parametrize(
    ("system", "last", "offset"),
    [
        (KafkaStreams(), 41, 41),
        (KafkaStreams(), 0, 0),
        (KafkaStreams(), None, OFFSET_UNKNOWN),
        (Streamiz(), 41, 42),
        (Streamiz(), None, 0),
    ],
)
def test_each_system_counts_in_its_own_way(system: System, last: int | None, offset: int) -> None:
    assert line_after(system, "topic", 1, last) == ("topic", 1, offset)
