"""The ledger's rows, read from its Delta log alone.

Every commit repeats its rows in its log entry, where a thousand commits are read in a tenth of the time that a thousand
Parquet files take. Where the log does not suffice (a table that another program has rewritten, damage), the table is
read instead: this shortcut never decides what is wrong.

Source of the layout: the Delta protocol, "Commit Provenance Information" (an object of any content) and "Add File".
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from pydantic_core import from_json

from migrate.batch.home import LEDGER
from migrate.errors import DamagedLedgerError
from migrate.model.ledger_row import Row, as_rows, with_digest
from migrate.stores.files import delta_uri, fsync_directory, fsync_file

Action = dict[str, Any]
"""One line of a log entry."""


_ROWS = "stateferry.rows"


_BINARY = ("start_key", "end_key")


def log_directory(table: Path) -> Path:
    """The directory with the log of a Delta table."""
    return table / "_delta_log"


def commit_metadata(rows: Iterable[Row]) -> dict[str, str]:
    """The copy of a commit's rows for its log entry."""
    return {_ROWS: json.dumps([row.model_dump(mode="json") for row in rows])}


def logged_rows(actions: Iterable[Action]) -> list[dict[str, Any]] | None:
    """The copy of its rows in a log entry; None: it has none."""
    logged = [action["commitInfo"][_ROWS] for action in actions if _ROWS in action.get("commitInfo", {})]
    return [_with_keys(row) for row in from_json(logged[0])] if logged else None


def _with_keys(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its binary columns, which are hex in the log."""
    return row | {name: bytes.fromhex(row[name]) for name in _BINARY if row[name] is not None}


class IncompleteLogError(Exception):
    """The rows cannot be known from the log alone: the table has to be read."""


@dataclass(frozen=True, slots=True)
class _Entry:
    inode: int
    """Changes when a repair replaces the entry."""
    file: tuple[str, int] | None
    """Its data file and that file's size."""
    rows: list[dict[str, Any]]


class LedgerLog:
    """Reads one ledger repeatedly, parsing only the entries that are new."""

    def __init__(self, home: Path) -> None:
        self._folder = home / LEDGER
        self._entries: dict[str, _Entry] = {}

    def rows(self) -> list[Row]:
        """Every row, in the order of commits.

        Raises RefusedError for a newer schema, IncompleteLogError where the table has to be read.
        """
        try:
            return as_rows([row for entry in self._read() for row in entry.rows], str(self._folder))
        except (DamagedLedgerError, OSError, ValueError, LookupError, TypeError) as error:
            raise IncompleteLogError from error

    def _read(self) -> list[_Entry]:
        log = log_directory(self._folder)
        with os.scandir(log) as listed:
            inodes = {entry.name: entry.inode() for entry in listed if entry.name.endswith(".json")}
        names = sorted(inodes)
        if not names or names != [f"{version:020d}.json" for version in range(len(names))]:
            raise IncompleteLogError
        entries = [self._entry(log, name, inodes[name]) for name in names]
        with os.scandir(self._folder) as listed:
            present = {(entry.name, entry.stat().st_size) for entry in listed}
        if any(entry.file not in present for entry in entries if entry.file is not None):
            raise IncompleteLogError
        return entries

    def _entry(self, log: Path, name: str, inode: int) -> _Entry:
        known = self._entries.get(name)
        if known is None or known.inode != inode:
            with open(f"{log}/{name}", "rb", buffering=0) as file:  # noqa: PTH123 - thousands of files: a Path is slow
                known = self._entries[name] = _parse(file.read().decode(), inode)
        return known


def _parse(content: str, inode: int) -> _Entry:
    if not content:
        raise IncompleteLogError
    actions = [from_json(line) for line in filter(None, content.split("\n"))]
    if any("remove" in action for action in actions):
        raise IncompleteLogError
    added = [action["add"] for action in actions if "add" in action]
    rows = logged_rows(actions)
    if not added and rows is None:
        return _Entry(inode, None, [])  # version 0, or an entry repaired after its rows were lost
    if rows is None or len(added) != 1:  # of another program
        raise IncompleteLogError
    return _Entry(inode, (unquote(added[0]["path"]), added[0]["size"]), rows)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One version of the table."""

    version: int
    number: int
    """The number of our transaction: each commit has the next one."""
    file: Path
    actions: tuple[Action, ...]
    """The actions that can be read."""
    lost: tuple[Path, ...] = ()
    """The damaged or missing ones among its own file and its data files."""

    @property
    def data(self) -> list[Path]:
        """The data files that it names."""
        return [self.file.parents[1] / data_file_name(action["add"]) for action in self.actions if "add" in action]

    @property
    def is_compaction(self) -> bool:
        """Whether another program has rewritten data files in this version."""
        return any("remove" in action for action in self.actions)


def data_file_name(added: Action) -> str:
    """The name of the data file that an `add` action adds."""
    return unquote(str(added["path"]))


class LedgerContents:
    """The rows behind the log entries of one ledger."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def first_entry(self) -> str:
        """The text of an empty ledger's version 0."""
        with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
            create_table(Path(folder))
            return (log_directory(Path(folder)) / f"{0:020d}.json").read_text(encoding="utf-8")

    def has_valid_rows(self, entry: LogEntry) -> bool:
        """Whether the rows in the entry itself are as written.

        One that was repaired after its rows were lost has none, and no data file.
        """
        rows = self._in_log(entry)
        return rows is not None and bool(rows) == bool(entry.data)

    def is_intact(self, entry: LogEntry, data: Path) -> bool:
        """Whether a data file can be read, and its rows have their digests."""
        return self._in_file(entry, data) is not None

    def replacement(self, entry: LogEntry) -> list[Action] | None:
        """The actions that add the entry's rows in a new data file; None: the rows are lost."""
        rows = self.rows(entry)
        return None if rows is None else write_rows(self._folder, list(map(with_digest, rows)))

    def rows(self, entry: LogEntry) -> list[Row] | None:
        """The rows from an intact copy; None: they are lost."""
        return None if entry.is_compaction else self._in_log(entry) or self._in_data(entry)

    def _in_log(self, entry: LogEntry) -> list[Row] | None:
        """The rows in the entry itself, none where it has no copy of them; None: they are damaged."""
        try:
            logged = logged_rows(entry.actions)
            return [] if logged is None else self._checked(logged, entry)
        except (DamagedLedgerError, ValueError, LookupError, TypeError):
            return None

    def _in_data(self, entry: LogEntry) -> list[Row] | None:
        """The rows in the entry's data file; where the entry has lost its name, in the only unnamed file there is."""
        if entry.data:
            return self._in_file(entry, entry.data[0])
        named = b"".join(file.read_bytes() for file in log_directory(self._folder).glob("*.json"))
        unnamed = [file for file in self._folder.glob("*.parquet") if quote(file.name).encode() not in named]
        found = [rows for file in unnamed if (rows := self._in_file(entry, file)) is not None]
        return found[0] if len(found) == 1 else None

    def _in_file(self, entry: LogEntry, file: Path) -> list[Row] | None:
        try:
            return self._checked(rows_in_file(file), entry)
        except (DamagedLedgerError, pa.ArrowException, OSError, ValueError, LookupError, TypeError):
            return None

    def _checked(self, content: list[dict[str, Any]], entry: LogEntry) -> list[Row]:
        """The rows of this commit. Raises DamagedLedgerError, or ValueError where they are of another commit."""
        rows = as_rows(content, str(self._folder))
        if not rows or not (entry.is_compaction or {row.sequence for row in rows} == {entry.number}):
            raise ValueError(f"these are not the rows of commit {entry.number}")
        return rows


APPLICATION = "stateferry"


SETTINGS = {"delta.appendOnly": "true", "delta.enableExpiredLogCleanup": "false"}


COLUMNS = pa.schema(
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


def create_table(folder: Path) -> DeltaTable:
    """Create an empty table."""
    return DeltaTable.create(
        delta_uri(folder), Schema.from_arrow(COLUMNS), name="stateferry ledger", configuration=SETTINGS
    )


def to_arrow(rows: Sequence[Row]) -> pa.Table:
    """The rows as an Arrow table."""
    content = [row.model_dump(mode="python") for row in rows]
    return pa.Table.from_pylist([{**row, "step": str(row["step"])} for row in content], schema=COLUMNS)


def write_rows(folder: Path, rows: Sequence[Row]) -> list[Action]:
    """Write rows, which have their digests, into a new data file, durably; returns the actions that add it."""
    file = folder / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    with file.open("wb") as stream:  # an error of pyarrow would not say which file is gone
        pq.write_table(to_arrow(rows), stream)
    fsync_file(file)
    fsync_directory(folder)
    now = int(time.time() * 1000)
    added = {
        "path": file.name,
        "partitionValues": {},
        "size": file.stat().st_size,
        "modificationTime": now,
        "dataChange": True,
    }
    return [{"commitInfo": {"timestamp": now, "operation": "WRITE", **commit_metadata(rows)}}, {"add": added}]


def transaction(number: int) -> Action:
    """The action that gives a commit its number."""
    return {"txn": {"appId": APPLICATION, "version": number}}


def as_entry(actions: Sequence[Action]) -> bytes:
    """The content of a log entry."""
    return "\n".join(json.dumps(action) for action in actions).encode()


def rows_in_file(file: Path) -> list[dict[str, Any]]:
    """The rows of a data file. Raises OSError, and pyarrow's errors for a damaged file.

    delta-rs's own way to pyarrow ended one process in ten with an abort at exit: its threads outlive the interpreter.
    """
    return list(pq.ParquetFile(file).read(use_threads=False).to_pylist())
