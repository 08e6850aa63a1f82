"""The journal of a switch: which stores are exchanged, committed to the ledger before anything moves.

It holds everything that a rollback needs: once it is written, neither the plan nor the conversion is read again.
"""

from __future__ import annotations

from pathlib import Path

from migrate.model.changelogs import Topics
from migrate.model.ledger_row import Step
from migrate.model.reports import Concern, Held, SetBack, State
from migrate.model.store_partition import ChangelogOffsets, StorePartition, StoreState
from migrate.model.values import Stored


class Exchange(Stored):
    """One store partition: the old store and the new one, and the places where each can be."""

    partition: StorePartition
    new_partition: StorePartition
    """The partition in the new store, as the new version of the application opens it."""
    staged: Path
    """The staged store: where the new one was assembled, relative to the migration's folder."""
    old: Path
    """Where the old store is after an exchange, relative to the migration's folder."""
    old_names: tuple[str, ...]
    """RocksDB's own identities of the old store's databases, by which it is recognized in any place."""
    new_names: tuple[str, ...]
    old_state: StoreState
    new_state: StoreState
    before: ChangelogOffsets
    """The application's offsets when it was stopped for the cut-over."""
    after: ChangelogOffsets
    """The new store's offsets."""

    @property
    def partitions(self) -> tuple[StorePartition, ...]:
        """The partition's possible forms in the application's directory."""
        return self.partition, self.new_partition

    @property
    def is_moved_in(self) -> bool:
        """Whether the new store goes beside the old one, under a name of its own, and not into its place."""
        return self.new_partition.path != self.partition.path


class GroupOffset(Stored):
    """What the application's group had committed for a topic partition at the cut-over."""

    topic: str
    number: int
    offset: int
    metadata: str = ""
    is_made_again: bool = False
    """Whether the application itself wrote what is in the topic, and had read it all: it writes again what follows."""


class AtCutOver(Stored):
    """What a way back needs to know where changelogs were written for the new stores."""

    topics: Topics
    offsets: tuple[GroupOffset, ...] = ()
    missing: tuple[Held, ...] = ()
    """The partitions that no host had written, as the spec allowed."""
    set_back: tuple[SetBack, ...] = ()
    """What a rollback has set back."""


class Journal(Stored):
    """The exchanges of all store partitions: all of them are switched, or none."""

    source: str = ""
    """The spec's `[source]`, as JSON."""
    changelog: str = ""
    warnings: tuple[str, ...] = ()
    accepted: tuple[Concern, ...] = ()
    """The accepted concerns about the new stores, and who accepted them."""
    exchanges: tuple[Exchange, ...] = ()
    broker: AtCutOver | None = None
    """None: no changelog was written."""


STATES: dict[Step, State] = {
    Step.CUTTING_OVER: "cutting over",
    Step.CUT_OVER: "cut over",
    Step.ROLLING_BACK: "rolling back",
    Step.ROLLED_BACK: "rolled back",
    Step.FINALIZING: "finalizing",
    Step.FINALIZED: "finalized",
}
HALF_DONE = (Step.CUTTING_OVER, Step.ROLLING_BACK, Step.FINALIZING)
"""States that only the verb that started the switch, or `rollback`, can continue from."""
NEXT: dict[State, str] = {
    "not started": "stateferry run SPEC",
    "snapshot taken": "start the application again; stateferry run SPEC converts the snapshot",
    "rewriting": "stateferry run SPEC (resumes)",
    "published": "when sure, stateferry finalize SPEC",
    "cutting over": "stateferry cutover SPEC finishes the cut-over; stateferry rollback SPEC goes back",
    "cut over": (
        "start the new version of the application; stateferry rollback SPEC goes back, "
        "stateferry finalize SPEC gives that up and frees the space"
    ),
    "rolling back": "stateferry rollback SPEC finishes the rollback",
    "finalizing": "stateferry finalize SPEC removes the rest",
    "finalized": "this migration is over; another one of the same store needs another `name`",
}
"""The operator's next step in each state, or its end, where it depends neither on the spec nor on open concerns."""
