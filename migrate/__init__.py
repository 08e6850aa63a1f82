"""Stateferry: moves the state stores of stream processors from one format to another.

A migration: `load_spec` or `Spec`, then `plan`, `run` and `cutover`; `status` says where it stands and what comes next.
One directory in one call: `migrate_store`. A store that converts itself while it is in use: `DualReadStore.open`.
What goes wrong is a `MigrationError`, with a `message`, a `hint` and an `exit_code`. docs/api.md has all of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NoReturn

from migrate.model.packages import VERSION, claim

if TYPE_CHECKING:
    from formats import EntryError as EntryError
    from formats import Function as Function
    from formats import Headers as Headers
    from formats import History as History
    from formats import Serde as Serde
    from formats import StateRecord as StateRecord
    from formats import Version as Version
    from formats import Window as Window
    from migrate.batch.catch_up import catch_up as catch_up
    from migrate.batch.preflight.check import CheckReport as CheckReport
    from migrate.batch.preflight.doctor import DoctorReport as DoctorReport
    from migrate.batch.preflight.doctor import doctor as doctor
    from migrate.batch.replay import replay as replay
    from migrate.batch.run import migrate_store as migrate_store
    from migrate.batch.run import run as run
    from migrate.batch.status.current import status as status
    from migrate.batch.status.history import ChunkDone as ChunkDone
    from migrate.batch.status.history import RunHistory as RunHistory
    from migrate.batch.status.history import RunSummary as RunSummary
    from migrate.batch.status.history import StepDone as StepDone
    from migrate.batch.status.history import report as report
    from migrate.batch.status.reject_reasons import rejects as rejects
    from migrate.batch.steps.snapshot import snapshot as snapshot
    from migrate.batch.steps.verify_stores import verify as verify
    from migrate.batch.stop import Stop as Stop
    from migrate.batch.switch.abandon import abandon as abandon
    from migrate.batch.switch.cutover import cutover as cutover
    from migrate.batch.switch.finalize import finalize as finalize
    from migrate.batch.switch.rollback import rollback as rollback
    from migrate.dry_run.dry_run import plan as plan
    from migrate.dry_run.report import ChangelogPlan as ChangelogPlan
    from migrate.dry_run.report import Cost as Cost
    from migrate.dry_run.report import DryRunReport as DryRunReport
    from migrate.dry_run.report import Inventory as Inventory
    from migrate.dry_run.report import SampleConversion as SampleConversion
    from migrate.dry_run.report import Segmentation as Segmentation
    from migrate.dry_run.report import Verdict as Verdict
    from migrate.dual.access import Progress as Progress
    from migrate.dual.dual_store import DualReadStore as DualReadStore
    from migrate.dual.handles import DualReadArguments as DualReadArguments
    from migrate.dual.handles import ReadHandle as ReadHandle
    from migrate.dual.handles import Stores as Stores
    from migrate.dual.metrics import StoreMetrics as StoreMetrics
    from migrate.dual.metrics import write_metrics as write_metrics
    from migrate.dual.opening import open_store as open_store
    from migrate.dual.typed_store import TypedRecords as TypedRecords
    from migrate.dual.typed_store import TypedStore as TypedStore
    from migrate.errors import BrokerError as BrokerError
    from migrate.errors import ChangelogFailedError as ChangelogFailedError
    from migrate.errors import ChunkFailedError as ChunkFailedError
    from migrate.errors import ConversionError as ConversionError
    from migrate.errors import CorruptionError as CorruptionError
    from migrate.errors import DamagedLedgerError as DamagedLedgerError
    from migrate.errors import DroppedError as DroppedError
    from migrate.errors import ExitCode as ExitCode
    from migrate.errors import FencedError as FencedError
    from migrate.errors import IllegalTransitionError as IllegalTransitionError
    from migrate.errors import InterruptedMigrationError as InterruptedMigrationError
    from migrate.errors import InvalidStateStoreError as InvalidStateStoreError
    from migrate.errors import InvalidStateStorePartitionError as InvalidStateStorePartitionError
    from migrate.errors import MigrationError as MigrationError
    from migrate.errors import MissingPackageError as MissingPackageError
    from migrate.errors import RefusedError as RefusedError
    from migrate.errors import RegistryError as RegistryError
    from migrate.errors import RejectedError as RejectedError
    from migrate.errors import SourceChangedError as SourceChangedError
    from migrate.errors import SpecError as SpecError
    from migrate.errors import StateStoreMigratedError as StateStoreMigratedError
    from migrate.errors import StoreClosedError as StoreClosedError
    from migrate.errors import StoreCorruptedError as StoreCorruptedError
    from migrate.errors import StoreError as StoreError
    from migrate.errors import StoreFailedError as StoreFailedError
    from migrate.errors import StoreLockedError as StoreLockedError
    from migrate.errors import StoreNotReadyError as StoreNotReadyError
    from migrate.errors import UnknownStateStoreError as UnknownStateStoreError
    from migrate.errors import VerificationError as VerificationError
    from migrate.model.comparison import Totals as Totals
    from migrate.model.comparison import Verification as Verification
    from migrate.model.events import Event as Event
    from migrate.model.preview import RejectReason as RejectReason
    from migrate.model.preview import Shown as Shown
    from migrate.model.reports import AbandonReport as AbandonReport
    from migrate.model.reports import Behind as Behind
    from migrate.model.reports import CatchUpReport as CatchUpReport
    from migrate.model.reports import ChangelogReport as ChangelogReport
    from migrate.model.reports import Column as Column
    from migrate.model.reports import Concern as Concern
    from migrate.model.reports import Held as Held
    from migrate.model.reports import RejectsReport as RejectsReport
    from migrate.model.reports import RunReport as RunReport
    from migrate.model.reports import SetBack as SetBack
    from migrate.model.reports import SnapshotReport as SnapshotReport
    from migrate.model.reports import StatusReport as StatusReport
    from migrate.model.reports import SwitchReport as SwitchReport
    from migrate.model.reports import TailReport as TailReport
    from migrate.model.reports import Throughput as Throughput
    from migrate.model.reports import Verifying as Verifying
    from migrate.model.reports import VerifyReport as VerifyReport
    from migrate.queries.definition import StoreDefinition as StoreDefinition
    from migrate.queries.requests.position import Position as Position
    from migrate.queries.requests.position import PositionBound as PositionBound
    from migrate.queries.requests.query import KeyQuery as KeyQuery
    from migrate.queries.requests.query import MultiVersionedKeyQuery as MultiVersionedKeyQuery
    from migrate.queries.requests.query import RangeQuery as RangeQuery
    from migrate.queries.requests.query import ResultOrder as ResultOrder
    from migrate.queries.requests.query import TimestampedKeyQuery as TimestampedKeyQuery
    from migrate.queries.requests.query import TimestampedRangeQuery as TimestampedRangeQuery
    from migrate.queries.requests.query import VersionedKeyQuery as VersionedKeyQuery
    from migrate.queries.requests.query import WindowKeyQuery as WindowKeyQuery
    from migrate.queries.requests.query import WindowRangeQuery as WindowRangeQuery
    from migrate.queries.requests.request import InStore as InStore
    from migrate.queries.requests.request import StateQueryRequest as StateQueryRequest
    from migrate.queries.requests.result import FailureReason as FailureReason
    from migrate.queries.requests.result import QueryResult as QueryResult
    from migrate.queries.requests.result import StateQueryResult as StateQueryResult
    from migrate.queries.retries import with_retries as with_retries
    from migrate.queries.routing.hosts import HostInfo as HostInfo
    from migrate.queries.routing.hosts import Placement as Placement
    from migrate.queries.routing.hosts import StatedHosts as StatedHosts
    from migrate.queries.routing.hosts import read_hosts as read_hosts
    from migrate.queries.routing.hosts import stated_hosts as stated_hosts
    from migrate.queries.routing.metadata import KeyQueryMetadata as KeyQueryMetadata
    from migrate.queries.routing.metadata import KeyRouter as KeyRouter
    from migrate.queries.side_by_side.report import GetReport as GetReport
    from migrate.queries.side_by_side.report import RecordReport as RecordReport
    from migrate.queries.side_by_side.report import SideBySide as SideBySide
    from migrate.queries.side_by_side.stores import SideBySideStores as SideBySideStores
    from migrate.queries.stores import QueryableStores as QueryableStores
    from migrate.queries.views.composite import QueryIterator as QueryIterator
    from migrate.queries.views.key_value import KeyValueView as KeyValueView
    from migrate.queries.views.results import KeyValue as KeyValue
    from migrate.queries.views.results import TimeWindow as TimeWindow
    from migrate.queries.views.results import ValueAndTimestamp as ValueAndTimestamp
    from migrate.queries.views.results import ValueTimestampHeaders as ValueTimestampHeaders
    from migrate.queries.views.results import VersionedRecord as VersionedRecord
    from migrate.queries.views.results import Windowed as Windowed
    from migrate.queries.views.session import SessionView as SessionView
    from migrate.queries.views.types import QueryableStoreType as QueryableStoreType
    from migrate.queries.views.types import QueryableStoreTypes as QueryableStoreTypes
    from migrate.queries.views.versioned import VersionedView as VersionedView
    from migrate.queries.views.window import WindowedValue as WindowedValue
    from migrate.queries.views.window import WindowValue as WindowValue
    from migrate.queries.views.window import WindowView as WindowView
    from migrate.spec.loading import load_spec as load_spec
    from migrate.spec.spec import ChangelogSection as ChangelogSection
    from migrate.spec.spec import ConversionSection as ConversionSection
    from migrate.spec.spec import RunSection as RunSection
    from migrate.spec.spec import SourceSection as SourceSection
    from migrate.spec.spec import Spec as Spec
    from migrate.spec.spec import TargetSection as TargetSection
    from migrate.stores.lifecycle import State as State
    from migrate.stores.memory import MemoryStore as MemoryStore
    from migrate.stores.records import Records as Records
    from migrate.stores.rocks_store import RocksStore as RocksStore
    from migrate.stores.state_store import StateStore as StateStore
    from migrate.survey.init.write_spec import InitReport as InitReport
    from migrate.survey.init.write_spec import init_spec as init_spec
    from migrate.survey.inspection import inspect as inspect
    from migrate.survey.known_formats import FormatReport as FormatReport
    from migrate.survey.known_formats import FormatsReport as FormatsReport
    from migrate.survey.known_formats import SerdeReport as SerdeReport
    from migrate.survey.known_formats import UnsupportedReport as UnsupportedReport
    from migrate.survey.known_formats import known_formats as known_formats
    from migrate.survey.report import DatabaseReport as DatabaseReport
    from migrate.survey.report import InspectReport as InspectReport
    from migrate.survey.report import MigrationReport as MigrationReport
    from migrate.survey.report import OwnerReport as OwnerReport
    from migrate.survey.report import PlaceReport as PlaceReport
    from migrate.survey.report import StoreReport as StoreReport

claim("formats", "migrate")  # not `jobs`, a name that programs have: only Spark needs it
_HOMES = {
    "formats": "EntryError Function Headers History Serde StateRecord Version Window",
    "migrate.batch.preflight.check": "CheckReport",
    "migrate.batch.preflight.doctor": "DoctorReport doctor",
    "migrate.batch.replay": "replay",
    "migrate.batch.run": "migrate_store run",
    "migrate.batch.status.current": "status",
    "migrate.batch.status.history": "ChunkDone RunHistory RunSummary StepDone report",
    "migrate.batch.status.reject_reasons": "rejects",
    "migrate.batch.steps.snapshot": "snapshot",
    "migrate.batch.catch_up": "catch_up",
    "migrate.batch.steps.verify_stores": "verify",
    "migrate.batch.stop": "Stop",
    "migrate.batch.switch.abandon": "abandon",
    "migrate.batch.switch.cutover": "cutover",
    "migrate.batch.switch.finalize": "finalize",
    "migrate.batch.switch.rollback": "rollback",
    "migrate.dry_run.dry_run": "plan",
    "migrate.dry_run.report": "ChangelogPlan Cost DryRunReport Inventory SampleConversion Segmentation Verdict",
    "migrate.dual.access": "Progress",
    "migrate.dual.dual_store": "DualReadStore",
    "migrate.dual.handles": "DualReadArguments ReadHandle Stores",
    "migrate.dual.metrics": "StoreMetrics write_metrics",
    "migrate.dual.opening": "open_store",
    "migrate.dual.typed_store": "TypedRecords TypedStore",
    "migrate.errors": (
        "BrokerError ChangelogFailedError ChunkFailedError ConversionError CorruptionError DamagedLedgerError "
        "DroppedError ExitCode FencedError IllegalTransitionError InterruptedMigrationError InvalidStateStoreError "
        "InvalidStateStorePartitionError MigrationError MissingPackageError RefusedError RegistryError RejectedError "
        "SourceChangedError SpecError StateStoreMigratedError StoreClosedError StoreCorruptedError StoreError "
        "StoreFailedError StoreLockedError StoreNotReadyError UnknownStateStoreError VerificationError"
    ),
    "migrate.model.comparison": "Totals Verification",
    "migrate.model.events": "Event",
    "migrate.model.preview": "RejectReason Shown",
    "migrate.model.reports": (
        "AbandonReport Behind CatchUpReport ChangelogReport Column Concern Held RejectsReport RunReport SetBack "
        "SnapshotReport StatusReport SwitchReport TailReport Throughput Verifying VerifyReport"
    ),
    "migrate.queries.definition": "StoreDefinition",
    "migrate.queries.retries": "with_retries",
    "migrate.queries.stores": "QueryableStores",
    "migrate.queries.requests.position": "Position PositionBound",
    "migrate.queries.requests.query": (
        "KeyQuery MultiVersionedKeyQuery RangeQuery ResultOrder TimestampedKeyQuery TimestampedRangeQuery "
        "VersionedKeyQuery WindowKeyQuery WindowRangeQuery"
    ),
    "migrate.queries.requests.request": "InStore StateQueryRequest",
    "migrate.queries.requests.result": "FailureReason QueryResult StateQueryResult",
    "migrate.queries.routing.hosts": "HostInfo Placement StatedHosts read_hosts stated_hosts",
    "migrate.queries.routing.metadata": "KeyQueryMetadata KeyRouter",
    "migrate.queries.side_by_side.report": "GetReport RecordReport SideBySide",
    "migrate.queries.side_by_side.stores": "SideBySideStores",
    "migrate.queries.views.composite": "QueryIterator",
    "migrate.queries.views.key_value": "KeyValueView",
    "migrate.queries.views.results": (
        "KeyValue TimeWindow ValueAndTimestamp ValueTimestampHeaders VersionedRecord Windowed"
    ),
    "migrate.queries.views.session": "SessionView",
    "migrate.queries.views.types": "QueryableStoreType QueryableStoreTypes",
    "migrate.queries.views.versioned": "VersionedView",
    "migrate.queries.views.window": "WindowValue WindowView WindowedValue",
    "migrate.spec.loading": "load_spec",
    "migrate.spec.spec": "ChangelogSection ConversionSection RunSection SourceSection Spec TargetSection",
    "migrate.stores.lifecycle": "State",
    "migrate.stores.memory": "MemoryStore",
    "migrate.stores.records": "Records",
    "migrate.stores.rocks_store": "RocksStore",
    "migrate.stores.state_store": "StateStore",
    "migrate.survey.init.write_spec": "InitReport init_spec",
    "migrate.survey.inspection": "inspect",
    "migrate.survey.known_formats": "FormatReport FormatsReport SerdeReport UnsupportedReport known_formats",
    "migrate.survey.report": "DatabaseReport InspectReport MigrationReport OwnerReport PlaceReport StoreReport",
}
_HOME_OF = dict(sorted((name, module) for module, names in _HOMES.items() for name in names.split()))
__all__ = list(_HOME_OF)
__version__ = VERSION


if not TYPE_CHECKING:  # a type checker would take every name for one of this module

    def __getattr__(name: str) -> object:
        """Import on first use: a worker needs neither the ledger nor the command line, and `--help` neither of them.

        What needs a package that is not installed can be imported, and raises MissingPackageError when it is called.
        """
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(_HOME_OF[name]), name)
        except ModuleNotFoundError as error:
            from migrate.errors import explain_system_error

            missing = explain_system_error(error, where=f"migrate.{name}")
            if missing is None:
                raise
            return _stand_in(name, missing)


def _stand_in(name: str, error: Exception) -> type:
    """A class, so that annotations and `isinstance` accept it in the place of a report too."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return type(name, (), {"__new__": fail})


def __dir__() -> list[str]:
    """The public names, also those that were not imported yet."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
