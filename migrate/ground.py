"""The ground: what a run finds before it writes anything, and each check that must pass, by name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from migrate.checks import Check, CheckReport, observe
from migrate.dual.mark import check_not_half_converged
from migrate.errors import MigrationError, RefusedError, StoreLockedError
from migrate.identity import check_identity, migration_identity
from migrate.looking_again import look_again
from migrate.marker import is_usable
from migrate.plan_model import DatabasePlan, Plan, load_plan
from migrate.planning import plan_databases
from migrate.preflight import (
    bytes_to_copy,
    check_clean,
    check_conversion,
    check_home,
    check_linkable,
    check_position,
    check_space,
    check_target_path,
    check_work_dir,
    check_writable,
)
from migrate.snapshots import find_snapshot, has_snapshot, is_snapshot_current
from migrate.source import Source, find_source
from migrate.spec import Spec
from migrate.steps.context import Context
from migrate.stores.layout import check_readable, database_files
from migrate.stores.lock import another_run
from migrate.stores.options_file import (
    NEWEST_FORMAT_VERSION,
    FamilyOptions,
    check_comparator,
    check_merge_operator,
    check_table,
    read_options,
)
from migrate.stores.rocksdb_writing import ROCKSDB_VERSION, TableOptions
from migrate.stores.run_lock import is_run_at_work
from migrate.target_version import check_version

_CLOCK_SLACK_SECONDS = 60
_WHILE_IN_USE = ("source.stopped", "source.clean", "source.position")
"""What nobody expects of an application that runs."""


def open_source(spec: Spec) -> Source:
    """What is converted: the application's directory, or the snapshot taken of it. Raises RefusedError."""
    return find_snapshot(spec) if spec.run.source == "snapshot" else find_source(spec)


def source_to_be(spec: Spec) -> Source:
    """The same; where the snapshot was not taken yet, what it will be taken of. Raises RefusedError."""
    return find_source(spec) if spec.run.source == "snapshot" and not has_snapshot(spec) else open_source(spec)


class Ground:
    """What a run finds. Each part is looked at once, when it is first asked for; each may raise RefusedError."""

    def __init__(self, context: Context, find: Callable[[Spec], Source] = open_source) -> None:
        self._context = context
        self._spec = context.spec
        self._find = find

    @cached_property
    def source(self) -> Source:
        """The old stores."""
        return self._find(self._spec)

    @cached_property
    def identity(self) -> dict[str, str]:
        """What makes this migration the one that it is."""
        return migration_identity(self._spec, self.source, self._context.ref, self.stored)

    @cached_property
    def stored(self) -> Plan | None:
        """The plan of a run that began earlier."""
        return load_plan(self._context.home) if is_usable(self._context.home) else None

    @cached_property
    def is_snapshot_current(self) -> bool:
        """Whether the snapshot that is there is what a run would take now."""
        # Without a plan nothing says what a snapshot that is there was taken of.
        return self._spec.run.source == "snapshot" or (
            self.stored is not None
            and is_snapshot_current(self.source, self._context.home, mode=self._spec.run.snapshot)
        )

    @cached_property
    def databases(self) -> tuple[DatabasePlan, ...]:
        """Of the plan that is to be made; none where the stored one serves."""
        stored = self.stored
        serves = stored is not None and self.is_snapshot_current and stored.chunk_size == self._spec.run.chunk_size
        return () if serves else plan_databases(self._spec, self.source, self._context.conversion)

    @cached_property
    def is_in_use(self) -> bool:
        """Whether its owner holds the old store now."""
        try:
            self.source.check_stopped()
        except StoreLockedError:
            return True
        except (MigrationError, OSError):
            return False  # whatever it is, a check will say so
        return False

    def observe(self) -> Iterator[CheckReport]:
        """Every check, and what else is worth knowing; what the application must stop for waits."""
        return observe(map(self._patient, (*self.checks(), *self._checks_of_a_snapshot(), *self._remarks())))

    def _patient(self, check: Check) -> Check:
        """While its owner writes the old store, its files come and go."""
        if not self.is_in_use:
            return check
        waits = check.name in _WHILE_IN_USE
        return replace(
            check,
            run=lambda: look_again(check.run, is_in_use=True),
            on_failure="waiting" if waits else check.on_failure,
        )

    def checks(self) -> tuple[Check, ...]:
        """All that must be so, in the order in which a run asks."""
        return (*self._checks_of_the_source(), *self._checks_of_the_work_dir())

    def _checks_of_the_source(self) -> tuple[Check, ...]:
        found, files = ("source.found",), ("source.files",)
        return (
            Check("work_dir.ours", "the migration's folder is ours, or not there yet", self._ours),
            Check("conversion.allowed", "nothing is lost that the spec does not allow", self._conversion),
            Check("run.verify", "no new store goes live unverified, unless that is accepted", self._verified),
            Check("source.found", "the old store is there", self._found),
            Check("source.stopped", "the application is stopped", self._stopped, found),
            Check("source.files", "every file is there and can be read", self._files, found),
            Check("source.comparator", "keys are in RocksDB's bytewise order", self._each(check_comparator), files),
            Check("source.merge-operator", "no merge operator", self._each(check_merge_operator), files),
            Check("source.tables", "this RocksDB can read and write its tables", self._tables, files),
            Check("source.clean", "nothing old will be replayed into the new store", self._clean, files),
            Check("source.format", "the column families are those of [source] format", self._format, files),
            Check("target.version", "the [target] version can open the new store", self._version, files),
            Check("migration.same", "it is the migration that was begun, if one was", self._same, files),
        )

    def _checks_of_the_work_dir(self) -> tuple[Check, ...]:
        found = ("source.found",)
        return (
            Check("work_dir.place", "the work_dir lies where it may", self._work_dir, found),
            Check("work_dir.writable", "the work_dir can be written to", self._writable),
            Check("work_dir.links", "snapshot files can be hard-linked, or are copied", self._links, found),
            Check("target.place", "the new store can take its place in one step", self._target, found),
            Check(
                "work_dir.space",
                "there is room for the new stores, and a fifth more",
                self._space,
                ("source.format", "work_dir.writable"),
            ),
        )

    def _checks_of_a_snapshot(self) -> tuple[Check, ...]:
        """Of one that is still to be taken."""
        if self._spec.run.source != "snapshot" or has_snapshot(self._spec):
            return ()
        claim = "its changelog positions are known, which a snapshot needs"
        return (Check("source.position", claim, lambda: check_position(self.source), ("source.files",)),)

    def _remarks(self) -> tuple[Check, ...]:
        """What a run meets otherwise, or what does not keep it from starting and should be known before."""
        files = ("source.files",)
        checks = (
            Check("user.owner", "the new files will belong to the application's user", self._same_owner, files),
            Check("clock", "the clock is not behind the old store's files", self._clock, files),
        )
        return (
            Check("work_dir.free", "no other run of this migration is at work", self._no_other_run),
            *(replace(check, on_failure="warning") for check in checks),
        )

    def _ours(self) -> None:
        check_home(self._spec)

    def _conversion(self) -> None:
        check_conversion(self._spec, self._context.conversion, self._context.ref)

    def _verified(self) -> str:
        """Of a migration that was begun its ledger says whether they are."""
        spec, mode = self._spec, self._spec.run.verify
        if mode != "off" or self.stored is not None:
            return mode
        if self._context.acceptance.unverified or "unverified" in spec.conversion.allow:
            return "off, and that is accepted"
        if spec.target_path is None:
            return "off: cutover asks for stateferry verify SPEC before it, or for --unverified"
        raise RefusedError(
            '[run] verify = "off", and what nobody has compared is not published unasked',
            hint='[run] verify = "full" or "digest"; to publish without: --unverified, or [conversion] allow = '
            '["unverified"]',
        )

    def _found(self) -> str:
        stores = {partition.store for partition in self.source.partitions}
        return f"{len(self.source.partitions)} store partitions of {', '.join(sorted(stores))}"

    def _stopped(self) -> None:
        self.source.check_stopped()

    def _directories(self) -> Iterable[Path]:
        for partition in self.source.partitions:
            yield from self.source.directories(partition).values()

    def _files(self) -> None:
        for directory in self._directories():
            files = database_files(directory)
            check_not_half_converged(directory)
            check_readable(files)
            read_options(directory)

    def _each(self, check: Callable[[FamilyOptions, str], None]) -> Callable[[], None]:
        def run() -> None:
            for directory in self._directories():
                for family in read_options(directory).values():
                    check(family, f"column family {family.family!r} of {directory}")

        return run

    def _tables(self) -> str:
        self._each(check_table)()
        return (
            f"RocksDB {ROCKSDB_VERSION} reads table format {NEWEST_FORMAT_VERSION} and older, and writes "
            f"{TableOptions().format_version}"
        )

    def _clean(self) -> str:
        has_asked = self.stored is not None and self.stored.asked_for_changelog_ends
        has_begun = has_asked and self.is_snapshot_current
        context = self._context
        return check_clean(self._spec, context.conversion, self.source, context.changelog_ends, has_begun=has_begun)

    def _format(self) -> str:
        lanes = {f"{lane.source} -> {lane.target}" for database in self.databases for lane in database.lanes}
        return ", ".join(sorted(lanes))

    def _version(self) -> str | None:
        return check_version(self._spec)

    def _same(self) -> str:
        if self.stored is None:
            return "none was"
        check_identity(self.stored, self.identity)
        return f"begun: plan revision {self.stored.revision}"

    def _work_dir(self) -> None:
        check_work_dir(self._spec, self.source)

    def _writable(self) -> None:
        check_writable(self._spec)

    def _links(self) -> None:
        if not self.is_snapshot_current:
            check_linkable(self._spec, self.source)

    def _target(self) -> None:
        if self.stored is None:
            check_target_path(self._spec, self.source)

    def _space(self) -> str:
        if self.stored is not None and self.is_snapshot_current:
            return "taken by the run that began"
        copied = 0 if self.is_snapshot_current else bytes_to_copy(self._spec, self.source)
        return check_space(self._spec, self.databases, copied_bytes=copied)

    def _no_other_run(self) -> None:
        if is_run_at_work(self._context.home):
            raise another_run(self._context.home)

    def _same_owner(self) -> None:
        owners = {(directory / "CURRENT").stat().st_uid for directory in self._directories()}
        if os.geteuid() != 0 and owners - {os.geteuid()}:
            raise RefusedError(
                f"the old store belongs to user {min(owners)}, and this is user {os.geteuid()}: only root may give "
                "files away",
                hint="run as the application's user, or as root",
            )

    def _clock(self) -> None:
        files = (path for directory in self._directories() for path in database_files(directory).every)
        newest = max((path.stat().st_mtime for path in files), default=0.0)
        if newest > time.time() + _CLOCK_SLACK_SECONDS:
            raise RefusedError(
                f"a file of the old store was written {newest - time.time():,.0f} s from now: this clock is behind",
                hint="set the clock: times in the ledger, and the age of a snapshot, are told by it",
            )
