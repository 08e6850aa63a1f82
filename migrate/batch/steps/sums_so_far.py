"""The sums of a sorted plan's verification that are in the ledger, so that one that was interrupted goes on there."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from migrate.batch.chunk.sorting import SortInput
from migrate.batch.chunk.sum_ranges import SumNewTask, SumOldTask
from migrate.batch.chunk.task import Task, TaskResult
from migrate.batch.source.restored_source import import_record
from migrate.batch.steps import comparisons
from migrate.batch.steps.comparisons import Subject, states_of
from migrate.engine.sums import RangeSum, Summed
from migrate.model.ledger_row import Row, Step
from migrate.model.plan import Chunk
from migrate.model.values import Stored

_MOST_SUMS = 1 << 18
"""So many, of some 50 bytes, the ledger gets of one verification: where there are more, commits are rarer."""


class SumsOfTasks(Stored):
    """The `detail` of a row: what some tasks of the pass over all records have added up."""

    subject: str
    """A digest of everything that is compared, in which parts, and by which conversion."""
    began_at_ms: int
    """When the command began to compare records."""
    olds: tuple[int, ...]
    """The numbers of the parts of the old records that were read."""
    news: tuple[int, ...]
    """Those of the ranges of new ones."""
    old_sums: dict[int, RangeSum]
    """By number of the range."""
    new_sums: dict[int, RangeSum]
    read: dict[str, int]
    """Old records, by what they are counted in."""
    dropped: int


@dataclass
class SumsSoFar:
    """Reads what an interrupted verification has committed, and commits more."""

    subject: Subject
    ranges: Sequence[Chunk]
    inputs: Sequence[SortInput]
    _digest: str = field(init=False)
    _began_at_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    _waiting: list[tuple[SumOldTask | SumNewTask, Summed]] = field(default_factory=list)
    _committed_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Record the state of the files before the first record is read."""
        parts = [each.model_dump_json() for each in self.ranges], [repr(each) for each in self.inputs]
        text = json.dumps((sorted(states_of(self.subject)), parts, [*self._rows()]))
        self._digest = hashlib.sha256(text.encode()).hexdigest()[:32]

    def _rows(self) -> Iterator[tuple[str, int, int]]:
        """The files of the table whose rows are the old records."""
        if (record := import_record(self.subject.context.spec)) is not None:
            for file in record.files:
                found = Path(record.table, file.path)
                state = found.stat() if found.is_file() else None  # the reading of one that is gone says so
                yield file.path, -1 if state is None else state.st_size, -1 if state is None else state.st_mtime_ns

    def committed(self) -> Iterator[SumsOfTasks]:
        """What the ledger has and counts; what is of other files or another conversion does not."""
        for row in self.subject.context.standing.compared_so_far:
            try:
                found = SumsOfTasks.model_validate_json(row.detail)
            except ValidationError:  # of a newer release
                continue
            if found.subject == self._digest:
                yield found

    def add(self, task: Task, found: TaskResult) -> None:
        """Keep the sums of a task for the next commit, unless a key is misplaced in it."""
        if isinstance(task, (SumOldTask, SumNewTask)) and isinstance(found, Summed) and not found.misplaced.mismatches:
            self._waiting.append((task, found))

    def commit_some(self) -> None:
        """Commit the sums that wait, if the last commit is a while ago or the run is to stop."""
        context, waiting = self.subject.context, self._waiting
        is_due = time.monotonic() - self._committed_at >= comparisons.SECONDS_BETWEEN_COMMITS
        is_due = is_due and len(waiting) * _MOST_SUMS >= len(self.inputs) * len(self.ranges)
        if not waiting or not (is_due or context.stop.is_requested):
            return
        olds = [(task, found) for task, found in waiting if isinstance(task, SumOldTask)]
        news = [(task, found) for task, found in waiting if isinstance(task, SumNewTask)]
        read, old_sums, new_sums = Counter[str](), dict[int, RangeSum](), dict[int, RangeSum]()
        for task, found in olds:
            read[task.part.source] += found.read
            add_sums(old_sums, found.sums)
        for _, found in news:
            add_sums(new_sums, found.sums)
        sums = SumsOfTasks(
            subject=self._digest,
            began_at_ms=self._began_at_ms,
            olds=tuple(task.number for task, _ in olds),
            news=tuple(task.number for task, _ in news),
            old_sums=old_sums,
            new_sums=new_sums,
            read=read,
            dropped=sum(found.dropped for _, found in olds),
        )
        row = Row(
            migration_id=context.plan.migration_id,
            run_id=context.run_id,
            step=Step.COMPARED,
            records_in=read.total(),
            records_out=sum(each.records for each in new_sums.values()),
            detail=sums.model_dump_json(),
        )
        context.commit(row)
        self._waiting, self._committed_at = [], time.monotonic()
        context.notify("verify.ranges-committed", ranges=[*sums.olds, *sums.news])


def add_sums(sums: dict[int, RangeSum], more: Mapping[int, RangeSum]) -> None:
    """Add sums to those of the same ranges, by their numbers."""
    for number, each in more.items():
        sums[number] = sums.get(number, RangeSum()).plus(each)
