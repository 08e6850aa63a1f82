"""What a topic or a store of timestamped values holds, read and decoded without the migration's own code."""

import io
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from tests.broker.topics import Read, messages_of
from tests.live.changelog.app import Program
from tests.live.changelog.model import PARTITIONS, SCHEMAS, Row, Rows
from tests.support import read_families

_FRAME = struct.Struct(">bI")
_TIMESTAMP = struct.Struct(">q")
_PARSED = {number: parse_schema(schema) for number, schema in SCHEMAS.items()}


def encoded(orders: Iterable[Mapping[str, Any]], schema_id: int = 1) -> bytes:
    """A value as the application writes it."""
    out = io.BytesIO(_FRAME.pack(0, schema_id))
    out.seek(0, io.SEEK_END)
    schemaless_writer(out, _PARSED[schema_id], list(orders))
    return out.getvalue()


def rows_of_topic(program: Program) -> tuple[Rows, dict[int, int]]:
    """What the program's changelog makes of its store, and the offset of the last record of each partition."""
    newest: dict[bytes, Read] = {}
    last: dict[int, int] = {}
    for each in messages_of(program.bootstrap, program.changelog):
        newest[each.key] = each
        last[each.partition] = each.offset
    rows: Rows = {
        (key.decode(), None): Row(_decoded(each.value, program.schema_id), each.timestamp_ms)
        for key, each in newest.items()
        if each.value is not None
    }
    return rows, last


def rows_of_store(program: Program) -> Rows:
    """What the store in the program's state directory holds."""
    rows: Rows = {}
    for number in range(PARTITIONS):
        held = read_families(program.folder / f"0_{number}" / "rocksdb" / program.store)["keyValueWithTimestamp"]
        for key, value in held.items():
            (timestamp,) = _TIMESTAMP.unpack_from(value)
            rows[key.decode(), None] = Row(_decoded(value[_TIMESTAMP.size :], program.schema_id), timestamp)
    return rows


def checkpoints(folder: Path) -> dict[tuple[str, int], int]:
    """(topic, partition) to offset, of all tasks."""
    lines = [line for file in folder.glob("*/.checkpoint") for line in file.read_text(encoding="ascii").split("\n")[2:]]
    words = [line.split(" ") for line in lines if line]
    return {(topic, int(number)): int(offset) for topic, number, offset in words}


def _decoded(value: bytes, schema_id: int) -> tuple[dict[str, Any], ...]:
    assert _FRAME.unpack_from(value) == (0, schema_id), value
    orders: Any = schemaless_reader(io.BytesIO(value[_FRAME.size :]), _PARSED[schema_id])
    return tuple(orders)
