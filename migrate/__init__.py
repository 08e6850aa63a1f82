"""Stateferry: moves the state stores of stream processors from one format to another."""

from migrate.errors import (
    ChunkFailedError,
    ExitCode,
    InterruptedMigrationError,
    MigrationError,
    RefusedError,
    SpecError,
    StoreLockedError,
    VerificationError,
)
from migrate.events import Event
from migrate.report import RunReport
from migrate.runner import migrate_store, run
from migrate.spec import Spec, load_spec

__all__ = [
    "ChunkFailedError",
    "Event",
    "ExitCode",
    "InterruptedMigrationError",
    "MigrationError",
    "RefusedError",
    "RunReport",
    "Spec",
    "SpecError",
    "StoreLockedError",
    "VerificationError",
    "load_spec",
    "migrate_store",
    "run",
]
