"""Columns of payloads by serde, against the serde itself."""

import math
import struct
import subprocess
import sys
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import EntryError, Headers
from formats.avro.schema import AvroSchema
from formats.registry import get_format
from formats.serde import BYTES, Serde
from formats.serdes.avro_frame import Frame, Part, SchemaId, framed_headers
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.boolean import BooleanSerde
from formats.serdes.json_text import JsonSerde
from formats.serdes.list_serde import ListSerde
from formats.serdes.numeric import NUMBERS, NumberSerde
from formats.serdes.text import StringSerde, UuidSerde
from migrate.engine.rows.row_reader import RowReader
from migrate.errors import ChunkFailedError, ConversionError, SpecError
from migrate.stores.batch import Batch
from tests.formats.serdes.schemas import GUID, NEW, OLD, record

PLAIN = get_format("kafka-streams.key-value")
WITH_HEADERS = get_format("kafka-streams.headers-key-value")
SERDES: list[Serde] = [
    BYTES,
    StringSerde(),
    UuidSerde(),
    BooleanSerde(),
    *(NumberSerde(name, endian) for name in NUMBERS for endian in ("big", "little")),
    ListSerde(StringSerde()),
    ListSerde(NumberSerde("int32")),
    ListSerde(UuidSerde()),
    ListSerde(ListSerde(BYTES)),
]
OBJECTS: dict[str, st.SearchStrategy[Any]] = {
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
    "uuid": st.uuids(),
    "boolean": st.booleans(),
    "float": st.floats(width=32),
    "double": st.floats(),
    **{f"int{bits}": st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (16, 32, 64)},
}


def _objects(serde: Serde) -> st.SearchStrategy[Any]:
    if isinstance(serde, ListSerde):
        return st.lists(st.none() | _objects(serde.inner), max_size=4)
    return OBJECTS[serde.name]


def _payloads(serde: Serde) -> st.SearchStrategy[bytes]:
    written = _objects(serde).map(serde.encode)
    cut = st.tuples(written, st.integers(1, 3)).map(lambda pair: pair[0][: -pair[1]])
    return written | written | written | cut | written.map(bytes.upper) | st.binary(max_size=40)


def _shown(found: object) -> object:
    """An object as Arrow gives it back; numbers that are not equal to themselves by their bits."""
    if isinstance(found, list):
        return [_shown(each) for each in found]
    if isinstance(found, float):
        return struct.pack(">d", found) if not math.isnan(found) else "nan"
    return str(found) if isinstance(found, UUID) else found


def _decoded(serde: Serde, payload: bytes) -> tuple[object, bool]:
    try:
        return _shown(serde.decode(payload)), True
    except EntryError:
        return None, False


@pytest.mark.parametrize("serde", SERDES, ids=str)
@settings(max_examples=40)
@given(data=st.data())
def test_a_column_is_what_the_serde_decodes(serde: Serde, data: st.DataObject) -> None:
    payloads = data.draw(st.lists(_payloads(serde), max_size=8))
    batch = Batch([bytes([number]) for number in range(len(payloads))], payloads)
    rows = RowReader(PLAIN, value=serde, columns=["value"], permissive=True).rows(batch, "0_0", 0)
    rows.validate(full=True)
    wanted = [_decoded(serde, payload) for payload in payloads]
    assert [_shown(each) for each in rows["value"].to_pylist()] == [each for each, _ in wanted]
    assert [each is None for each in rows["_error"].to_pylist()] == [is_right for _, is_right in wanted]
    strict = RowReader(PLAIN, value=serde, columns=["value"])
    if all(is_right for _, is_right in wanted):
        found = strict.rows(batch, "0_0", 0)["value"]
        assert [_shown(each) for each in found.to_pylist()] == [each for each, _ in wanted]
    else:
        first = next(number for number, (_, is_right) in enumerate(wanted) if not is_right)
        with pytest.raises(ConversionError, match="its value is not what the serde") as caught:
            strict.rows(batch, "0_0", 0)
        assert caught.value.key == bytes([first])


@pytest.mark.parametrize(
    "serde, kind",
    [
        (BYTES, pa.binary()),
        (StringSerde(), pa.string()),
        (UuidSerde(), pa.string()),
        (JsonSerde(), pa.string()),
        (BooleanSerde(), pa.bool_()),
        (NumberSerde("int16"), pa.int16()),
        (NumberSerde("float", "little"), pa.float32()),
        (ListSerde(NumberSerde("int64")), pa.list_(pa.int64())),
    ],
    ids=str,
)
def test_types(serde: Serde, kind: pa.DataType) -> None:
    assert RowReader(PLAIN, key=serde).schema.field("key").type == kind


def test_columns_that_are_never_null() -> None:
    assert RowReader(PLAIN).filled == {"task", "key", "value"}
    assert RowReader(PLAIN, permissive=True).filled == set()
    assert RowReader(get_format("kafka-streams.versioned")).filled == {"task", "key"}
    maybe = AvroSerde(((None, AvroSchema('["null", "string"]')),), "none")
    assert RowReader(PLAIN, value=maybe).filled == {"task", "key"}


def test_json_stays_the_text_that_it_is() -> None:
    payload = '{"a": 1.0,\n "a": "ä"}'
    rows = RowReader(PLAIN, value=JsonSerde(), permissive=True).rows(
        Batch([b"k", b"l"], [payload.encode(), b"\xff"]), "0_0", 0
    )
    assert rows["value"].to_pylist() == [payload, None]
    assert rows["_error"].to_pylist()[1].endswith("not UTF-8 text: invalid start byte at byte 0")


def _framed(frame: Frame, *schemas: tuple[SchemaId, AvroSchema]) -> AvroSerde:
    return AvroSerde(schemas, frame)


def test_payloads_of_several_schemas_are_resolved_to_the_last_one() -> None:
    old, new = _framed("confluent", (1, OLD)), _framed("confluent", (7, NEW))
    written = [old.encode({"a": "x", "n": 5}), new.encode({"n": 6, "b": "y"}), old.encode({"a": "z", "n": 7})]
    payloads = [*written, b"\0\0\0\0\x09\x02", b"\0\0\0\0\x01\xff"]
    reader = RowReader(PLAIN, value=_framed("confluent", (1, OLD), (7, NEW)), columns=["value"], permissive=True)
    rows = reader.rows(Batch([b"a", b"b", b"c", b"d", b"e"], payloads), "0_0", 0)
    resolved = [{"n": 5, "b": "none"}, {"n": 6, "b": "y"}, {"n": 7, "b": "none"}]
    assert rows["value"].to_pylist() == [*resolved, None, None]
    reasons = rows["_error"].to_pylist()
    assert reasons[:3] == [None] * 3
    assert "written by the schema 9, which the spec does not name" in reasons[3]
    assert "damaged" in reasons[4] or "needs at least" in reasons[4]


def test_schemas_that_do_not_resolve_are_refused() -> None:
    with pytest.raises(SpecError, match="schema 1 cannot be read by the last schema named"):
        RowReader(PLAIN, value=_framed("confluent", (1, OLD), (2, record(("z", "int")))))


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_schema_that_headers_name(part: Part) -> None:
    serde = AvroSerde(((GUID, OLD), (3, OLD)), "header", part)
    headers = framed_headers("header", part, GUID, Headers.of([("other", None)]))
    payload = AvroSerde(((None, OLD),), "none").encode({"a": "x", "n": 5})
    plain = b"\0\0\0\0\3" + payload
    entries = [(payload, headers), (plain, Headers()), (payload, Headers())]
    stored = []
    for number, (one, own) in enumerate(entries):
        key, found = (one, b"") if part == "key" else (bytes([number]), one)
        stored.append((key, WITH_HEADERS.value_layout.pack(found, {"timestamp": 1, "headers": own})))
    batch = Batch([key for key, _ in stored], [found for _, found in stored])
    rows = RowReader(
        WITH_HEADERS,
        key=serde if part == "key" else None,
        value=serde if part == "value" else None,
        columns=[part],
        permissive=True,
    ).rows(batch, "0_0", 0)
    assert rows[part].to_pylist() == [{"a": "x", "n": 5}, {"a": "x", "n": 5}, None]
    assert [each is None for each in rows["_error"].to_pylist()] == [True, True, False]


def test_rows_are_read_without_pandas() -> None:
    """Which Arrow imports on its own for an array of numpy's: it would be in each worker's memory."""
    program = """
import sys
from formats import Headers
from formats.serdes.numeric import NumberSerde
from formats.serdes.text import StringSerde
from formats.registry import get_format
from migrate.engine.rows.row_reader import RowReader
from migrate.stores.batch import Batch
known = get_format("kafka-streams.headers-window")
value = known.value_layout.pack(b"1234", {"timestamp": 5, "headers": Headers.of([("a", None)])})
batch = Batch([b"k" + bytes(12), b"kk" + bytes(12)], [value] * 2)
serdes = {"key": StringSerde(), "value": NumberSerde("int32")}
rows = RowReader(known, **serdes, window_size_ms=5, permissive=True).rows(batch, "0_0", 0)
print(len(rows), "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "2 False\n"


def test_a_number_of_another_size_is_none() -> None:
    batch = Batch([b"a", b"b", b"c"], [b"\0\0\0\1", b"\0\0\0\1\0", b"\0"])
    rows = RowReader(PLAIN, value=NumberSerde("int32"), permissive=True).rows(batch, "0_0", 0)
    assert rows["value"].to_pylist() == [1, None, None]


def test_a_list_of_avro_values() -> None:
    serde = ListSerde(_framed("confluent", (1, OLD), (7, NEW)))
    payload = ListSerde(_framed("confluent", (1, OLD))).encode([{"a": "x", "n": 5}, None])
    rows = RowReader(PLAIN, value=serde).rows(Batch([b"k"], [payload]), "0_0", 0)
    assert rows["value"].to_pylist() == [[{"n": 5, "b": "none"}, None]]


def test_more_than_a_column_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrate.engine.rows.spans._MOST", 3)
    with pytest.raises(ChunkFailedError, match="more than 2 GiB"):
        RowReader(PLAIN).rows(Batch([b"k"], [b"1234"]), "0_0", 0)
    assert len(RowReader(PLAIN, columns=["key"]).rows(Batch([b"k"], [b"1234"]), "0_0", 0)) == 1
