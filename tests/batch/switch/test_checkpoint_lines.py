"""A task's `.checkpoint` is shared: a store's own lines are told from all others, which stay as they are."""

from pathlib import Path

import pytest

from migrate import RefusedError
from migrate.model.store_partition import ChangelogOffsets, Line, StorePartition
from migrate.systems.checkpoint_file import format_checkpoint, read_checkpoint, replace_lines, stores_of_topics
from migrate.systems.kafka_streams import KAFKA_STREAMS
from tests.support import raises

APPLICATION = "my-orders-app"
STORES = ("orders", "x-orders", "KSTREAM-AGGREGATE-STATE-STORE-0000000001", "app-orders")
CHANGELOGS = {store: f"{APPLICATION}-{store}-changelog" for store in STORES}


@pytest.mark.parametrize(
    ("topic", "store"),
    [
        ("my-orders-app-orders-changelog", "orders"),
        ("my-orders-app-x-orders-changelog", "x-orders"),
        ("my-orders-app-app-orders-changelog", "app-orders"),
        (f"my-orders-app-{STORES[2]}-changelog", STORES[2]),
        ("another-prefix-orders-changelog", "orders"),
        ("another-prefix-x-orders-changelog", "x-orders"),
        ("my-orders-app-y-orders", None),
        ("orders-changelog", None),
        ("orders", None),
        ("my-orders-app-orders-changelog-2", None),
        ("my-orders-app-reorders-changelog", None),
    ],
)
def test_whose_changelog_a_topic_is(topic: str, store: str | None) -> None:
    for order in (STORES, STORES[::-1]):
        assert stores_of_topics([topic], {store: CHANGELOGS[store] for store in order}) == [store]


def test_a_topic_that_only_ends_like_a_stores_is_foreign_where_the_store_has_its_own() -> None:
    topics = ["billing-orders-changelog", "my-orders-app-orders-changelog"]
    assert stores_of_topics(topics, CHANGELOGS) == [None, "orders"]
    assert stores_of_topics(topics[:1], CHANGELOGS) == ["orders"]


def test_lines_are_replaced_where_they_are() -> None:
    lines: list[Line] = [("a", 0, 1), ("mine", 0, 2), ("b", 0, 3), ("gone", 0, 4)]
    mine: list[Line] = [("new", 0, 9), ("mine", 0, 8)]
    replaced = replace_lines(lines, mine, [False, True, False, True])
    assert replaced == [("a", 0, 1), ("mine", 0, 8), ("b", 0, 3), ("new", 0, 9)]
    assert replace_lines(lines, [], [False, True, False, True]) == [("a", 0, 1), ("b", 0, 3)]
    assert replace_lines([], mine, []) == mine


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ([("t", 0, 5)], [("t", 0, 3)], [("t", 0, 3)]),
        ([("t", 0, 3)], [("t", 0, 5)], [("t", 0, 3)]),
        ([("t", 0, 3)], [], []),
        ([], [("t", 0, 5)], []),
        ([("t", 0, 5), ("u", 1, 7)], [("t", 1, 3), ("u", 1, 9)], [("u", 1, 7)]),
        ([("t", 0, -4)], [("t", 0, 5)], [("t", 0, -4)]),
    ],
)
def test_what_two_stores_have_both_reached(first: list[Line], second: list[Line], both: list[Line]) -> None:
    lowest = ChangelogOffsets(lines=tuple(first)).lowest(ChangelogOffsets(lines=tuple(second)))
    assert lowest.lines == tuple(both)


def test_a_checkpoint_is_written_as_it_was_read(tmp_path: Path) -> None:
    text = "0\n2\nmy-orders-app-orders-changelog 0 2350\nany.topic_1 12 -4\n"
    file = tmp_path / ".checkpoint"
    file.write_text(text)
    assert format_checkpoint(read_checkpoint(file)) == text
    assert format_checkpoint([]) == "0\n0\n"


@pytest.mark.parametrize("text", ["", "0\n", "1\n0\n", "0\n2\nt 0 1\n", "0\n1\nt 0\n", "0\n1\nt 0 x\n", "0\nx\n"])
def test_a_checkpoint_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / ".checkpoint"
    file.write_text(text)
    error = raises(RefusedError, r"is not a checkpoint|is a checkpoint of version 1", read_checkpoint, file)
    assert "remove it" in error.hint


def test_a_store_whose_name_ends_another_ones_name_has_its_own_line_alone(tmp_path: Path) -> None:
    application = tmp_path / APPLICATION
    for store in ("rocksdb/orders", "rocksdb/x-orders", "windowed"):
        (application / "0_0" / store).mkdir(parents=True)
    lines: list[Line] = [
        (f"{APPLICATION}-x-orders-changelog", 0, 10),
        (f"{APPLICATION}-orders-changelog", 0, 20),
        (f"{APPLICATION}-windowed-changelog", 0, 30),
        ("source-topic", 0, 40),
    ]
    (application / "0_0" / ".checkpoint").write_text(format_checkpoint(lines))
    path = Path("0_0/rocksdb/orders")
    orders = StorePartition(id="0_0/orders", store="orders", task="0_0", path=path)
    found = KAFKA_STREAMS.offsets.read(application, orders)
    assert found == ChangelogOffsets(lines=(lines[1],))
    older = ChangelogOffsets(lines=((lines[1][0], 0, 7),), own_file="0\n0\n")
    written = KAFKA_STREAMS.offsets.write(application, orders, older)
    assert written == {
        Path("0_0/.checkpoint"): format_checkpoint([lines[0], (lines[1][0], 0, 7), lines[2], lines[3]]),
        Path("0_0/orders.position"): "0\n0\n",
    }
    no_lines = KAFKA_STREAMS.offsets.write(application, orders, ChangelogOffsets())
    assert no_lines[Path("0_0/.checkpoint")] == format_checkpoint([lines[0], lines[2], lines[3]])
