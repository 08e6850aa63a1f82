"""What a side file says of a changelog that was written for a new store."""

import pytest

from migrate.batch.changelog.store_changelogs import line_after
from migrate.systems import System
from migrate.systems.checkpoint_file import OFFSET_UNKNOWN
from migrate.systems.kafka_streams import KAFKA_STREAMS
from migrate.systems.streamiz import STREAMIZ


@pytest.mark.parametrize(
    ("system", "last", "offset"),
    [
        (KAFKA_STREAMS, 41, 41),
        (KAFKA_STREAMS, 0, 0),
        (KAFKA_STREAMS, None, OFFSET_UNKNOWN),
        (STREAMIZ, 41, 42),
        (STREAMIZ, None, 0),
    ],
)
def test_each_system_counts_in_its_own_way(system: System, last: int | None, offset: int) -> None:
    assert line_after(system, "topic", 1, last) == ("topic", 1, offset)
