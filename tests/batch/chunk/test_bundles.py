"""Bundles: small tasks share a call, large ones do not, and no slot is left without work for the sake of it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from migrate.batch.chunk.executor import Bundles
from migrate.batch.chunk.rewrite_chunk import RewriteTask
from migrate.batch.chunk.task import Task
from tests.shared.builders import chunk, rewrite_task

CALL = 8 << 20


def _tasks(*sizes: int) -> list[RewriteTask]:
    chunks = (chunk(number).model_copy(update={"estimated_bytes": size}) for number, size in enumerate(sizes))
    return [rewrite_task(Path("home"), Path("none"), each) for each in chunks]


def _all(tasks: Sequence[Task], *, slots: int, call_bytes: int = CALL) -> list[Sequence[Task]]:
    bundles = Bundles(tasks, lambda _: None)
    taken: list[Sequence[Task]] = []
    while more := [*bundles.take(3, slots, call_bytes)]:
        taken += more
    assert [task for bundle in taken for task in bundle] == [*tasks], "each task once, in order"
    return taken


@pytest.mark.parametrize("size", [0, 1, CALL])
def test_in_process_each_task_has_a_call_of_its_own(size: int) -> None:
    assert {len(bundle) for bundle in _all(_tasks(*[size] * 50), slots=1, call_bytes=0)} == {1}


def test_in_process_no_task_is_made_before_it_starts() -> None:
    made: list[Task] = []

    def making() -> Iterator[Task]:
        for task in _tasks(*[10] * 50):
            made.append(task)
            yield task

    bundles = Bundles(making(), lambda _: None)
    for number in range(1, 10):
        assert [*bundles.take(1, 1, 0)] == [made[-1:]]
        assert len(made) == number


def test_a_call_has_some_bytes_and_a_larger_task_is_alone() -> None:
    large = 3 * CALL
    taken = _all(_tasks(*[CALL // 10] * 200, large, *[CALL // 10] * 200), slots=2)
    sizes = [sum(task.size for task in bundle) for bundle in taken]
    assert max(size for size in sizes if size < large) == CALL // 10 * 10
    assert [len(bundle) for bundle, size in zip(taken, sizes, strict=True) if size >= large] == [1]


def test_tiny_tasks_share_a_call_by_64() -> None:
    taken = _all(_tasks(*[100] * 4000), slots=2)
    assert max(map(len, taken)) == 64
    assert len(taken) < 150


@pytest.mark.parametrize("slots", [1, 2, 16])
def test_each_slot_still_has_four_bundles_to_come_and_the_last_ones_are_small(slots: int) -> None:
    left = 3000
    for bundle in _all(_tasks(*[100] * left), slots=slots):
        assert len(bundle) == 1 or len(bundle) <= left / (4 * slots)
        left -= len(bundle)
    assert len(bundle) == 1


def test_one_large_task_to_come_is_not_a_reason_to_bundle_all_others() -> None:
    """Four times the share of the slots is counted in tasks as well as in bytes."""
    first, *_ = _all(_tasks(*[100] * 8, CALL), slots=2)
    assert len(first) == 1


def test_the_first_bundles_do_not_wait_until_all_tasks_are_made() -> None:
    tasks = iter(_tasks(*[100] * 10_000))
    next(Bundles(tasks, lambda _: None).take(1, 256, CALL))
    assert sum(1 for _ in tasks) > 9_800


def test_tasks_of_a_lost_bundle_are_taken_first_and_alone_and_start_once() -> None:
    started: list[Task] = []
    tasks = _tasks(*[100] * 40)
    bundles = Bundles(tasks, started.append)
    (lost,) = bundles.take(1, 1, CALL)
    assert len(lost) == 10
    bundles.split(lost)
    assert [*bundles.take(10, 1, CALL)] == [[task] for task in lost]
    assert started == list(lost)
