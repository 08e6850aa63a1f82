"""Positions: merged by the farthest, and compared with a bound by topic partition."""

import pytest

from migrate.queries.requests import Position, PositionBound


def test_a_position_only_moves_on() -> None:
    position = Position.empty().with_component("t", 0, 5).with_component("t", 0, 3).with_component("t", 1, 0)
    assert position == Position({("t", 0): 5, ("t", 1): 0})
    assert Position.empty() == Position({})


def test_merged_positions_are_the_farthest_of_each() -> None:
    merged = Position.merged([Position({("t", 0): 5, ("u", 0): 1}), Position({("t", 0): 7}), Position()])
    assert merged == Position({("t", 0): 7, ("u", 0): 1})
    assert Position.merged([]) == Position.empty()


@pytest.mark.parametrize(
    ("bound", "partition", "is_permitted"),
    [
        ({}, 0, True),
        ({("t", 0): 5}, 0, True),
        ({("t", 0): 6}, 0, False),
        ({("t", 0): 6}, None, False),
        ({("t", 1): 6}, 0, True),  # of another partition
        ({("t", 1): 6}, None, False),
        ({("u", 0): 0}, 0, False),  # nothing of that topic yet
        ({("t", 0): 5, ("u", 0): 0}, 0, False),
    ],
)
def test_a_bound_is_met_in_every_topic_of_the_partition(
    bound: dict[tuple[str, int], int], partition: int | None, is_permitted: bool
) -> None:
    assert PositionBound.at(Position(bound)).permits(Position({("t", 0): 5}), partition) is is_permitted


def test_without_a_bound_any_position_will_do() -> None:
    assert PositionBound.unbounded().permits(Position.empty(), 3)
