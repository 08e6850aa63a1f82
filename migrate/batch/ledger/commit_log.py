"""The ledger's rows, read from its log alone: for whoever only looks.

Every commit repeats its rows in the log entry that makes it, where a thousand commits are read in a tenth of the time
that a thousand Parquet files take. What the log does not tell so (entries of an earlier release, a table that somebody
has rewritten, damage) is read from the table instead: this shortcut never decides what is wrong.

Source of the layout: the Delta protocol, "Commit Provenance Information" (an object of any content) and "Add File".
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic_core import from_json

from migrate.batch.home import LEDGER
from migrate.batch.ledger.log_repair import log_directory
from migrate.errors import DamagedLedgerError
from migrate.model.ledger_row import LEDGER_SCHEMA, Row, as_rows

_ROWS = "stateferry.rows"
_BINARY = ("start_key", "end_key")


def commit_metadata(rows: Iterable[Row]) -> dict[str, str]:
    """What a commit says of its rows in its log entry."""
    return {_ROWS: json.dumps([row.model_dump(mode="json") for row in rows])}


class IncompleteLogError(Exception):
    """The rows cannot be known from the log alone: the table has to be read."""


@dataclass(frozen=True, slots=True)
class _Entry:
    inode: int
    """Another one: a repair has written the entry anew."""
    file: tuple[str, int] | None
    """Its data file, and how long that is."""
    rows: list[dict[str, Any]]


class LedgerLog:
    """Looks at one ledger, again and again, at the cost of what is new."""

    def __init__(self, home: Path) -> None:
        self._folder = home / LEDGER
        self._entries: dict[str, _Entry] = {}

    def rows(self) -> list[Row]:
        """Every row, in the order of commits.

        Raises RefusedError for a newer schema, IncompleteLogError where only the table can tell.
        """
        try:
            return as_rows([row for entry in self._read() for row in entry.rows], str(self._folder))
        except (DamagedLedgerError, OSError, ValueError, LookupError, TypeError) as error:
            raise IncompleteLogError from error

    def _read(self) -> list[_Entry]:
        log = log_directory(self._folder)
        inodes = {name: inode for name, inode in _names(log) if name.endswith(".json")}
        names = sorted(inodes)
        if not names or names != [f"{version:020d}.json" for version in range(len(names))]:
            raise IncompleteLogError
        entries = [self._entry(log, name, inodes[name]) for name in names]
        there = _files(self._folder)
        if any(entry.file not in there for entry in entries if entry.file is not None):
            raise IncompleteLogError
        return entries

    def _entry(self, log: Path, name: str, inode: int) -> _Entry:
        known = self._entries.get(name)
        if known is None or known.inode != inode:
            known = self._entries[name] = _parse(_content(f"{log}/{name}"), inode)
        return known


def _names(folder: Path) -> list[tuple[str, int]]:
    with os.scandir(folder) as listed:
        return [(entry.name, entry.inode()) for entry in listed]


def _files(folder: Path) -> set[tuple[str, int]]:
    with os.scandir(folder) as listed:
        return {(entry.name, entry.stat().st_size) for entry in listed}


def _content(file: str) -> str:
    """Three system calls, where Python's own files take a dozen: there may be thousands of entries."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
            if len(part) < 1 << 16:
                break
    finally:
        os.close(descriptor)
    return b"".join(parts).decode()


def _parse(content: str, inode: int) -> _Entry:
    if not content:
        raise IncompleteLogError
    actions = [from_json(line) for line in filter(None, content.split("\n"))]
    if any("remove" in action for action in actions):
        raise IncompleteLogError
    added = [action["add"] for action in actions if "add" in action]
    told = logged_rows(actions)
    if not added and (told is None or all(row["schema_version"] < LEDGER_SCHEMA for row in told)):
        return _Entry(inode, None, [])  # the table's first entry; or the data was lost, and the entry mended
    if told is None or len(added) != 1:  # of an earlier release; or not as we write them
        raise IncompleteLogError
    return _Entry(inode, (unquote(added[0]["path"]), added[0]["size"]), told)


def logged_rows(actions: Iterable[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """What a log entry says of its rows; None: it says nothing."""
    told = [action["commitInfo"][_ROWS] for action in actions if _ROWS in action.get("commitInfo", {})]
    return [_as_read(row) for row in from_json(told[0])] if told else None


def _as_read(row: dict[str, Any]) -> dict[str, Any]:
    for name in _BINARY:
        if row[name] is not None:
            row[name] = bytes.fromhex(row[name])
    return row
