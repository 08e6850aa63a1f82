"""Real stores for tests, made and read by rocksdict alone: nothing here calls the code under test to reach its data."""

import gc
import gzip
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import pyarrow.parquet as pq
import pytest
import xxhash
from deltalake import DeltaTable
from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    ChecksumType,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    SstFileWriter,
    WriteBatch,
    WriteOptions,
)

from migrate.batch.ledger.delta_log import LedgerLog
from migrate.model.ledger_row import Row
from migrate.model.packages import OUR_PACKAGES
from migrate.spec.spec import Spec, parse_spec

FIXTURE = Path(__file__).parent / "fixtures" / "kafka-streams-4.0.1"
KEY_VALUE = "kafka-streams.key-value"
TIMESTAMPED = "kafka-streams.timestamped-key-value"
RAW = "rocksdb.raw"
UNKNOWN_TIMESTAMP = b"\xff" * 8

Records = Mapping[bytes, bytes]
Asked = ParamSpec("Asked")
Error = TypeVar("Error", bound=BaseException)

_COMPRESSIONS = {
    "none": DBCompressionType.none,
    "snappy": DBCompressionType.snappy,
    "lz4": DBCompressionType.lz4,
    "zstd": DBCompressionType.zstd,
}


@dataclass(frozen=True, slots=True)
class Tables:
    """How a test store's SST files are written."""

    compression: str = "none"
    format_version: int | None = None
    """None: RocksDB's default."""
    partitioned_index: bool = False
    index_restart_interval: int = 1
    block_size: int = 4096

    def options(self) -> Options:
        blocks = BlockBasedOptions()
        blocks.set_block_size(self.block_size)
        if self.format_version is not None:
            blocks.set_format_version(self.format_version)
        if self.format_version == 0:  # RocksDB writes version 1 where another checksum is wanted
            blocks.set_checksum_type(ChecksumType.crc32c())
        if self.partitioned_index:
            blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
            blocks.set_metadata_block_size(256)
        blocks.set_index_block_restart_interval(self.index_restart_interval)
        options = Options(raw_mode=True)
        options.create_missing_column_families(True)
        options.set_compaction_style(DBCompactionStyle.universal())
        options.set_disable_auto_compactions(True)
        options.set_compression_type(_COMPRESSIONS[self.compression]())
        options.set_block_based_table_factory(blocks)
        return options


def make_store(path: Path, records: Records, *, tables: Tables | None = None, flush: bool = True) -> Path:
    """A RocksDB directory with one family, `default`; without `flush` its records lie in the write-ahead log only."""
    return make_families(path, {"default": records}, tables=tables, flush=flush)


def make_families(
    path: Path, families: Mapping[str, Records], *, tables: Tables | None = None, flush: bool = True
) -> Path:
    """A RocksDB directory with these column families, and `default`."""
    return make_runs(path, [families], tables=tables, flush=flush)


def make_runs(
    path: Path, runs: Iterable[Mapping[str, Records]], *, tables: Tables | None = None, flush: bool = True
) -> Path:
    """Every run is flushed into SST files of its own, so that later runs overlap earlier ones."""
    made = path if flush else path.with_name(path.name + ".open")
    with open_store(made, tables=tables) as database:
        for families in runs:
            for family, records in families.items():
                _add_family(database, family, tables)
                batch, handle = WriteBatch(raw_mode=True), database.get_column_family_handle(family)
                for key, value in records.items():
                    batch.put(key, value, handle)
                database.write(batch)
                if flush:
                    database.get_column_family(family).flush(True)
        if not flush:  # closing would flush: what is wanted is what a crash leaves
            database.flush_wal(True)
            shutil.copytree(made, path, ignore=shutil.ignore_patterns("LOG", "rocksdict-config.json"))
    return path


@contextmanager
def open_store(path: Path, *, tables: Tables | None = None) -> Iterator[Rdict]:
    """Open read-write, and leave nothing of rocksdict's own behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = (tables or Tables()).options()
    if (path / "CURRENT").exists():
        families = dict.fromkeys(Rdict.list_cf(str(path), options), options)
        database = Rdict(str(path), options, column_families=families)
    else:
        database = Rdict(str(path), options)
    database.set_write_options(WriteOptions())
    try:
        yield database
    finally:
        database.close()
        for name in ("rocksdict-config.json", "LOG"):
            (path / name).unlink(missing_ok=True)


def _add_family(database: Rdict, family: str, tables: Tables | None) -> None:
    try:
        database.get_column_family_handle(family)
    except Exception:  # noqa: BLE001 - rocksdict raises nothing narrower
        database.create_column_family(family, (tables or Tables()).options())


def write_sst(path: Path, records: Records, *, tables: Tables | None = None) -> Path:
    """One SST file, as bulk loading writes it."""
    writer = SstFileWriter((tables or Tables()).options())
    writer.open(str(path))
    for key in sorted(records):
        writer[key] = records[key]
    writer.finish()
    return path


def read_family(path: Path, family: str = "default") -> dict[bytes, bytes]:
    """All records of one family, in key order, read from a copy."""
    return read_families(path)[family]


def read_families(path: Path) -> dict[str, dict[bytes, bytes]]:
    """All records of every family, in key order, read from a copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(path, copy)
        options = Options(raw_mode=True)
        names = Rdict.list_cf(str(copy), options)
        families = dict.fromkeys(names, options)
        database = Rdict(str(copy), options, column_families=families, access_type=AccessType.read_only())
        try:
            return {name: dict(_items(database.get_column_family(name))) for name in names}
        finally:
            database.close()


def _items(column: Rdict) -> Iterator[tuple[bytes, bytes]]:
    return cast("Iterator[tuple[bytes, bytes]]", column.items())


def numbered(count: int, *, value_size: int = 20, prefix: bytes = b"key-", seed: int = 0) -> dict[bytes, bytes]:
    """`count` records with keys in order and values that do not compress."""
    rng = random.Random(seed)
    return {prefix + b"%08d" % number: rng.randbytes(value_size) for number in range(count)}


def shadow_our_packages(folder: Path, *names: str) -> None:
    """Put modules with the names of our packages there, which fail when they are imported."""
    for name in names or OUR_PACKAGES:
        file = folder / ("jobs/__init__.py" if name == "jobs" else f"{name}.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"raise RuntimeError('{name} of the user')\n")


def tree_state(root: Path) -> dict[str, tuple[int, int, str]]:
    """Every file and directory below `root`: modification time, size and content."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_mtime_ns,
            path.stat().st_size if path.is_file() else 0,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory",
        )
        for path in sorted(root.rglob("*"))
    }


def digest_by_hand(records: Iterable[tuple[bytes, bytes]]) -> str:
    """The record digest, from its definition."""
    pairs = list(records)
    lengths = b"".join(struct.pack("<II", len(key), len(value)) for key, value in pairs)
    columns = (lengths, b"".join(key for key, _ in pairs), b"".join(value for _, value in pairs))
    return "-".join(f"{xxhash.xxh64_intdigest(column, seed=0):016x}" for column in columns)


def copy_fixture(folder: Path) -> Path:
    """A copy of the application directory that Kafka Streams 4.0.1 left, named as it was."""
    return Path(shutil.copytree(FIXTURE / "orders-app", folder / "orders-app"))


def fixture_records(task: str, store: str) -> list[tuple[bytes, bytes, int | None]]:
    """(key, value, timestamp) of each record that a store of the fixture holds, as Kafka Streams itself confirmed."""
    with gzip.open(FIXTURE / "expected" / task / f"{store}.jsonl.gz", "rt", encoding="ascii") as lines:
        rows = [json.loads(line) for line in lines]
    return [(bytes.fromhex(row["key"]), bytes.fromhex(row["value"]), row["timestamp"]) for row in rows]


def make_spec(base_dir: Path, source: Path, /, *, source_format: str, target_format: str, **sections: Any) -> Spec:  # noqa: ANN401
    """A spec over `source`; `sections` are merged into it.

    It is published to `base_dir`/new; an application, of which stores are named, to the directory of its name in there.
    """
    is_application = not {"store", "stores"}.isdisjoint(sections.get("source", {}))
    content: dict[str, Any] = {
        "name": "test",
        "work_dir": "work",
        "source": {"format": source_format, "path": str(source)},
        "target": {"format": target_format, "path": f"new/{source.name}" if is_application else "new"},
    }
    for name, section in sections.items():
        content[name] = {**content[name], **section} if isinstance(content.get(name), dict) else section
    return parse_spec(content, base_dir=base_dir)


def raw_spec(tmp_path: Path, source: Path, /, **sections: Any) -> Spec:  # noqa: ANN401
    """One RocksDB directory, byte by byte."""
    return make_spec(tmp_path, source, source_format=RAW, target_format=RAW, **sections)


def kafka_spec(tmp_path: Path, application: Path, /, **sections: Any) -> Spec:  # noqa: ANN401
    """Plain stores of an application become timestamped."""
    sections = {"source": {"stores": ["orders", "refunds"]}, **sections}
    return make_spec(tmp_path, application, source_format=KEY_VALUE, target_format=TIMESTAMPED, **sections)


def to_toml(content: Mapping[str, object], path: str = "") -> str:
    """As TOML; JSON's strings, numbers and arrays are TOML's too."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in content.items() if not isinstance(value, dict)]
    for key, value in content.items():
        if isinstance(value, dict):
            lines += [f"[{path}{key}]", to_toml(value, f"{path}{key}.")]
    return "\n".join(lines) + "\n"


def spec_file(file: Path, **sections: Any) -> Path:  # noqa: ANN401
    """The spec of a copy of the RocksDB directory `old` as `new`; of `sections`, None removes a key."""
    content: dict[str, Any] = {
        "name": "test",
        "work_dir": "work",
        "source": {"format": RAW, "path": "old"},
        "target": {"format": RAW, "path": "new"},
    }
    for name, section in sections.items():
        merged = {**content.get(name, {}), **section} if isinstance(section, dict) else section
        is_section = isinstance(merged, dict)
        content[name] = {key: each for key, each in merged.items() if each is not None} if is_section else merged
    file.write_text(to_toml(content), encoding="utf-8")
    return file


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A disk of that size (like `32m`), mounted at `path`; skips the test where this process may not mount one."""
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"this process may not mount a disk: {done.stderr.decode().strip()}")
    try:
        yield path
    finally:
        gc.collect()  # an error's traceback may keep a file on it open
        subprocess.run(["umount", path], check=True)


def flip_byte(file: Path, at: int, bits: int = 0xFF, *, quietly: bool = False) -> None:
    """Damage one byte, in place; `quietly`: as a disk does it, which leaves the times."""
    status, content = file.stat(), bytearray(file.read_bytes())
    content[at] ^= bits
    with file.open("r+b") as there:
        there.write(content)
    if quietly:
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def read_delta(folder: Path) -> list[dict[str, Any]]:
    """The rows of a Delta table that only grows.

    Not through `DeltaTable.to_pyarrow_table()`: one process in ten that used it is aborted at its exit.
    """
    files = DeltaTable(str(folder)).file_uris()
    return [row for file in files for row in pq.ParquetFile(file).read(use_threads=False).to_pylist()]


def raises(
    kind: type[Error] | tuple[type[Error], ...],
    match: str,
    call: Callable[Asked, object],
    *args: Asked.args,
    **more: Asked.kwargs,
) -> Error:
    """The error of that kind that the call ends with, whose message matches."""
    with pytest.raises(kind, match=match or None) as caught:
        call(*args, **more)
    return caught.value


def read_ledger(home: Path) -> list[Row]:
    """Every row of a migration's ledger, in the order of commits; nothing is written."""
    return LedgerLog(home).rows()
