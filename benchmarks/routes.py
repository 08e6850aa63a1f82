"""Ways to give every value of a store an eight-byte prefix.

Each takes (source, empty folder) and leaves its result there. The product's is `engine`; the others are what one would
write without it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from rocksdict import AccessType, IngestExternalFileOptions, Options, Rdict, SstFileWriter, WriteOptions

from migrate.batch.chunk.rewrite_chunk import RewriteTask, rewrite_chunk
from migrate.engine.chunk_source import Inputs
from migrate.model.key_range import KeyRange
from migrate.model.plan import Chunk, FamilyMapping
from migrate.model.receipt import Receipt
from migrate.spec.conversion_ref import ConversionRef
from migrate.stores.rocksdb.writing import TableOptions, table_options

PREFIX = b"\xff" * 8
"""What a value of unknown timestamp begins with in a timestamped store of Kafka Streams."""
CONVERSION = ConversionRef("kafka-streams.key-value", "kafka-streams.timestamped-key-value")
RESULT = "result"
"""The database that a route makes in its folder; or else it leaves SST files there."""

Route = Callable[[Path, Path], None]


def rewrite(
    source: Path, folder: Path, keys: KeyRange | None = None, conversion: ConversionRef = CONVERSION
) -> Receipt:
    """One chunk through the product."""
    chunk = Chunk(store_partition="store", database=".", number=0, keys=keys or KeyRange(), estimated_bytes=0)
    task = RewriteTask(
        home=str(folder),
        source=Inputs((str(source),)),
        migration_id="benchmark",
        run_id="benchmark",
        chunk=chunk,
        mappings=(FamilyMapping(source="default", target="default"),),
        conversion=conversion,
    )
    return rewrite_chunk(task)


def engine(source: Path, folder: Path) -> None:
    """The portable engine: counts, digests of input and output, a durable receipt."""
    rewrite(source, folder)


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


ROUTES: dict[str, Route] = {
    "engine": engine,
    "bare": bare_items,
    "get-put": get_put,
    "ldb": ldb_pipeline,
}
