"""The ledger: an append-only Delta table, one row per committed chunk and per later step.

Written by the driver only, strictly after the data that a row vouches for is durable (I1), through delta-rs, which
does not sync: this module does, before a commit counts. Each commit carries the next number of one application
transaction and is made through the handle that read the one before, so that a second run's commit makes the first
one's fail: fenced.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from migrate.delta_log import log_directory, repair_log
from migrate.errors import DamagedLedgerError, FencedError, RefusedError
from migrate.ledger_log import rows_in_log
from migrate.ledger_rows import LEDGER_SCHEMA, Row, Step, as_rows, chunk_row
from migrate.stores.files import delta_uri, fsync_directory, fsync_file, make_directories
from migrate.system_errors import explain_system_error

__all__ = ["LEDGER_SCHEMA", "Ledger", "Row", "Step", "chunk_row", "read_ledger", "readable_ledger"]

APPLICATION = "stateferry"
_COLUMNS = pa.schema(
    [
        pa.field("schema_version", pa.int32()),
        pa.field("sequence", pa.int64()),
        pa.field("migration_id", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("step", pa.string()),
        pa.field("store_partition", pa.string()),
        pa.field("database", pa.string()),
        pa.field("start_key", pa.binary()),
        pa.field("end_key", pa.binary()),
        pa.field("records_in", pa.int64()),
        pa.field("records_out", pa.int64()),
        pa.field("rejected", pa.int64()),
        pa.field("dropped", pa.int64()),
        pa.field("bytes_in", pa.int64()),
        pa.field("seconds", pa.float64()),
        pa.field("committed_at_ms", pa.int64()),
        pa.field("detail", pa.string()),
    ]
)


def read_ledger(home: Path) -> list[Row]:
    """Every row, in the order of commits; none where there is no ledger yet. Raises RefusedError for a newer schema."""
    try:
        return _read(_open(_folder(home)))
    except TableNotFoundError:
        return []


def readable_ledger(home: Path) -> list[Row]:
    """Every row, after a repair where one is due: what a power cut or a disk has damaged is set aside.

    A lost row of a chunk is found again by its receipt, and that of any other step by what the step did: each of them
    can be repeated. Raises RefusedError for a newer schema.
    """
    _repair(home, thorough=False)
    try:
        return read_ledger(home)
    except DamagedLedgerError:
        _repair(home, thorough=True)
        return read_ledger(home)


def _repair(home: Path, *, thorough: bool) -> None:
    aside = home / "ledger-damaged"
    repair_log(_folder(home), aside, application=APPLICATION, first_entry=_first_entry, thorough=thorough)


def _first_entry() -> str:
    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
        _create(Path(folder))
        return (log_directory(Path(folder)) / f"{0:020d}.json").read_text(encoding="utf-8")


class Ledger:
    """The ledger of one run. Opening it fences off every earlier run."""

    def __init__(self, home: Path, migration_id: str, run_id: str) -> None:
        self._folder = _folder(home)
        self._migration_id = migration_id
        self._run_id = run_id
        self._table = self._open_or_create()
        self._synced = self._table.version() - 1
        self._sync()  # whoever wrote the newest version may have died before it was durable
        self.rows = _read(self._table)
        foreign = {row.migration_id for row in self.rows if row.step is not Step.RUN} - {migration_id}
        if foreign:
            raise RefusedError(
                f"the ledger in {self._folder} belongs to the migration {foreign.pop()}, this one is {migration_id}",
                hint="give this migration another name, or remove the old one's folder",
            )
        self.commit(self.row(Step.RUN))

    def row(self, step: Step, *, store_partition: str | None = None, detail: dict[str, object] | None = None) -> Row:
        """A row of this run for a step other than a chunk."""
        return Row(
            migration_id=self._migration_id,
            run_id=self._run_id,
            step=step,
            store_partition=store_partition,
            detail=json.dumps(detail or {}),
        )

    def commit(self, *rows: Row) -> None:
        """Append rows in one commit, durably. Raises FencedError where another run has committed meanwhile."""
        number = (self._table.transaction_version(APPLICATION) or 0) + 1
        now = int(time.time() * 1000)
        stamped = [row.model_copy(update={"sequence": number, "committed_at_ms": now}) for row in rows]
        transaction = CommitProperties(rows_in_log(stamped), app_transactions=[Transaction(APPLICATION, number)])
        try:
            write_deltalake(self._table, _to_arrow(stamped), mode="append", commit_properties=transaction)
        except (OSError, DeltaError) as error:
            if (known := explain_system_error(error, where=f"cannot write the ledger {self._folder}")) is not None:
                raise known from error
            if not isinstance(error, CommitFailedError):
                raise
            raise _fenced(self._folder) from error
        self._sync()
        self.rows += stamped

    def check_not_fenced(self) -> None:
        """Raises FencedError where another run has committed meanwhile."""
        following = log_directory(self._folder) / f"{self._table.version() + 1:020d}.json"
        if following.exists():
            raise _fenced(self._folder)

    def _open_or_create(self) -> DeltaTable:
        make_directories(self._folder)
        try:
            return _open(self._folder)
        except TableNotFoundError:
            pass
        try:
            return _create(self._folder)
        except DeltaError:
            return DeltaTable(delta_uri(self._folder))  # another run made it first; the first commit decides

    def _sync(self) -> None:
        """Data files, then the log that names them, then both directories."""
        log = log_directory(self._folder)
        for version in range(self._synced + 1, self._table.version() + 1):
            entry = log / f"{version:020d}.json"
            for line in entry.read_bytes().splitlines():  # of text, U+2028 in a name would end one
                if (added := json.loads(line).get("add")) is not None:
                    fsync_file(self._folder / added["path"])
            fsync_file(entry)
        for checkpoint in (*log.glob(f"{self._table.version():020d}.checkpoint*"), *log.glob("_last_checkpoint")):
            fsync_file(checkpoint)
        fsync_directory(self._folder)
        fsync_directory(log)
        self._synced = self._table.version()


def _folder(home: Path) -> Path:
    return home / "ledger"


def _create(folder: Path) -> DeltaTable:
    return DeltaTable.create(
        delta_uri(folder),
        Schema.from_arrow(_COLUMNS),
        name="stateferry ledger",
        configuration={"delta.appendOnly": "true", "delta.enableExpiredLogCleanup": "false"},
    )


def _open(folder: Path) -> DeltaTable:
    try:
        return DeltaTable(delta_uri(folder))
    except TableNotFoundError:
        raise
    except DeltaError as error:
        raise _damaged(str(folder), error) from error


def _fenced(folder: Path) -> FencedError:
    return FencedError(
        f"another run of this migration has taken over ({folder})",
        hint="let that run finish, or stop it and run the command again",
    )


def _damaged(folder: str, error: Exception) -> DamagedLedgerError:
    return DamagedLedgerError(
        f"the ledger {folder} is damaged: {str(error).splitlines()[0]}",
        hint="stateferry run SPEC repairs what a power cut tore; the source was not touched",
    )


def _read(table: DeltaTable) -> list[Row]:
    try:
        content = [row for file in _data_files(table) for row in _file_rows(file)]
    except (pa.ArrowException, FileNotFoundError) as error:
        raise _damaged(table.table_uri, error) from error
    return as_rows(content, table.table_uri)


def _data_files(table: DeltaTable) -> list[Path]:
    """Not by the URIs that delta-rs gives, in which the path's special characters are escaped."""
    folder = Path(url2pathname(urlsplit(table.table_uri).path))
    return [folder / uri.rpartition("/")[2] for uri in table.file_uris()]


def _file_rows(file: Path) -> tuple[dict[str, Any], ...]:
    """The table only grows, so its files are its rows."""
    status = file.stat()
    return _rows_as_of(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4096)
def _rows_as_of(file: Path, _mtime_ns: int, _size: int) -> tuple[dict[str, Any], ...]:
    """Read once: a command looks at the ledger before it opens it, and a thousand small files take a second.

    delta-rs's own way to pyarrow ended one process in ten with an abort at exit: its threads outlive the interpreter.
    """
    return tuple(pq.ParquetFile(file).read(use_threads=False).to_pylist())


def _to_arrow(rows: Sequence[Row]) -> pa.Table:
    content = [row.model_dump(mode="python") for row in rows]
    return pa.Table.from_pylist([{**row, "step": str(row["step"])} for row in content], schema=_COLUMNS)
