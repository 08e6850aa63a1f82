"""Stateferry: moves the state stores of stream processors from one format to another."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from migrate.checking import verify as verify
    from migrate.doctoring import doctor as doctor
    from migrate.dry_run.dry_run import plan as plan
    from migrate.dry_run.report import DryRunReport as DryRunReport
    from migrate.dual.dual_store import DualReadStore as DualReadStore
    from migrate.dual.handles import ReadHandle as ReadHandle
    from migrate.dual.handles import Stores as Stores
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
    from migrate.events import Event as Event
    from migrate.format_list import known_formats as known_formats
    from migrate.initializing import init_spec as init_spec
    from migrate.inspection import inspect as inspect
    from migrate.ledger_status import status as status
    from migrate.opening import open_store as open_store
    from migrate.report_model import AbandonReport as AbandonReport
    from migrate.report_model import RunReport as RunReport
    from migrate.report_model import SnapshotReport as SnapshotReport
    from migrate.report_model import StatusReport as StatusReport
    from migrate.report_model import SwitchReport as SwitchReport
    from migrate.report_model import VerifyReport as VerifyReport
    from migrate.reporting import report as report
    from migrate.runner import migrate_store as migrate_store
    from migrate.runner import run as run
    from migrate.snapshotting import snapshot as snapshot
    from migrate.spec import Spec as Spec
    from migrate.spec import load_spec as load_spec
    from migrate.stores.lifecycle import State as State
    from migrate.stores.memory import MemoryStore as MemoryStore
    from migrate.stores.rocks_store import RocksStore as RocksStore
    from migrate.stores.state_store import StateStore as StateStore
    from migrate.switching.abandon import abandon as abandon
    from migrate.switching.cutover import cutover as cutover
    from migrate.switching.finalize import finalize as finalize
    from migrate.switching.rollback import rollback as rollback

_HOMES = {
    "migrate.checking": ("verify",),
    "migrate.doctoring": ("doctor",),
    "migrate.dry_run.dry_run": ("plan",),
    "migrate.dry_run.report": ("DryRunReport",),
    "migrate.dual.dual_store": ("DualReadStore",),
    "migrate.dual.handles": ("ReadHandle", "Stores"),
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
    "migrate.events": ("Event",),
    "migrate.format_list": ("known_formats",),
    "migrate.initializing": ("init_spec",),
    "migrate.inspection": ("inspect",),
    "migrate.ledger_status": ("status",),
    "migrate.opening": ("open_store",),
    "migrate.report_model": (
        "AbandonReport",
        "RunReport",
        "SnapshotReport",
        "StatusReport",
        "SwitchReport",
        "VerifyReport",
    ),
    "migrate.reporting": ("report",),
    "migrate.runner": ("migrate_store", "run"),
    "migrate.snapshotting": ("snapshot",),
    "migrate.spec": ("load_spec", "Spec"),
    "migrate.stores.lifecycle": ("State",),
    "migrate.stores.memory": ("MemoryStore",),
    "migrate.stores.rocks_store": ("RocksStore",),
    "migrate.stores.state_store": ("StateStore",),
    "migrate.switching.abandon": ("abandon",),
    "migrate.switching.cutover": ("cutover",),
    "migrate.switching.finalize": ("finalize",),
    "migrate.switching.rollback": ("rollback",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    """Import on first use: a worker needs neither the ledger nor the command line, and `--help` neither of them."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
