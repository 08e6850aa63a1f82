"""Attempts at chunks, as an onlooker sees them: by the names of the files that they write."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from migrate.plan_model import Chunk
from migrate.receipt import Receipt, attempt_of, number_of, run_of
from migrate.rewriting import chunk_directory

_Work = tuple[str, int]
"""(folder of the RocksDB directory, chunk number)"""


@dataclass(slots=True)
class AttemptsSeen:
    """The attempts of one run. What came and went between two looks was not seen."""

    home: Path
    run_id: str
    pieces: Counter[_Work]
    """How many ranges of each chunk the run has to rewrite: one, unless it was cut otherwise by an earlier run."""
    seen: dict[_Work, set[str]] = field(default_factory=lambda: defaultdict(set))
    at_work: int = 0
    """Chunks that have an attempt, and are not done."""
    last_write: float = 0.0
    """Seconds since the epoch: when a file of theirs last grew."""

    @classmethod
    def of(cls, home: Path, run_id: str, pending: Iterable[Chunk]) -> AttemptsSeen:
        """Nothing seen yet; `pending`: what the run found to do."""
        pieces = Counter((_folder(home, chunk.store_partition, chunk.database), chunk.number) for chunk in pending)
        return cls(home, run_id, pieces)

    def look(self, receipts: Iterable[Receipt], left: Iterable[Chunk]) -> None:
        """At the files that there are now, and at what the ledger says is done."""
        done = {receipt.attempt for receipt in receipts}
        for receipt in receipts:
            if receipt.run_id == self.run_id:
                work = (_folder(self.home, receipt.store_partition, receipt.database), receipt.number)
                self.seen[work].add(receipt.attempt)
        open_work = {(_folder(self.home, chunk.store_partition, chunk.database), chunk.number) for chunk in left}
        at_work: set[_Work] = set()
        for folder, _, names in os.walk(self.home / "chunks"):
            for name in names:
                attempt, number = attempt_of(name), number_of(attempt_of(name))
                if number is None or run_of(name) != self.run_id:
                    continue
                work = (folder, number)
                self.seen[work].add(attempt)
                if attempt not in done and work in open_work:
                    at_work.add(work)
                    self.last_write = max(self.last_write, _written(Path(folder, name)))
        self.at_work = len(at_work)

    @property
    def retries(self) -> int:
        """Attempts beyond the first at each range."""
        return sum(max(0, len(attempts) - max(1, self.pieces[work])) for work, attempts in self.seen.items())


def _folder(home: Path, partition: str, database: str) -> str:
    return str(chunk_directory(home, partition, database))


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # just now
        return 0.0
