"""The stores that are measured: like those that Kafka Streams leaves behind, the same records every time."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rocksdict import IngestExternalFileOptions, Options, Rdict, SstFileWriter

from formats import Format, Headers, StateRecord, Window
from migrate.stores.rocksdb.writing import TableOptions, table_options

FILE_BYTES = 64 << 20
_BLOCK = 1 << 16
_SEED = 20240117
_NOW = 1_700_000_000_000
_HEADERS = Headers.of([("__value_schema_id", bytes(17))])
"""What Confluent's serializers put there."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the records of a store look like."""

    name: str
    value_size: int
    smallest_value: int | None = None
    """Values are of any size from this one on; None: all of `value_size`."""
    file_bytes: int = FILE_BYTES
    """Bytes of values in an SST file."""

    @property
    def words(self) -> str:
        """For people."""
        if self.smallest_value is None:
            return f"17-byte keys, {self.value_size:,}-byte values"
        return f"17-byte keys, values of {self.smallest_value:,} to {self.value_size:,} bytes"

    @property
    def records_of_file(self) -> int:
        """In an SST file, where values have one size."""
        return self.file_bytes // self.value_size


PLAIN = Shape("plain", 100)
MIXED = Shape("mixed", 180, smallest_value=20)
KILO = Shape("kilo", 1024)
HUGE = Shape("huge", 64 << 20)
TABLES = Shape("tables", 100, file_bytes=10_000)


@dataclass(frozen=True, slots=True)
class Store:
    """A RocksDB directory and what is in it."""

    path: Path
    shape: Shape
    records: int

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.records:,} records, {self.shape.words}"


def ensure_store(folder: Path, shape: Shape, records: int) -> Store:
    """The store, made unless an earlier run left it: one sorted run in files of 64 MiB, format version 5."""
    path = folder / f"{shape.name}-{records}"
    wanted = {**asdict(shape), "records": records, "seed": _SEED}
    ensure_entries(path, wanted, enumerate_entries(shape, records), shape.file_bytes)
    return Store(path, shape, records)


def ensure_store_of(folder: Path, known: Format, records: int) -> Store:
    """The usual records in another format, with what it carries besides; in the family `default`."""
    path = folder / f"{known.id}-{records}"
    wanted = {**asdict(PLAIN), "records": records, "seed": _SEED, "format": known.id}
    entries = enumerate_entries(PLAIN, records)
    ensure_entries(path, wanted, (known.encode(_record(known, key, value)) for key, value in entries))
    return Store(path, PLAIN, records)


def _record(known: Format, key: bytes, value: bytes) -> StateRecord:
    window = Window(_NOW, _NOW + 1000 if known.kind == "session" else None) if known.is_segmented else None
    return StateRecord(key, value, timestamp_ms=_NOW, headers=_HEADERS, window=window)


def ensure_entries(
    path: Path, wanted: dict[str, object], entries: Iterable[tuple[bytes, bytes]], file_bytes: int = FILE_BYTES
) -> None:
    """A store of these records, in order, made unless an earlier run left it; `wanted` is what it depends on."""
    made = path.parent / f"{path.name}.json"
    if not (made.exists() and json.loads(made.read_text(encoding="utf-8")) == wanted):
        made.unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        _make(path, entries, file_bytes)
        made.write_text(json.dumps(wanted), encoding="utf-8")


def key_of(number: int) -> bytes:
    """17 bytes, ascending."""
    return b"k%016d" % number


def enumerate_entries(shape: Shape, records: int) -> Iterator[tuple[bytes, bytes]]:
    """The records, in order."""
    return ((key_of(number), value) for number, value in enumerate(_values(shape, records)))


def _make(path: Path, entries: Iterable[tuple[bytes, bytes]], file_bytes: int) -> None:
    database = Rdict(str(path), _options())
    parts = path.with_name(path.name + ".parts")
    parts.mkdir(exist_ok=True)
    move = IngestExternalFileOptions()
    move.set_move_files(True)
    database.ingest_external_file([str(file) for file in _write_files(parts, entries, file_bytes)], move)
    database.close()
    parts.rmdir()


def _write_files(parts: Path, entries: Iterable[tuple[bytes, bytes]], file_bytes: int) -> list[Path]:
    files: list[Path] = []
    writer: SstFileWriter | None = None
    size = 0
    for key, value in entries:
        if writer is None:
            files.append(parts / f"{len(files):04d}.sst")
            writer = SstFileWriter(_options())
            writer.open(str(files[-1]))
            size = 0
        writer[key] = value
        size += len(value)
        if size >= file_bytes:
            writer.finish()
            writer = None
    if writer is not None:
        writer.finish()
    return files


def _values(shape: Shape, records: int) -> Iterator[bytes]:
    """Random bytes, which no compression makes smaller."""
    source = random.Random(_SEED)
    if shape.value_size > _BLOCK:
        yield from (source.randbytes(shape.value_size) for _ in range(records))
        return
    smallest = shape.smallest_value if shape.smallest_value is not None else shape.value_size
    for start in range(0, records, _BLOCK):
        count = min(_BLOCK, records - start)
        block = source.randbytes(count * shape.value_size)
        ends = range(shape.value_size, len(block) + 1, shape.value_size)
        for end in ends:
            yield block[end - source.randint(smallest, shape.value_size) : end]


def _options() -> Options:
    options = table_options(TableOptions(format_version=5))
    options.set_write_buffer_size(16 << 20)
    options.set_max_write_buffer_number(3)
    return options
