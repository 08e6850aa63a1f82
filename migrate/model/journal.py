"""The journal of a switch: what is to be exchanged with what, in the ledger before anything moves.

It holds all that the way back needs: neither the plan nor the conversion is asked once it is written.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, Field

from migrate.model.ledger_row import Step
from migrate.model.reports import Concern, State
from migrate.model.store_partition import ChangelogOffsets, StorePartition, StoreState
from migrate.model.values import Stored


class Exchange(Stored):
    """One store partition: the old store and the new one, and the places where they may stand."""

    partition: StorePartition
    new_partition: StorePartition | None = None
    """The same as it lies in the new store; None: as in the old one."""
    staged: Path = Field(validation_alias=AliasChoices("slot", "staged"), serialization_alias="slot")
    """Where the new store was assembled, relative to the migration's folder."""
    old: Path
    """Where the old store stands after the cut-over, relative to the migration's folder."""
    old_names: tuple[str, ...]
    """RocksDB's own identities of the old store's databases."""
    new_names: tuple[str, ...]
    old_state: StoreState
    new_state: StoreState
    before: ChangelogOffsets
    """The application's position when it was stopped for the cut-over."""
    after: ChangelogOffsets
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


STATES: dict[Step, State] = {
    Step.CUTTING_OVER: "cutting over",
    Step.CUT_OVER: "cut over",
    Step.ROLLING_BACK: "rolling back",
    Step.ROLLED_BACK: "rolled back",
    Step.FINALIZING: "finalizing",
    Step.FINALIZED: "finalized",
}
HALF_DONE = (Step.CUTTING_OVER, Step.ROLLING_BACK, Step.FINALIZING)
"""Only the verb that began it, or `rollback`, goes on from here."""
NEXT: dict[State, str] = {
    "not started": "stateferry run SPEC",
    "snapshot taken": "start the application again; stateferry run SPEC converts the snapshot",
    "rewriting": "stateferry run SPEC (resumes)",
    "published": "point the application at the new state directory; when sure, stateferry finalize SPEC",
    "cutting over": "stateferry cutover SPEC finishes the cut-over; stateferry rollback SPEC goes back",
    "cut over": (
        "start the new version of the application; stateferry rollback SPEC goes back, "
        "stateferry finalize SPEC gives that up and frees the space"
    ),
    "rolling back": "stateferry rollback SPEC finishes the rollback",
    "rolled back": (
        "start the old version of the application; stateferry cutover SPEC exchanges the stores again, as long as "
        "nobody has written to the old ones; stateferry abandon SPEC begins anew"
    ),
    "finalizing": "stateferry finalize SPEC removes the rest",
    "finalized": "nothing: this migration is over, and its ledger says so",
}
"""What an operator does then, in one line; where the spec and what holds the migration back do not matter."""
