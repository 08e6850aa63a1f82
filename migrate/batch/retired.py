"""Old stores in our folder: checks that a store to remove is not the application's old one (I8, I11)."""

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
    """Distinguishes old stores from new ones, as a switch may have put an old store in the place of a new one."""

    application: Path
    standing: Standing
    names: frozenset[str] = frozenset()
    """RocksDB's identities of the old stores in the ledger."""

    @cached_property
    def runs(self) -> frozenset[str]:
        """The runs in the ledger; none if it was damaged, as lost rows may have recorded a switch."""
        is_whole = not (self.standing.home / LEDGER_DAMAGED).exists()
        return frozenset(row.run_id for row in self.standing.rows) if is_whole else frozenset()

    def may_hold(self, run: str, partition: StorePartition, plan: Plan | None) -> bool:
        """Whether the folder of a new store may hold the only copy of the old one.

        It does not if the ledger and the store show that a run made it, or if the old one is in its own place.
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
