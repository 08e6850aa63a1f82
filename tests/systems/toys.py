"""Toy systems, complete as they stand here, and what their stores hold.

A system of the product is the same: formats in `formats/<system>/`, a module in `migrate/systems/`, and a line in each
of the two registries. The toy keeps its changelog offset under a key among the records, and an index in a column family
of its own.

    <application>/
      toy.properties
      tables/<store>-<partition>.db/       a RocksDB directory
        default   __toy__offset -> the changelog offset of the last record applied, in ASCII; other keys are records
        index     the system's own
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from formats import Format, StateRecord, get_format
from migrate import (
    RefusedError,
)
from migrate.model.store_partition import ChangelogOffsets, StorePartition
from migrate.stores.regular_files import Folder
from migrate.stores.rocksdb.database import open_read_only
from migrate.systems import StoreDirectory, System
from migrate.systems.base import Archives, ChangelogNames, Discovery, StoredOffsets, StoreLayout
from tests.support import TIMESTAMPED, numbered

OFFSET_KEY = b"__toy__offset"
_DATABASE = re.compile(r"(.+)-(\d+)\.db")

PLAIN = Format(
    id="toy.plain",
    summary="toy: key -> value",
    column_families=("default",),
    metadata_families=("index",),
    metadata_keys=(b"__toy__",),
    position_keys=(OFFSET_KEY,),
    has_changelog=True,
)
BARE = replace(PLAIN, id="toy.bare", metadata_families=(), metadata_keys=(), position_keys=())
STAMPED = replace(PLAIN, id="toy.stamped", value_layout=get_format(TIMESTAMPED).value_layout)
LOGGED = replace(STAMPED, id="toy.logged", changelog_layout=STAMPED.value_layout)
MOVING = replace(PLAIN, id="moving.plain")
NEXT = replace(PLAIN, id="next.plain", metadata_families=("position",), position_keys=(b"next",))
PACKED = replace(BARE, id="packed.plain", metadata_families=("index",), metadata_keys=(b"__toy__",))
PACKED_STAMPED = replace(PACKED, id="packed.stamped", value_layout=STAMPED.value_layout)


class _Layout(StoreLayout):
    """`[source] path` is the application's directory."""

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        """Raises RefusedError where one is not there."""
        found = [each for each in _Discovery().store_directories(path) if each.store in stores]
        if missing := {*stores} - {each.store for each in found}:
            raise RefusedError(f"no store {min(missing)!r} in {path}", hint="check [source] store")
        return [
            StorePartition(id=each.path.name, store=each.store, task=each.task, path=each.path.relative_to(path))
            for each in sorted(found, key=lambda each: stores.index(each.store))
        ]

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """RocksDB's own."""
        return [folder / "LOCK" for each in partitions for folder in each.directories(path).values()]

    def number(self, partition: StorePartition) -> int:
        """A task for each partition."""
        return int(partition.task)


class _MovingLayout(_Layout):
    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        """As in every toy."""
        return Path(f"tables/{store}-{task}.db")

    def task_numbers(self, task: str) -> tuple[int, int]:
        """There are no subtopologies."""
        return 0, int(task)

    def task_name(self, numbers: tuple[int, int]) -> str:
        """The partition."""
        return str(numbers[1])


class _PackedLayout(_Layout):
    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        """None is missing."""
        return [
            StorePartition(id=file.name[:-4], store=store, task=file.name[-8], path=Path("tables", file.name[:-4]))
            for store in stores
            for file in sorted((path / "tables").glob(f"{store}-?.db.zip"))
        ]

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        """Nothing is locked."""
        return []


class _Names(ChangelogNames):
    def topic(self, application: str, partition: StorePartition) -> str:
        """Named the other way round."""
        return f"changelog-{application}-{partition.store}"


class _Offsets(StoredOffsets):
    def read(self, path: Path, partition: StorePartition) -> ChangelogOffsets:
        """Under a key of the store."""
        with open_read_only(path / partition.path) as database:
            offset = database.get("default", OFFSET_KEY)
        line = (_Names().topic(path.name, partition), int(partition.task), int(offset or -1))
        return ChangelogOffsets(lines=() if offset is None else (line,))

    def entries(self, partition: StorePartition, positions: ChangelogOffsets) -> dict[str, dict[bytes, bytes]]:
        """The same."""
        return {"default": {OFFSET_KEY: b"%d" % positions.lines[0][2]}} if positions.lines else {}


class _NextOffsets(_Offsets):
    ahead = 1

    def entries(self, partition: StorePartition, positions: ChangelogOffsets) -> dict[str, dict[bytes, bytes]]:
        """One key."""
        return {"position": {b"next": b"%d" % positions.lines[0][2]}} if positions.lines else {}


class _Discovery(Discovery):
    def recognises(self, folder: Folder) -> bool:
        """By its file."""
        return "toy.properties" in folder.files

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        """One for each partition of a store."""
        for folder in sorted((path / "tables").iterdir()):
            if match := _DATABASE.fullmatch(folder.name):
                yield StoreDirectory(match[2], match[1], folder)

    def foreign_entries(self, path: Path) -> Iterator[str]:
        """What `inspect` cannot read."""
        for file in sorted((path / "tables").glob("*.zip")):
            yield f"{file} is an archive: `stateferry plan` reads it"


class _Archives(Archives):
    def of(self, path: Path, partition: StorePartition) -> Path | None:
        """Beside where the directory would be."""
        return (path / partition.path).with_suffix(".db.zip")

    def unpack(self, archive: Path, partition: StorePartition, folder: Path) -> None:
        """All of it."""
        shutil.unpack_archive(archive, folder)


_PARTS: dict[str, Any] = {"changelog": _Names(), "discovery": _Discovery()}
TOY = System("toy", "Toy", _Layout(), _Offsets(), **_PARTS)
MOVING_TOY = System("moving", "Toy", _MovingLayout(), _Offsets(), **_PARTS)
"""Its stores move to other systems."""
NEXT_TOY = System("next", "Toy", _MovingLayout(), _NextOffsets(), **_PARTS)
"""It keeps the offset of the next record, in a column family of its own."""
PACKED_TOY = System("packed", "Toy", _PackedLayout(), archives=_Archives(), **_PARTS)
"""A store is a zip of a RocksDB directory; its offset is not known without unpacking."""

RECORDS = numbered(500) | {b"zebra": b"striped", b"ABC": b"def"}
INDEX = numbered(3000, seed=1) | {b"by-size": b"\x01\x02"}
ENDS = {"changelog-toy-app-counts-0": 42, "changelog-toy-app-counts-1": 43}


def expected(partition: int) -> dict[str, dict[bytes, bytes]]:
    """A new store: records are converted, what is the system's own is as it was."""
    new = {key: STAMPED.encode(StateRecord(key, value, -1))[1] for key, value in RECORDS.items()}
    own = {OFFSET_KEY: b"%d" % (41 + partition), b"__toy__made": b"today"}
    return {"default": dict(sorted((new | own).items())), "index": INDEX}
