"""Repair of the ledger's Delta log, entry by entry: damage is found, set aside, and written again.

A commit is synced before it counts, so that a power cut can tear at most the newest one. A disk may damage any. An
entry and its data file hold the same rows, so that either is written again from the other; where neither can be read,
their rows are lost, and no others.

Source of the layout: the Delta protocol, "Delta Log Entries" (one JSON object for each action, one to a line).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from migrate.batch.home import LEDGER_DAMAGED
from migrate.batch.ledger.delta_log import (
    APPLICATION,
    Action,
    LedgerContents,
    LogEntry,
    as_entry,
    data_file_name,
    log_directory,
    transaction,
)
from migrate.errors import RefusedError
from migrate.model.ledger_row import Row
from migrate.stores.files import fsync_directory, make_directories, write_durably

_ACTIONS = ({"commitInfo"}, {"add"}, {"txn"}, {"remove"}, {"metaData"}, {"protocol"})
_MOST_MISSING = 100
_ADDED = {"path": str, "size": int, "partitionValues": dict, "modificationTime": int, "dataChange": bool}


def newest_version(table: Path) -> int:
    """The highest version in the table's log; -1: there is none.

    Raises RefusedError where more entries are missing than damage explains: a repair would write one for each.
    """
    files = {int(file.stem): file for file in log_directory(table).glob("*.json") if file.stem.isdecimal()}
    newest = max(files, default=-1)
    if (missing := newest + 1 - len(files)) > _MOST_MISSING:
        _, after = max((after - before, after) for before, after in pairwise((-1, *sorted(files))))
        raise RefusedError(
            f"the ledger's log lacks {missing:,} entries before {files[after]}",
            hint="if no run of this migration wrote that file, move it out of the directory; else restore the missing "
            "entries from a backup",
        )
    return newest


def read_log(table: Path, *, thorough: bool = False) -> Iterator[LogEntry]:
    """Every version of the ledger from 0 to the newest, in order; `thorough`: every data file is read."""
    contents = LedgerContents(table)
    newest, number = newest_version(table), 0
    for version in range(newest + 1):
        file = log_directory(table) / f"{version:020d}.json"
        actions, is_whole = _parse(file)
        names = {name for action in actions for name in action}
        number += version > 0 and not (is_whole and _holds_no_rows(names))
        entry = LogEntry(version, number, file, tuple(actions))
        lost = _lost(entry, contents, read_it=thorough or version == newest)
        if not (is_whole and _is_as_written(entry, names, contents)):
            lost = [file, *lost]
        yield replace(entry, lost=tuple(lost))


def _parse(file: Path) -> tuple[list[Action], bool]:
    """The actions that can be read, and whether that is all of them."""
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return [], False
    actions = [action for action in map(_action, lines) if action is not None]
    return actions, bool(lines) and len(actions) == len(lines)


def _action(line: bytes) -> Action | None:
    try:
        action = dict(json.loads(line))
        is_ours = set(action) in _ACTIONS and ("add" not in action or _is_added(action["add"]))
    except (ValueError, TypeError, LookupError):
        return None
    return action if is_ours else None


def _is_added(added: Action) -> bool:
    is_typed = all(isinstance(added[name], kind) for name, kind in _ADDED.items())
    json.loads(added.get("stats") or "{}")
    return is_typed and Path(data_file_name(added)).name == data_file_name(added)


def _holds_no_rows(names: set[str]) -> bool:
    """Whether this version made the table (two runs at once may each add one), or another program compacted it."""
    return "txn" not in names and ("remove" in names or {"protocol", "metaData"} <= names)


def _is_as_written(entry: LogEntry, names: set[str], contents: LedgerContents) -> bool:
    if entry.version == 0 or _holds_no_rows(names):
        return _holds_no_rows(names)
    transaction = {"appId": APPLICATION, "version": entry.number}
    found = [{name: action["txn"].get(name) for name in transaction} for action in entry.actions if "txn" in action]
    return found == [transaction] and contents.has_valid_rows(entry)


def _lost(entry: LogEntry, contents: LedgerContents, *, read_it: bool) -> list[Path]:
    """The damaged data files: by size, and with `read_it` by content too, as a power cut may leave zeros."""
    added = [action["add"] for action in entry.actions if "add" in action]
    sizes = dict(zip(entry.data, (each["size"] for each in added), strict=True))
    return [
        data
        for data, size in sizes.items()
        if not data.is_file() or data.stat().st_size != size or (read_it and not contents.is_intact(entry, data))
    ]


def repair_ledger(table: Path, *, thorough: bool) -> tuple[Path, ...]:
    """Make the ledger readable, and return the files that were damaged, which are set aside beside it.

    A row that is lost in both its copies is restored by other means: that of a chunk from its receipt, that of any
    other step from what the step left on disk.

    By default only the newest version's data is read, as only that can be torn, and of the others the sizes are
    compared. `thorough`: all data is read, and the schema, settings and checkpoints of the table are written again.

    Version numbers stay: a run that was taken over must still meet a version that is taken. Repeating it, after a
    crash too, does what is left.
    """
    aside, contents = table.with_name(LEDGER_DAMAGED), LedgerContents(table)
    entries = read_log(table, thorough=thorough)
    damaged = [entry for entry in entries if entry.lost or (thorough and _makes_table(entry))]
    if damaged:
        _remove_checkpoints(table)  # before the entries: they may name what is lost
        make_directories(aside)
    for entry in damaged:
        _repair_entry(entry, aside, _repaired(entry, contents))
    for folder in (aside, table, log_directory(table)) if damaged else ():
        fsync_directory(folder)
    return tuple(path for entry in damaged for path in entry.lost or (entry.file,))


def recovered_rows(table: Path) -> list[Row] | None:
    """The rows that a repair would restore, without one; None: some are lost in both copies."""
    contents, rows = LedgerContents(table), list[Row]()
    for entry in read_log(table):
        found = contents.rows(entry)
        if not found and (entry.lost or entry.data) and entry.version > 0:
            return None
        rows += found or []
    return rows


def _makes_table(entry: LogEntry) -> bool:
    return entry.version == 0 or any("metaData" in action for action in entry.actions)


def _repair_entry(entry: LogEntry, aside: Path, content: bytes) -> None:
    if entry.file.exists():
        shutil.copy2(entry.file, aside / entry.file.name)
    write_durably(entry.file, content)
    for path in {*entry.lost, *entry.data} - {entry.file}:
        if path.exists() and path.name.encode() not in content:
            path.rename(aside / path.name)


def _repaired(entry: LogEntry, contents: LedgerContents) -> bytes:
    if _makes_table(entry):
        return contents.first_entry().encode()
    actions = contents.replacement(entry)
    if actions is None:
        kept = {data.name for data in entry.data} - {data.name for data in entry.lost}
        actions = [
            each
            for each in entry.actions
            if "remove" in each or ("add" in each and data_file_name(each["add"]) in kept)
        ]
    return as_entry([*actions, transaction(entry.number)])


def _remove_checkpoints(table: Path) -> None:
    """Remove Delta's checkpoints of the log, which it can make again: the log entries are all kept."""
    log = log_directory(table)
    for checkpoint in (*log.glob("*.checkpoint*.parquet"), *log.glob("_last_checkpoint")):
        checkpoint.unlink()
    fsync_directory(log)
