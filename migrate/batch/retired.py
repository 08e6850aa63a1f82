"""Whether a store in our folder may be the application's old one, asked before it is removed (I8, I11)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from migrate.batch.home import LEDGER_DAMAGED, NEW, SNAPSHOT
from migrate.batch.identity import store_state
from migrate.batch.ledger.standing import Standing
from migrate.errors import RefusedError
from migrate.model.plan import Plan
from migrate.model.store_partition import StorePartition
from migrate.stores.rocksdb.layout import rocksdb_identities


@dataclass(frozen=True)
class RetiredStores:
    """What tells an old store from a new one, should a switch have put it where the new one stood."""

    application: Path
    standing: Standing
    names: frozenset[str] = frozenset()
    """RocksDB's own names of old stores that the ledger knows."""

    @cached_property
    def runs(self) -> frozenset[str]:
        """Those of the ledger; none where it was damaged: one that lost rows does not say which switch was begun."""
        is_whole = not (self.standing.home / LEDGER_DAMAGED).exists()
        return frozenset(row.run_id for row in self.standing.rows) if is_whole else frozenset()

    def may_hold(self, run: str, partition: StorePartition, plan: Plan | None) -> bool:
        """Whether the folder of a new store may hold the only copy of the old one.

        Not where the ledger and the store say that a run made it, nor where the old one is seen in its own place.
        """
        home = self.standing.home
        folder = home / NEW / run / partition.id
        found = rocksdb_identities(folder)
        taken = rocksdb_identities(home / SNAPSHOT / partition.id)
        if not found.isdisjoint(taken | self.names):
            return True
        if not found or self._is_made_by(run, folder, partition if plan is None else plan.new_partition(partition)):
            return False
        return taken.isdisjoint(rocksdb_identities(self.application / partition.path))

    def _is_made_by(self, run: str, folder: Path, partition: StorePartition) -> bool:
        known = self.standing.states.get(folder)
        if known is None:
            return run in self.runs
        try:
            return store_state(partition.below(folder), known).content == known.content
        except (RefusedError, FileNotFoundError, NotADirectoryError):
            return False
