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

from migrate.delta_log import log_directory
from migrate.ledger_rows import Row, as_rows

_ROWS = "stateferry.rows"
_BINARY = ("start_key", "end_key")


def rows_in_log(rows: Iterable[Row]) -> dict[str, str]:
    """What a commit says of its rows in its log entry."""
    return {_ROWS: json.dumps([row.model_dump(mode="json") for row in rows])}


class _UntoldError(Exception):
    """The log alone does not tell the rows."""


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
        self._home = home
        self._folder = home / "ledger"
        self._entries: dict[str, _Entry] = {}

    def rows(self) -> list[Row]:
        """Every row, in the order of commits; none where there is no ledger yet.

        Raises RefusedError for a newer schema, and for a ledger that is damaged.
        """
        try:
            content = [row for entry in self._read() for row in entry.rows]
        except (_UntoldError, OSError, ValueError, LookupError, TypeError):
            from migrate.ledger import read_ledger

            return read_ledger(self._home)
        return as_rows(content, str(self._folder))

    def _read(self) -> list[_Entry]:
        log = log_directory(self._folder)
        inodes = {name: inode for name, inode in _names(log) if name.endswith(".json")}
        names = sorted(inodes)
        if not names or names != [f"{version:020d}.json" for version in range(len(names))]:
            raise _UntoldError
        entries = [self._entry(log, name, inodes[name]) for name in names]
        there = _files(self._folder)
        if any(entry.file not in there for entry in entries if entry.file is not None):
            raise _UntoldError
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
    told: str | None = None
    files: list[tuple[str, int]] = []
    if not content:
        raise _UntoldError
    for line in filter(None, content.split("\n")):
        action = from_json(line)
        if (added := action.get("add")) is not None:
            files.append((unquote(added["path"]), added["size"]))
        elif "commitInfo" in action:
            told = action["commitInfo"].get(_ROWS)
        elif "remove" in action:
            raise _UntoldError
    if not files:  # the table's first entry; or the data was lost, and the entry mended
        return _Entry(inode, None, [])
    if told is None or len(files) > 1:  # of an earlier release; or not as we write them
        raise _UntoldError
    return _Entry(inode, files[0], [_as_read(row) for row in from_json(told)])


def _as_read(row: dict[str, Any]) -> dict[str, Any]:
    for name in _BINARY:
        if row[name] is not None:
            row[name] = bytes.fromhex(row[name])
    return row
