"""The rows of one ledger commit, read from whichever of their two copies is intact.

Each row is stored twice, in its log entry and in its data file, and each copy has its digest.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from migrate.batch.ledger.commit_log import Action, log_directory, logged_rows
from migrate.batch.ledger.parquet import create_table, rows_in_file, write_rows
from migrate.errors import DamagedLedgerError
from migrate.model.ledger_row import Row, as_rows, with_digest


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
