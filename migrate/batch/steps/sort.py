"""The waves of a sorted plan: so many pending ranges of new keys as are sorted at once, and what is read for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from migrate.batch.chunk.rewrite_chunk import RewriteTask
from migrate.batch.chunk.sorted_range import SortTask
from migrate.batch.chunk.sorting import SortInput, SortWork
from migrate.batch.context import Context
from migrate.batch.plan.cut import slot_share
from migrate.batch.plan.sorted_ranges import old_ranges, sort_work
from migrate.batch.source.snapshot import present_snapshot
from migrate.model.plan import Chunk, DatabasePlan

_MOST_READ = 128 << 20
"""Bytes that one task reads: a kill of its worker loses no more."""


def work_of(context: Context) -> SortWork:
    """How the records of a sorted plan are converted and placed."""
    plan = context.plan
    return sort_work(context.spec, context.ref, plan.databases, plan.chunks, plan.key_places)


def sort_inputs(context: Context, databases: Sequence[DatabasePlan], slots: int) -> tuple[SortInput, ...]:
    """Everything that is read for these new RocksDB directories."""
    size = min(_MOST_READ, slot_share(sum(each.data_bytes for each in databases), slots))
    olds = {each.id: each for each in context.plan.olds}
    directory_of = lambda old, database: present_snapshot(context.home, olds[old])[database]  # noqa: E731
    return tuple(old_ranges(databases, directory_of, size))


def waves(
    context: Context, pending: Sequence[Chunk], slots: int, task_of: Callable[[Chunk], RewriteTask]
) -> Iterator[SortTask]:
    """The pending ranges in waves, each of one range at least."""
    work, inputs = work_of(context), sort_inputs(context, context.plan.databases, slots)
    newest_wins = context.spec.conversion.on_collision == "newest"
    left = [*pending]
    while left:
        wave = [left.pop(0)]
        room = int(context.spec.run.wave_size) - wave[0].estimated_bytes
        while left and left[0].estimated_bytes <= room:
            room -= left[0].estimated_bytes
            wave.append(left.pop(0))
        yield SortTask(work=work, inputs=inputs, ranges=tuple(task_of(each) for each in wave), newest_wins=newest_wins)
