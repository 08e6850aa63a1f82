"""The seam behind which an engine rewrites, compares and digests the records of one column family.

An engine takes plain values and opens what it needs. Of every engine, the same work has the same outcome: records,
digests, errors, rejects with their reasons. `engines` lists them; the last one takes everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from formats import Conversion
from formats.partitioners import Partitioner
from migrate.engine.bail_out import BailOutError
from migrate.engine.chunk_source import ChunkSource, Inputs, open_inputs
from migrate.engine.left_out import LeftOut
from migrate.engine.rejects import RejectsByReason
from migrate.model.comparison import FamilyCount
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.stores.rocksdb.writing import TableOptions

OnRecord = Callable[[bytes], object] | None
"""Called with each key before its record is converted, where a conversion may take the whole process down."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class FamilyWork:
    """The records of one column family in a key range of the old store, and their conversion."""

    inputs: Inputs
    mapping: FamilyMapping
    keys: KeyRange
    conversion: Conversion
    partitioner: Partitioner | None = None
    """The user's, where the number of partitions changes."""

    def open(self) -> AbstractContextManager[ChunkSource]:
        """Open the old records. Raises RefusedError where a RocksDB directory cannot be opened."""
        return open_inputs(self.inputs, self.conversion.source, self.partitioner)


class Hooks(NamedTuple):
    """What an engine calls, and counts into, while it works."""

    check: Callable[[], None]
    """To be called every 100 ms at least; it may raise."""
    rejects: RejectsByReason
    left_out: LeftOut
    on_record: OnRecord = None
    guard: Callable[[], AbstractContextManager[object]] = nullcontext
    """What surrounds the work of any engine but the last: an error in machine code takes the whole process down."""


class NewFamily(NamedTuple):
    """The records of one column family of a new store."""

    directory: Path
    family: str
    left_out: Sequence[bytes] = ()
    """Keys that do not count."""
    overlay: Path | None = None
    """A database whose keys do not count, either."""


class Digest(NamedTuple):
    """Records in key order, by their number, size and digest; `size` in bytes of keys and values."""

    records: int = 0
    size: int = 0
    digest: str = ""


class Passed(NamedTuple):
    """One pass over the records of a family."""

    engine: str
    scanned: Digest
    written: Digest
    first_key: bytes | None
    last_key: bytes | None
    shadowed: int
    """Records of a pre-upgrade family whose key a newer family has too."""
    counts: tuple[FamilyCount, ...]
    """The records read, by RocksDB directory and column family."""


class Engine(Protocol):
    """Does the work on a family's records."""

    name: str

    def unavailable(self) -> str:
        """Why it cannot work in this process at all; empty: it can. It is asked for each task."""

    def prepare(self) -> None:
        """Do what it does once on a machine, before a run's tasks begin; what fails, `unavailable` says then."""

    def declines(self, work: FamilyWork, hooks: Hooks) -> str:
        """Why it leaves this work to the next engine; empty: it takes it."""

    def rewrite(self, work: FamilyWork, hooks: Hooks, file: Path, table: TableOptions) -> Passed:
        """Convert the records into an SST file, which is durable then; without a record there is no file.

        Raises BailOutError where it cannot go on: the file does not count then, and `hooks` have counted nothing.
        """

    def compare(self, work: FamilyWork, hooks: Hooks, new: NewFamily) -> Passed | None:
        """Convert the records, and compare them with the new ones from the first to the last converted key.

        `written` has the number of new records alone, and `scanned` nothing. None: they differ.
        """

    def digest(self, new: NewFamily, keys: KeyRange, check: Callable[[], None]) -> Digest:
        """The digest of the new records in a range."""


def objection(engine: Engine, work: FamilyWork, hooks: Hooks) -> str:
    """Why an engine does not take the work; empty: it does."""
    return engine.unavailable() or engine.declines(work, hooks)


def taking(engines: Sequence[Engine], work: FamilyWork, hooks: Hooks) -> Engine:
    """The first engine that takes the work."""
    return next(engine for engine in engines if not objection(engine, work, hooks))


def rewrite(engines: Sequence[Engine], work: FamilyWork, hooks: Hooks, file: Path, table: TableOptions) -> Passed:
    """Rewrite by the first engine that takes it; where it gives up, by the last one from the start."""

    def carry_out(engine: Engine) -> Passed:
        file.unlink(missing_ok=True)  # what another one has begun
        return engine.rewrite(work, hooks, file, table)

    return _by_the_first(engines, work, hooks, carry_out)


def compare(engines: Sequence[Engine], work: FamilyWork, hooks: Hooks, new: NewFamily) -> Passed | None:
    """Compare by the first engine that takes it; where it gives up, by the last one from the start."""
    return _by_the_first(engines, work, hooks, lambda engine: engine.compare(work, hooks, new))


def digest(engines: Sequence[Engine], work: FamilyWork, hooks: Hooks, new: NewFamily, keys: KeyRange) -> Digest:
    """The digest of new records, by the first engine that takes their work; where it gives up, by the last one."""
    return _by_the_first(engines, work, hooks, lambda engine: engine.digest(new, keys, hooks.check))


def _by_the_first(
    engines: Sequence[Engine], work: FamilyWork, hooks: Hooks, carry_out: Callable[[Engine], Result]
) -> Result:
    engine = taking(engines, work, hooks)
    if engine is not engines[-1]:
        try:
            with hooks.guard():
                return carry_out(engine)
        except BailOutError:
            pass
    return carry_out(engines[-1])
