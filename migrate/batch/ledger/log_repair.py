"""The log of a Delta table of ours, entry by entry: what is damaged is found, set aside, and written again.

delta-rs does not sync what it writes, and we sync a commit before we act on it, so that a power cut can tear at most
the newest one. A disk may damage any. What an entry says twice, in the log and in its data file, is written again from
the other one; where neither can be read, its rows are lost, and no others.

Source of the layout: the Delta protocol, "Delta Log Entries" (one JSON object for each action, one to a line).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from migrate.stores.files import fsync_directory, make_directories, write_durably

Action = dict[str, Any]
_ACTIONS = ({"commitInfo"}, {"add"}, {"txn"}, {"remove"}, {"metaData"}, {"protocol"})
_ADDED = {"path": str, "size": int, "partitionValues": dict, "modificationTime": int, "dataChange": bool}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One version of the table."""

    version: int
    number: int
    """Of our transaction: each commit has the next one."""
    file: Path
    actions: tuple[Action, ...]
    """Those that can be read."""
    lost: tuple[Path, ...]
    """The damaged or missing ones among its own file and its data files."""

    @property
    def data(self) -> list[Path]:
        """The data files that it names."""
        return [self.file.parents[1] / _name(action["add"]) for action in self.actions if "add" in action]


class Contents(Protocol):
    """What a table holds: asked of each entry, and for what takes a damaged one's place."""

    application: str
    """Of our transactions."""

    def first_entry(self) -> str:
        """The text of an empty table's version 0."""
        ...

    def has_valid_rows(self, entry: LogEntry) -> bool:
        """Whether what the entry itself says of its rows may be what was written."""
        ...

    def is_intact(self, entry: LogEntry, data: Path) -> bool:
        """Whether a data file holds what was written."""
        ...

    def replacement(self, entry: LogEntry) -> list[Action] | None:
        """What adds the entry's rows, in another data file; None: they are lost."""
        ...


def log_directory(table: Path) -> Path:
    """Where the log of a table lies."""
    return table / "_delta_log"


def newest_version(table: Path) -> int:
    """-1: there is none."""
    return max((int(file.stem) for file in log_directory(table).glob("*.json") if file.stem.isdigit()), default=-1)


def read_log(table: Path, contents: Contents, *, thorough: bool = False) -> Iterator[LogEntry]:
    """Every version from 0 to the newest one that is there, in order; `thorough`: every data file is read."""
    newest, number = newest_version(table), 0
    for version in range(newest + 1):
        file = log_directory(table) / f"{version:020d}.json"
        actions, is_whole = _parse(file)
        names = {name for action in actions for name in action}
        number += version > 0 and not (is_whole and _holds_no_rows(names))
        entry = LogEntry(version, number, file, tuple(actions), ())
        lost = _lost(entry, contents, read_it=thorough or version == newest)
        if not (is_whole and _is_as_written(entry, names, contents)):
            lost = [file, *lost]
        yield LogEntry(version, number, file, entry.actions, tuple(lost))


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
    return is_typed and Path(_name(added)).name == _name(added)


def _holds_no_rows(names: set[str]) -> bool:
    """The table was made, by two runs at once perhaps, or somebody has compacted it."""
    return "txn" not in names and ("remove" in names or {"protocol", "metaData"} <= names)


def _is_as_written(entry: LogEntry, names: set[str], contents: Contents) -> bool:
    if entry.version == 0 or _holds_no_rows(names):
        return _holds_no_rows(names)
    transaction = {"appId": contents.application, "version": entry.number}
    told = [{name: action["txn"].get(name) for name in transaction} for action in entry.actions if "txn" in action]
    return told == [transaction] and contents.has_valid_rows(entry)


def _lost(entry: LogEntry, contents: Contents, *, read_it: bool) -> list[Path]:
    """By size, and where asked by content too: a power cut may leave zeros."""
    added = [action["add"] for action in entry.actions if "add" in action]
    sizes = dict(zip(entry.data, (each["size"] for each in added), strict=True))
    return [
        data
        for data, size in sizes.items()
        if not data.is_file() or data.stat().st_size != size or (read_it and not contents.is_intact(entry, data))
    ]


def _name(added: Action) -> str:
    return unquote(str(added["path"]))


def repair_log(table: Path, aside: Path, contents: Contents, *, thorough: bool) -> tuple[Path, ...]:
    """Make the table readable, and move what was damaged to `aside`; returns that.

    By default the newest version's data alone is read, as only that can be torn; else sizes are compared. `thorough`:
    all data is read, and what else Delta goes by (schema, settings, checkpoints) is made anew.

    Version numbers stay: a run that was taken over must still meet a version that is taken. Repeating it, after a
    crash too, does what is left.
    """
    entries = read_log(table, contents, thorough=thorough)
    damaged = [entry for entry in entries if entry.lost or (thorough and _makes_table(entry))]
    if damaged:
        _remove_shortcuts(table)  # before the entries: they may name what is lost
        make_directories(aside)
    for entry in damaged:
        _repair_entry(entry, aside, _mended(entry, contents))
    for folder in (aside, table, log_directory(table)) if damaged else ():
        fsync_directory(folder)
    return tuple(path for entry in damaged for path in entry.lost or (entry.file,))


def _makes_table(entry: LogEntry) -> bool:
    return entry.version == 0 or any("metaData" in action for action in entry.actions)


def _repair_entry(entry: LogEntry, aside: Path, text: str) -> None:
    if entry.file.exists():
        shutil.copy2(entry.file, aside / entry.file.name)
    write_durably(entry.file, text.encode())
    for path in {*entry.lost, *entry.data} - {entry.file}:
        if path.exists() and path.name not in text:
            path.rename(aside / path.name)


def _mended(entry: LogEntry, contents: Contents) -> str:
    if _makes_table(entry):
        return contents.first_entry()
    actions = contents.replacement(entry)
    if actions is None:
        kept = {data.name for data in entry.data} - {data.name for data in entry.lost}
        actions = [each for each in entry.actions if "remove" in each or ("add" in each and _name(each["add"]) in kept)]
    actions.append({"txn": {"appId": contents.application, "version": entry.number}})
    return "\n".join(json.dumps(action) for action in actions)


def _remove_shortcuts(table: Path) -> None:
    """Delta's checkpoints of the log, which it makes again: the entries themselves are all kept."""
    log = log_directory(table)
    for shortcut in (*log.glob("*.checkpoint*.parquet"), *log.glob("_last_checkpoint")):
        shortcut.unlink()
    fsync_directory(log)
