"""A migration opened for a switch: its plan, its ledger, its lock, and what every verb asks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from migrate.errors import RefusedError, SpecError
from migrate.events import Listener
from migrate.identity import StoreState, check_identity, spec_identity, store_state
from migrate.ledger import Ledger, Step, repair_ledger
from migrate.plan_model import Plan, load_plan
from migrate.positions import Positions
from migrate.spec import Spec
from migrate.steps.context import Context, make_context
from migrate.stores.exchange import can_exchange
from migrate.stores.files import fsync_directory
from migrate.stores.lock import holding_locks, one_run_at_a_time
from migrate.switching.journal import Journal, last_switch
from migrate.switching.places import Places
from migrate.switching.side_files import write_positions
from migrate.systems import System, get_system


@dataclass(frozen=True)
class Migration:
    """What a switch works on."""

    context: Context
    plan: Plan
    ledger: Ledger
    step: Step | None
    """How far the last switch came."""
    journal: Journal

    @property
    def home(self) -> Path:
        """The migration's own folder."""
        return self.context.home

    @property
    def application(self) -> Path:
        """The application's directory."""
        return self.context.spec.source_path

    @property
    def system(self) -> System:
        """The owning system."""
        spec = self.context.spec
        return get_system(spec.source_format.system, has_stores=bool(spec.source.store_names))

    def places(self, journal: Journal) -> list[Places]:
        """Of each store partition."""
        return [Places.of(self.home, entry) for entry in journal.exchanges]

    def record(self, step: Step, journal: Journal) -> None:
        """A row in the ledger, durably."""
        detail = journal.model_dump(mode="json")
        self.ledger.commit(self.ledger.row(step, detail=detail))

    def keeping_out(self, stores: Iterable[Path] = ()) -> AbstractContextManager[Callable[[], None]]:
        """Nobody opens the application's directory, one of these stores, or those of the journal, while this lasts.

        Yields a check for somebody who came all the same. Raises StoreLockedError where somebody is there already.
        """
        locks = self.system.lock_files(self.application, self.plan.store_partitions)
        ours = [*stores, *(root for each in self.places(self.journal) for root in (each.slot, each.old))]
        return holding_locks([*locks, *(lock for folder in ours for lock in sorted(folder.rglob("LOCK")))])

    def write_positions(self, positions: Iterable[tuple[Places, Positions]]) -> None:
        """In the side files of these store partitions, durably; what they say of others stays as it is."""
        written = {
            folder
            for places, each in positions
            for folder in write_positions(self.system, self.application, places.entry.partition, each, self.home)
        }
        for folder in sorted(written):
            fsync_directory(folder)

    @cached_property
    def _is_atomic(self) -> bool:
        return can_exchange(self.home)

    def between(self, first: Positions, second: Positions) -> Positions:
        """What to say while stores are exchanged: what holds for both; nothing where there may be none in between."""
        if self._is_atomic:
            return first.lowest(second)
        return first.model_copy(update={"lines": ()})


def is_as_it_was(places: Places, root: Path, then: StoreState) -> bool:
    """Whether the store that stands at `root`, one of the places, holds what it held then."""
    try:
        return store_state(places.entry.partition.below(root), then).content == then.content
    except RefusedError:
        return False


@contextmanager
def open_migration(spec: Spec, on_event: Listener) -> Iterator[Migration]:
    """The one verb at work on this migration, here and on any other host. Raises RefusedError, SpecError."""
    plan = load_plan(spec.home)
    if plan is None:
        raise RefusedError(f"the migration {spec.name!r} has not begun: there is no plan in {spec.home}", hint="run it")
    context = make_context(spec, on_event)
    check_identity(plan, spec_identity(spec, context.ref))
    with one_run_at_a_time(context.home):
        repair_ledger(context.home)
        ledger = Ledger(context.home, plan.migration_id, context.run_id)
        step, journal = last_switch(ledger.rows)
        yield Migration(context, plan, ledger, step, journal)


def check_in_place(spec: Spec, verb: str) -> None:
    """Raises SpecError where the migration publishes a new directory, so that there is nothing to exchange."""
    if spec.target_path is not None:
        raise SpecError(
            f"{verb}: this migration publishes a new state directory, [target] path {spec.target_path}, and leaves the "
            "old one as it is",
            hint="point the application at the one or at the other",
        )
