"""Faust: `<datadir>/v<version>`, the version being that of the application.

    v1/
      tables/
        <table>-<partition>.db/     a RocksDB directory
        <table>-backups/            of python-rocksdb; empty with rocksdict

Each RocksDB directory states its changelog offset itself, under a key of Faust's (`formats.faust`). Nothing names the
application's id, which topics and the consumer group are named by: `<name>`, and from version 2 on `<name>-v<version>`
unless `id_format` says otherwise. `datadir` is `<name>-data` by default. No file is locked while an application runs,
but for RocksDB's own LOCK in each of its directories.

Source: faust.stores.rocksdb.Store, faust.types.settings.Settings, faust.tables.recovery.Recovery.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from formats.faust import OFFSET_KEY
from formats.unsupported import UnsupportedKind
from migrate.stores.regular_files import Folder
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, Database, open_read_only
from migrate.stores.rocksdb.options_file import newest_options
from migrate.systems.base import ChangelogNames, Discovery, StoreDirectory, System
from migrate.systems.flat import FlatStores, OffsetInside

_TABLES = "tables"
_TABLE = re.compile(r"(.+)-(\d+)\.db")
_VERSION = re.compile(r"v(\d+)")
_FIRST_ROCKSDICT = 8
"""The RocksDB of the oldest rocksdict that Faust takes; python-rocksdb has 6.14."""
_SAMPLED = 100
WINDOWED = UnsupportedKind(
    name="a windowed table of Faust",
    recognized_by="keys of JSON, [key, [start, end]], all of windows of one size",
    reason="its windows are in the keys, as decimal fractions of seconds",
    instead="let it run out: give the new version a table of another name, and remove this one when it has expired",
)
WITH_TTL = UnsupportedKind(
    name="a table of Faust with a ttl",
    recognized_by=f"four bytes behind the digits under the key {OFFSET_KEY!r}",
    reason="RocksDB keeps the time of writing behind each value, and the changelog does not",
    instead="declare the table without options={'ttl': ...} under another name in the old application first",
)
OF_PYTHON_ROCKSDB = UnsupportedKind(
    name="a table that python-rocksdb wrote",
    recognized_by="the version of RocksDB in its OPTIONS file, before 8",
    reason="its driver has not been seen to open new stores",
    instead="start and stop the old application once with options={'driver': 'rocksdict'}, which upgrades its files",
)
"""Only the content of a RocksDB directory shows these kinds."""


class _FaustDiscovery(Discovery):
    def recognises(self, folder: Folder) -> bool:
        return _TABLES in folder.folders and any(map(_TABLE.fullmatch, folder.inside(_TABLES).folders))

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        tables = Folder(path / _TABLES)
        found = (match for name in tables.folders if (match := _TABLE.fullmatch(name)))
        for match in sorted(found, key=lambda match: (int(match[2]), match[1])):
            yield StoreDirectory(match[2], match[1], tables.path / match[0])

    def is_part(self, relative: Path) -> bool:
        return relative.parts[:1] in ((), (_TABLES,))

    def describe_part(self, relative: Path) -> str:
        match = _TABLE.fullmatch(relative.name)
        return f"partition {match[2]} of the table {match[1]}" if match is not None else "the directory of its tables"

    def kind_within(self, directory: Path) -> UnsupportedKind | None:
        major = (newest_options(directory).rocksdb_version or "").partition(".")[0]
        if major.isdecimal() and int(major) < _FIRST_ROCKSDICT:
            return OF_PYTHON_ROCKSDB
        with open_read_only(directory) as database:
            offset = database.get(DEFAULT_FAMILY, OFFSET_KEY)
            if offset is not None and offset[:-4].isdigit() and not offset.isdigit():
                return WITH_TTL
            return WINDOWED if _is_windowed(database) else None


def _is_windowed(database: Database) -> bool:
    """Whether the first keys are all of windows, which have one size in a table."""
    keys = (key for batch in database.batches(DEFAULT_FAMILY) for key in batch.keys if key != OFFSET_KEY)
    sizes = {_window_size(key) for key in islice(keys, _SAMPLED)}
    return len(sizes) == 1 and None not in sizes


def _window_size(key: bytes) -> float | None:
    """The size of a window in seconds, whose end is a tenth before the next one's start; None: the key has none."""
    with suppress(ValueError, TypeError):
        _, (start, end) = json.loads(key)
        if type(start) is type(end) is float and 0 <= start <= end:
            return round(end - start + 0.1, 6)
    return None


class _FaustTables(FlatStores):
    """A task is a partition's number."""

    discovery = _FaustDiscovery()
    path_hint = "let [source] path name the directory of the application's version, <datadir>/v<version>"
    folder = _TABLES
    called = "table"
    lack = f"holds no directory {_TABLES!r} with tables of Faust"

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        return Path(_TABLES, f"{store}-{task}.db")


class _FaustNames(ChangelogNames):
    def application_id(self, path: Path) -> str | None:
        """By a directory with Faust's own name for it: `<name>-data/v<version>`."""
        name, version = path.parent.name.removesuffix("-data"), _VERSION.fullmatch(path.name)
        if version is None or not name or name == path.parent.name:
            return None
        return name if int(version[1]) <= 1 else f"{name}-{path.name}"


class _FaustOffsets(OffsetInside):
    waits_for_record = True
    names = _FaustNames()
    family = DEFAULT_FAMILY
    key = OFFSET_KEY

    def decoded(self, value: bytes) -> int | None:
        return int(value) if value.isdigit() else None

    def encoded(self, offset: int) -> bytes:
        return b"%d" % offset


FAUST = System(
    name="faust",
    title="Faust",
    layout=_FaustTables(),
    offsets=_FaustOffsets(),
    changelog=_FaustOffsets.names,
    discovery=_FaustTables.discovery,
    partitioners=(),  # the key of a message decides, and that of the table may have other bytes
    unsupported=(WINDOWED, WITH_TTL, OF_PYTHON_ROCKSDB),
)
