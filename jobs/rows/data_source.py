"""The data source `stateferry`: Spark calls it in Python workers, and gets Arrow columns.

It takes no filters: where a source in Python does, Spark 4.1 to 4.3 keep the filter in the DataFrame after its query,
and refuse to read it where the setting is off. `columns`, `from_key` and `to_key` are what reads less.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from migrate.errors import MigrationError, SpecError
from migrate.rows.row_options import naming_options, rows_of_options
from migrate.rows.row_source import RangeReading, RangeTask, RowSource

_COLUMNS = "read and decoded by each query, unless the option columns names others"
_KEYS = f"{_COLUMNS}; the options from_key and to_key read a part of the store, a filter all of it"


@contextmanager
def _as_a_sentence() -> Iterator[None]:
    """An error of ours ends the worker: Spark then shows its message and hint, and no stack of Python's."""
    try:
        yield
    except MigrationError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # read as the worker ends
        raise


@dataclass
class RangePartition(InputPartition):
    """What one task of Spark reads; None: nothing, of a store without any range."""

    task: RangeTask | None


class StateferrySource(DataSource):
    """Rows of one state store."""

    @classmethod
    def name(cls) -> str:
        """The name in `format`, and in SQL behind USING."""
        return "stateferry"

    @_as_a_sentence()
    def schema(self) -> StructType:
        """The columns of the options; the store is looked for, and its format checked."""
        with naming_options(self.options):
            source = rows_of_options(self.options)
            source.tasks()
        return spark_schema(source)

    @_as_a_sentence()
    def reader(self, schema: StructType) -> RangeReader:
        """A reader of the store as it is then."""
        source = rows_of_options(self.options)
        if schema != spark_schema(source):
            raise SpecError(
                "the columns of a store are those of its format, and not those of a schema",
                hint="leave .schema(...) out, and choose columns by the option `columns`",
            )
        return RangeReader(source)

    @_as_a_sentence()
    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refused."""
        raise SpecError(
            "Spark does not write into a state store",
            hint="write the rows to a Delta table; `stateferry import` makes a new store of it (docs/rows.md)",
        )


class RangeReader(DataSourceReader):
    """Reads ranges; only how they are read is sent to executors."""

    def __init__(self, source: RowSource) -> None:
        self._reading: RangeReading = source.reading
        self._schema = arrow_schema(source)
        self._source: RowSource | None = source

    def __getstate__(self) -> dict[str, object]:
        return {"_reading": self._reading, "_schema": self._schema, "_source": None}

    @_as_a_sentence()
    def partitions(self) -> list[RangePartition]:
        """The ranges of the store as it is now."""
        assert self._source is not None
        return [*map(RangePartition, self._source.tasks())] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range."""
        with _as_a_sentence():
            if isinstance(partition, RangePartition) and partition.task is not None:
                for rows in self._reading.read(partition.task):
                    _keep_what_is_loaded()
                    yield pa.RecordBatch.from_arrays(rows.columns, schema=self._schema)


def spark_schema(source: RowSource) -> StructType:
    """With what DESCRIBE shows beside each column."""
    found = from_arrow_schema(arrow_schema(source), prefer_timestamp_ntz=True)
    comments = {field.name: {"comment": _KEYS if field.name == "key" else _COLUMNS} for field in found}
    return StructType([StructField(each.name, each.dataType, each.nullable, comments[each.name]) for each in found])


def arrow_schema(source: RowSource) -> pa.Schema:
    """The columns, and which of them are never null: Spark has a cost for each value that may be."""
    filled = source.reading.rows.filled
    return pa.schema([field.with_nullable(field.name not in filled) for field in source.schema])


@cache
def _keep_what_is_loaded() -> None:
    """Spark collects garbage behind each task: what was loaded is none, and is not looked at again."""
    gc.freeze()
