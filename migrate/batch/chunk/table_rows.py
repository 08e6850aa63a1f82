"""The rows of a Delta table's file, as records that are sorted into the ranges of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from migrate.batch.chunk.sorting import Note, PlacedRecords, SortInput, SortWork, Unplaced, sizes_of
from migrate.engine.rows.row_encoder import EncodedRows, RowEncoder
from migrate.engine.split import Payloads
from migrate.errors import CorruptionError, SourceChangedError
from migrate.model.restored import TableFile
from migrate.model.store_partition import WHOLE, segment_name
from migrate.stores.batch import Batch

_BATCH_RECORDS, _BATCH_BYTES = 16 << 10, 8 << 20
_TRIED = 1 << 10
_ABSENT = Note("not-carried")
_AGAIN = (
    "was the table vacuumed? restore that version of it, or start again with another: stateferry abandon SPEC, then "
    "stateferry import SPEC --from TABLE"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows(SortInput):
    """A row group of a file of a table."""

    store: str
    table: str
    """The directory."""
    file: TableFile
    group: int
    """The number of the row group."""
    estimated_bytes: int
    segment_ms: int | None = None
    """The time that one segment of the store covers; None: a store partition is one RocksDB directory."""

    def __str__(self) -> str:
        return f"{self.file.path}, row group {self.group}"

    @property
    def size(self) -> int:
        return self.estimated_bytes

    @property
    def source(self) -> str:
        return self.store

    def placed(self, work: SortWork, check: Callable[[], None]) -> Iterator[PlacedRecords]:
        """Raises ChunkFailedError for a row that is no record, SourceChangedError where the file is another one."""
        target = work.stores[self.store].load().target
        encoder, payloads = RowEncoder(target), Payloads(target)
        with TableFileReader(Path(self.table), self.file) as reader:
            for first, rows in reader.batches(self.group, encoder.schema):
                check()
                encoded = encoder.encode(rows, self.file.path, first)
                for found in self._by_segment(encoder, rows, encoded):
                    yield work.place(found, payloads)

    def sample(self, work: SortWork, most: int) -> Iterator[PlacedRecords]:
        """The keys of about so many rows, without values, at equal distances: the rows may be in the order of keys.

        Raises ChunkFailedError for such a key that cannot be written, and for any part of one of the first rows.
        """
        target = work.stores[self.store].load().target
        encoder, payloads = RowEncoder(target), Payloads(target)
        columns = pa.schema([encoder.schema.field(name) for name in encoder.key_columns])
        with TableFileReader(Path(self.table), self.file) as reader:
            for first, rows in islice(reader.batches(self.group, encoder.schema), 1):
                encoder.encode(rows.slice(0, _TRIED), self.file.path, first)
            step = max(1, reader.opened.metadata.row_group(self.group).num_rows // most)
            for first, rows in reader.batches(self.group, columns):
                start = -first % step
                if start < len(rows):
                    some = rows.take(pa.array(range(start, len(rows), step)))
                    keys = encoder.encode_keys(some, self.file.path, first + start, step)
                    encoded = EncodedRows(Batch(keys, [b""] * len(keys)), np.zeros(len(keys), bool))
                    for found in self._by_segment(encoder, some, encoded):
                        yield work.place(found, payloads)

    def _by_segment(self, encoder: RowEncoder, rows: pa.RecordBatch, encoded: EncodedRows) -> Iterator[Unplaced]:
        if self.segment_ms is None:
            yield self._unplaced(WHOLE, encoded)
            return
        starts = segment_starts(rows.column(encoder.time_column), self.segment_ms)
        for start in np.unique(starts).tolist():
            mine = starts == start
            some = EncodedRows(encoded.records.where(mine.tolist()), encoded.is_absent[mine])
            yield self._unplaced(segment_name(self.store, start), some)

    def _unplaced(self, database: str, encoded: EncodedRows) -> Unplaced:
        notes = [_ABSENT if is_so else None for is_so in encoded.is_absent.tolist()]
        found = notes if encoded.is_absent.any() else None
        return Unplaced(self.store, "", database, 0, encoded.records, sizes_of(encoded.records), found)


class TableFileReader:
    """Reads a file of a table as the columns that are asked for."""

    def __init__(self, table: Path, file: TableFile) -> None:
        """Raises SourceChangedError where it is not there, or not as it was; CorruptionError where it is damaged."""
        self._file, self._path = file, table / file.path
        size = self._path.stat().st_size if self._path.is_file() else None
        if size != file.size:
            what = "is gone" if size is None else f"has {size} bytes, and {file.size} by the table's log"
            raise SourceChangedError(f"{self._path} {what}", hint=_AGAIN)
        self.opened = self._tried(lambda: pq.ParquetFile(self._path, coerce_int96_timestamp_unit="us"))

    def __enter__(self) -> TableFileReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    def first_row(self, group: int) -> int:
        """The number of rows before a row group."""
        metadata = self.opened.metadata
        return sum(metadata.row_group(number).num_rows for number in range(group))

    def has_no_nulls(self, group: int, name: str) -> bool:
        """Whether the file tells that a column has a value in each row of a row group."""
        about = self.opened.metadata.row_group(group)
        leaves = (about.column(number) for number in range(about.num_columns))
        own = (leaf.statistics for leaf in leaves if leaf.path_in_schema.partition(".")[0] == name)
        return any(found is not None and found.has_null_count and found.null_count == 0 for found in own)

    def batches(self, group: int, wanted: pa.Schema) -> Iterator[tuple[int, pa.RecordBatch]]:
        """(which row of the file is the first, up to so many rows of a row group in the columns `wanted`)."""
        there = [name for name in wanted.names if name in self.opened.schema_arrow.names]
        about = self.opened.metadata.row_group(group)
        count = min(max(_BATCH_BYTES * about.num_rows // (about.total_byte_size or 1), 1), _BATCH_RECORDS)
        found = self.opened.iter_batches(count, [group], there, use_threads=False)
        first = self.first_row(group)
        while (batch := self._tried(lambda: next(found, None))) is not None:
            yield first, self._tried(lambda: self._columns(batch, wanted))
            first += len(batch)

    def _columns(self, batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
        """Columns of the table's partitions, and those that the table got after this file, are not in the file."""
        columns = []
        for field in wanted:
            value = self._file.constants.get(field.name)
            if field.name in batch.schema.names:
                columns.append(batch.column(field.name).cast(field.type))
            elif value is None:
                columns.append(pa.nulls(len(batch), field.type))
            else:
                columns.append(pa.repeat(pa.scalar(value, pa.string()).cast(field.type), len(batch)))
        return pa.RecordBatch.from_arrays(columns, schema=wanted)

    def _tried(self, work: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        try:
            return work()
        except (pa.ArrowException, OSError) as error:
            raise CorruptionError(f"{self._path} cannot be read: {str(error).splitlines()[0]}", hint=_AGAIN) from error


def segment_starts(times: pa.Array, segment_ms: int) -> npt.NDArray[np.int64]:
    """Where the segments of these times start, in milliseconds; none of the times is null."""
    millis = np.frombuffer(times.buffers()[1], np.int64)[times.offset : times.offset + len(times)] // 1000
    starts: npt.NDArray[np.int64] = millis // segment_ms * segment_ms
    return starts
