"""The ledger's Delta log: an entry holds the rows of its version under one seal, and a Parquet file renders them.

| where                                  | what                                                                      |
|----------------------------------------|---------------------------------------------------------------------------|
| `_delta_log/<version>.json`, line 1    | `commitInfo` with the rows, and a digest of the whole entry               |
| line 2                                 | `add`: the data file, for those who read the table as one                 |
| last line                              | `txn`: the version, as that of our application transaction                |
| `part-<version>-<uuid>.snappy.parquet` | the same rows; written before the entry, and not synced                   |

Stateferry reads entries alone, a thousand in a tenth of a second. What another program commits, such as a compaction,
has no rows of ours. A data file that is missing or damaged is written again with its entry, and so is an entry, from
its data file. Where both are lost, an entry without rows keeps the version taken, so that an earlier run stays fenced.

Source of the layout: the Delta protocol, "Delta Log Entries" (one JSON object for each action, one to a line), "Commit
Provenance Information" (an object of any content), "Add File" and "Transaction Identifiers".
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from migrate.batch.home import LEDGER, LEDGER_DAMAGED
from migrate.errors import DamagedLedgerError, RefusedError
from migrate.model.ledger_row import Row, as_rows, damaged_ledger
from migrate.model.values import with_seal, without_seal
from migrate.stores.files import delta_uri, fsync_directory, fsync_file, make_directories, write_durably

if TYPE_CHECKING:
    import pyarrow as pa

SETTINGS = {"delta.appendOnly": "true", "delta.enableExpiredLogCleanup": "false"}
_APPLICATION = "stateferry"
_ROWS = "stateferry.rows"
_TRANSACTION = f'"appId": "{_APPLICATION}"'
_SEALED, _SEALED_END = '{"commitInfo":', "}"
_BINARY = ("start_key", "end_key")
_ENTRY = re.compile(r"(\d+)\.json")
_PART = re.compile(r"part-(\d{20})-.*\.parquet")
_UNSYNCED = 256
"""Versions whose data files may not be on disk yet after a power cut: the commits of a minute."""


def log_directory(table: Path) -> Path:
    """The directory with the log of a Delta table."""
    return table / "_delta_log"


def entry_file(table: Path, version: int) -> Path:
    """The log entry of a version."""
    return log_directory(table) / f"{version:020d}.json"


class _Listing(NamedTuple):
    """What the table's directories name, by version."""

    inodes: dict[int, int]
    """Of log entries."""
    parts: dict[int, list[str]]
    """Names of data files."""


def _listed(table: Path) -> _Listing:
    listing = _Listing({}, {})
    for file in _files_in(log_directory(table)):
        if (entry := _ENTRY.fullmatch(file.name)) is not None:
            listing.inodes[int(entry[1])] = file.inode()
    for file in _files_in(table):
        if (part := _PART.fullmatch(file.name)) is not None:
            listing.parts.setdefault(int(part[1]), []).append(file.name)
    return listing


def _files_in(folder: Path) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as listed:
        yield from listed


def _versions(table: Path, listing: _Listing) -> range:
    """The versions that the log has entries of, or should have: those before a data file are committed before it.

    Raises RefusedError where entries are missing, and their data files too: nobody knows what they held.
    """
    gaps = [gap for gap in pairwise(sorted({0, *listing.inodes, *listing.parts})) if gap[1] - gap[0] > 1]
    if gaps:
        missing = sum(after - before - 1 for before, after in gaps)
        raise RefusedError(
            f"the ledger's log lacks {missing:,} entries before {entry_file(table, gaps[-1][1])}",
            hint="if no run of this migration wrote that file, move it out of the directory; else restore the missing "
            "entries from a backup",
        )
    return range(max((*listing.inodes, *(each - 1 for each in listing.parts)), default=-1) + 1)


@dataclass(frozen=True, slots=True)
class Entry:
    """One version, as it was read."""

    version: int
    inode: int = 0
    """Changes when a repair replaces the entry."""
    rows: tuple[Row, ...] = ()
    part: tuple[str, int] | None = None
    """The name of its data file, and that file's size; None: it has none."""
    removed: tuple[str, ...] = ()
    """Data files that another program has taken out of the table."""
    flaw: str = ""
    """Why it is not as it was written; empty: it is."""

    @property
    def is_lost(self) -> bool:
        """Whether its data file is lost, too."""
        return bool(self.flaw and self.version and self.part is None)


class LedgerLog:
    """Reads one ledger repeatedly, parsing only the entries that are new. Nothing is written."""

    def __init__(self, home: Path) -> None:
        self.table = home / LEDGER
        self._known: dict[int, Entry] = {}
        self._beginning = b""

    def rows(self) -> list[Row]:
        """Every row, in the order of commits; none if there is no ledger yet.

        Raises RefusedError for a newer schema or a gap, DamagedLedgerError where a version is lost in both its copies.
        """
        entries = self.entries()
        if (lost := next((entry for entry in entries if entry.is_lost), None)) is not None:
            raise damaged_ledger(str(self.table), f"{entry_file(self.table, lost.version).name} {lost.flaw}")
        return [row for entry in entries for row in entry.rows]

    def entries(self) -> list[Entry]:
        """Every version. Raises RefusedError for a newer schema or a gap."""
        listing = _listed(self.table)
        self._forget_another()
        self._known = {version: self._entry(version, listing) for version in _versions(self.table, listing)}
        return [*self._known.values()]

    @property
    def newest(self) -> int:
        """The newest version that was read; -1: there is none."""
        return len(self._known) - 1

    def _forget_another(self) -> None:
        """A ledger that was started again: the file system may have given its entries the inodes of those before."""
        beginning = b""
        with suppress(OSError):
            beginning = entry_file(self.table, 0).read_bytes()  # with the table's id, which no other table has
        if beginning != self._beginning:
            self._known, self._beginning = {}, beginning

    def _entry(self, version: int, listing: _Listing) -> Entry:
        inode, known = listing.inodes.get(version, 0), self._known.get(version)
        if known is None or known.inode != inode or known.flaw:
            known = _read_entry(self.table, version, inode, listing.parts.get(version, ()))
        return known


def _read_entry(table: Path, version: int, inode: int, parts: Sequence[str]) -> Entry:
    try:
        with open(entry_file(table, version), "rb", buffering=0) as file:  # noqa: PTH123 - thousands: a Path is slow
            return _parse(file.read().decode(), version, inode, str(table))
    except (OSError, ValueError, LookupError, TypeError, DamagedLedgerError) as error:
        flaw = "is missing" if isinstance(error, FileNotFoundError) else "is not as it was written"
    if not version or len(parts) != 1:  # of several a damaged one may be the one that was committed
        return Entry(version, inode, flaw=flaw)
    rows = _rows_of(table / parts[0], version)
    if rows is None:
        return Entry(version, inode, flaw=flaw)
    return Entry(version, inode, tuple(rows), (parts[0], (table / parts[0]).stat().st_size), flaw=flaw)


def _parse(content: str, version: int, inode: int, where: str) -> Entry:
    """The entry. Raises ValueError, LookupError, TypeError or DamagedLedgerError if it is not as it was written."""
    first, _, rest = content.partition("\n")
    provenance, fits = without_seal(first.removeprefix(_SEALED).removesuffix(_SEALED_END), beside=rest)
    actions = [from_json(line) for line in filter(None, (rest if fits else content).split("\n"))]
    if not fits:
        if not actions or _ROWS in content or _TRANSACTION in content:
            raise ValueError("it has no seal")
        removed = (action["remove"]["path"] for action in actions if "remove" in action)
        return Entry(version, inode, removed=tuple(removed))
    added = [action["add"] for action in actions if "add" in action]
    rows = as_rows([_with_keys(row) for row in from_json(from_json(provenance)[_ROWS])], where)
    if {row.sequence for row in rows} - {version}:
        raise ValueError(f"these are not the rows of version {version}")
    return Entry(version, inode, tuple(rows), (added[0]["path"], added[0]["size"]) if added else None)


def _with_keys(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its binary columns, which are hex in the log."""
    return row | {name: bytes.fromhex(row[name]) for name in _BINARY if row[name] is not None}


def columns() -> pa.Schema:
    """The columns of the table. Whoever only reads the ledger needs neither pyarrow nor deltalake."""
    import pyarrow as pa

    return pa.schema(
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


def write_part(table: Path, version: int, rows: Sequence[Row]) -> Path:
    """Write a new data file, which is not synced. Writers of one version do not disturb each other."""
    file = table / f"part-{version:020d}-{uuid.uuid4()}.snappy.parquet"
    _render(rows, file)
    return file


def _render(rows: Sequence[Row], file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = [row.model_dump(mode="python") | {"step": str(row.step)} for row in rows]
    with file.open("wb") as stream:  # an error of pyarrow would not say which file is gone
        pq.write_table(pa.Table.from_pylist(content, schema=columns()), stream, write_page_checksum=True)


def as_entry(version: int, rows: Sequence[Row], part: Path | None) -> bytes:
    """The content of an entry; `part`: the data file that renders its rows."""
    now = int(time.time() * 1000)
    actions = table_actions(columns(), "stateferry ledger", SETTINGS) if version == 0 else []
    if part is not None:
        added = {"path": part.name, "partitionValues": {}, "size": part.stat().st_size}
        actions.append({"add": {**added, "modificationTime": now, "dataChange": True}})
    rest = "\n".join(map(json.dumps, [*actions, {"txn": {"appId": _APPLICATION, "version": version}}]))
    operation = "WRITE" if version else "CREATE TABLE"
    logged = json.dumps([row.model_dump(mode="json") for row in rows])
    provenance = {"timestamp": now, "operation": operation, _ROWS: logged}
    return f"{_SEALED}{with_seal(json.dumps(provenance), beside=rest)}{_SEALED_END}\n{rest}".encode()


def table_actions(
    schema: pa.Schema, name: str, settings: dict[str, str], partition_by: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """What makes a table, as delta-rs writes it: its protocol and its metadata."""
    from deltalake import DeltaTable, Schema

    with tempfile.TemporaryDirectory(prefix="stateferry-") as folder:
        table, made = Path(folder), Schema.from_arrow(schema)
        DeltaTable.create(delta_uri(table), made, name=name, configuration=settings, partition_by=[*partition_by])
        actions = map(json.loads, entry_file(table, 0).read_bytes().splitlines())
        return [action for action in actions if {*action} & {"protocol", "metaData"}]


def rows_in_file(file: Path) -> list[dict[str, Any]]:
    """The rows of a data file. Raises OSError, and LookupError, ValueError and pyarrow's errors for a damaged file.

    A flipped bit of its footer, which has no checksum, can turn a column of text into one of bytes.

    delta-rs's own way to pyarrow ended one process in ten with an abort at exit: its threads outlive the interpreter.
    """
    import pyarrow.parquet as pq

    content = pq.ParquetFile(file, page_checksum_verification=True).read(use_threads=False)
    if content.select(columns().names).schema != columns():
        raise ValueError(f"{file} has columns of other types")
    return list(content.to_pylist())


def _rows_of(file: Path, version: int) -> list[Row] | None:
    import pyarrow as pa

    try:
        rows = as_rows(rows_in_file(file), str(file))
    except (DamagedLedgerError, pa.ArrowException, OSError, ValueError, LookupError, TypeError):
        return None
    return rows if {row.sequence for row in rows} == {version} else None


def repair(log: LedgerLog) -> tuple[Path, ...]:
    """Write again what is damaged, and return these files, which are set aside beside the ledger.

    Of data files the sizes are compared, and the newest are read: only they can be torn. A row that is lost in both
    its copies is restored by other means: that of a chunk from its receipt, that of any other step from what the step
    left on disk. Repeating it, after a crash too, does what is left. Raises RefusedError for a newer schema or a gap.
    """
    table, entries = log.table, log.entries()
    if not entries:
        return ()
    with os.scandir(table) as listed:
        sizes = {file.name: file.stat().st_size for file in listed}
    elsewhere = {name for entry in entries for name in entry.removed}

    def is_rendered(entry: Entry) -> bool:
        if entry.part is None or entry.part[0] in elsewhere:
            return True
        name, size = entry.part
        is_old = entry.version < len(entries) - _UNSYNCED
        return sizes.get(name) == size and (is_old or _rows_of(table / name, entry.version) == [*entry.rows])

    damaged = [entry for entry in entries if entry.flaw or not is_rendered(entry)]
    if not damaged:
        return ()
    make_directories(log_directory(table))
    _remove_checkpoints(table)  # before the entries: they may name what is lost
    aside = table.with_name(LEDGER_DAMAGED)
    make_directories(aside)
    lost = tuple(_write_again(table, entry, aside) for entry in damaged)
    for folder in (aside, table, log_directory(table)):
        fsync_directory(folder)
    return lost


def _write_again(table: Path, entry: Entry, aside: Path) -> Path:
    """Write an entry, or a data file and then its entry, again; returns the file that was damaged."""
    file = entry_file(table, entry.version)
    part = None if entry.part is None else table / entry.part[0]
    if file.exists():
        shutil.copy2(file, aside / file.name)
    if part is not None and not entry.flaw:
        if part.exists():
            part.rename(aside / part.name)
        _render(entry.rows, part)
        fsync_file(part)
    write_durably(file, as_entry(entry.version, entry.rows, part))
    return file if entry.flaw or part is None else part


def _remove_checkpoints(table: Path) -> None:
    """Remove Delta's checkpoints of the log, which it can make again: the log entries are all kept."""
    log = log_directory(table)
    for checkpoint in (*log.glob("*.checkpoint*.parquet"), *log.glob("_last_checkpoint")):
        checkpoint.unlink()
    fsync_directory(log)
