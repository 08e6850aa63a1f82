"""A migration opened for a switch: its ledger, its locks, and what every verb asks of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from migrate.batch.home import remove_unfinished
from migrate.batch.identity import as_begun, store_state
from migrate.batch.ledger.gates import concerns_of, hold_back
from migrate.batch.ledger.marker import check_ours, claim, finish_abandoned
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger, readable_ledger
from migrate.batch.log import logged
from migrate.batch.run_lock import one_run_at_a_time
from migrate.batch.source.source import source_system
from migrate.batch.switch.places import Places
from migrate.batch.switch.side_files import write_positions
from migrate.errors import RefusedError, SpecError
from migrate.model.comparison import Totals
from migrate.model.events import Event, Listener
from migrate.model.journal import NEXT, STATES, Journal
from migrate.model.ledger_row import Step
from migrate.model.reports import Concern, SwitchReport
from migrate.model.store_partition import Positions, StorePartition, StoreState
from migrate.spec.spec import Spec
from migrate.stores.exchange import can_exchange
from migrate.stores.files import fsync_directory
from migrate.stores.lock import holding_locks
from migrate.systems import System


@dataclass(frozen=True)
class Migration:
    """What a switch works on."""

    spec: Spec
    listener: Listener
    standing: Standing
    """When it was opened."""
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    warnings: tuple[str, ...] = ()
    """What was repaired when it was opened."""

    def notify(self, name: str, **facts: Any) -> None:  # noqa: ANN401 - each event has facts of its own
        """Tell the listener that this point is reached."""
        self.listener(Event(name, facts))

    @property
    def home(self) -> Path:
        """The migration's own folder."""
        return self.spec.home

    @property
    def application(self) -> Path:
        """The application's directory."""
        return self.spec.source_path

    @property
    def system(self) -> System:
        """The owning system."""
        return source_system(self.spec)

    @property
    def migration_id(self) -> str:
        """As the ledger has it."""
        return self.standing.rows[-1].migration_id

    @cached_property
    def ledger(self) -> Ledger:
        """Opened when there is something to say: that fences off whoever else works on this migration.

        Raises RefusedError where something was said meanwhile.
        """
        ledger = Ledger(self.home, self.migration_id, self.run_id)
        if Standing(self.home, ledger.rows).switch != self.standing.switch:
            raise RefusedError("another command switched these stores meanwhile", hint="stateferry status SPEC")
        return ledger

    def places(self, journal: Journal) -> list[Places]:
        """Of each store partition."""
        return [Places.of(self.application, self.home, entry) for entry in journal.exchanges]

    def check_not_refuted(self, what: str) -> None:
        """Raises VerificationError where a verification found the new stores wrong, and nothing has settled that."""
        if self.standing.step not in (Step.FINALIZING, Step.FINALIZED):
            hold_back(self.mismatch, what)

    @property
    def mismatch(self) -> tuple[Concern, ...]:
        """Of the new stores, where a verification found one that nothing has settled."""
        return tuple(each for each in concerns_of(self.spec, self.standing, Totals()) if each.kind == "mismatch")

    def record(self, step: Step, journal: Journal) -> None:
        """A row in the ledger, durably."""
        self.ledger.commit(self.ledger.row(step, detail=journal.model_dump(mode="json")))

    def locking(
        self, partitions: Iterable[StorePartition], stores: Iterable[Path]
    ) -> AbstractContextManager[Callable[[], None]]:
        """Nobody opens the application's directory, or one of these stores in our folder, while this lasts.

        Yields a check for somebody who came all the same. Raises StoreLockedError where somebody is there already.
        """
        locks = self.system.lock_files(self.application, list(partitions))
        ours = (lock for folder in stores for lock in sorted(folder.rglob("LOCK")))
        return holding_locks(dict.fromkeys([*locks, *ours]))

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
    entry = places.entry
    partition = entry.partition if then == entry.old_state else entry.new_partition or entry.partition
    try:
        return partition.is_all_of(root) and store_state(partition.below(root), then).content == then.content
    except (RefusedError, FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def open_migration(spec: Spec, on_event: Listener) -> Iterator[Migration]:
    """The one verb at work on this migration here. Raises RefusedError."""
    check_ours(spec.home)
    on_event = logged(spec.name, on_event)
    with one_run_at_a_time(spec.home):
        finish_abandoned(spec.home)
        warnings: list[str] = []
        standing = Standing(spec.home, readable_ledger(spec.home, warnings.append))
        if not standing.rows:
            raise RefusedError(f"the migration {spec.name!r} has not begun in {spec.home}", hint="stateferry run SPEC")
        if standing.journal.exchanges and standing.journal.source != as_begun(spec.source):
            raise RefusedError(
                f"[source] is not what was cut over: {standing.journal.source}",
                hint="put it back as it was in the spec",
            )
        claim(spec.home, spec.source_path)
        remove_unfinished(spec.home)
        for sentence in warnings:
            on_event(Event("warning", {"sentence": sentence}))
        yield Migration(spec, on_event, standing, warnings=tuple(warnings))


def check_in_place(spec: Spec, verb: str) -> None:
    """Raises SpecError where the migration publishes a new directory, so that there is nothing to exchange."""
    if spec.target_path is not None:
        raise SpecError(
            f"{verb}: this migration publishes a new state directory, [target] path {spec.target_path}, and leaves the "
            "old one as it is",
            hint="point the application at the one or at the other",
        )


def switch_report(migration: Migration, journal: Journal, step: Step) -> SwitchReport:
    """Of a verb that ended at this step, now or earlier."""
    state = STATES[step]
    return SwitchReport(
        name=migration.spec.name,
        migration_id=migration.migration_id,
        state=state,
        stores=tuple(places.live for places in migration.places(journal)),
        old_stores=migration.home / "old" if step is Step.CUT_OVER else None,
        concerns=journal.accepted if step is not Step.ROLLED_BACK else (),
        changelog=journal.changelog if step is not Step.ROLLED_BACK else "",
        warnings=(*migration.warnings, *journal.warnings),
        next_step=NEXT[state],
    )
