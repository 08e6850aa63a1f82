"""The journal of a switch: what is to be exchanged with what, in the ledger before anything moves.

It holds all that the way back needs: neither the plan nor the conversion is asked once it is written.
"""

from __future__ import annotations

from pathlib import Path

from migrate.keyrange import Stored
from migrate.positions import Positions
from migrate.report_model import Concern
from migrate.store_partition import StorePartition
from migrate.store_state import StoreState


class Exchange(Stored):
    """One store partition: the old store and the new one, and the places where they may stand."""

    partition: StorePartition
    new_partition: StorePartition | None = None
    """The same as it lies in the new store; None: as in the old one."""
    slot: Path
    """Where the new store was assembled, relative to the migration's folder."""
    old: Path
    """Where the old store stands after the cut-over, relative to the migration's folder."""
    old_names: tuple[str, ...]
    """RocksDB's own identities of the old store's databases."""
    new_names: tuple[str, ...]
    old_state: StoreState
    new_state: StoreState
    before: Positions
    """The application's position when it was stopped for the cut-over."""
    after: Positions
    """The new store's own."""

    @property
    def partitions(self) -> tuple[StorePartition, ...]:
        """As it may lie where the application looks."""
        return (self.partition,) if self.new_partition is None else (self.partition, self.new_partition)


class Journal(Stored):
    """Every store partition of a migration: all of them are switched, or none."""

    source: str = ""
    """The spec's `[source]`, as JSON."""
    changelog: str = ""
    warnings: tuple[str, ...] = ()
    accepted: tuple[Concern, ...] = ()
    """What the new stores went live with, and who accepted it."""
    exchanges: tuple[Exchange, ...] = ()
