"""The ledger: an append-only Delta table, one row per committed chunk and per later step.

Written by the driver only, strictly after the data that a row records is durable (I1). A commit is a data file and
then the log's next entry; each is synced before the next step, and no entry replaces another. So once a second run has
committed, the first one finds its next entry taken: it is fenced off. Each commit has the next number of one
application transaction. delta-rs only creates and opens the table: its own commits take longer the more there are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from migrate.batch.home import LEDGER, LEDGER_DAMAGED
from migrate.batch.ledger.delta_log import (
    APPLICATION,
    COLUMNS,
    SETTINGS,
    IncompleteLogError,
    LedgerLog,
    as_entry,
    create_table,
    log_directory,
    rows_in_file,
    transaction,
    write_rows,
)
from migrate.batch.ledger.repair import newest_version, read_log, recovered_rows, repair_ledger
from migrate.errors import DamagedLedgerError, FencedError, explain_system_error
from migrate.model.ledger_row import Row, Step, as_rows, check_migration, damaged_ledger, with_digest
from migrate.model.values import Stored, compact
from migrate.stores.files import check_has_links, delta_uri, fsync_all, fsync_file, make_directories, write_new


def read_ledger(home: Path) -> list[Row]:
    """Every row, in the order of commits; none if there is no ledger yet. Nothing is written.

    Raises RefusedError for a newer schema, DamagedLedgerError if both copies of a row are lost.
    """
    try:
        return _read_whole(home)
    except DamagedLedgerError:
        if (rows := recovered_rows(home / LEDGER)) is not None:
            return rows
        raise


def _read_whole(home: Path) -> list[Row]:
    """Every row. Raises DamagedLedgerError if any part of the ledger is not as it was written."""
    folder = home / LEDGER
    damaged = next((entry.lost[0] for entry in read_log(folder) if entry.lost), None)
    if damaged is not None:
        raise damaged_ledger(str(folder), f"{damaged.name} is not as it was written")
    return _read_table(folder)


def _read_table(folder: Path) -> list[Row]:
    try:
        table = _open(folder)
        content = [row for file in _data_files(table) for row in rows_in_file(file)]
    except TableNotFoundError:
        return []
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        raise _damaged(str(folder), error) from error
    return as_rows(content, str(folder))


def read_repaired(home: Path, warn: Callable[[str], None] | None = None) -> list[Row]:
    """Every row, after a repair if files are damaged: those are set aside, and `warn` is called with a sentence.

    Raises RefusedError for a newer schema.
    """
    repaired = repair_ledger(home / LEDGER, thorough=False)
    try:
        rows = _read_table(home / LEDGER)
    except DamagedLedgerError:
        repaired += repair_ledger(home / LEDGER, thorough=True)
        rows = _read_whole(home)
    if repaired and warn is not None:
        names = ", ".join(sorted({file.name for file in repaired}))
        warn(f"the ledger was damaged, and is repaired: {names}; as found, they are in {home / LEDGER_DAMAGED}")
    return rows


class Ledger:
    """The ledger, opened by one run. Opening it fences off every earlier run."""

    def __init__(self, home: Path, migration_id: str, run_id: str, *, command: str = "run") -> None:
        """`command`: the one that opens it, which is recorded unless it is `run`."""
        self._folder = home / LEDGER
        self._migration_id = migration_id
        self._run_id = run_id
        table = self._open_or_create()
        self._written = b""
        self._version = table.version()
        self._number = table.transaction_version(APPLICATION) or 0
        self._sync_newest()  # the run that wrote it may have been killed before it was durable
        self._rows = self._read(home)
        check_migration(self.rows, migration_id, self._folder)
        self.commit(self.row(Step.RUN, detail={} if command == "run" else {"command": command}))

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every row so far, in the order of commits."""
        return tuple(self._rows)

    def row(
        self, step: Step, *, store_partition: str | None = None, detail: Stored | dict[str, object] | None = None
    ) -> Row:
        """A new row of this run, for a step other than a chunk."""
        return Row(
            migration_id=self._migration_id,
            run_id=self._run_id,
            step=step,
            store_partition=store_partition,
            detail=detail.model_dump_json() if isinstance(detail, Stored) else json.dumps(detail or {}),
        )

    def commit(self, *rows: Row) -> None:
        """Append rows in one durable commit. Raises FencedError if another run has committed meanwhile."""
        self.check_not_fenced()
        number = self._number + 1
        now = int(time.time() * 1000)
        stamped = [row.model_copy(update={"sequence": number, "committed_at_ms": now}) for row in rows]
        try:
            actions = write_rows(self._folder, [with_digest(row) for row in stamped])
            self._written = as_entry([*actions, transaction(number)])
            write_new(self._entry(self._version + 1), self._written)
        except FileExistsError as error:
            raise _fenced(self._folder) from error
        except OSError as error:
            if (known := explain_system_error(error, where=f"cannot write the ledger {self._folder}")) is not None:
                raise known from error
            raise
        self._version, self._number = self._version + 1, number
        self._rows += map(compact, stamped)

    def check_not_fenced(self) -> None:
        """Raises FencedError if another run has committed meanwhile."""
        entry = self._entry(self._version + 1)
        if entry.exists() and entry.read_bytes() != self._written:  # ours, if only its sync failed
            raise _fenced(self._folder)

    def _entry(self, version: int) -> Path:
        return log_directory(self._folder) / f"{version:020d}.json"

    def _read(self, home: Path) -> list[Row]:
        """Every row, from the log if it is complete: a thousand small data files take a second."""
        try:
            return LedgerLog(home).rows()
        except IncompleteLogError:
            return _read_table(self._folder)

    def _open_or_create(self) -> DeltaTable:
        make_directories(self._folder)
        try:
            return _open(self._folder)
        except TableNotFoundError:
            check_has_links(self._folder)  # delta-rs needs them as commits do, and does not say so
        try:
            return create_table(self._folder)
        except DeltaError:
            return DeltaTable(delta_uri(self._folder))  # another run made it first; the first commit decides

    def _sync_newest(self) -> None:
        """Sync the newest commit: its data file, its entry, and the names of both."""
        entry = self._entry(self._version)
        for line in entry.read_bytes().splitlines():  # of text, U+2028 in a name would end one
            if (added := json.loads(line).get("add")) is not None:
                fsync_file(self._folder / added["path"])
        for path in (entry, self._folder, entry.parent):
            fsync_file(path)


def _open(folder: Path) -> DeltaTable:
    """The table. Raises DamagedLedgerError if its schema, settings or version, as Delta reads them, are not ours."""
    newest, uri = newest_version(folder), delta_uri(folder)
    try:
        table = DeltaTable(uri)
        settings, schema = table.metadata(), table.schema().to_json()
    except TableNotFoundError:
        raise
    except Exception as error:  # delta-rs raises many kinds for damaged files
        raise _damaged(str(folder), error) from error
    is_ours = settings.configuration == SETTINGS and not settings.partition_columns
    if table.version() < newest or not is_ours or schema != Schema.from_arrow(COLUMNS).to_json():
        raise damaged_ledger(str(folder), "its schema, or a checkpoint of its log, is not as it was written")
    return table


def _fenced(folder: Path) -> FencedError:
    return FencedError(
        f"another run of this migration has taken over ({folder})",
        hint="let that run finish, or stop it and run the command again",
    )


def _damaged(folder: str, error: Exception) -> DamagedLedgerError:
    return damaged_ledger(folder, str(error).partition("\n")[0] or type(error).__name__)


def _data_files(table: DeltaTable) -> list[Path]:
    """The table's data files, not by delta-rs's URIs, in which the path's special characters are escaped."""
    folder = Path(url2pathname(urlsplit(table.table_uri).path))
    return [folder / uri.rpartition("/")[2] for uri in table.file_uris()]


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


class SharedCommits:
    """The rows of one phase that wait for a commit. The caller commits them all before it ends, or raises."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[Row] = []
        self._unsynced: list[Iterable[Path]] = []
        self._due = time.monotonic() + PACE.seconds

    def add(self, *rows: Row, unsynced: Iterable[Path] = ()) -> None:
        """Let rows wait for the next commit. What they record must be durable, but for the files and directories
        `unsynced`, which is iterated just before it."""
        if rows:
            self._waiting += rows
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
        self._ledger.commit(*self._waiting)
        self._waiting.clear()
        ended = time.monotonic()
        self._due = ended + max(PACE.seconds, PACE.duration_factor * (ended - begun))
        return True
