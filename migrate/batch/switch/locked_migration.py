"""A migration opened for a switch: its ledger, its locks and its side files."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from migrate.batch.changelog.concerns import retention_concerns
from migrate.batch.home import SIDE_FILE, check_ours, claim, finish_abandoned, remove_unfinished
from migrate.batch.identity import stable_json, store_state
from migrate.batch.ledger.gates import concerns_of, require_acceptance
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger, read_repaired
from migrate.batch.log import logged
from migrate.batch.run_lock import one_run_at_a_time
from migrate.batch.source.source import source_system
from migrate.batch.status.next_step import next_step
from migrate.batch.switch.store_locations import Places
from migrate.errors import RefusedError, SpecError
from migrate.model.comparison import Totals
from migrate.model.events import Event, Listener
from migrate.model.journal import STATES, Exchange, Journal
from migrate.model.ledger_row import Step
from migrate.model.reports import Concern, SwitchReport
from migrate.model.store_partition import ChangelogOffsets, StorePartition, StoreState
from migrate.spec.spec import Spec
from migrate.stores.files import can_exchange, files_named, fsync_all, keep_owner, write_synced
from migrate.stores.lock import holding_locks
from migrate.systems import System


@dataclass(frozen=True)
class Migration:
    """A migration that is locked for a switch."""

    spec: Spec
    listener: Listener
    standing: Standing
    """Its standing when it was opened."""
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    warnings: tuple[str, ...] = ()
    """Repairs that were made when it was opened."""
    _settled: set[Path] = field(default_factory=set)
    """The directories whose side files this command has made durable."""

    def notify(self, name: str, **facts: Any) -> None:  # noqa: ANN401 - each event has facts of its own
        """Send an event to the listener."""
        self.listener(Event(name, facts))

    @cached_property
    def home(self) -> Path:
        """The migration's own folder."""
        return self.spec.home

    @cached_property
    def application(self) -> Path:
        """The application's directory."""
        return self.spec.source_path

    @property
    def system(self) -> System:
        """The owning system."""
        return source_system(self.spec)

    @property
    def migration_id(self) -> str:
        """The id in the ledger."""
        return self.standing.rows[-1].migration_id

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, opened for the first row to commit: this fences off any other run of the migration.

        Raises RefusedError where another command has switched the stores meanwhile.
        """
        ledger = Ledger(self.home, self.migration_id, self.run_id, command="switch")
        found = Standing(self.home, ledger.rows)
        if (found.switch, found.revision_id) != (self.standing.switch, self.standing.revision_id):
            raise RefusedError("another command switched these stores meanwhile", hint="stateferry status SPEC")
        return ledger

    def places(self, journal: Journal) -> list[Places]:
        """The places of each store partition."""
        return [Places.of(self.application, self.home, entry) for entry in journal.exchanges]

    def check_not_refuted(self, what: str) -> None:
        """Raises VerificationError where a verification found the new stores wrong, unless that was accepted."""
        if self.standing.step not in (Step.FINALIZING, Step.FINALIZED):
            require_acceptance(self.mismatch, what)

    @property
    def mismatch(self) -> tuple[Concern, ...]:
        """The concern that a verification found the new stores wrong, if there is one."""
        return tuple(each for each in concerns_of(self.spec, self.standing, Totals()) if each.kind == "mismatch")

    def record(self, step: Step, journal: Journal) -> None:
        """Commit a row with the journal to the ledger, durably."""
        self.ledger.commit(self.ledger.row(step, detail=journal.model_dump(mode="json")))

    def locking(
        self, partitions: Iterable[StorePartition], stores: Iterable[Path]
    ) -> AbstractContextManager[Callable[[], None]]:
        """Hold the locks of these store partitions in the application, and of these stores in our folder.

        Yields a check that no other process has opened one nevertheless. Raises StoreLockedError where one is open.
        """
        locks = self.system.layout.lock_files(self.application, list(partitions))
        ours = (lock for folder in stores for lock in files_named("LOCK", folder))
        return holding_locks(dict.fromkeys([*locks, *ours]))

    def locking_all(self, every: Iterable[Places]) -> AbstractContextManager[Callable[[], None]]:
        """Hold the locks of all stores of a switch that has begun, in each place where they may be."""
        every = list(every)
        partitions = [partition for places in every for partition in places.entry.partitions]
        return self.locking(partitions, [folder for places in every for folder in (places.staged, places.old)])

    def write_positions(self, positions: Iterable[tuple[StorePartition, ChangelogOffsets]]) -> None:
        """Write the positions of these store partitions to their side files, durably; other lines stay."""
        unsettled: set[Path] = set()
        for partition, each in positions:
            texts = self.system.offsets.write(self.application, partition, each)
            for file, text in ((self.application / relative, text) for relative, text in texts.items()):
                is_changed = _replace(file, text, self.home / SIDE_FILE)
                if is_changed or file.parent not in self._settled:  # who wrote it may have been killed before
                    unsettled.add(file.parent)
        fsync_all(unsettled)
        self._settled.update(unsettled)

    def between(
        self, entry: Exchange, first: ChangelogOffsets, second: ChangelogOffsets
    ) -> tuple[StorePartition, ChangelogOffsets]:
        """Offsets that hold for both stores of an exchange; none where the exchange takes two renames.

        None, too, for a store that is moved in or out, and is there or not.
        """
        if entry.is_moved_in:
            return entry.in_use, ChangelogOffsets()
        return entry.in_use, first.lowest(second) if self._is_atomic else first.model_copy(update={"lines": ()})

    @cached_property
    def _is_atomic(self) -> bool:
        return can_exchange(self.home)


def _replace(file: Path, text: str | None, temporary: Path) -> bool:
    """Write a side file by a rename, so that the application never reads half of one; None: remove it.

    Returns whether it was written or removed.
    """
    current = file.read_text(encoding="utf-8") if file.is_file() else None
    if text is None:
        file.unlink(missing_ok=True)
    elif text != current:
        write_synced(temporary, text.encode())
        if current is not None:
            shutil.copymode(file, temporary)
        keep_owner(file if current is not None else file.parent, temporary)
        temporary.replace(file)
    return text != current


def is_as_it_was(places: Places, root: Path, then: StoreState) -> bool:
    """Whether the store at `root`, which is one of the places, has the content that `then` records."""
    entry = places.entry
    partition = entry.partition if then == entry.old_state else entry.new_partition or entry.partition
    try:
        return partition.is_all_of(root) and store_state(partition.below(root), then).content == then.content
    except (RefusedError, FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def open_migration(spec: Spec, on_event: Listener) -> Iterator[Migration]:
    """Lock the migration, and read its ledger. Raises RefusedError where it cannot be switched."""
    check_ours(spec.home)
    on_event = logged(spec.name, on_event)
    with one_run_at_a_time(spec.home):
        finish_abandoned(spec.home)
        warnings: list[str] = []
        standing = Standing(spec.home, read_repaired(spec.home, warnings.append))
        if not standing.rows:
            raise RefusedError(f"the migration {spec.name!r} has not begun in {spec.home}", hint="stateferry run SPEC")
        if standing.journal.exchanges and standing.journal.source != stable_json(spec.source):
            raise RefusedError(
                f"[source] is not what was cut over: {standing.journal.source}",
                hint="restore [source] in the spec",
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
            hint="configure the application to use one of the two directories",
        )


def switch_report(migration: Migration, journal: Journal, step: Step) -> SwitchReport:
    """The report of a command that ended at this step, now or earlier."""
    state, is_back = STATES[step], step is Step.ROLLED_BACK
    were_moved = any(not entry.is_moved_in for entry in journal.exchanges)
    return SwitchReport(
        name=migration.spec.name,
        migration_id=migration.migration_id,
        state=state,
        stores=tuple(
            places.old if is_back and places.entry.is_moved_in else places.live for places in migration.places(journal)
        ),
        old_stores=migration.home / "old" if step is Step.CUT_OVER and were_moved else None,
        concerns=() if is_back else (*journal.accepted, *retention_concerns(migration.standing)),
        changelog="" if is_back else journal.changelog,
        warnings=(*migration.warnings, *journal.warnings),
        topics=_topics(journal, is_new=not is_back),
        set_back=journal.broker.set_back if journal.broker is not None and is_back else (),
        next_step=next_step(migration.spec, migration.standing, state),
    )


def _topics(journal: Journal, *, is_new: bool) -> tuple[str, ...]:
    names = {} if journal.broker is None else journal.broker.topics.names
    return tuple(names if is_new else dict.fromkeys(names.values()))
