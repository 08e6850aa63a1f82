"""Preflight: the facts that a run reads before it writes, and all checks by name, those at the broker included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property

from migrate.batch.changelog.broker_checks import BrokerFacts
from migrate.batch.changelog.take_key_times import are_needed
from migrate.batch.context import Context, check_home
from migrate.batch.home import is_usable, load_plan
from migrate.batch.identity import check_identity, migration_id, spec_identity, store_identity
from migrate.batch.ledger.standing import Standing, StandingReader
from migrate.batch.plan.key_order import may_change_keys, reason_to_sort
from migrate.batch.plan.key_places import KeyPlaces, find_key_places
from migrate.batch.plan.make_plan import plan_databases
from migrate.batch.preflight.check import Check, CheckReport, Purpose, observe, with_retries
from migrate.batch.preflight.conversion_checks import check_conversion, check_verified
from migrate.batch.preflight.directories import (
    bytes_to_copy,
    check_clean,
    check_clock,
    check_linkable,
    check_open_files,
    check_owner,
    check_position,
    check_space,
    check_target_name,
    check_target_path,
    check_version,
    check_work_dir,
    check_writable,
)
from migrate.batch.preflight.partition_checks import input_check, partition_checks
from migrate.batch.preflight.sort_checks import sort_check
from migrate.batch.run_lock import another_run, pid_at_work
from migrate.batch.source.changelog_ends import check_has_own_changelog, way_without_changelog
from migrate.batch.source.snapshot import has_snapshot, is_snapshot_current, open_source
from migrate.batch.source.source import Source, check_tasks, find_source, read_store
from migrate.batch.status.next_step import may_catch_up
from migrate.errors import DamagedLedgerError, MigrationError, RefusedError, StoreLockedError
from migrate.model.display import plural
from migrate.model.engine_choice import EngineChoice
from migrate.model.plan import DatabasePlan, Plan
from migrate.model.reports import InconclusiveCheck
from migrate.model.store_partition import place_name
from migrate.spec.allowed import KEY_CHANGE, StaleChangelogError, allowing
from migrate.spec.user_function import name_warnings
from migrate.stores.rocksdb.options_file import (
    NEWEST_FORMAT_VERSION,
    OptionsCheck,
    check_comparator,
    check_merge_operator,
    check_table,
)
from migrate.stores.rocksdb.writing import ROCKSDB_VERSION, TableOptions

_WHILE_IN_USE = ("source.stopped", "source.clean", "source.position")
"""The checks that fail while the application runs."""
_BEFORE_LOCK = (
    "work_dir.ours",
    "conversion.allowed",
    "source.found",
    "work_dir.place",
    "work_dir.writable",
    "target.place",
)
"""The checks that must also pass before the migration's folder is made and locked."""
_RUN: tuple[Purpose, ...] = ("run", "plan", "doctor")
_REPORTS: tuple[Purpose, ...] = ("plan", "doctor")
_BROKER, _TOPIC = ("source.found", "changelog.broker"), ("changelog.topic",)
_PURPOSES: dict[str, tuple[Purpose, ...]] = {"missing": ("plan", "doctor"), "writer": ("run",)}
_WAITS = ("group", "transactions")
"""They fail until the application has stopped."""
_OF_THE_STOPPED = (*_WAITS, "repartition")
_OF_AN_OLD_TOPIC = ("other-topics", "transactions", "position", "times", "settings", "target", "missing", "repartition")
_Row = tuple[str, str, Callable[[], str | InconclusiveCheck], tuple[str, ...]]
"""The name of a check, its claim, what makes it, and what it needs."""


class Preflight:
    """The facts and checks of one command. Each fact is read once, when needed, and may raise RefusedError."""

    def __init__(self, context: Context, purpose: Purpose, standing: Standing | None = None) -> None:
        """`standing`: that of the migration, where the caller has read it."""
        self._context = context
        self._spec = context.spec
        self._purpose = purpose
        self._standing = standing
        self.read = cache(read_store)  # each directory is opened once

    def check(self) -> None:
        """Raises RefusedError for the first check that fails."""
        with self._closing():
            for check in self.checks():
                if isinstance(found := check.run(), InconclusiveCheck):
                    self._context.warn(f"{found.detail}: {found.fix}")
        _ = self.identity  # read now, so that a later change of the source is noticed

    def check_before_lock(self) -> None:
        """Raises RefusedError where the migration's folder must not be made, or the spec cannot be run at all."""
        for check in self.checks():
            if check.name in _BEFORE_LOCK:
                check.run()

    def observe(self) -> Iterator[CheckReport]:
        """The outcome of every check; those that wait for the application to stop are reported as waiting."""
        with self._closing():
            yield from observe(map(self._retried, self.checks()))

    def checks(self) -> tuple[Check, ...]:
        """The checks for this purpose, in the order in which a run makes them."""
        every = (
            *self._checks_of_the_source(),
            *self._checks_of_the_work_dir(),
            *self._checks_of_changelogs(),
            *sort_check(self._context, lambda: self.why_sorted, self._planned, lambda: self.needs_catch_up),
            *self._checks_of_keys(),
            *self._checks_of_engines(),
            *self._checks_for_reports(),
        )
        return tuple(check for check in every if self._purpose in check.purposes)

    @cached_property
    def source(self) -> Source:
        """The old stores; those of the application where the snapshot is not taken yet."""
        return find_source(self._spec) if self._takes_snapshot else open_source(self._spec)

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """End the connection to the broker, if a check has made one."""
        try:
            yield
        finally:
            if "at_broker" in self.__dict__:
                self.at_broker.close()

    @cached_property
    def at_broker(self) -> BrokerFacts:
        return BrokerFacts(self._spec, self._context.conversion, self.source, self.standing)

    @property
    def needs_catch_up(self) -> bool:
        """Whether a catch-up comes before the cut-over, as far as the checks have found out."""
        return may_catch_up(self._spec) or ("at_broker" in self.__dict__ and self.at_broker.is_behind)

    @cached_property
    def identity(self) -> dict[str, str]:
        return spec_identity(self._spec, self._context.ref) | store_identity(self.source, self.read)

    @property
    def migration_id(self) -> str:
        """The id of the migration, which a revision of its function does not change."""
        return migration_id(self.identity) if self.stored is None else self.stored.migration_id

    @cached_property
    def standing(self) -> Standing:
        """Where the migration stands. Raises RefusedError for a ledger of a newer release, or of another migration."""
        if self._standing is not None:
            return self._standing
        try:
            return StandingReader(self._context.home).read()
        except DamagedLedgerError:  # a run repairs it before it makes this check
            return StandingReader(self._context.home).read_plan()

    @cached_property
    def stored(self) -> Plan | None:
        if self._standing is not None:
            return self._standing.plan
        return load_plan(self._context.home) if is_usable(self._context.home) else None

    @cached_property
    def is_snapshot_current(self) -> bool:
        """Whether the existing snapshot is the one that a run would take now; without a plan that is not known."""
        if self._spec.run.source == "snapshot":
            return not self._takes_snapshot
        mode = self._spec.run.snapshot
        return self.stored is not None and is_snapshot_current(self.source, self._context.home, mode=mode)

    @property
    def _takes_snapshot(self) -> bool:
        """Whether this command is `snapshot`, or `snapshot` must come next."""
        if self._spec.run.source != "snapshot":
            return False
        return self._purpose == "snapshot" or (self._purpose != "run" and not has_snapshot(self._spec))

    @cached_property
    def databases(self) -> tuple[DatabasePlan, ...]:
        """The databases of a new plan; none where the stored plan is used."""
        stored = self.stored
        if stored is not None and self.is_snapshot_current and not self.is_cut_otherwise:
            return ()
        is_rekeyed = self._spec.target.partitions is not None and self.is_sorted
        return plan_databases(self._spec, self.source, self._context.conversion, self.read, is_rekeyed=is_rekeyed)

    @property
    def is_cut_otherwise(self) -> bool:
        """Whether the stored plan, if there is one, has other chunks than this run makes."""
        stored = self.stored
        if stored is None or stored.is_sorted != self.is_sorted:
            return stored is not None
        return stored.chunk_size != self._spec.run.chunk_size and not stored.is_sorted

    @cached_property
    def why_sorted(self) -> str:
        """Why the new keys of this run are sorted, in words; empty: they are not."""
        return reason_to_sort(self._spec, lambda: self.source, self._context.conversion, self._context.ref, self.stored)

    @property
    def is_sorted(self) -> bool:
        return bool(self.why_sorted)

    @cached_property
    def key_places(self) -> KeyPlaces:
        """Where new keys belong: as the stored plan has it, else by the old keys; nowhere where none can change."""
        if self.stored is not None:
            return KeyPlaces(self.stored.key_places)
        spec = self._spec
        if spec.changelog is None or not self._context.conversion.may_move_keys or spec.target.partitions is not None:
            return KeyPlaces()
        return find_key_places(self.source, self.databases, self.at_broker.partitions)

    @cached_property
    def engine(self) -> EngineChoice:
        """Which engine does the work. Raises RefusedError where the spec names one that declines some of it."""
        databases = self._planned()
        directories = {each.id: self.source.directories(each) for each in self.source.partitions}
        by_place = {place_name(id_, name): path for id_, found in directories.items() for name, path in found.items()}
        old = directories.__getitem__ if self._spec.target.partitions is None else lambda _: by_place
        return self._context.choose_engine(databases, old, self.key_places.of_partitions, is_sorted=self.is_sorted)

    def _planned(self) -> tuple[DatabasePlan, ...]:
        return self.databases or (() if self.stored is None else self.stored.databases)

    def engine_found(self, made: Iterable[CheckReport]) -> EngineChoice | None:
        """As `engine`; None where the check of it has not passed."""
        return self.engine if any(each.name == "run.engine" and each.outcome == "ok" for each in made) else None

    @cached_property
    def is_in_use(self) -> bool:
        try:
            self.source.check_stopped()
        except StoreLockedError:
            return True
        except (MigrationError, OSError):
            return False  # a check reports the error
        return False

    def _retried(self, check: Check) -> Check:
        """The check, retried while the owner runs, which creates and removes files."""
        if not self.is_in_use or check.name.startswith("changelog."):
            return check
        waits = check.name in _WHILE_IN_USE
        return replace(
            check,
            run=lambda: with_retries(check.run, is_in_use=True),
            on_failure="waiting" if waits else check.on_failure,
        )

    def _checks_of_the_source(self) -> tuple[Check, ...]:
        spec, found, files = self._spec, ("source.found",), ("source.files",)
        return (
            Check("work_dir.ours", "the migration's folder is ours, or not there yet", lambda: check_home(spec)),
            Check("conversion.allowed", "nothing is lost that the spec does not allow", self._allowed),
            Check("run.verify", "no new store goes live unverified, unless accepted", self._verified, purposes=_RUN),
            Check("source.found", "the old store is there", self._found),
            Check("source.stopped", "the application is stopped", self._stopped, found),
            Check("source.files", "every file is there and can be read", self._files, found),
            Check("source.tasks", "each changelog partition has one task directory", self._tasks, files),
            *partition_checks(spec, lambda: self.source, is_rekeyed=may_change_keys(self._context.conversion)),
            Check("source.comparator", "keys are in RocksDB's bytewise order", self._options(check_comparator), files),
            Check("source.merge-operator", "no merge operator", self._options(check_merge_operator), files),
            Check("source.tables", "this RocksDB can read and write its tables", self._tables, files),
            Check("source.clean", "nothing old will be replayed into the new store", self._clean, files),
            Check("source.format", "the column families are those of [source] format", self._format, files),
            Check("target.version", "its owner, or the [target] version, can open the new store", self._version, files),
            Check("migration.same", "it is the migration that was started, if one was", self._same, files),
        )

    def _checks_of_the_work_dir(self) -> tuple[Check, ...]:
        found, files = ("source.found",), ("source.files",)
        return (
            Check("work_dir.place", "the work_dir is in an allowed place", lambda: check_work_dir(self._spec), found),
            Check("work_dir.writable", "the work_dir can be written to", lambda: check_writable(self._spec)),
            Check("work_dir.links", "snapshot files can be hard-linked, or are copied", self._links, found),
            Check("target.place", "the new store can take its place in one step", self._target, files),
            Check("target.name", "a new directory has the application's id as its name", self._name, found),
            Check(
                "work_dir.space",
                "there is room for the new stores, and a fifth more",
                self._space,
                ("source.format", "work_dir.writable"),
            ),
        )

    def _checks_of_changelogs(self) -> Iterable[Check]:
        if self._spec.changelog is not None:
            yield from changelog_checks(self._context, lambda: self.at_broker, self._purpose)
        yield from input_check(self._spec, lambda: self.at_broker, lambda: self.source)

    def _checks_of_keys(self) -> Iterable[Check]:
        spec = self._spec
        is_placed = spec.target.partitions is not None  # by its new key
        if is_placed or not (spec.source.store_names and self._context.conversion.may_move_keys):
            return ()
        needs = ("source.format",) if spec.changelog is None else ("source.format", "changelog.topic")
        claim = "each new key is checked: its task looks for it"
        return (Check("conversion.places", claim, self._places, needs, purposes=_RUN),)

    def _checks_of_engines(self) -> Iterable[Check]:
        needs: tuple[str, ...] = ("source.format", "migration.same")
        if self._spec.changelog is not None and self._context.conversion.may_move_keys:
            needs = (*needs, "changelog.topic")
        claim = "the engine that [run] engine names can do everything"
        return (Check("run.engine", claim, lambda: str(self.engine), needs, purposes=_RUN),)

    def _checks_for_reports(self) -> tuple[Check, ...]:
        """Checks that only a snapshot needs, that a run makes elsewhere, or that do not keep it from starting."""
        files = ("source.files",)
        checks = (
            Check(
                "function.names",
                "no file of the function has the name of another module",
                self._names,
                on_failure="warning",
            ),
            Check(
                "source.open-files",
                "a scan may open the tables that it needs",
                lambda: check_open_files(self.source, self.read),
                files,
            ),
            Check("work_dir.free", "no other run of this migration is at work", self._no_other_run),
            Check(
                "user.owner",
                "the new files will belong to the application's user",
                lambda: check_owner(self.source),
                files,
                on_failure="warning",
            ),
            Check(
                "clock",
                "the clock is not behind the old store's files",
                lambda: check_clock(self.source),
                files,
                on_failure="warning",
            ),
        )
        position = Check(
            "source.position",
            "its changelog positions are known, which a snapshot needs",
            lambda: check_position(self.source),
            files,
            purposes=("snapshot", *_REPORTS) if self._takes_snapshot else (),
        )
        return (position, *(replace(check, purposes=_REPORTS) for check in checks))

    def _allowed(self) -> None:
        try:
            check_conversion(self._spec, self._context.conversion, self._context.ref)
        except StaleChangelogError as error:
            self._check_own_changelogs(error)
            raise

    def _check_own_changelogs(self, error: StaleChangelogError) -> None:
        """Raises RefusedError for a store that has none, for which advice to migrate it would lead nowhere.

        Where the files do not tell whether it has one, the `error` says what to do without.
        """
        try:
            source = self.source
        except (MigrationError, OSError):
            return  # a check reports the error
        check_has_own_changelog(source)
        if self._context.conversion.source.has_changelog:
            error.hint += way_without_changelog(source)

    def _verified(self) -> str:
        has_begun = self.stored is not None
        return check_verified(self._spec, accepted=self._context.acceptance.unverified, has_begun=has_begun)

    def _found(self) -> str:
        stores = {partition.store for partition in self.source.partitions}
        return f"{plural(len(self.source.partitions), 'store partition')} of {', '.join(sorted(stores))}"

    def _stopped(self) -> None:
        self.source.check_stopped()

    def _files(self) -> None:
        self.source.check_files()

    def _tasks(self) -> str | InconclusiveCheck:
        return check_tasks(self._spec, self.source)

    def _options(self, check: OptionsCheck) -> Callable[[], None]:
        return lambda: self.source.check_options([check])

    def _tables(self) -> str:
        self.source.check_options([check_table])
        return (
            f"RocksDB {ROCKSDB_VERSION} reads table format {NEWEST_FORMAT_VERSION} and older, and writes "
            f"{TableOptions().format_version}"
        )

    def _version(self) -> str | None:
        return check_version(self._spec, self.source)

    def _clean(self) -> str | InconclusiveCheck:
        has_begun, context = self.stored is not None and self.is_snapshot_current, self._context
        return check_clean(self._spec, context.conversion, self.source, context.changelog_ends, has_begun=has_begun)

    def _places(self) -> str | InconclusiveCheck:
        places = self.key_places
        if self._spec.changelog is None:
            unknown: tuple[str, ...] = ("without [changelog] no broker tells the number of partitions",)
        elif self.stored is not None:
            left = sum(many > 1 for _, many in self.at_broker.partitions.values()) - len(places.of_partitions)
            unknown = (f"so the plan of this migration says of {plural(left, 'store partition')}",) if left else ()
        else:
            unknown = places.unknown
        if not unknown:
            return "; ".join(places.found) or "as the plan of this migration says"
        return InconclusiveCheck(
            f"nobody checks that a new key belongs to the partition of the old one: {'; '.join(unknown)}",
            f"{allowing(KEY_CHANGE)} is your word that it does: a key of another partition is not found any more",
        )

    def _format(self) -> str:
        mappings = (mapping for database in self.databases for mapping in database.mappings)
        return ", ".join(sorted({f"{each.source} -> {each.target}" for each in mappings}))

    def _same(self) -> str:
        if self.stored is None:
            if self._standing is not None and self._standing.revision is not None:
                raise RefusedError(
                    f"the plan of this migration, whose function was replaced by a replay, is not in {self._spec.home}",
                    hint="restore the file plan-NNNN.json; or start again: stateferry abandon SPEC removes our files",
                )
            return "none was started"
        if self._purpose == "snapshot":
            raise RefusedError(
                f"a migration of the snapshot in {self._context.home} has begun",
                hint="stateferry run SPEC continues it; to start over with a new snapshot: stateferry abandon SPEC",
            )
        check_identity(self.standing.identity, self.identity, self.standing)
        return f"started: plan revision {self.stored.revision}"

    def _links(self) -> None:
        if not self.is_snapshot_current:
            check_linkable(self._spec, self.source)

    def _target(self) -> None:
        if self.stored is None:
            check_target_path(self._spec, self.source)

    def _name(self) -> str | InconclusiveCheck:
        return check_target_name(self._spec, self.source)

    def _space(self) -> str:
        if self.stored is not None and self.is_snapshot_current:
            return "reserved by an earlier run"
        copied = 0 if self.is_snapshot_current else bytes_to_copy(self._spec, self.source)
        return check_space(self._spec, self.databases, copied_bytes=copied)

    def _no_other_run(self) -> None:
        if pid_at_work(self._context.home):
            raise another_run(self._context.home)

    def _names(self) -> None:
        if found := name_warnings(self._context.ref):
            raise RefusedError("; ".join(found), hint="rename these files, and the imports of them in the function")


def changelog_checks(context: Context, at: Callable[[], BrokerFacts], purpose: Purpose) -> Iterator[Check]:
    """The checks, in their order."""
    only_reads, fence = purpose != "run", context.fence
    rows: tuple[_Row, ...] = (
        ("broker", "a broker answers", lambda: at().reachable(), ("source.found",)),
        ("group", "the application's group has no members", lambda: at().group(only_reads=only_reads), _BROKER[1:]),
        ("other-topics", "no other topic of the application holds what changes", lambda: at().other_topics(), _BROKER),
        ("topic", "each task has a partition of the changelogs, or will have", lambda: at().topics(), _BROKER),
        ("transactions", "no transaction is open in the changelogs", lambda: at().transactions(fence=fence), _TOPIC),
        ("position", "each store has its changelog's records, or can catch up", lambda: at().position(), _TOPIC),
        ("times", "the changelogs still tell the time of each key", lambda: at().times(), _TOPIC),
        ("settings", "the changelogs keep what is written to them", lambda: at().settings(), _TOPIC),
        ("target", "the new topics are not there yet, or ours", lambda: at().target(), _TOPIC),
        ("missing", "each partition with keys is here, or written by another host", lambda: at().missing(), _TOPIC),
        ("repartition", "no input waits under the old store's name", lambda: at().repartition(), _TOPIC),
        ("authorised", "the user may read, write and make the topics", lambda: at().authorised(), _TOPIC),
        ("writer", "the user may write in transactions", lambda: at().writer(), _TOPIC),
    )
    left_out: tuple[str, ...] = _OF_AN_OLD_TOPIC if context.spec.source.rows else ()  # there is none
    left_out += () if are_needed(context.spec, context.conversion) else ("times",)
    left_out += () if context.spec.run.source == "live" else _OF_THE_STOPPED  # live: stopped for the whole run
    for name, claim, run, needs in rows:
        if name not in left_out:
            check = Check(f"changelog.{name}", claim, run, needs, on_failure="waiting" if name in _WAITS else "failed")
            yield replace(check, purposes=_PURPOSES[name]) if name in _PURPOSES else check
