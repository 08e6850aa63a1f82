"""What is migrated, and by which commands."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from formats.partitioners import default_partition
from migrate.model.events import BROKER_EVENTS, EVENTS, REBUILD_EVENTS, TAIL_EVENTS
from tests.kill.trees import Families
from tests.shared.refunds import SECTIONS, make_application
from tests.shared.windowed import MINUTE, checkpoint, make_segments, windows
from tests.support import UNKNOWN_TIMESTAMP, make_families, numbered, open_store

SENT_ON_FAILURE = frozenset({"chunk.failed", "warning"})
"""Events that no migration sends which only ever dies and is resumed."""
OF_A_BROKER = {
    *BROKER_EVENTS,
    *TAIL_EVENTS,
    *REBUILD_EVENTS,
    *(each for each in EVENTS if each.startswith(("times.", "changelog."))),
}
"""Events of migrations whose changelogs are written at a broker: `tests.live.changelog` kills at them."""
PROVOKED_BY = {"chunks.adopted": "chunk.finished", "verify.resumed": "verify.ranges-committed"}
"""Events that are sent only after a kill: at which other event, where any kill will not do."""

NAME = "kill"
SPEC_FILE = "migration.toml"
PUBLISHED = "new"
WORK_DIR = "work"
FUNCTION_FILE = "kill_conversion.py"
RAW_FAMILIES = {"default": numbered(300), "more": numbered(200, prefix=b"key-0000", seed=1)}


@dataclass(frozen=True, slots=True)
class Kind:
    """A source."""

    name: str
    directory: str
    stores: tuple[str, ...]
    """The RocksDB directories to migrate, or directories of segments, within the source's directory."""
    spec: str
    make: Callable[[Path], Path]
    goes_on: Callable[[Path], None] | None = None
    """What the application does to its directory between `snapshot` and `run`."""
    records: dict[str, Families] | None = field(default=None, hash=False)
    """Of the new stores, where they are known."""
    made: tuple[str, ...] = ()
    """The new stores, in tasks that are others than the old ones; empty: they have the old ones' places."""
    functions: tuple[str, str] | None = None
    """The code of the function beside the spec, and the code that `replay` finds there."""

    def write_function(self, base: Path, *, is_mended: bool) -> None:
        """Put the function's module beside the spec; where there is one."""
        if self.functions is not None:
            (base / FUNCTION_FILE).write_text(self.functions[is_mended], encoding="utf-8")


def _go_on(application: Path) -> None:
    """One task writes another record, and says how far it has come."""
    with open_store(application / "0_0" / "rocksdb" / "refunds") as store:
        store[b"later"] = b"came after the snapshot"
    file = application / "0_0" / ".checkpoint"
    lines = [line.rsplit(" ", 1) for line in file.read_text(encoding="ascii").splitlines()]
    later = [f"{line[0]} {int(line[1]) + 1}" if "refunds" in line[0] else " ".join(line) for line in lines]
    file.write_text("\n".join(later) + "\n", encoding="ascii")


_ORDERS = numbered(900)


def _of_task(number: int, many: int, prefix: bytes = b"") -> dict[bytes, bytes]:
    return {key: prefix + value for key, value in _ORDERS.items() if default_partition(key, many) == number}


def _make_partitions(base: Path) -> Path:
    """Two tasks."""
    for number in range(2):
        make_families(base / "app" / f"0_{number}" / "rocksdb" / "orders", {"default": _of_task(number, 2)})
    return base / "app"


def _make_raw_store(base: Path) -> Path:
    """Two column families, several chunks."""
    return make_families(base / "store", RAW_FAMILIES)


def _make_windows(base: Path) -> Path:
    """Two tasks with segments of 15 minutes."""
    for task, seed in (("0_0", 1), ("0_1", 2)):
        make_segments(base / "app" / task / "win", windows(150, until=60 * MINUTE, seed=seed), 15 * MINUTE)
        line = f"app-win-changelog {task[-1]} 99"
        (base / "app" / task / ".checkpoint").write_text(checkpoint(line), encoding="ascii")
    return base / "app"


APPLICATION = Kind(
    name="application",
    directory="orders-app",
    stores=("0_0/rocksdb/refunds", "0_1/rocksdb/refunds"),
    spec=SECTIONS,
    make=make_application,
)
RAW_STORE = Kind(
    name="raw store",
    directory="store",
    stores=(".",),
    spec="""
[source]
format = "rocksdb.raw"
path = "store"
[run]
chunk_size = "4 KiB"
verify = "full"
[target]
format = "rocksdb.raw"
""",
    make=_make_raw_store,
)
VERIFIED_LATER = replace(RAW_STORE, name="store verified later", spec=RAW_STORE.spec.replace("full", "off"))
SNAPSHOT = Kind(
    name="application that goes on",
    directory="orders-app",
    stores=APPLICATION.stores,
    spec="""
[source]
format = "kafka-streams.key-value"
path = "orders-app"
store = "refunds"
[run]
chunk_size = "4 KiB"
source = "snapshot"
[target]
format = "kafka-streams.timestamped-key-value"
""",
    make=make_application,
    goes_on=_go_on,
)
WINDOWS = Kind(
    name="windows",
    directory="app",
    stores=("0_0/win", "0_1/win"),
    spec="""
[source]
format = "kafka-streams.window"
path = "app"
store = "win"
retention_ms = 1800000
[run]
chunk_size = "2 KiB"
[target]
format = "kafka-streams.timestamped-window"
retention_ms = 1200000
""",
    make=_make_windows,
)
PARTITIONS = Kind(
    name="another number of partitions",
    directory="app",
    stores=("0_0/rocksdb/orders", "0_1/rocksdb/orders"),
    spec="""
[source]
format = "kafka-streams.key-value"
path = "app"
store = "orders"
[conversion]
allow = ["changelog"]
[run]
chunk_size = "4 KiB"
[target]
format = "kafka-streams.timestamped-key-value"
partitions = 3
""",
    make=_make_partitions,
    records={
        f"0_{number}/rocksdb/orders": {"default": {}, "keyValueWithTimestamp": _of_task(number, 3, UNKNOWN_TIMESTAMP)}
        for number in range(3)
    },
    made=tuple(f"0_{number}/rocksdb/orders" for number in range(3)),
)
_PICKY = """
def convert(record):
    if record.key.endswith(b"07"):
        raise ValueError("no sevens")
    return record
"""
_MENDED = """
from dataclasses import replace
def convert(record):
    return replace(record, value=b"seven") if record.key.endswith(b"07") else record
"""
_REPLAYED = {
    name: {key: b"seven" if key.endswith(b"07") else value for key, value in records.items()}
    for name, records in RAW_FAMILIES.items()
}
REPLAYED = Kind(
    name="replayed store",
    directory="store",
    stores=(".",),
    spec="""
[source]
format = "rocksdb.raw"
path = "store"
[conversion]
function = "kill_conversion:convert"
[run]
chunk_size = "2 KiB"
on_reject = "dead-letter"
verify = "digest"
[target]
format = "rocksdb.raw"
""",
    make=_make_raw_store,
    records={".": _REPLAYED},
    functions=(_PICKY, _MENDED),
)
REPLAY_CHAIN = ("run", "replay", "cutover")
"""The function is mended between `run` and `replay`."""
VERIFY_CHAIN = ("run", "verify", "cutover")
KINDS = (APPLICATION, RAW_STORE)
PUBLISHED_CHAINS = (("run",), ("run", "finalize"))
CHAINS = (
    ("run", "abandon"),
    ("run", "cutover", "finalize"),
    ("run", "cutover", "rollback", "cutover"),
    ("run", "cutover", "rollback", "abandon"),
)
WINDOWS_CHAIN = ("run", "cutover", "rollback", "cutover", "finalize")
"""Segments of another retention take the old ones' places."""
SNAPSHOT_CHAIN = ("snapshot", "run", "cutover", "rollback", "cutover")
TAKEN_BACK = frozenset({("run", "abandon"), ("cutover", "rollback")})
"""Commands that need not end, since the one that follows may come at once."""
SENDERS = ("cutover", "rollback", "finalize", "abandon")
"""Commands whose events bear their name; all others are sent by `replay` where there is one, else by `run`.

So are those of a verification, unless `verify` is one of the commands.
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A kind of source, and commands that are given one after the other."""

    kind: Kind
    commands: tuple[str, ...]
    publishes: bool = False
    """Whether `run` makes a new state directory, and the old one stays as it is."""

    def __str__(self) -> str:
        how = ", published" if self.publishes else ""
        return f"{self.kind.name}{how}: {', '.join(self.commands)}"

    @property
    def published(self) -> str:
        """The new state directory, which has the old one's name."""
        return f"{PUBLISHED}/{self.kind.directory}"

    @property
    def is_held_back(self) -> bool:
        """Whether `run` publishes nothing, for its rejects: `replay` does."""
        return self.publishes and "replay" in self.commands

    def set_up(self, template: Path, base: Path) -> Path:
        """Make a fresh directory with a copy of the source and the spec, whose path is returned."""
        base.mkdir(parents=True)
        shutil.copytree(template / self.kind.directory, base / self.kind.directory)
        spec = base / SPEC_FILE
        target = f'path = "{self.published}"\n' if self.publishes else ""
        self.kind.write_function(base, is_mended=False)
        spec.write_text(f'name = "{NAME}"\nwork_dir = "{WORK_DIR}"\n{self.kind.spec}{target}', encoding="utf-8")
        return spec


def owner(event: str, commands: Iterable[str] = ()) -> str:
    """The command, of these, that sends it and is killed at it."""
    prefix = event.partition(".")[0]
    is_sender = prefix in SENDERS or (prefix == "verify" and prefix in commands)
    return prefix if is_sender else "replay" if "replay" in commands else "run"


def scenarios() -> list[Scenario]:
    """All that are performed."""
    published = [Scenario(kind, commands, publishes=True) for commands in PUBLISHED_CHAINS for kind in KINDS]
    in_place = [Scenario(kind, commands) for commands in CHAINS for kind in KINDS]
    windows_ = [Scenario(WINDOWS, ("run",), publishes=True), Scenario(WINDOWS, WINDOWS_CHAIN)]
    replayed = [Scenario(REPLAYED, REPLAY_CHAIN[:2], publishes=True), Scenario(REPLAYED, REPLAY_CHAIN)]
    partitions = Scenario(PARTITIONS, ("run",), publishes=True)
    others = [Scenario(SNAPSHOT, SNAPSHOT_CHAIN), Scenario(VERIFIED_LATER, VERIFY_CHAIN)]
    return [*published, *in_place, *others, *replayed, *windows_, partitions]


def required_events() -> list[str]:
    """Every event to be killed at, in the order in which they come."""
    return [event for event in EVENTS if event not in {*SENT_ON_FAILURE, *OF_A_BROKER}]
