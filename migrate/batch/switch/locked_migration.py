"""A migration opened for a switch: its locks and its side files, what it refuses, and its report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path

from migrate.batch.changelog.concerns import retention_concerns
from migrate.batch.context import Context
from migrate.batch.frame import command
from migrate.batch.home import SIDE_FILE, claim, remove_unfinished
from migrate.batch.identity import stable_json, store_state
from migrate.batch.ledger.gates import concerns_of, require_acceptance
from migrate.batch.source.source import source_system
from migrate.batch.status.next_step import next_step
from migrate.batch.switch.store_locations import StoreLocations
from migrate.errors import RefusedError, SpecError
from migrate.model.journal import STATES, Exchange
from migrate.model.ledger_row import Step
from migrate.model.reports import Concern, SwitchReport
from migrate.model.store_partition import ChangelogOffsets, StorePartition, StoreState
from migrate.spec.spec import Spec
from migrate.stores.files import can_exchange, files_named, fsync_all, keep_owner, write_synced
from migrate.stores.lock import holding_locks


class LockedMigration:
    """The locks and the side files of a migration that is being switched."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._system = source_system(context.spec)
        self._settled: set[Path] = set()
        """The directories whose side files this command has made durable."""

    def locking(
        self, partitions: Iterable[StorePartition], stores: Iterable[Path]
    ) -> AbstractContextManager[Callable[[], None]]:
        """Hold the locks of these store partitions in the application, and of these stores in our folder.

        Yields a check that no other process has opened one nevertheless. Raises StoreLockedError where one is open.
        """
        locks = self._system.layout.lock_files(self.context.application, list(partitions))
        ours = (lock for folder in stores for lock in files_named("LOCK", folder))
        return holding_locks(dict.fromkeys([*locks, *ours]))

    def locking_all(self, every: Iterable[StoreLocations]) -> AbstractContextManager[Callable[[], None]]:
        """Hold the locks of all stores of a switch that has begun, in each place where they may be."""
        every = list(every)
        partitions = [partition for places in every for partition in places.entry.partitions]
        return self.locking(partitions, [folder for places in every for folder in (places.staged, places.old)])

    def write_positions(self, positions: Iterable[tuple[StorePartition, ChangelogOffsets]]) -> None:
        """Write the positions of these store partitions to their side files, durably; other lines stay."""
        unsettled: set[Path] = set()
        for partition, each in positions:
            texts = self._system.offsets.write(self.context.application, partition, each)
            for file, text in ((self.context.application / relative, text) for relative, text in texts.items()):
                is_changed = _replace(file, text, self.context.home / SIDE_FILE)
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
            return entry.new_partition, ChangelogOffsets()
        return entry.new_partition, first.lowest(second) if self._is_atomic else first.model_copy(update={"lines": ()})

    @cached_property
    def _is_atomic(self) -> bool:
        return can_exchange(self.context.home)


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


def is_as_it_was(places: StoreLocations, root: Path, then: StoreState) -> bool:
    """Whether the store at `root`, which is one of the places, has the content that `then` records."""
    entry = places.entry
    partition = entry.partition if then == entry.old_state else entry.new_partition
    try:
        return partition.is_all_of(root) and store_state(partition.below(root), then).content == then.content
    except (RefusedError, FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def open_migration(context: Context) -> Iterator[LockedMigration]:
    """The frame of a command that switches stores. Raises RefusedError where the migration cannot be switched."""
    with command(context):
        spec, standing = context.spec, context.standing
        if not standing.rows:
            raise RefusedError(
                f"the migration {spec.name!r} has not begun in {context.home}", hint="stateferry run SPEC"
            )
        if standing.journal.exchanges and standing.journal.source != stable_json(spec.source):
            raise RefusedError(
                f"[source] is not what was cut over: {standing.journal.source}",
                hint="restore [source] in the spec",
            )
        claim(context.home, spec.source_path)
        remove_unfinished(context.home)
        yield LockedMigration(context)


def places_of(context: Context) -> list[StoreLocations]:
    """The places of each store partition that the last switch exchanges."""
    return [StoreLocations.of(context.application, context.home, each) for each in context.standing.journal.exchanges]


def mismatch_of(context: Context) -> tuple[Concern, ...]:
    """The concern that a verification found the new stores wrong, if there is one."""
    return tuple(each for each in concerns_of(context.spec, context.standing) if each.kind == "mismatch")


def check_not_refuted(context: Context, what: str) -> None:
    """Raises VerificationError where a verification found the new stores wrong, unless that was accepted."""
    if context.standing.step not in (Step.FINALIZING, Step.FINALIZED):
        require_acceptance(mismatch_of(context), what)


def check_in_place(spec: Spec, verb: str) -> None:
    """Raises SpecError where the migration publishes a new directory, so that there is nothing to exchange."""
    if spec.target_path is not None:
        raise SpecError(
            f"{verb}: this migration publishes a new state directory, [target] path {spec.target_path}, and leaves the "
            "old one as it is",
            hint="configure the application to use one of the two directories",
        )


def switch_report(context: Context) -> SwitchReport:
    """The report of a command that ended at the last step of a switch, now or earlier."""
    step, journal = context.standing.switch
    assert step is not None
    state, is_back = STATES[step], step is Step.ROLLED_BACK
    every, topics = places_of(context), {} if journal.broker is None else journal.broker.topics.names
    were_moved = any(not entry.is_moved_in for entry in journal.exchanges)
    return SwitchReport(
        name=context.spec.name,
        migration_id=context.standing.migration_id,
        state=state,
        stores=tuple(each.old if is_back and each.entry.is_moved_in else each.live for each in every),
        old_stores=context.home / "old" if step is Step.CUT_OVER and were_moved else None,
        concerns=() if is_back else (*journal.accepted, *retention_concerns(context.standing)),
        changelog="" if is_back else journal.changelog,
        warnings=(*context.warnings, *journal.warnings),
        topics=tuple(dict.fromkeys(topics.values()) if is_back else topics),
        set_back=journal.broker.set_back if journal.broker is not None and is_back else (),
        next_step=next_step(context.spec, context.standing, state),
    )
