"""Sorting in this process, in the place of Spark's shuffle: everything before and after it is the product's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter

from migrate.batch.chunk.executor import InProcessExecutor
from migrate.batch.chunk.sorted_range import SortedRows, SortTask, write_range
from migrate.batch.chunk.task import Task, TaskResult
from migrate.batch.stop import never_stop
from migrate.errors import MigrationError
from migrate.model.receipt import Receipt
from migrate.spec.spec import Spec
from migrate.stores.batch import Batch

Row = tuple[int, bytes, bytes, int, str | None]
"""Column family, key, value, bytes read, note."""


class SortingExecutor(InProcessExecutor):
    """Runs waves, too."""

    def run(self, tasks: Sequence[Task]) -> Sequence[TaskResult]:
        if isinstance(tasks[0], SortTask):
            try:
                return [sort_wave(each) for each in tasks if isinstance(each, SortTask)]
            except MigrationError as error:
                return [error]
        return super().run(tasks)


def sort_wave(task: SortTask, batch: int = 7) -> tuple[Receipt, ...]:
    """Do what Spark does with a wave; a range's writer gets so many rows at once."""
    found: dict[int, list[Row]] = {number: [] for number in task.numbers}
    for each in task.inputs:
        for placed in each.placed(task.work, never_stop):
            of = placed.of
            notes = [note and note.as_text() for note in of.notes] if of.notes else [None] * len(of.records)
            columns = (of.records.keys, of.records.values, list(map(int, of.sizes)), notes)
            for number, key, value, size, note in zip(placed.numbers.tolist(), *columns, strict=True):
                if number in found:
                    found[number].append((of.family, key, value, size, note))
    return tuple(
        write_range(range_, _rows(found[number], batch), never_stop, newest_wins=task.newest_wins)
        for number, range_ in zip(task.numbers, task.ranges, strict=True)
    )


def _rows(rows: list[Row], batch: int) -> Iterator[SortedRows]:
    rows.sort(key=itemgetter(0, 1))
    for at in range(0, len(rows), batch):
        families, keys, values, sizes, notes = zip(*rows[at : at + batch], strict=True)
        yield SortedRows(Batch([*keys], [*values]), notes if any(notes) else None, families, sizes)


@contextmanager
def sorting(_: Spec) -> Iterator[SortingExecutor]:
    """The opener of such an executor."""
    yield SortingExecutor()
