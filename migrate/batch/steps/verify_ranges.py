"""The ranges that a full verification has found equal: committed as they come, so that a resume leaves them out.

A committed range counts only for the same files, on both sides, and the same conversion. What is to be compared, and
whether the ranges cover it, is determined again by each verification.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from migrate.batch.chunk.verify import CompareTask, VerifyTask
from migrate.batch.identity import spec_identity
from migrate.batch.ledger.table import Ledger
from migrate.batch.steps.verify_subject import Subject
from migrate.model.comparison import Verified
from migrate.model.key_range import KeyRange
from migrate.model.ledger_row import Row, Step
from migrate.model.values import Stored
from migrate.stores.rocksdb.layout import file_states

SECONDS_BETWEEN_COMMITS = 2.0
"""A commit takes some 20 ms. A verification that takes less time commits only its result."""
FamilyPlace = tuple[str, str, str]
"""(store partition, database, column family) of the new store."""
LedgerOpener = Callable[[], Ledger]


class _Comparison(Stored):
    """The `detail` of a row: one range that was found equal."""

    subject: str
    """A digest of everything that was compared, and by which conversion."""
    began_at_ms: int
    """When the command began to compare records."""
    family: str
    found: Verified


@dataclass(frozen=True, slots=True)
class EqualRange:
    """A range of the old keys of one family whose records are in the new store as they should be."""

    place: FamilyPlace
    keys: KeyRange
    found: Verified


@dataclass(slots=True)
class EqualRanges:
    """Reads the ranges that an interrupted verification has committed, and commits further ones."""

    subject: Subject
    open_ledger: LedgerOpener
    """Called with the first commit."""
    _subjects: dict[str, str] = field(init=False)
    """By store partition."""
    _began_at_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    _waiting: list[tuple[CompareTask, Row]] = field(default_factory=list)
    _committed_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Record the state of the files before the first record is read."""
        self._subjects = dict(_digests(self.subject))

    def committed(self, rows: Sequence[Row]) -> Iterator[EqualRange]:
        """The ranges among these rows that count; those of other files or another conversion do not."""
        for row in rows:
            try:
                comparison = _Comparison.model_validate_json(row.detail)
            except ValidationError:  # of a newer release: the range is compared again
                continue
            if comparison.subject == self._subjects.get(str(row.store_partition)):
                place = (str(row.store_partition), str(row.database), comparison.family)
                yield EqualRange(place, row.keys, comparison.found)

    def add(self, task: VerifyTask, found: Verified) -> None:
        """Keep a range for the next commit, unless a difference was found in it."""
        if found.mismatches or not isinstance(task, CompareTask):
            return
        comparison = _Comparison(
            subject=self._subjects[task.store_partition],
            began_at_ms=self._began_at_ms,
            family=task.mapping.target,
            found=found,
        )
        row = Row(
            migration_id=self.subject.plan.migration_id,
            run_id=self.subject.context.run_id,
            step=Step.COMPARED,
            store_partition=task.store_partition,
            database=task.database,
            start_key=task.keys.start,
            end_key=task.keys.end,
            records_in=sum(count.seen for count in found.counts),
            records_out=found.records,
            seconds=found.seconds,
            detail=comparison.model_dump_json(exclude_defaults=True),
        )
        self._waiting.append((task, row))

    def commit_some(self) -> None:
        """Commit the ranges that wait, if the last commit is a while ago or the run is to stop."""
        context = self.subject.context
        is_due = time.monotonic() - self._committed_at >= SECONDS_BETWEEN_COMMITS
        if not self._waiting or not (is_due or context.stop.is_requested):
            return
        self.open_ledger().commit(*(row for _, row in self._waiting))
        tasks = [task for task, _ in self._waiting]
        self._waiting, self._committed_at = [], time.monotonic()
        context.notify("verify.ranges-committed", ranges=tasks)


def _digests(subject: Subject) -> Iterator[tuple[str, str]]:
    """For each store partition, a digest of everything on which its comparison depends."""
    context, plan = subject.context, subject.plan
    conversion = (plan.migration_id, spec_identity(context.spec, context.ref))
    layout: defaultdict[str, list[str]] = defaultdict(list)
    for database in subject.databases:
        layout[database.store_partition].append(database.model_dump_json())
    for partition in plan.store_partitions:
        new = plan.new_partition(partition).below(subject.folders[partition.id])
        files = _states(context.snapshots_of(plan, partition.id)), _states(new)
        text = json.dumps((conversion, layout[partition.id], files, subject.tables.get(partition.id)))
        yield partition.id, hashlib.sha256(text.encode()).hexdigest()[:32]


def _states(directories: dict[str, Path]) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """The files of RocksDB directories, and the places of these."""
    return [(str(directory), file_states(directory)) for directory in directories.values()]
