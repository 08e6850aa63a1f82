"""Three toy systems, complete as they stand here, and what their stores hold.

A system of the product is the same: formats in `formats/`, a module in `migrate/systems/`, and their lines in the two
registries. They look like Faust, Quix Streams and checkpoints of Spark:

    tables        <application>/tables/<store>-<partition>.db/     a RocksDB directory
                    default   __toy__offset -> the offset of the last record applied, in ASCII; other keys are records
                    index     the system's own
    states        <group>/<store>/<stream>/<partition>/            a RocksDB directory
                    default, totals   records; both are in one topic, with a header that names the family, and one that
                                      all records have
                    __metadata__      __changelog_offset__ -> the offset of the last record applied, 64-bit big-endian
    checkpoints   <checkpoint>/commits/<batch>                     its state has the version of the batch + 1
                  <checkpoint>/state/<store>/schema                an absolute path
                  <checkpoint>/state/<store>/<partition>/<version>.zip    of a RocksDB directory; the newest counts
"""

import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from formats import Format, StateRecord, get_format
from migrate import RefusedError
from migrate.model.store_partition import ChangelogOffsets, StorePartition
from migrate.stores.regular_files import Folder
from migrate.stores.rocksdb.database import open_read_only
from migrate.systems import StoreDirectory, System
from migrate.systems.base import Archives, ChangelogNames, Discovery, StoredOffsets, StoreLayout
from tests.support import TIMESTAMPED, numbered

OFFSET_KEY = b"__toy__offset"
METADATA, CHANGELOG_OFFSET = "__metadata__", b"__changelog_offset__"
FAMILY_HEADER = "__column_family__"
STAMPED_HEADER = ("__stamped__", b"\x01")
_TABLE = re.compile(r"(.+)-(\d+)\.db")

PLAIN = Format(
    id="tables.plain",
    summary="toy: key -> value",
    column_families=("default",),
    metadata_families=("index",),
    metadata_keys=(b"__toy__",),
    position_keys=(OFFSET_KEY,),
    has_changelog=True,
)
BARE = replace(PLAIN, id="tables.bare", metadata_families=(), metadata_keys=(), position_keys=())
STAMPED = replace(PLAIN, id="tables.stamped", value_layout=get_format(TIMESTAMPED).value_layout)
LOGGED = replace(STAMPED, id="tables.logged", changelog_layout=STAMPED.value_layout)
STATE = Format(
    id="states.plain",
    summary="toy: key -> value, in two families",
    column_families=("default", "totals"),
    metadata_families=(METADATA,),
    position_keys=(CHANGELOG_OFFSET,),
    has_changelog=True,
    family_header=FAMILY_HEADER,
    constant_headers=(STAMPED_HEADER,),
)
NEXT = replace(STATE, id="states.one", column_families=("default",), family_header=None, constant_headers=())
"""Of one family, as a table has it."""
PACKED = Format(id="checkpoints.plain", summary="toy: key -> value", column_families=("default",))
PACKED_STAMPED = replace(PACKED, id="checkpoints.stamped", value_layout=STAMPED.value_layout)
TOY_FORMATS = (PLAIN, BARE, STAMPED, LOGGED, STATE, NEXT, PACKED, PACKED_STAMPED)


class _Directories(StoreLayout):
    """Stores that discovery finds."""

    discovery: Discovery

    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        """Raises RefusedError where one is not there."""
        found = [each for each in self.discovery.store_directories(path) if each.store in stores]
        if missing := {*stores} - {each.store for each in found}:
            raise RefusedError(f"no store {min(missing)!r} in {path}", hint="check [source] store")
        return [
            StorePartition(
                id=f"{each.task}/{each.store}", store=each.store, task=each.task, path=each.path.relative_to(path)
            )
            for each in sorted(found, key=lambda each: stores.index(each.store))
        ]

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        return [folder / "LOCK" for each in partitions for folder in each.directories(path).values()]

    def number(self, partition: StorePartition) -> int:
        """Behind the name of the stream, if there is one."""
        return int(Path(partition.task).name)


# Tables


class _TableDiscovery(Discovery):
    def recognises(self, folder: Folder) -> bool:
        return "toy.properties" in folder.files

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        for folder in sorted((path / "tables").iterdir()):
            if match := _TABLE.fullmatch(folder.name):
                yield StoreDirectory(match[2], match[1], folder)


class _Tables(_Directories):
    discovery = _TableDiscovery()

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        return Path(f"tables/{store}-{task}.db")

    def task_numbers(self, task: str) -> tuple[int, int]:
        """There are no subtopologies."""
        return 0, int(task)


class _TableOffsets(StoredOffsets):
    waits_for_record = True

    def within(self, application: str, partition: StorePartition, directories: Iterable[Path]) -> ChangelogOffsets:
        with open_read_only(next(iter(directories))) as database:
            offset = database.get("default", OFFSET_KEY)
        line = (TABLES.changelog.topic(application, partition), int(partition.task), int(offset or -1))
        return ChangelogOffsets(lines=() if offset is None else (line,))

    def entries(self, partition: StorePartition, positions: ChangelogOffsets) -> dict[str, dict[bytes, bytes]]:
        return {"default": {OFFSET_KEY: b"%d" % positions.lines[0][2]}} if positions.lines else {}


TABLES = System(
    name="tables",
    title="Tables",
    layout=_Tables(),
    offsets=_TableOffsets(),
    discovery=_Tables.discovery,
)


# States


class _StateDiscovery(Discovery):
    def recognises(self, folder: Folder) -> bool:
        return "toy.states" in folder.files

    def store_directories(self, path: Path) -> Iterator[StoreDirectory]:
        """Four levels, the group's name among them."""
        for folder in sorted(path.glob("*/*/*")):
            if folder.name.isdecimal():
                yield StoreDirectory(f"{folder.parent.name}/{folder.name}", folder.parent.parent.name, folder)


class _States(_Directories):
    discovery = _StateDiscovery()

    def sibling(self, partition: StorePartition, number: int) -> str:
        return f"{Path(partition.task).parent}/{number}"

    def place(self, task: str, store: str, *, is_segmented: bool) -> Path:
        return Path(store, task)

    def task_name(self, numbers: tuple[int, int]) -> str:
        return f"stream{numbers[0]}/{numbers[1]}"


class _StateNames(ChangelogNames):
    def topic(self, application: str, partition: StorePartition) -> str:
        return f"changelog__{application}--{Path(partition.task).parent}--{partition.store}"

    def is_own(self, topic: str, partition: StorePartition) -> bool:
        """Whatever the group's name is."""
        return topic.endswith(self.topic("", partition).removeprefix("changelog__"))

    def renamed(self, topic: str, partition: StorePartition, store: str) -> str:
        return f"{topic.removesuffix(partition.store)}{store}"

    def store(self, application: str, topic: str) -> str | None:
        is_one = topic.startswith(f"changelog__{application}--")
        return topic.rpartition("--")[2] if is_one else None


class _StateOffsets(StoredOffsets):
    def within(self, application: str, partition: StorePartition, directories: Iterable[Path]) -> ChangelogOffsets:
        with open_read_only(next(iter(directories))) as database:
            offset = database.get(METADATA, CHANGELOG_OFFSET)
        if offset is None:
            return ChangelogOffsets()
        topic = STATES.changelog.topic(application, partition)
        return ChangelogOffsets(lines=((topic, int(Path(partition.task).name), int.from_bytes(offset, "big")),))

    def entries(self, partition: StorePartition, positions: ChangelogOffsets) -> dict[str, dict[bytes, bytes]]:
        if not positions.lines or positions.lines[0][2] < 0:
            return {}
        return {METADATA: {CHANGELOG_OFFSET: positions.lines[0][2].to_bytes(8, "big")}}


STATES = System(
    name="states",
    title="States",
    layout=_States(),
    offsets=_StateOffsets(),
    changelog=_StateNames(),
    discovery=_States.discovery,
)


# Checkpoints


class _Checkpoint(StoreLayout):
    def find(self, path: Path, stores: Sequence[str], *, is_segmented: bool) -> list[StorePartition]:
        return [
            StorePartition(id=f"{folder.name}/{store}", store=store, task=folder.name, path=folder.relative_to(path))
            for store in stores
            for folder in sorted((path / "state" / store).iterdir())
            if folder.is_dir()
        ]

    def lock_files(self, path: Path, partitions: Sequence[StorePartition]) -> list[Path]:
        return []

    def complete(self, folder: Path, path: Path, partitions: Sequence[StorePartition], known: Format) -> Iterable[Path]:
        """Schemas are named by absolute paths, and formats by their ids."""
        (folder / "toy.checkpoint").write_text(known.id, encoding="utf-8")
        files = [folder / f"state/{store}/schema" for store in {each.store for each in partitions}]
        for file in files:
            file.write_text(str(path / file.relative_to(folder)), encoding="utf-8")
        return [folder / "toy.checkpoint", *files]


class _CheckpointDiscovery(Discovery):
    def recognises(self, folder: Folder) -> bool:
        return "toy.checkpoint" in folder.files

    def foreign_entries(self, path: Path) -> Iterator[str]:
        """What `inspect` cannot read."""
        for file in sorted(path.rglob("*.zip")):
            yield f"{file} is an archive: `stateferry plan` reads it"


class _Zips(Archives):
    def of(self, path: Path, partition: StorePartition) -> Path:
        return path / partition.path / f"{version_of(path)}.zip"

    def unpack(self, archive: Path, partition: StorePartition, folder: Path) -> None:
        shutil.unpack_archive(archive, folder)

    def pack(self, folder: Path, partition: StorePartition, application: Path, known: Format) -> bool:
        (application / partition.path).mkdir(parents=True)
        with zipfile.ZipFile(self.of(application, partition), "w") as archive:
            for file in sorted(folder.iterdir()):
                archive.write(file, file.name)
        return True


def version_of(checkpoint: Path) -> int:
    """The version of the state after the last batch that was committed."""
    return max(int(file.name) for file in (checkpoint / "commits").iterdir()) + 1


CHECKPOINTS = System(
    name="checkpoints",
    title="Checkpoints",
    layout=_Checkpoint(),
    archives=_Zips(),
    discovery=_CheckpointDiscovery(),
    partitioners=(),
)
TOYS = (TABLES, STATES, CHECKPOINTS)

RECORDS = numbered(500) | {b"zebra": b"striped", b"ABC": b"def"}
INDEX = numbered(3000, seed=1) | {b"by-size": b"\x01\x02"}
ENDS = {"toy-app-counts-changelog-0": 42, "toy-app-counts-changelog-1": 43}


def stamped() -> dict[bytes, bytes]:
    """The records as a store of the new format has them."""
    return {key: STAMPED.encode(StateRecord(key, value, -1))[1] for key, value in sorted(RECORDS.items())}


def expected(partition: int) -> dict[str, dict[bytes, bytes]]:
    """A new table: records are converted, what is the system's own is as it was."""
    own = {OFFSET_KEY: b"%d" % (41 + partition), b"__toy__made": b"today"}
    return {"default": dict(sorted((stamped() | own).items())), "index": INDEX}
