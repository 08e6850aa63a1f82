"""A Delta table whose rows fill a store: one version of it, its files, and what must hold of all its rows.

What is found wrong is told before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from migrate.batch.chunk.table_rows import TableFileReader, TableRows, segment_starts
from migrate.batch.source.restored_source import check_made, import_record
from migrate.batch.source.source import source_system
from migrate.engine.rows.row_encoder import RowEncoder
from migrate.errors import RefusedError
from migrate.model.restored import TableFile
from migrate.spec.spec import Spec
from migrate.stores.files import delta_uri

_READ = {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "invariants", "appendOnly"}
"""What a table may be marked with: none of it changes how a file is read. Vectors themselves are refused."""
_VECTORS = "deletionVectors"
_TEXTS = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean)
_SPARK = "in Spark, with Delta's jars (io.delta:delta-spark): "


@dataclass(frozen=True, slots=True)
class RowTable:
    """One version of a table."""

    path: Path
    id: str
    version: int
    schema: pa.Schema
    files: tuple[TableFile, ...]

    @property
    def name(self) -> str:
        return f"{self.path}, version {self.version}"


def open_table(path: Path, version: int | None) -> RowTable:
    """A version of a table; None: its newest. Raises RefusedError where it is none that we can read."""
    try:
        newest = DeltaTable(delta_uri(path))
    except TableNotFoundError:
        raise RefusedError(
            f"{path} is no Delta table", hint="name the directory of one, such as `stateferry export` writes"
        ) from None
    except DeltaError as error:
        raise RefusedError(f"the Delta table {path} cannot be read: {_first(error)}", hint="is it whole?") from error
    found = newest if version in (None, newest.version()) else _of_version(path, version, newest.version())
    _check_features(path, found)
    schema = pa.schema(found.schema().to_arrow())
    constants = found.metadata().partition_columns
    for name in constants:
        if not any(is_text(schema.field(name).type) for is_text in _TEXTS) and name not in ("task", "partition"):
            raise RefusedError(
                f"{path}: the partition column {name!r} is {schema.field(name).type}, which is not read yet",
                hint="write the table without that partition column",
            )
    files = tuple(sorted(_files(found, constants), key=lambda each: each.path))
    return RowTable(path, str(found.metadata().id), found.version(), schema, files)


def _of_version(path: Path, version: int | None, newest: int) -> DeltaTable:
    try:
        return DeltaTable(delta_uri(path), version=version)
    except DeltaError as error:
        raise RefusedError(
            f"the Delta table {path} has no version {version} that can be read: {_first(error)}",
            hint=f"the newest is {newest}; earlier ones are gone once the log was cleaned up",
        ) from error


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _check_features(path: Path, table: DeltaTable) -> None:
    features = set(table.protocol().reader_features or ())
    settings = table.metadata().configuration
    if settings.get("delta.columnMapping.mode", "none") != "none":
        raise RefusedError(
            f"{path} maps its columns to other names (delta.columnMapping.mode), which is not read yet",
            hint=f"{_SPARK}write its rows to a new table, without that property",
        )
    if _VECTORS in features and _has_vectors(table):
        raise RefusedError(
            f"{path} has deletion vectors, which mark rows of its files as deleted, and delta-rs does not read them",
            hint=f"{_SPARK}REORG TABLE delta.`{path}` APPLY (PURGE) writes those files again without them; then import "
            "the newest version",
        )
    if unknown := sorted(features - _READ):
        raise RefusedError(
            f"{path} has features that are not read yet: {', '.join(unknown)}",
            hint=f"{_SPARK}write its rows to a new table, without them",
        )


def _has_vectors(table: DeltaTable) -> bool:
    try:
        return bool(pa.RecordBatchReader.from_stream(table.deletion_vectors()).read_all().num_rows)
    except DeltaError:
        return True


def _files(table: DeltaTable, constants: list[str]) -> Iterator[TableFile]:
    for each in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        values = {name: each[f"partition.{name}"] for name in constants}
        yield TableFile(
            path=unquote(each["path"]),
            size=each["size_bytes"],
            constants={name: None if value is None else str(value) for name, value in values.items()},
        )


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What all rows of a table were found to be."""

    files: tuple[TableFile, ...]
    """With their row groups."""
    starts: tuple[int, ...]
    """Of the segments that windowed rows belong in, ascending, in milliseconds."""


def survey(table: RowTable, encoder: RowEncoder, segment_ms: int | None) -> Surveyed:
    """Read what makes the keys' places, of every row that could be wrong. `segment_ms`: None: there are no segments.

    Raises SpecError for other columns, RefusedError for a null where there can be none and for a time before 1970,
    CorruptionError for a file that cannot be read.
    """
    encoder.check(table.schema)
    files, starts = [], set[int]()
    for file in table.files:
        with TableFileReader(table.path, file) as reader:
            metadata = reader.opened.metadata
            for group in range(metadata.num_row_groups):
                wanted = [
                    name
                    for name in encoder.key_columns
                    if (segment_ms is not None and name == encoder.time_column) or not reader.has_no_nulls(group, name)
                ]
                columns = pa.schema([encoder.schema.field(name) for name in wanted])
                for first, rows in reader.batches(group, columns) if wanted else ():
                    _check_rows(rows, file, first)
                    if segment_ms is not None:
                        starts |= {*segment_starts(rows.column(encoder.time_column), segment_ms).tolist()}
            groups = tuple(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
            files.append(file.model_copy(update={"groups": groups, "rows": metadata.num_rows}))
    if starts and min(starts) < 0:
        raise RefusedError(
            f"{table.name}: a {encoder.time_column} is before 1970, and the store's owner keeps no such record",
            hint="correct those rows, or leave them out",
        )
    return Surveyed(tuple(files), tuple(sorted(starts)))


def _check_rows(rows: pa.RecordBatch, file: TableFile, first: int) -> None:
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if column.null_count:
            row = first + column.is_null().index(True).as_py()
            raise RefusedError(
                f"row {row} of {file.path}: its {name} is null, and a record has none without it",
                hint="correct such rows, or leave them out, in the table; then import its new version",
            )


def segment_ms(spec: Spec) -> int | None:
    """The time that one segment of the store covers; None: it has no segments."""
    if not spec.has_segments:
        return None
    assert spec.source.retention_ms is not None
    return source_system(spec).segments.size(spec.source.retention_ms, spec.source.segment_ms)


def table_inputs(spec: Spec) -> tuple[TableRows, ...]:
    """What is read of the table that the migration imports. Raises RefusedError where none was named."""
    check_made(spec)
    record, store = import_record(spec), spec.source.store
    assert record is not None
    assert store is not None
    size = segment_ms(spec)
    return tuple(
        TableRows(store=store, table=record.table, file=file, group=group, estimated_bytes=about, segment_ms=size)
        for file in record.files
        for group, about in enumerate(file.groups)
    )
