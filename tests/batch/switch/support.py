"""A verified migration over a real application, in one place that is restored for each test, and what stands where."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from migrate import Spec
from migrate.model.events import Event
from migrate.systems.checkpoint_file import format_checkpoint, read_checkpoint
from tests.support import (
    KEY_VALUE,
    RAW,
    TIMESTAMPED,
    UNKNOWN_TIMESTAMP,
    copy_fixture,
    fixture_records,
    make_spec,
    numbered,
    open_store,
    read_families,
    read_ledger,
    tree_state,
)

STORES = ("orders", "refunds")
TASKS = ("0_0", "0_1")
PARTITIONS = tuple(f"{task}/{store}" for store in STORES for task in TASKS)
"""In the order in which they are exchanged."""
FIRST = PARTITIONS[0]
FOREIGN_LINE = "payments-x-orders-log 7 99"
DATA = "keyValueWithTimestamp"
LATE = {b"late": b"x" * 20}
"""What the old application wrote after the snapshot."""
MOVED_ON_BY = 1000
"""How far every line and position went meanwhile."""
FROM_SNAPSHOT: dict[str, object] = {"run": {"source": "snapshot"}}
LEFT_FOR_GOOD = {"ledger", "plan-0001.json", "run.lock", "stateferry-folder.json"}
"""In the migration's folder, once it is finalized."""
Families = dict[str, dict[bytes, bytes]]


class StoppedError(Exception):
    """Raised by a listener."""


@dataclass(slots=True)
class StopAt:
    """Stops a verb when an event is sent for the `occurrence`-th time; calls `look` at each event before."""

    name: str = ""
    occurrence: int = 1
    look: Callable[[str], None] | None = None
    seen: Counter[str] = field(default_factory=Counter)

    def __call__(self, event: Event) -> None:
        self.seen[event.name] += 1
        if self.look is not None:
            self.look(event.name)
        if event.name == self.name and self.seen[event.name] == self.occurrence:
            raise StoppedError(event.name)


@dataclass(frozen=True, slots=True)
class Application:
    """An application's directory, the spec of its migration, and what was where before."""

    base: Path
    path: Path
    spec: Spec
    went_on: bool = False
    """Whether `go_on` was called for it."""

    def live(self, partition: str) -> Path:
        """Where the application looks for a store partition."""
        task, _, store = partition.partition("/")
        return self.path / task / "rocksdb" / store

    def shelved(self, partition: str) -> Path:
        """Where its old store is kept after the cut-over."""
        return self.spec.home / "old" / partition

    def checkpoint(self, task: str) -> Path:
        return self.path / task / ".checkpoint"

    def offset(self, partition: str) -> int | None:
        """Of the store partition's line in `.checkpoint`; None: there is no such line."""
        task, _, store = partition.partition("/")
        lines = {topic: offset for topic, _, offset in read_checkpoint(self.checkpoint(task))}
        return lines.get(f"orders-app-{store}-changelog")

    def files(self) -> dict[str, tuple[int, int, str]]:
        """Every file and directory of the application but those of the stores that are migrated."""
        stores = tuple(f"{store.relative_to(self.path)}" for store in map(self.live, PARTITIONS))
        state = tree_state(self.path)
        return {name: state[name] for name in state if not name.startswith(stores) and not _holds(name, stores)}

    def stores(self) -> dict[str, Families]:
        """What whoever opens the store partitions finds, by store partition."""
        return {partition: read_families(self.live(partition)) for partition in PARTITIONS}

    def which(self, partition: str) -> str:
        """Whether the whole old or the whole new store stands where the application looks."""
        found = _families(self.live(partition), _signature(self.live(partition)))
        old = old_records(partition)
        if self.went_on:
            old = {"default": dict(sorted((old["default"] | LATE).items()))}
        standing = [name for name, whole in (("old", old), ("new", new_records(partition))) if found == whole]
        assert standing, f"{partition} is neither the old store nor the new one"
        return standing[0]

    def standing(self) -> set[str]:
        """Which stores the application finds: {"old"}, {"new"}, or both kinds in the middle of a switch."""
        return {self.which(partition) for partition in PARTITIONS}

    def check_whole(self, _: str) -> None:
        """At any event: whoever opens a store partition finds one store, and all of it."""
        assert self.standing() <= {"old", "new"}

    def staged(self, partition: str) -> Path:
        """Where the new store stands before the cut-over."""
        return next(path for path in self.spec.home.glob(f"new/*/{partition}"))

    def steps(self) -> list[str]:
        """The ledger's steps of switches, in order."""
        return [row.step.value for row in read_ledger(self.spec.home) if row.step.value.endswith(_SWITCH_STEPS)]


_SWITCH_STEPS = ("cutting-over", "cut-over", "rolling-back", "rolled-back", "finalizing", "finalized")


def _holds(name: str, stores: tuple[str, ...]) -> bool:
    """A directory's modification time changes when what it holds is exchanged."""
    return any(store.startswith(f"{name}/") for store in stores)


def _signature(store: Path) -> tuple[tuple[str, int, int, int], ...]:
    """Changes when a file in it does, or another directory takes its place."""
    status = {path.name: path.stat() for path in sorted(store.iterdir())}
    return tuple((name, found.st_ino, found.st_mtime_ns, found.st_size) for name, found in status.items())


@cache
def _families(store: Path, _: tuple[tuple[str, int, int, int], ...]) -> Families:
    """Read once, as long as nothing moves there: tests look at every event."""
    return read_families(store)


@cache
def old_records(partition: str) -> Families:
    """What Kafka Streams itself says that the store holds."""
    task, _, store = partition.partition("/")
    return {"default": {key: value for key, value, _ in fixture_records(task, store)}}


@cache
def new_records(partition: str) -> Families:
    """The same in timestamped form."""
    old = old_records(partition)["default"]
    return {"default": {}, DATA: {key: UNKNOWN_TIMESTAMP + value for key, value in old.items()}}


def make_application(base: Path) -> Path:
    """Two tasks of a real application with odd modes, and a line of a topic that is no store's."""
    application = copy_fixture(base)
    shutil.rmtree(application / "0_2")
    for folder, _, names in os.walk(application):
        Path(folder).chmod(0o750)
        for name in names:
            Path(folder, name).chmod(0o640)
        if os.geteuid() == 0:
            for path in (Path(folder), *(Path(folder, name) for name in names)):
                os.chown(path, 1234, 5678)
    checkpoint = application / "0_0" / ".checkpoint"
    version, count, *lines = checkpoint.read_text().splitlines()
    checkpoint.write_text("\n".join([version, str(int(count) + 1), lines[0], FOREIGN_LINE, *lines[1:], ""]))
    return application


def in_place_spec(base: Path, application: Path, **sections: object) -> Spec:
    """Two of the three stores, whose new ones take the old ones' places."""
    return make_spec(
        base,
        application,
        source_format=KEY_VALUE,
        target_format=TIMESTAMPED,
        **{"source": {"stores": list(STORES)}, "target": {"path": None}, **sections},
    )


def go_on(application: Path) -> None:
    """What the old application does after the snapshot, until it is stopped again: every store, line and position."""
    for partition in PARTITIONS:
        task, _, store = partition.partition("/")
        write_to(application / task / "rocksdb" / store)
        _move_on(application / task / f"{store}.position")
    for task in TASKS:
        _move_on(application / task / ".checkpoint")


def _move_on(file: Path) -> None:
    lines = read_checkpoint(file)
    file.write_text(format_checkpoint([(topic, number, offset + MOVED_ON_BY) for topic, number, offset in lines]))


def lone_spec(base: Path) -> Spec:
    """A lone RocksDB directory, copied record by record."""
    return make_spec(base, base / "state", source_format=RAW, target_format=RAW, target={"path": None})


def lone_records() -> dict[bytes, bytes]:
    """What lies in it."""
    return numbered(300)


def restore(pristine: Path, place: Path) -> None:
    """Whatever a test did to `place`: as it was, with the hard links between its files."""
    if place.exists():
        shutil.rmtree(place)
    subprocess.run(["cp", "-a", str(pristine), str(place)], check=True)


def write_to(store: Path, *, family: str = "default", key: bytes = b"late", value: bytes = b"x" * 20) -> None:
    """As an owner does: opened, written, closed."""
    with open_store(store) as database:
        database.get_column_family(family)[key] = value


def content(folder: Path) -> dict[str, bytes]:
    """Every file below, with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def modes(folder: Path) -> Iterator[tuple[int, int, int, bool]]:
    """(mode, user, group, whether it is a directory) of a directory and all in it."""
    for path in (folder, *folder.rglob("*")):
        status = path.stat()
        yield status.st_mode & 0o7777, status.st_uid, status.st_gid, path.is_dir()
