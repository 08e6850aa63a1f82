"""Ways to give every value of a store an eight-byte prefix.

Each takes (source, empty folder) and leaves its result there. The product's bear the names of its engines; the others
are what one would write without it.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rocksdict import AccessType, IngestExternalFileOptions, Options, Rdict, SstFileWriter, WriteOptions

from benchmarks.rounds import seconds, seconds_since
from benchmarks.stores import key_of
from migrate.batch.stop import never_stop
from migrate.engine.chunk_source import Inputs
from migrate.engine.engine import Engine, FamilyWork, Hooks, Passed
from migrate.engine.engines import ENGINES
from migrate.engine.left_out import LeftOut
from migrate.engine.portable import Portable
from migrate.engine.rejects import RejectsByReason
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.spec.conversion import load_conversion
from migrate.spec.conversion_ref import ConversionRef
from migrate.stores.rocksdb.writing import TableOptions, table_options

PREFIX = b"\xff" * 8
"""What a value of unknown timestamp begins with in a timestamped store of Kafka Streams."""
CONVERSION = ConversionRef("kafka-streams.key-value", "kafka-streams.timestamped-key-value")
PORTABLE = Portable.name
ENGINE_NAMES = tuple(engine.name for engine in reversed(ENGINES) if not engine.unavailable())
"""The portable one first."""
LEFT_OUT = tuple(f"{engine.name} is left out: {why}." for engine in ENGINES if (why := engine.unavailable()))
FEW = KeyRange(end=key_of(64))
RESULT = "result"
"""The database that a route makes in its folder; or else it leaves SST files there."""

Route = Callable[[Path, Path], dict[str, float] | None]
"""What it returns is what it took, where that is not the whole process."""


def engine_named(name: str) -> Engine:
    """One of the product's engines. Raises StopIteration where it has none of that name."""
    return next(engine for engine in ENGINES if engine.name == name)


def family_work(source: Path, keys: KeyRange | None = None, conversion: ConversionRef = CONVERSION) -> FamilyWork:
    """The records of a store, and their conversion."""
    mapping = FamilyMapping(source="default", target="default")
    return FamilyWork(Inputs((str(source),)), mapping, keys or KeyRange(), load_conversion(conversion))


def make_hooks() -> Hooks:
    """A record that is rejected here has no policy, and would show in the counts."""
    return Hooks(never_stop, RejectsByReason(), LeftOut())


def rewrite(
    source: Path,
    file: Path,
    keys: KeyRange | None = None,
    conversion: ConversionRef = CONVERSION,
    engine: str = PORTABLE,
) -> Passed:
    """One chunk through an engine, which does not decline it: counts, digests of input and output, a durable file."""
    work, hooks, chosen = family_work(source, keys, conversion), make_hooks(), engine_named(engine)
    if reason := chosen.declines(work, hooks):
        raise AssertionError(f"{engine} declines: {reason}")
    return chosen.rewrite(work, hooks, file, TableOptions())


@contextmanager
def warmed_up(
    engine: str, source: Path, folder: Path, conversion: ConversionRef = CONVERSION
) -> Iterator[dict[str, float]]:
    """Filled with what the block took, after a few records: what an engine does once in a process is done with them."""
    file, spent, begun = folder / "few.sst", {}, time.perf_counter()
    rewrite(source, file, FEW, conversion, engine)
    file.unlink()
    spent["first"], clock = time.perf_counter() - begun, seconds()
    yield spent
    spent |= seconds_since(clock)


def bare_items(source: Path, folder: Path) -> None:
    """The shortest loop over `items()`; it counts nothing."""
    database = open_bare(source)
    writer = SstFileWriter(table_options(TableOptions()))
    writer.open(str(folder / "bare.sst"))
    for key, value in database.items():
        writer[key] = PREFIX + value
    writer.finish()
    database.close()


def get_put(source: Path, folder: Path) -> None:
    """What a migrating punctuator does: a get and a put for each key."""
    old, new = open_bare(source), Rdict(str(folder / RESULT), table_options(TableOptions()))
    unlogged = WriteOptions()
    unlogged.disable_wal = True  # type: ignore[method-assign, assignment]  # a property, whatever the stub says
    keys = list(old.keys())
    for key in keys:
        value: bytes = old.get(key)  # type: ignore[assignment]  # None for a missing key only
        new.put(key, PREFIX + value, write_opt=unlogged)
    new.flush(True)
    new.close()
    old.close()


def ldb_pipeline(source: Path, folder: Path) -> None:
    """RocksDB's own tool: dump, edit the text, load it in bulk."""
    ldb = shutil.which("ldb")
    assert ldb is not None
    new = folder / RESULT
    dump = f"{ldb} --db={source} --ignore_unknown_options dump --hex"
    edit = f"sed -n 's/ ==> 0x/ ==> 0x{PREFIX.hex().upper()}/p'"
    load = (
        f"{ldb} --db={new} --create_if_missing --bulk_load --disable_wal --hex --block_size=4096 --bloom_bits=10"
        " --compression_type=no load"
    )
    subprocess.run(["sh", "-c", f"{dump} | {edit} | {load}"], check=True, stdout=subprocess.DEVNULL)


def open_bare(path: Path) -> Rdict:
    """As one would, for reading."""
    return Rdict(str(path), Options(raw_mode=True), access_type=AccessType.read_only())


def result_database(folder: Path) -> Path:
    """The result as a database: SST files are ingested into one, as the product does."""
    path = folder / RESULT
    if not path.exists():
        files = [str(file) for file in sorted(folder.rglob("*.sst"))]
        move = IngestExternalFileOptions()
        move.set_move_files(True)
        database = Rdict(str(path), table_options(TableOptions()))
        database.ingest_external_file(files, move)
        database.close()
    return path


def _by_engine(name: str) -> Route:
    def route(source: Path, folder: Path) -> dict[str, float]:
        with warmed_up(name, source, folder) as spent:
            rewrite(source, folder / "new.sst", engine=name)
        return spent

    return route


ROUTES: dict[str, Route] = {
    **{name: _by_engine(name) for name in ENGINE_NAMES},
    "bare": bare_items,
    "get-put": get_put,
    "ldb": ldb_pipeline,
}
