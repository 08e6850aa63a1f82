"""The ledger's rows, found again where one of its files is damaged.

Each row is stored twice, in its log entry and in its data file, and each copy bears its digest: what one of them has
lost, the other one still tells.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from migrate.batch.home import LEDGER_DAMAGED
from migrate.batch.ledger.commit_log import commit_metadata, logged_rows
from migrate.batch.ledger.log_repair import Action, LogEntry, log_directory, read_log, repair_log
from migrate.batch.ledger.parquet import APPLICATION, create_table, rows_in_file, to_arrow
from migrate.errors import DamagedLedgerError
from migrate.model.ledger_row import LEDGER_SCHEMA, Row, as_rows, with_digest
from migrate.stores.files import fsync_file


def repair_ledger(folder: Path, *, thorough: bool) -> tuple[Path, ...]:
    """Make the ledger readable, and return the files that were damaged, which are set aside beside it.

    A row that is lost in both its copies is found again otherwise: that of a chunk by its receipt, and that of any
    other step by what the step did.
    """
    return repair_log(folder, folder.with_name(LEDGER_DAMAGED), LedgerContents(folder), thorough=thorough)


def recovered_rows(folder: Path) -> list[Row] | None:
    """As a repair would find them, for whoever only looks; None: some are lost in both copies."""
    contents, rows = LedgerContents(folder), list[Row]()
    for entry in read_log(folder, contents):
        found = contents.rows(entry)
        if not found and (entry.lost or entry.data) and entry.version > 0:
            return None
        rows += found or []
    return rows


class LedgerContents:
    """What the ledger's log entries hold."""

    application = APPLICATION

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def first_entry(self) -> str:
        """The text of an empty ledger's version 0."""
        with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
            create_table(Path(folder))
            return (log_directory(Path(folder)) / f"{0:020d}.json").read_text(encoding="utf-8")

    def has_valid_rows(self, entry: LogEntry) -> bool:
        """Also of an entry that tells no rows: of an earlier release, or mended where they were lost."""
        try:
            told = logged_rows(list(entry.actions))
            rows = None if told is None else self._checked(told, entry)
        except (DamagedLedgerError, ValueError, LookupError, TypeError):
            return False
        return not rows or bool(entry.data) or rows[0].schema_version < LEDGER_SCHEMA

    def is_intact(self, entry: LogEntry, data: Path) -> bool:
        """Whether a data file can be read, and its rows have their digests."""
        return self._in_file(entry, data) is not None

    def replacement(self, entry: LogEntry) -> list[Action] | None:
        """From the copy that is whole; nothing where there are two of an earlier release, and they differ."""
        rows = self.rows(entry)
        return rows if rows is None else self._write(rows)

    def rows(self, entry: LogEntry) -> list[Row] | None:
        """From the copy that is whole; None: they are lost. Empty: two copies of an earlier release differ."""
        if any("remove" in action for action in entry.actions):
            return None
        copies = [rows for rows in (self._told(entry), self._stored(entry)) if rows]
        if not copies:
            return None
        return copies[0] if copies[0] == copies[-1] else []

    def _told(self, entry: LogEntry) -> list[Row] | None:
        try:
            told = logged_rows(list(entry.actions))
            return None if told is None else self._checked(told, entry)
        except (DamagedLedgerError, ValueError, LookupError, TypeError):
            return None

    def _stored(self, entry: LogEntry) -> list[Row] | None:
        """Of the file that it names; of an entry that has lost the name, of the only one that can be meant."""
        if entry.data:
            return self._in_file(entry, entry.data[0])
        named = b"".join(file.read_bytes() for file in log_directory(self._folder).glob("*.json"))
        nameless = [file for file in self._folder.glob("*.parquet") if quote(file.name).encode() not in named]
        found = [rows for file in nameless if (rows := self._in_file(entry, file)) is not None]
        return found[0] if len(found) == 1 and found[0][0].schema_version >= LEDGER_SCHEMA else None

    def _in_file(self, entry: LogEntry, file: Path) -> list[Row] | None:
        try:
            return self._checked(rows_in_file(file), entry)
        except (DamagedLedgerError, pa.ArrowException, OSError, ValueError, LookupError, TypeError):
            return None

    def _checked(self, content: list[dict[str, Any]], entry: LogEntry) -> list[Row]:
        """Raises DamagedLedgerError, or ValueError where they are of another commit."""
        rows = as_rows(content, str(self._folder))
        is_compacted = any("remove" in action for action in entry.actions)
        if not rows or not (is_compacted or {row.sequence for row in rows} == {entry.number}):
            raise ValueError(f"these are not the rows of commit {entry.number}")
        return rows

    def _write(self, rows: list[Row]) -> list[Action]:
        if not rows:
            return []
        stored = [with_digest(row) if row.schema_version >= LEDGER_SCHEMA else row for row in rows]
        file = self._folder / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        pq.write_table(to_arrow(stored), file)
        fsync_file(file)
        now = int(time.time() * 1000)
        added = {
            "path": file.name,
            "partitionValues": {},
            "size": file.stat().st_size,
            "modificationTime": now,
            "dataChange": True,
        }
        told = {"timestamp": now, "operation": "WRITE", **commit_metadata(stored)}
        return [{"commitInfo": told}, {"add": added}]
