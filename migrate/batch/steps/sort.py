"""The waves of a sorted plan: so many pending ranges of new keys as are sorted at once, and what is read for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from migrate.batch.chunk.executor import Executor, run_all
from migrate.batch.chunk.rewrite_chunk import RewriteTask
from migrate.batch.chunk.sorted_range import CollisionError, SortTask
from migrate.batch.chunk.sorting import OldRange, SortInput, SortWork
from migrate.batch.chunk.sum_ranges import FindTask
from migrate.batch.context import Context
from migrate.batch.plan.cut import slot_share
from migrate.batch.plan.sorted_ranges import old_ranges, sort_work
from migrate.batch.source.snapshot import present_snapshot
from migrate.engine.sums import FoundRecord, Summed
from migrate.errors import RefusedError
from migrate.model.key_range import show_key
from migrate.model.plan import Chunk, DatabasePlan

_MOST_READ = 128 << 20
"""Bytes that one task reads: a kill of its worker loses no more."""


def work_of(context: Context) -> SortWork:
    """How the records of a sorted plan are converted and placed."""
    plan = context.plan
    return sort_work(context.spec, context.ref, plan.databases, plan.chunks, plan.key_places)


def sort_inputs(context: Context, databases: Sequence[DatabasePlan], slots: int) -> tuple[SortInput, ...]:
    """Everything that is read for these new RocksDB directories."""
    if context.spec.source.rows:
        from migrate.batch.plan.row_table import table_inputs  # loads delta-rs

        return table_inputs(context.spec)
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


def collision_error(context: Context, executor: Executor, error: CollisionError) -> RefusedError:
    """The error that names two records that get one new key."""
    work, chunk = work_of(context), error.chunk
    number = work.targets.chunks.index(chunk)
    inputs = sort_inputs(context, context.plan.databases, executor.slots)
    tasks = (FindTask(work, each, number, error.family, error.key) for each in inputs)
    names = list[str]()
    for finished in run_all(executor, tasks, name=context.spec.name, stop=context.stop):
        for task, found in finished:
            if isinstance(task, FindTask) and isinstance(found, Summed):
                names += (_name(task.part, each) for each in found.records)
    context.stop.check()
    both = " and ".join(names[:2])
    return RefusedError(f"{chunk}: {both} get one new key, {show_key(error.key)}", hint=error.hint)


def _name(part: SortInput, record: FoundRecord) -> str:
    """What a person knows a record by."""
    if isinstance(part, OldRange):
        return f"the key {show_key(record.key)} of {part.partition.id}"
    return f"a row of {part} with the value {show_key(record.value)}"
