"""The Delta log of an export: what its entries record, and how a new version becomes visible at once.

| entry    | actions                                                                              |
|----------|--------------------------------------------------------------------------------------|
| first    | protocol and metadata: a table without rows                                          |
| ranges   | a transaction `stateferry-export/<range>` for each; their files are in `commitInfo`  |
| version  | removes all files, adds those of the ranges; the transaction `stateferry-export`     |

Readers see the version before until the last entry is there. Each entry is synced before it has its name, and none
replaces another. The version of each transaction is the number of the export.

Source: the Delta protocol, "Delta Log Entries", "Add File and Remove File", "Transaction Identifiers".
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from migrate.batch.ledger.delta_log import entry_file, log_directory, table_actions
from migrate.errors import FencedError, RefusedError
from migrate.model.display import listed
from migrate.model.exports import ExportedRange
from migrate.model.packages import VERSION
from migrate.stores.files import check_has_links, delta_uri, fsync_file, make_directories, write_new

if TYPE_CHECKING:
    import pyarrow as pa

PARTITION_COLUMN = "task"
_APPLICATION = "stateferry-export"
_OWN = "stateferry.export"
"""The member of `commitInfo` that marks an entry as ours."""
_SETTINGS = {"delta.enableExpiredLogCleanup": "false"}
_ENTRY = re.compile(r"(\d{20})\.json")
_ELSEWHERE = "export into another directory"


@dataclass(slots=True)
class _Contents:
    """What the log's entries add up to."""

    version: int = -1
    place: str = ""
    export: int = 0
    """The number of the newest export that is complete."""
    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The files of the newest version, by path."""
    paths: set[str] = field(default_factory=set)
    """The files of all versions, as the file system names them."""
    finished: dict[str, ExportedRange] = field(default_factory=dict)
    """The ranges of an export that is not complete, by name."""

    def take(self, version: int, actions: Sequence[dict[str, Any]], entry: Path) -> None:
        """Add the next entry. Raises RefusedError where another program has changed the table."""
        own = next((action["commitInfo"].get(_OWN) for action in actions if "commitInfo" in action), None)
        if own is None and self.place and any(map(_changes_table, actions)):
            raise RefusedError(
                f"another program has written version {version} of the table ({entry}): an export would undo that",
                hint=_ELSEWHERE,
            )
        self.version = version
        for action in actions:
            self._take(action)
        if own is None:
            return
        self.place = own.get("place", self.place)
        if "export" in own:
            self.export, self.finished = own["export"], {}
        self.finished |= {each["name"]: ExportedRange(**each) for each in own.get("ranges", ())}

    def _take(self, action: dict[str, Any]) -> None:
        if (added := action.get("add")) is not None:
            self.files[added["path"]] = added
            self.paths.add(unquote(added["path"]))
        elif (removed := action.get("remove")) is not None:
            self.files.pop(removed["path"], None)
        self.protocol = action.get("protocol", self.protocol)
        self.metadata = action.get("metaData", self.metadata)


def _changes_table(action: dict[str, Any]) -> bool:
    """Whether the table has other rows or columns afterwards: compaction and the removal of old files leave them."""
    changed = [action.get(name) for name in ("add", "remove")]
    return bool({"metaData", "protocol"} & {*action}) or any(each and each.get("dataChange", True) for each in changed)


class ExportLog:
    """The log of one table, opened by one export."""

    def __init__(self, table: Path, place: str, made_of: list[dict[str, Any]], tasks: Collection[str] = ()) -> None:
        """`place`: what is exported, as the table records it; `made_of`: as `table_of` gives it for the new version;
        `tasks`: of the new version.

        Makes the table where there is none. Raises RefusedError for the table of another store, another host or another
        program, and for one whose log cannot be read.
        """
        self._table, self._place = table, place
        self._contents = _read(table)
        if self._contents.version >= 0:
            self._check_place()
            self._check_tasks(tasks)
        self._actions = made_of
        make_directories(log_directory(table))
        check_has_links(log_directory(table))
        if self._contents.version < 0:
            self._commit("CREATE TABLE", {"place": place}, self._actions)
            self._contents = _read(table)
        for path in (entry_file(table, self._contents.version), log_directory(table)):
            fsync_file(path)  # the export that wrote it may have been killed before it was durable

    def _check_place(self) -> None:
        found = self._contents.place
        if found != self._place:
            other = f"the export of another store: {found}" if found else "a Delta table that no export has made"
            raise RefusedError(f"{self._table} is {other}", hint=_ELSEWHERE)

    def _check_tasks(self, here: Collection[str]) -> None:
        """Raises RefusedError where the table has rows of other tasks alone, which the new version would remove."""
        there = {each["partitionValues"][PARTITION_COLUMN] or "" for each in self._contents.files.values()}
        if there and here and there.isdisjoint(here):
            raise RefusedError(
                f"{self._table} has rows of the tasks {listed(sorted(there), 4)}, and of none of the tasks here, which "
                f"are {listed(sorted(here), 4)}: does another host export into it?",
                hint=f"{_ELSEWHERE}: each host needs its own",
            )

    @property
    def number(self) -> int:
        """The number of this export."""
        return self._contents.export + 1

    def finished(self) -> dict[str, ExportedRange]:
        """The ranges that an interrupted export has left, with their files as they were written, by name."""
        found = self._contents.finished
        return {name: each for name, each in found.items() if not each.path or self._size(each.path) == each.size}

    def unknown_files(self, pattern: re.Pattern[str], kept: Iterable[ExportedRange]) -> Iterator[Path]:
        """The files of this pattern that belong to no version, nor to the ranges that are kept."""
        known = self._contents.paths | {each.path for each in kept}
        for path in self._table.glob(f"{PARTITION_COLUMN}=*/*"):
            if pattern.fullmatch(path.name) and str(path.relative_to(self._table)) not in known:
                yield path

    def keep(self, *ranges: ExportedRange) -> None:
        """Record ranges whose files are durable. Raises FencedError if another program has committed meanwhile."""
        transactions = [self._transaction(f"{_APPLICATION}/{each.name}") for each in ranges]
        self._commit("EXPORT RANGES", {"ranges": [each.model_dump(mode="json") for each in ranges]}, transactions)

    def publish(self, ranges: Sequence[ExportedRange]) -> int:
        """Replace the rows by those of these ranges, in one new version, whose number is returned.

        Raises FencedError as `keep`, RefusedError where a file is gone.
        """
        lost = [each.path for each in ranges if each.path and self._size(each.path) != each.size]
        if lost:
            raise RefusedError(
                f"{self._table / lost[0]} is not as it was written, with {len(lost) - 1} more",
                hint="let nothing remove files from the table while it is exported; run the same command again",
            )
        removed = [{"remove": _removed(each)} for each in self._contents.files.values()]
        added = [{"add": self._added(each)} for each in ranges if each.path]
        done = self._transaction(_APPLICATION)
        own = {"place": self._place, "export": self.number}
        self._commit("WRITE", own, [*self._new_columns(), *removed, *added, done])
        return self._contents.version

    def _new_columns(self) -> Iterator[dict[str, Any]]:
        """The actions that give the table its new columns, if it had others."""
        found = self._contents
        for action in self._actions:
            if (protocol := action.get("protocol")) is not None:
                if protocol["minReaderVersion"] > found.protocol["minReaderVersion"]:
                    yield action
            elif (metadata := action["metaData"])["schemaString"] != found.metadata["schemaString"]:
                yield {"metaData": {**metadata, **{name: found.metadata[name] for name in ("id", "createdTime")}}}

    def _added(self, each: ExportedRange) -> dict[str, Any]:
        return {
            "path": quote(each.path, safe="/="),
            "partitionValues": {PARTITION_COLUMN: each.task or None},
            "size": each.size,
            "modificationTime": _now(),
            "dataChange": True,
            "stats": json.dumps({"numRecords": each.records}),
        }

    def _transaction(self, name: str) -> dict[str, Any]:
        return {"txn": {"appId": name, "version": self.number, "lastUpdated": _now()}}

    def _size(self, path: str) -> int:
        file = self._table / path
        return file.stat().st_size if file.is_file() else -1

    def _commit(self, operation: str, own: dict[str, Any], actions: Iterable[dict[str, Any]]) -> None:
        provenance = {"timestamp": _now(), "operation": operation, "engineInfo": f"stateferry-{VERSION}", _OWN: own}
        content = "\n".join(map(json.dumps, [{"commitInfo": provenance}, *actions]))
        version = self._contents.version + 1
        try:
            write_new(entry_file(self._table, version), content.encode())
        except FileExistsError as error:
            raise FencedError(
                f"another program has committed version {version} of {self._table} while it was exported",
                hint="run the same command again: the ranges that are finished are kept",
            ) from error
        self._contents.version = version


def table_of(schema: pa.Schema, store: str) -> list[dict[str, Any]]:
    """What makes a table with these columns. Raises RefusedError for a type that no table can have."""
    try:
        for field in schema:
            _check_type(field.type)
        return table_actions(schema, f"stateferry: {store}", _SETTINGS, [PARTITION_COLUMN])
    except Exception as error:  # delta-rs raises this very class too
        reason = str(error).strip().splitlines()[0]
        raise RefusedError(
            f"a Delta table cannot have these columns: {reason}",
            hint="choose others (--columns), or leave the serde out, so that the payload is binary",
        ) from error


def _check_type(kind: pa.DataType) -> None:
    """Raises ValueError for a type without values, such as Avro's null and a record without fields."""
    import pyarrow as pa

    parts = [kind.field(at).type for at in range(kind.num_fields)]
    if pa.types.is_null(kind) or (pa.types.is_struct(kind) and not parts):
        raise ValueError(f"the type {kind} has no values to store")
    for part in parts:
        _check_type(part)


def check_is_a_table(table: Path) -> None:
    """Raises RefusedError where the path is neither new, nor an empty directory, nor a Delta table."""
    delta_uri(table)
    if not table.exists() and not table.is_symlink():
        return
    if not table.is_dir():
        raise RefusedError(f"{table} is no directory", hint="name a directory for the table, or a new one")
    if not log_directory(table).is_dir() and any(table.iterdir()):
        raise RefusedError(f"{table} is not empty, and no Delta table", hint=_ELSEWHERE)


def _removed(file: dict[str, Any]) -> dict[str, Any]:
    taken = {name: file[name] for name in ("path", "partitionValues", "size")}
    return {**taken, "deletionTimestamp": _now(), "dataChange": True, "extendedFileMetadata": True}


def _now() -> int:
    return int(time.time() * 1000)


def _read(table: Path) -> _Contents:
    """What the log holds. Raises RefusedError for a log with a gap or an entry that cannot be read."""
    found = _Contents()
    names = sorted(entry.name for entry in log_directory(table).glob("*.json") if _ENTRY.fullmatch(entry.name))
    for version, name in enumerate(names):
        entry = log_directory(table) / name
        if entry != entry_file(table, version):
            raise RefusedError(f"the log of {table} lacks version {version}", hint=_ELSEWHERE)
        try:
            actions = [json.loads(line) for line in entry.read_bytes().splitlines()]
            found.take(version, actions, entry)
        except (ValueError, LookupError, TypeError) as error:
            raise RefusedError(f"{entry} cannot be read: {error}", hint=_ELSEWHERE) from error
    return found
