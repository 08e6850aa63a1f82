"""Stateferry: moves the state stores of stream processors from one format to another.

A migration: `load_spec` or `Spec`, then `plan`, `run` and `cutover`; `status` says where it stands and what comes next.
One directory in one call: `migrate_store`. A store that converts itself while it is in use: `DualReadStore.open`.
What goes wrong is a `MigrationError`, with a `message`, a `hint` and an `exit_code`. docs/api.md has all of it.
"""

from __future__ import annotations

import importlib
from typing import NoReturn

from migrate.model.packages import VERSION, claim

claim("formats", "migrate")  # not `jobs`, a name that programs have: only Spark needs it
# What is exported, and from where. Type checkers read __init__.pyi, which `make docs-cli` writes from this list.
_HOMES = {
    "formats": "EntryError Function Headers History Serde StateRecord Version Window",
    "migrate.batch.changelog.restoring": "restore",
    "migrate.batch.preflight.check": "CheckReport",
    "migrate.batch.preflight.doctor": "DoctorReport doctor",
    "migrate.batch.importing": "import_rows",
    "migrate.batch.replay": "replay",
    "migrate.batch.run": "migrate_store run",
    "migrate.batch.status.status": "status",
    "migrate.batch.status.history": "report",
    "migrate.batch.status.reject_reasons": "rejects",
    "migrate.batch.steps.prepare": "snapshot",
    "migrate.batch.catch_up": "catch_up",
    "migrate.batch.steps.verify_command": "verify",
    "migrate.batch.stop": "Stop",
    "migrate.batch.switch.abandon": "abandon",
    "migrate.batch.switch.cutover": "cutover",
    "migrate.batch.switch.finalize": "finalize",
    "migrate.batch.switch.rollback": "rollback",
    "migrate.dry_run.dry_run": "plan",
    "migrate.dry_run.dry_run_report": (
        "ChangelogPlan Cost DryRunReport Inventory PartitionsPlan SampleConversion Segmentation SortingPlan Verdict"
    ),
    "migrate.dual.converging": "Converging Progress",
    "migrate.dual.dual_store": "DualReadStore",
    "migrate.dual.handles": "DualReadArguments ReadHandle Stores",
    "migrate.dual.store_metrics": "StoreMetrics write_metrics",
    "migrate.dual.opening": "open_store",
    "migrate.dual.typed_store": "TypedRecords TypedStore",
    "migrate.errors": (
        "BrokerError ChangelogFailedError ChunkFailedError ConversionError CorruptionError DamagedLedgerError "
        "DroppedError ExitCode FencedError IllegalTransitionError InterruptedMigrationError "
        "InvalidStateStoreError InvalidStateStorePartitionError MigrationError MissingPackageError RefusedError "
        "RegistryError RejectedError SourceChangedError SpecError StateStoreMigratedError StoreClosedError "
        "StoreCorruptedError StoreError StoreFailedError StoreLockedError StoreNotReadyError "
        "UnknownStateStoreError VerificationError"
    ),
    "migrate.model.comparison": "Totals Verification",
    "migrate.model.engine_choice": "EngineChoice",
    "migrate.model.events": "Event",
    "migrate.model.exports": "ExportReport",
    "migrate.model.preview": "RejectReason Shown",
    "migrate.model.reports": (
        "AbandonReport Behind CatchUpReport ChangelogReport Column Concern Held ImportedTable RejectsReport "
        "RestoreReport RunReport SetBack SnapshotReport StatusReport SwitchReport TailReport Throughput VerifyReport "
        "Verifying"
    ),
    "migrate.model.run_history": "ChunkDone RunHistory RunSummary StepDone",
    "migrate.queries.open.partition": "StoreDefinition",
    "migrate.queries.retries": "with_retries",
    "migrate.queries.queryable_stores": "QueryableStores",
    "migrate.queries.requests": (
        "FailureReason InStore KeyQuery MultiVersionedKeyQuery Position PositionBound QueryResult RangeQuery "
        "ResultOrder StateQueryRequest StateQueryResult TimestampedKeyQuery TimestampedRangeQuery "
        "VersionedKeyQuery WindowKeyQuery WindowRangeQuery"
    ),
    "migrate.queries.key_routing": (
        "HostInfo KeyQueryMetadata KeyRouter Placement StatedHosts read_hosts stated_hosts"
    ),
    "migrate.queries.get_report": "GetReport RecordReport SideBySide",
    "migrate.queries.side_by_side": "SideBySideStores",
    "migrate.queries.views.composite": (
        "KeyValue QueryIterator TimeWindow ValueAndTimestamp ValueTimestampHeaders VersionedRecord Windowed"
    ),
    "migrate.queries.views.key_value_view": "KeyValueView",
    "migrate.queries.views.windowed_views": "SessionView WindowValue WindowView WindowedValue",
    "migrate.queries.views.view_types": "QueryableStoreType QueryableStoreTypes",
    "migrate.queries.views.versioned_view": "VersionedView",
    "migrate.rows.export_table": "export",
    "migrate.spec.sections": ("ChangelogSection ConversionSection MovedStore RunSection SourceSection TargetSection"),
    "migrate.spec.spec": "Spec load_spec",
    "migrate.stores.state_store": "Records State StateStore",
    "migrate.stores.memory": "MemoryStore",
    "migrate.stores.rocks_store": "RocksStore",
    "migrate.survey.init_spec": "InitReport init_spec",
    "migrate.survey.inspection": "inspect",
    "migrate.survey.known_formats": "FormatReport FormatsReport SerdeReport UnsupportedReport known_formats",
    "migrate.survey.inspect_report": (
        "DatabaseReport InspectReport MigrationReport OwnerReport PlaceReport StoreReport"
    ),
}
_HOME_OF = dict(sorted((name, module) for module, names in _HOMES.items() for name in names.split()))
__all__ = list(_HOME_OF)
__version__ = VERSION


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
