"""The log of a Delta table of ours, entry by entry: what a power cut tore is found, and set aside.

delta-rs does not sync what it writes, and we sync a commit before we act on it, so that at most the newest one can be
torn. A file that was damaged otherwise costs its own rows and no more.

Source of the layout: the Delta protocol, "Delta Log Entries" (one JSON object for each action, one to a line).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from migrate.stores.files import fsync_directory, make_directories, write_durably

Action = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One version of the table."""

    version: int
    file: Path
    actions: tuple[Action, ...]
    """Those that can be read, and whose data is there."""
    lost: tuple[Path, ...]
    """The damaged or missing ones among its own file and its data files."""


def log_directory(table: Path) -> Path:
    """Where the log of a table lies."""
    return table / "_delta_log"


def read_log(table: Path, *, thorough: bool = False) -> Iterator[LogEntry]:
    """Every version from 0 to the newest one that is there, in order; `thorough`: every data file is read."""
    log = log_directory(table)
    newest = max((int(file.stem) for file in log.glob("*.json") if file.stem.isdigit()), default=-1)
    for version in range(newest + 1):
        yield _read_entry(table, log / f"{version:020d}.json", version, read_it=thorough or version == newest)


def _read_entry(table: Path, file: Path, version: int, *, read_it: bool) -> LogEntry:
    actions, is_whole = _parse(file)
    needed = {"protocol", "metaData"} if version == 0 else {"txn"}
    is_whole = is_whole and needed <= {name for action in actions for name in action}
    torn = [action for action in actions if "add" in action and _is_torn(table, action["add"], read_it=read_it)]
    lost = [_data_file(table, action["add"]) for action in torn]
    return LogEntry(
        version=version,
        file=file,
        actions=tuple(action for action in actions if action not in torn),
        lost=tuple(lost if is_whole else [file, *lost]),
    )


def _parse(file: Path) -> tuple[list[Action], bool]:
    """The actions that can be read, and whether that is all of them."""
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return [], False
    actions: list[Action] = []
    for line in lines:
        try:
            actions.append(dict(json.loads(line)))
        except (ValueError, TypeError):
            return actions, False
    return actions, bool(lines)


def _data_file(table: Path, added: Action) -> Path:
    return table / unquote(added["path"])


def _is_torn(table: Path, added: Action, *, read_it: bool) -> bool:
    """By its size, and where asked by its content too: a power cut may leave zeros."""
    data = _data_file(table, added)
    if not data.is_file() or data.stat().st_size != added["size"]:
        return True
    return read_it and not _is_readable(data)


def _is_readable(file: Path) -> bool:
    import pyarrow as pa  # here: whoever only looks at a log needs none of it
    import pyarrow.parquet as pq

    try:
        pq.ParquetFile(file).read(use_threads=False)
    except (pa.ArrowException, OSError):
        return False
    return True


def repair_log(
    table: Path, aside: Path, *, application: str, first_entry: Callable[[], str], thorough: bool
) -> tuple[Path, ...]:
    """Make the table readable without what is lost, and move that to `aside`; returns what was lost.

    By default the newest version's data alone is read, as only that can be torn; else sizes are compared.

    Version numbers stay: a run that was taken over must still meet a version that is taken. `first_entry` gives the
    text of an empty table's version 0. Repeating it, after a crash too, does what is left.
    """
    damaged = [entry for entry in read_log(table, thorough=thorough) if entry.lost]
    if damaged or not _are_whole(_shortcuts(table)):
        _remove_shortcuts(table)  # before the entries: they may name what is lost
    if not damaged:
        return ()
    make_directories(aside)
    for entry in damaged:
        _repair_entry(entry, aside, _without_loss(entry, application, first_entry))
    for folder in (aside, table, log_directory(table)):
        fsync_directory(folder)
    return tuple(path for entry in damaged for path in entry.lost)


def _repair_entry(entry: LogEntry, aside: Path, text: str) -> None:
    if entry.file.exists():
        shutil.copy2(entry.file, aside / entry.file.name)
    write_durably(entry.file, text.encode())
    for path in entry.lost:
        if path != entry.file and path.exists():
            path.rename(aside / path.name)


def _shortcuts(table: Path) -> list[Path]:
    """Delta's checkpoints of the log, which it makes again: the entries themselves are all kept."""
    log = log_directory(table)
    return [*log.glob("*.checkpoint*.parquet"), *log.glob("_last_checkpoint")]


def _remove_shortcuts(table: Path) -> None:
    for shortcut in _shortcuts(table):
        shortcut.unlink()
    fsync_directory(log_directory(table))


def _are_whole(shortcuts: list[Path]) -> bool:
    return all(_is_readable(file) if file.suffix == ".parquet" else _is_json(file) for file in shortcuts)


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except (OSError, ValueError):
        return False
    return True


def _without_loss(entry: LogEntry, application: str, first_entry: Callable[[], str]) -> str:
    if entry.version == 0:
        return first_entry()
    actions = [action for action in entry.actions if "txn" not in action]
    actions.append({"txn": {"appId": application, "version": entry.version}})
    return "\n".join(json.dumps(action) for action in actions)
