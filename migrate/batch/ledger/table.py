"""The ledger: an append-only Delta table, one row per committed chunk and per later step.

Written by the driver only, strictly after the data that a row records is durable (I1). A commit is the log's next
entry: synced under a temporary name, and linked under its number, in a directory that is synced then. No entry replaces
another. So once a second run has committed, the first one finds its next entry taken: it is fenced off. delta-rs's own
commits take longer the more there are.

Tasks that finish within a short time share a commit, so that the driver keeps up however long one takes. What waits is
durable, or is synced just before the commit; after a crash it is adopted (`reconcile`) or made again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import deltalake  # noqa: F401 - where the extra is missing, a command that commits is refused at once
import pyarrow  # noqa: F401

from migrate.batch.home import LEDGER_DAMAGED
from migrate.batch.ledger.delta_log import LedgerLog, as_entry, entry_file, log_directory, repair, write_part
from migrate.errors import FencedError, explain_system_error
from migrate.model.ledger_row import Row, Step, check_migration
from migrate.model.values import Stored, compact
from migrate.stores.files import check_has_links, fsync_all, fsync_file, make_directories, write_new


def read_repaired(home: Path, warn: Callable[[str], None] | None = None, *, log: LedgerLog | None = None) -> list[Row]:
    """Every row, after a repair if files are damaged: those are set aside, and `warn` is called with a sentence.

    `log`: what was read before. Raises RefusedError for a newer schema or a gap.
    """
    log = log or LedgerLog(home)
    repaired = repair(log)
    if repaired and warn is not None:
        names = ", ".join(sorted({file.name for file in repaired}))
        warn(f"the ledger was damaged, and is repaired: {names}; as found, they are in {home / LEDGER_DAMAGED}")
    return log.rows()


class Ledger:
    """The ledger, opened by one run. Opening it fences off every earlier run."""

    def __init__(
        self, home: Path, migration_id: str, run_id: str, *, command: str = "run", log: LedgerLog | None = None
    ) -> None:
        """`command`: the one that opens it, which is recorded unless it is `run`. `log`: what was read before."""
        log = log or LedgerLog(home)
        self._folder = log.table
        self._migration_id = migration_id
        self._run_id = run_id
        if not log.entries():
            self._create()
        self._written = b""
        self._rows = log.rows()
        self._version = log.newest
        for path in (entry_file(self._folder, self._version), log_directory(self._folder)):
            fsync_file(path)  # the run that wrote it may have been killed before it was durable
        check_migration(self.rows, migration_id, self._folder)
        self.commit(self.row(Step.RUN, detail={} if command == "run" else {"command": command}))

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(self._rows)

    def row(self, step: Step, *, detail: Stored | dict[str, object] | None = None, **columns: Any) -> Row:  # noqa: ANN401 - as many kinds as columns
        """A new row of this run, for a step other than a chunk; `columns`: others that it fills."""
        text = detail.model_dump_json() if isinstance(detail, Stored) else json.dumps(detail or {})
        return Row(migration_id=self._migration_id, run_id=self._run_id, step=step, detail=text, **columns)

    def commit(self, *rows: Row) -> None:
        """Append rows in one durable commit. Raises FencedError if another run has committed meanwhile."""
        self.check_not_fenced()
        version = self._version + 1
        now = int(time.time() * 1000)
        stamped = [row.model_copy(update={"sequence": version, "committed_at_ms": now}) for row in rows]
        try:
            part = write_part(self._folder, version, stamped)
            self._written = as_entry(version, stamped, part)
            write_new(entry_file(self._folder, version), self._written)
        except FileExistsError as error:
            raise _fenced(self._folder) from error
        except OSError as error:
            if (known := explain_system_error(error, where=f"cannot write the ledger {self._folder}")) is not None:
                raise known from error
            raise
        self._version = version
        self._rows += map(compact, stamped)

    def check_not_fenced(self) -> None:
        """Raises FencedError if another run has committed meanwhile."""
        entry = entry_file(self._folder, self._version + 1)
        if entry.exists() and entry.read_bytes() != self._written:  # ours, if only its sync failed
            raise _fenced(self._folder)

    def _create(self) -> None:
        make_directories(self._folder)
        check_has_links(self._folder)
        make_directories(log_directory(self._folder))
        with suppress(FileExistsError):  # another run made it first; the first commit decides
            write_new(entry_file(self._folder, 0), as_entry(0, (), None))


def _fenced(folder: Path) -> FencedError:
    return FencedError(
        f"another run of this migration has taken over ({folder})",
        hint="let that run finish, or stop it and run the command again",
    )


@dataclass(frozen=True, slots=True)
class Pace:
    """The least time between two commits: the larger of both."""

    seconds: float
    """A fixed time."""
    duration_factor: float = 9.0
    """Times the duration of the last commit: with 9, commits take a tenth of the time at most."""


PACE = Pace(0.25)
_MOST_ROWS = 1000
"""Rows of one commit, about: it holds them in memory several times."""
Waiting = TypeVar("Waiting")
"""A row, or what a row is made of."""


class SharedCommits(Generic[Waiting]):
    """What waits in one phase for a commit. The caller commits it all before it ends, or raises."""

    def __init__(self, commit: Callable[..., None]) -> None:
        """`commit`: records all that waits in the ledger."""
        self._commit = commit
        self._waiting: list[Waiting] = []
        self._unsynced: list[Iterable[Path]] = []
        self._due = time.monotonic() + PACE.seconds

    def add(self, *waiting: Waiting, unsynced: Iterable[Path] = ()) -> None:
        """Let this wait for the next commit. What it records must be durable, but for the files and directories
        `unsynced`, which is iterated just before it."""
        if waiting:
            self._waiting += waiting
            self._unsynced.append(unsynced)

    def commit_due(self) -> bool:
        """Commit what waits if that is much, or the last commit long ago; whether it did. Raises as `Ledger.commit`."""
        return (time.monotonic() >= self._due or len(self._waiting) >= _MOST_ROWS) and self.commit()

    def commit(self) -> bool:
        """Commit what waits, now; whether anything did. Raises as `Ledger.commit`."""
        if not self._waiting:
            return False
        if unsynced := {path for paths in self._unsynced for path in paths}:
            self._unsynced = [unsynced]  # for another try, should this one fail
            fsync_all(unsynced)
        self._unsynced = []
        begun = time.monotonic()
        self._commit(*self._waiting)
        self._waiting.clear()
        ended = time.monotonic()
        self._due = ended + max(PACE.seconds, PACE.duration_factor * (ended - begun))
        return True
