"""Stateferry: moves the state stores of stream processors from one format to another."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from migrate.checking import verify
    from migrate.doctoring import doctor
    from migrate.dry_run.dry_run import plan
    from migrate.dry_run.report import DryRunReport
    from migrate.dual.dual_store import DualReadStore
    from migrate.dual.handles import ReadHandle, Stores
    from migrate.dual.typed_store import TypedStore
    from migrate.errors import (
        ChunkFailedError,
        ConversionError,
        ExitCode,
        IllegalTransitionError,
        InterruptedMigrationError,
        MigrationError,
        RefusedError,
        SpecError,
        StateStoreMigratedError,
        StoreClosedError,
        StoreCorruptedError,
        StoreError,
        StoreFailedError,
        StoreLockedError,
        StoreNotReadyError,
        VerificationError,
    )
    from migrate.events import Event
    from migrate.format_list import known_formats
    from migrate.initializing import init_spec
    from migrate.inspection import inspect
    from migrate.ledger_status import status
    from migrate.opening import open_store
    from migrate.report_model import AbandonReport, RunReport, SnapshotReport, StatusReport, SwitchReport, VerifyReport
    from migrate.reporting import report
    from migrate.runner import migrate_store, run
    from migrate.snapshotting import snapshot
    from migrate.spec import Spec, load_spec
    from migrate.stores.lifecycle import State
    from migrate.stores.memory import MemoryStore
    from migrate.stores.rocks_store import RocksStore
    from migrate.stores.state_store import StateStore
    from migrate.switching.abandon import abandon
    from migrate.switching.cutover import cutover
    from migrate.switching.finalize import finalize
    from migrate.switching.rollback import rollback

_HOMES = {
    "migrate.checking": ("verify",),
    "migrate.snapshotting": ("snapshot",),
    "migrate.switching.abandon": ("abandon",),
    "migrate.switching.cutover": ("cutover",),
    "migrate.switching.finalize": ("finalize",),
    "migrate.switching.rollback": ("rollback",),
    "migrate.errors": (
        "ChunkFailedError",
        "StoreNotReadyError",
        "StoreFailedError",
        "StoreError",
        "StoreCorruptedError",
        "StoreClosedError",
        "StateStoreMigratedError",
        "IllegalTransitionError",
        "ConversionError",
        "ExitCode",
        "InterruptedMigrationError",
        "MigrationError",
        "RefusedError",
        "SpecError",
        "StoreLockedError",
        "VerificationError",
    ),
    "migrate.events": ("Event",),
    "migrate.format_list": ("known_formats",),
    "migrate.initializing": ("init_spec",),
    "migrate.inspection": ("inspect",),
    "migrate.ledger_status": ("status",),
    "migrate.reporting": ("report",),
    "migrate.report_model": (
        "AbandonReport",
        "RunReport",
        "SnapshotReport",
        "StatusReport",
        "SwitchReport",
        "VerifyReport",
    ),
    "migrate.runner": ("migrate_store", "run"),
    "migrate.spec": ("Spec", "load_spec"),
    "migrate.opening": ("open_store",),
    "migrate.doctoring": ("doctor",),
    "migrate.dry_run.dry_run": ("plan",),
    "migrate.dry_run.report": ("DryRunReport",),
    "migrate.dual.dual_store": ("DualReadStore",),
    "migrate.dual.handles": ("ReadHandle", "Stores"),
    "migrate.dual.typed_store": ("TypedStore",),
    "migrate.stores.memory": ("MemoryStore",),
    "migrate.stores.rocks_store": ("RocksStore",),
    "migrate.stores.state_store": ("StateStore",),
    "migrate.stores.lifecycle": ("State",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import on first use: a worker needs neither the ledger nor the command line, and `--help` neither of them."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


__all__ = [
    "AbandonReport",
    "ChunkFailedError",
    "ConversionError",
    "DryRunReport",
    "DualReadStore",
    "Event",
    "ExitCode",
    "IllegalTransitionError",
    "InterruptedMigrationError",
    "MemoryStore",
    "MigrationError",
    "ReadHandle",
    "RefusedError",
    "RocksStore",
    "RunReport",
    "SnapshotReport",
    "Spec",
    "SpecError",
    "State",
    "StateStore",
    "StateStoreMigratedError",
    "StatusReport",
    "StoreClosedError",
    "StoreCorruptedError",
    "StoreError",
    "StoreFailedError",
    "StoreLockedError",
    "StoreNotReadyError",
    "Stores",
    "SwitchReport",
    "TypedStore",
    "VerificationError",
    "VerifyReport",
    "abandon",
    "cutover",
    "doctor",
    "finalize",
    "init_spec",
    "inspect",
    "known_formats",
    "load_spec",
    "migrate_store",
    "open_store",
    "plan",
    "report",
    "rollback",
    "run",
    "snapshot",
    "status",
    "verify",
]
