"""Records as rows: columns of Avro values, against fastavro and the arrays that Arrow builds from Python's objects."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import pickle
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow as pa

from benchmarks.evolving import OLD, RECORDS, ensure_values
from benchmarks.results import Bar, Result, route_result
from benchmarks.rounds import Sample, measure, ratio, take_turns
from benchmarks.setting import Setting
from benchmarks.stores import key_of
from formats import get_format
from formats.avro.schema import AvroSchema
from formats.serdes.avro_serde import AvroSerde
from migrate.engine.rows.row_reader import RowReader
from migrate.stores.batch import Batch

AVRO_BAR = 2.0
_BATCH = 16 << 10
"""Records, as when the rows of a store are read."""
Read = Callable[[list[list[bytes]]], Iterator[pa.Array]]


def _reader() -> RowReader:
    serde = AvroSerde(((None, AvroSchema(json.dumps(OLD))),), "none")
    return RowReader(get_format("kafka-streams.key-value"), value=serde, columns=["value"])


def _by_columns() -> Read:
    reader, keys = _reader(), [key_of(number) for number in range(_BATCH)]

    def read(column: list[list[bytes]]) -> Iterator[pa.Array]:
        for values in column:
            yield reader.rows(Batch(keys[: len(values)], values), "0_0", 0)["value"]

    return read


def _by_fastavro() -> Read:
    """As one would write it."""
    schema, kind = fastavro.parse_schema(copy.deepcopy(OLD)), _reader().schema.field("value").type

    def read(column: list[list[bytes]]) -> Iterator[pa.Array]:
        for values in column:
            yield pa.array([fastavro.schemaless_reader(io.BytesIO(each), schema, None) for each in values], kind)

    return read


ROUTES = {"columns": _by_columns, "fastavro": _by_fastavro}


def read_values(route: str, file: str) -> dict[str, object]:
    """CPU seconds of the reading alone, and a digest of the rows."""
    values = pickle.loads(Path(file).read_bytes())
    column = [values[at : at + _BATCH] for at in range(0, len(values), _BATCH)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    arrays = [*ROUTES[route]()(column)]
    seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    digest = hashlib.sha256()
    for row in (row for array in arrays for row in array.to_pylist()):
        digest.update(repr(row).encode())
    return {"seconds": seconds, "digest": digest.hexdigest()}


def avro_columns(setting: Setting) -> list[Result]:
    """Avro values as a column of structs."""
    file = str(ensure_values(setting.folder))

    def sample(route: str, _: int) -> Sample:
        found = measure("avro-rows", {"route": route, "file": file})
        return replace(found, cpu=found.facts["seconds"])

    series = take_turns(setting.rounds, ROUTES, RECORDS, sample)
    if len({sample.facts["digest"] for each in series.values() for sample in each.samples}) != 1:
        raise AssertionError("the two do not read the same")
    subject = "rows, columns of Avro"
    result = route_result(subject, f"{subject}: {RECORDS:,} values", series)
    times = ratio(series["columns"], series["fastavro"], "cpu")
    result.bars = [Bar(subject, "times fastavro and pa.array, of CPU", AVRO_BAR, times)]
    return [result]


def rows(setting: Setting) -> list[Result]:
    """All of rows."""
    return avro_columns(setting)
