"""One command of a migration: what it was asked for, and where the migration stands while it works."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from formats import Conversion
from migrate.batch.chunk.executor import Executor, ExecutorOpener, Here
from migrate.batch.chunk.native_trace import count_traces
from migrate.batch.home import CHANGELOG, check_ours
from migrate.batch.ledger.delta_log import LedgerLog
from migrate.batch.ledger.gates import NOTHING_ACCEPTED, Acceptance
from migrate.batch.ledger.receipts_in_force import under_policy
from migrate.batch.ledger.standing import Standing, read_standing
from migrate.batch.source.changelog_ends import ChangelogEnds
from migrate.batch.source.snapshot import present_snapshot
from migrate.batch.source.source import Unpacked
from migrate.batch.stop import Stop
from migrate.engine.chunk_source import inputs_of
from migrate.engine.engine import FamilyWork
from migrate.engine.engines import choose, prepare
from migrate.errors import RefusedError
from migrate.model.changelogs import Topics
from migrate.model.engine_choice import EngineChoice
from migrate.model.events import Event, Listener, ignore
from migrate.model.key_range import KeyRange
from migrate.model.ledger_row import Row, Step
from migrate.model.plan import DatabasePlan, KeyPlace, Plan, elsewhere, store_of
from migrate.model.receipt import Receipt
from migrate.model.store_partition import place_name
from migrate.model.values import Stored
from migrate.spec.changelog_way import takes_times
from migrate.spec.conversion import conversion_ref, load_conversion, ref_of_store
from migrate.spec.conversion_ref import ConversionRef
from migrate.spec.partitioner import partitioner_ref
from migrate.spec.spec import Spec

if TYPE_CHECKING:
    from migrate.batch.ledger.table import Ledger


@dataclass(eq=False)
class Context:
    """One command. Where the migration stands is read once, and follows each commit."""

    spec: Spec
    listener: Listener = ignore
    command: str = "run"
    """The command, as the ledger records it."""
    acceptance: Acceptance = NOTHING_ACCEPTED
    stop: Stop = field(default_factory=Stop)
    """Once it is requested, the command ends with an InterruptedMigrationError."""
    changelog_ends: ChangelogEnds = field(default_factory=dict)
    """The changelog ends that the operator confirmed."""
    fence: bool = False
    """End the transactions that dead instances of the application left open."""
    jobs: int = 1
    """How many processes of this machine work; a new plan's chunks are shared among them."""
    is_on_spark: bool | None = None
    """Whether the workers are Spark's; None: the command has none."""
    gives_way: bool = False
    """Rather than fence off a run of another host, it ends."""
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    warnings: list[str] = field(default_factory=list)
    """Warnings of this command, such as repairs, for its report."""
    unpacked: Unpacked | None = None
    """Those of the new stores in use that are in archives, unpacked to be read."""
    _ledger: Ledger | None = None

    @cached_property
    def home(self) -> Path:
        """The migration's own folder. Resolving it takes a system call for each of its parents."""
        return self.spec.home

    @cached_property
    def log(self) -> LedgerLog:
        """The ledger's log, of which no entry is read twice."""
        return LedgerLog(self.home)

    @cached_property
    def application(self) -> Path:
        return self.spec.source_path

    @cached_property
    def ref(self) -> ConversionRef:
        """The conversion, as workers get it. Raises SpecError if the function cannot be imported."""
        return conversion_ref(self.spec)

    @cached_property
    def conversion(self) -> Conversion:
        """The conversion. Raises SpecError if the function cannot be imported."""
        return load_conversion(self.ref)

    def loaded(self) -> Self:
        """The same, with its function loaded. Raises SpecError if it cannot be imported."""
        _ = self.conversion
        return self

    @cached_property
    def partitioner(self) -> ConversionRef | None:
        """The user's partitioner, as workers get it; None: it is a known one. Raises SpecError."""
        return partitioner_ref(self.spec)

    def ref_of(self, partition_id: str) -> ConversionRef:
        """The conversion of a store partition, as workers get it: of its store, where that has a format of its own."""
        return ref_of_store(self.spec, store_of(partition_id), self.ref) if self.spec.source.moved_stores else self.ref

    @cached_property
    def standing(self) -> Standing:
        """Where the migration stands; without the lock, when it was first asked for."""
        return read_standing(self.home)

    @property
    def plan(self) -> Plan:
        """The plan of a migration that has one, with its tails."""
        plan = self.standing.plan
        assert plan is not None
        return plan

    @cached_property
    def engine(self) -> EngineChoice:
        """Which engine does the work of the plan. Raises RefusedError where the spec names one that declines some."""
        plan = self.plan
        return self.choose_engine(plan.databases, self.snapshots_of, plan.key_places, is_sorted=plan.is_sorted)

    def choose_engine(
        self,
        databases: Sequence[DatabasePlan],
        directories_of: Callable[[str], dict[str, Path]],
        key_places: Sequence[KeyPlace],
        *,
        is_sorted: bool,
    ) -> EngineChoice:
        """As `engine`, of these new databases; `directories_of`: the old ones of a store partition, by database."""
        checked = {place.store_partition: elsewhere(place) for place in key_places}
        takes = takes_times(self.spec, self.conversion)
        times = str(self.home / CHANGELOG) if takes else None  # the run itself is made later

        def works() -> Iterator[FamilyWork]:
            for database in filter(lambda each: each.is_kept, databases):
                partition = database.store_partition
                inputs = inputs_of(database, directories_of(partition), times)
                conversion = replace(load_conversion(self.ref_of(partition)), elsewhere=checked.get(partition))
                for mapping in database.mappings:
                    yield FamilyWork(inputs, mapping, KeyRange(), conversion)

        size = sum(each.data_bytes for each in databases)
        return choose(self.spec.run.engine, works(), size, count_traces(self.home), is_sorted=is_sorted)

    @contextmanager
    def executor(self, opener: ExecutorOpener) -> Iterator[Executor]:
        """The executor for this plan, in threads rather than processes where they get as far; and say what works.

        Changelogs are written and read in Python, which only processes do side by side.
        """
        if not prepare(self.engine.setting):  # before many tasks do so at once, and before there are threads
            del self.engine  # another one is chosen
        if isinstance(opener, Here):
            opener = replace(opener, in_threads=self.engine.is_threaded and self.spec.changelog is None)
            self.engine = self.engine.model_copy(update={"workers": opener.workers})
        with opener(self.spec) as executor:
            self.notify("engine.chosen", engine=self.engine)
            yield executor

    @property
    def receipts(self) -> list[Receipt]:
        """The receipts in force of chunks whose rejects and collisions were treated as the spec now requires."""
        return under_policy(self.standing.receipts, self.spec.run.on_reject, self.spec.conversion.on_collision)

    @property
    def topics(self) -> Topics:
        """The topics that changelogs are written to, once they are opened."""
        topics = self.standing.changelogs.topics
        assert topics is not None
        return topics

    @property
    def new_stores(self) -> dict[str, Path]:
        found = self.standing.new_stores(self.application)
        return found if self.unpacked is None else found | self.unpacked.folders

    def open_ledger(self, migration_id: str) -> None:
        """Open the ledger, which fences off any other run of the migration; otherwise the first commit does.

        Raises RefusedError where another command has gone on with it meanwhile.
        """
        before = self.standing
        if self.gives_way and len(read_standing(self.home).rows) != len(before.rows):
            raise RefusedError(
                f"a run on another host has continued the migration {self.spec.name!r} meanwhile",
                hint="let it finish, then run the command again",
            )
        from migrate.batch.ledger.table import Ledger  # loads delta-rs, which only commands that commit need

        self._ledger = Ledger(self.home, migration_id, self.run_id, command=self.command, log=self.log)
        self.standing = before.with_rows(self._ledger.rows)
        if self.standing.revision_id != before.revision_id:
            raise _meanwhile("a run on another host has replaced the function of this migration meanwhile")
        if self.standing.switch != before.switch:
            raise _meanwhile("another command switched these stores meanwhile")

    @property
    def has_ledger(self) -> bool:
        """Whether the ledger is open, so that earlier runs are fenced off."""
        return self._ledger is not None

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self.open_ledger(self.standing.migration_id)
        assert self._ledger is not None
        return self._ledger

    def commit(self, *rows: Row) -> None:
        self.ledger.commit(*rows)
        self.standing = self.standing.with_rows(self.ledger.rows)

    def record(
        self, step: Step, *, store_partition: str | None = None, detail: Stored | dict[str, object] | None = None
    ) -> None:
        self.commit(self.ledger.row(step, store_partition=store_partition, detail=detail))

    def notify(self, name: str, **facts: Any) -> None:  # noqa: ANN401 - each event has facts of its own
        self.listener(Event(name, facts))

    def warn(self, sentence: str) -> None:
        """Send a warning to the listener, and keep it for the report."""
        self.warnings.append(sentence)
        self.notify("warning", sentence=sentence)

    def snapshots_of(self, partition_id: str) -> dict[str, Path]:
        """The snapshots of the RocksDB directories that a store partition is made from, by their place in its plan."""
        if not self.plan.old_partitions:
            return present_snapshot(self.home, self.plan.partition(partition_id))
        return {
            place_name(old.id, database): directory
            for old in self.plan.olds_of(partition_id)
            for database, directory in present_snapshot(self.home, old).items()
        }

    def times_of(self, partition_id: str) -> str | None:
        """The run that a store partition's new records take their times from; None: they have some, or the default."""
        found = self.standing.times.get(partition_id) if takes_times(self.spec, self.conversion) else None
        return None if found is None else str(self.home / found.folder)


def check_home(spec: Spec) -> None:
    """Raises RefusedError where the migration's folder, which is removed later, is not ours or holds other paths."""
    source = None if spec.source.is_made else spec.source_path
    for what, path in (("[source]", source), ("[target]", spec.target_path)):
        if path is not None and path.is_relative_to(spec.home):
            raise RefusedError(
                f"{what} path {path} lies inside the migration's own folder {spec.home}",
                hint="choose another work_dir, or another `name`",
            )
    check_ours(spec.home)


def _meanwhile(what: str) -> RefusedError:
    return RefusedError(what, hint="stateferry status SPEC")
