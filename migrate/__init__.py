"""Stateferry: moves the state stores of stream processors from one format to another."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from migrate.batch.preflight.doctor import doctor as doctor
    from migrate.batch.replay import replay as replay
    from migrate.batch.run import migrate_store as migrate_store
    from migrate.batch.run import run as run
    from migrate.batch.status.current import status as status
    from migrate.batch.status.history import report as report
    from migrate.batch.status.reject_reasons import rejects as rejects
    from migrate.batch.steps.snapshot import snapshot as snapshot
    from migrate.batch.steps.verify_stores import verify as verify
    from migrate.batch.switch.abandon import abandon as abandon
    from migrate.batch.switch.cutover import cutover as cutover
    from migrate.batch.switch.finalize import finalize as finalize
    from migrate.batch.switch.rollback import rollback as rollback
    from migrate.dry_run.dry_run import plan as plan
    from migrate.dry_run.report import DryRunReport as DryRunReport
    from migrate.dual.dual_store import DualReadStore as DualReadStore
    from migrate.dual.handles import ReadHandle as ReadHandle
    from migrate.dual.handles import Stores as Stores
    from migrate.dual.metrics import StoreMetrics as StoreMetrics
    from migrate.dual.metrics import write_metrics as write_metrics
    from migrate.dual.opening import open_store as open_store
    from migrate.dual.typed_store import TypedStore as TypedStore
    from migrate.errors import ChunkFailedError as ChunkFailedError
    from migrate.errors import ConversionError as ConversionError
    from migrate.errors import ExitCode as ExitCode
    from migrate.errors import IllegalTransitionError as IllegalTransitionError
    from migrate.errors import InterruptedMigrationError as InterruptedMigrationError
    from migrate.errors import MigrationError as MigrationError
    from migrate.errors import RefusedError as RefusedError
    from migrate.errors import SpecError as SpecError
    from migrate.errors import StateStoreMigratedError as StateStoreMigratedError
    from migrate.errors import StoreClosedError as StoreClosedError
    from migrate.errors import StoreCorruptedError as StoreCorruptedError
    from migrate.errors import StoreError as StoreError
    from migrate.errors import StoreFailedError as StoreFailedError
    from migrate.errors import StoreLockedError as StoreLockedError
    from migrate.errors import StoreNotReadyError as StoreNotReadyError
    from migrate.errors import VerificationError as VerificationError
    from migrate.model.events import Event as Event
    from migrate.model.reports import AbandonReport as AbandonReport
    from migrate.model.reports import RejectsReport as RejectsReport
    from migrate.model.reports import RunReport as RunReport
    from migrate.model.reports import SnapshotReport as SnapshotReport
    from migrate.model.reports import StatusReport as StatusReport
    from migrate.model.reports import SwitchReport as SwitchReport
    from migrate.model.reports import VerifyReport as VerifyReport
    from migrate.spec.loading import load_spec as load_spec
    from migrate.spec.spec import Spec as Spec
    from migrate.stores.lifecycle import State as State
    from migrate.stores.memory import MemoryStore as MemoryStore
    from migrate.stores.rocks_store import RocksStore as RocksStore
    from migrate.stores.state_store import StateStore as StateStore
    from migrate.survey.init.write_spec import init_spec as init_spec
    from migrate.survey.inspection import inspect as inspect
    from migrate.survey.known_formats import known_formats as known_formats

_HOMES = {
    "migrate.batch.steps.verify_stores": ("verify",),
    "migrate.batch.preflight.doctor": ("doctor",),
    "migrate.dry_run.dry_run": ("plan",),
    "migrate.dry_run.report": ("DryRunReport",),
    "migrate.dual.dual_store": ("DualReadStore",),
    "migrate.dual.handles": ("ReadHandle", "Stores"),
    "migrate.dual.metrics": ("StoreMetrics", "write_metrics"),
    "migrate.dual.typed_store": ("TypedStore",),
    "migrate.errors": (
        "ChunkFailedError",
        "ConversionError",
        "ExitCode",
        "IllegalTransitionError",
        "InterruptedMigrationError",
        "MigrationError",
        "RefusedError",
        "SpecError",
        "StateStoreMigratedError",
        "StoreClosedError",
        "StoreCorruptedError",
        "StoreError",
        "StoreFailedError",
        "StoreLockedError",
        "StoreNotReadyError",
        "VerificationError",
    ),
    "migrate.model.events": ("Event",),
    "migrate.survey.known_formats": ("known_formats",),
    "migrate.survey.init.write_spec": ("init_spec",),
    "migrate.survey.inspection": ("inspect",),
    "migrate.batch.status.current": ("status",),
    "migrate.dual.opening": ("open_store",),
    "migrate.model.reports": (
        "AbandonReport",
        "RejectsReport",
        "RunReport",
        "SnapshotReport",
        "StatusReport",
        "SwitchReport",
        "VerifyReport",
    ),
    "migrate.batch.status.history": ("report",),
    "migrate.batch.status.reject_reasons": ("rejects",),
    "migrate.batch.replay": ("replay",),
    "migrate.batch.run": ("migrate_store", "run"),
    "migrate.batch.steps.snapshot": ("snapshot",),
    "migrate.spec.loading": ("load_spec",),
    "migrate.spec.spec": ("Spec",),
    "migrate.stores.lifecycle": ("State",),
    "migrate.stores.memory": ("MemoryStore",),
    "migrate.stores.rocks_store": ("RocksStore",),
    "migrate.stores.state_store": ("StateStore",),
    "migrate.batch.switch.abandon": ("abandon",),
    "migrate.batch.switch.cutover": ("cutover",),
    "migrate.batch.switch.finalize": ("finalize",),
    "migrate.batch.switch.rollback": ("rollback",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    """Import on first use: a worker needs neither the ledger nor the command line, and `--help` neither of them."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
