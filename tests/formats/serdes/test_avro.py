"""Avro payloads: frames, several writers, what is refused, and what becomes of a record's headers."""

import pickle
import re
import struct
import zlib
from dataclasses import replace
from uuid import UUID

import pytest

from formats.avro.schema import AvroSchema
from formats.conversion import compile_serdes
from formats.encoding.headers import Headers
from formats.errors import EntryError, InvalidEntryError, TruncatedEntryError
from formats.program import run_operations
from formats.serdes.avro_frame import Frame, SchemaId, pack_guid
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.conversions import resolving
from tests.formats.serdes.schemas import GUID, NEW, OLD, OTHER, SECOND_GUID

DATA = bytes.fromhex("04686901")
"""{"a": "hi", "n": -1}, as OLD writes it."""
FRAMED = bytes.fromhex("000000002a04686901")
"""The same in a Confluent frame with id 42; captured from Confluent's Python serializer."""
OBJECT = {"a": "hi", "n": -1}
VALUE_HEADER = "__value_schema_id"
GUID_VALUE = bytes.fromhex("0189791762233641869674299b90a802e2")
"""What Confluent's own tests expect for GUID."""


def _serde(frame: str, *schemas: tuple[SchemaId, AvroSchema], part: str = "value") -> AvroSerde:
    return AvroSerde(schemas, frame, part)  # type: ignore[arg-type]


PREFIXED = _serde("confluent", (42, OLD))
SCHEMALESS = _serde("none", (None, OLD))
HEADED = _serde("header", (GUID, OLD), (SECOND_GUID, OTHER), (42, OLD))
HEADERS = Headers.of([(VALUE_HEADER, GUID_VALUE)])


def test_confluents_own_bytes_are_read_and_written() -> None:
    assert PREFIXED.decode(FRAMED) == OBJECT
    assert PREFIXED.encode(OBJECT) == FRAMED


def test_without_a_frame_there_is_only_avro() -> None:
    assert SCHEMALESS.decode(DATA) == OBJECT
    assert SCHEMALESS.encode(OBJECT) == DATA


def test_a_header_names_the_schema_by_its_guid() -> None:
    assert pack_guid(GUID) == GUID_VALUE
    assert HEADED.decode_with(DATA, HEADERS) == OBJECT
    written = _serde("header", (GUID, OLD))
    assert written.encode(OBJECT) == DATA
    assert list(written.with_headers(None)) == [(VALUE_HEADER, GUID_VALUE)]


def test_one_store_holds_what_several_schemas_wrote() -> None:
    serde = _serde("confluent", (1, OLD), (7, OTHER))
    assert serde.decode(b"\0\0\0\0\1" + DATA) == OBJECT
    assert serde.decode(b"\0\0\0\0\7" + b"\x02x") == {"text": "x"}


def test_a_key_has_a_header_of_its_own() -> None:
    headers = Headers.of([("__key_schema_id", GUID_VALUE), (VALUE_HEADER, pack_guid(SECOND_GUID))])
    assert _serde("header", (GUID, OLD), part="key").decode_with(DATA, headers) == OBJECT
    assert HEADED.decode_with(b"\x02x", headers) == {"text": "x"}


# Which header counts


def test_of_several_headers_the_last_one_counts_as_for_java() -> None:
    headers = Headers.of([(VALUE_HEADER, pack_guid(SECOND_GUID)), (VALUE_HEADER, GUID_VALUE)])
    assert HEADED.decode_with(DATA, headers) == OBJECT


@pytest.mark.parametrize(
    "headers", [None, Headers(), Headers.of([("other", GUID_VALUE)]), Headers.of([(VALUE_HEADER, None)])], ids=str
)
def test_without_the_header_the_payload_has_a_prefix(headers: Headers | None) -> None:
    assert HEADED.decode_with(FRAMED, headers) == OBJECT
    with pytest.raises(EntryError, match="no Confluent frame: the first byte is 0x04"):
        HEADED.decode_with(DATA, headers)


def test_a_header_wins_over_a_prefix() -> None:
    with pytest.raises(EntryError):
        HEADED.decode_with(FRAMED, HEADERS)


def test_a_header_may_hold_an_id_too() -> None:
    assert HEADED.decode_with(DATA, Headers.of([(VALUE_HEADER, FRAMED[:5])])) == OBJECT


@pytest.mark.parametrize("value", [b"", b"\x01", GUID_VALUE[:-1], GUID_VALUE + b"\0", b"\x02" + GUID_VALUE[1:]])
def test_a_header_that_names_nothing_is_a_reject(value: bytes) -> None:
    with pytest.raises(InvalidEntryError, match="a schema id header that is neither"):
        HEADED.decode_with(DATA, Headers.of([(VALUE_HEADER, value)]))


def test_a_schemaless_or_prefixed_payload_cares_for_no_header() -> None:
    headers = Headers.of([(VALUE_HEADER, b"nonsense")])
    assert SCHEMALESS.decode_with(DATA, headers) == OBJECT
    assert PREFIXED.decode_with(FRAMED, headers) == OBJECT


# The headers of the new record


def test_the_new_record_has_one_header_and_it_is_right() -> None:
    headers = Headers.of([(VALUE_HEADER, b"old"), ("h", b"x"), (VALUE_HEADER, b"older"), ("h", None)])
    found = _serde("header", (GUID, OLD)).with_headers(headers)
    assert list(found) == [("h", b"x"), ("h", None), (VALUE_HEADER, GUID_VALUE)]


@pytest.mark.parametrize("serde", [PREFIXED, SCHEMALESS], ids=["confluent", "none"])
def test_a_header_that_would_contradict_the_new_payload_goes(serde: AvroSerde) -> None:
    headers = Headers.of([(VALUE_HEADER, GUID_VALUE), ("h", b"x"), ("__key_schema_id", GUID_VALUE)])
    assert list(serde.with_headers(headers)) == [("h", b"x"), ("__key_schema_id", GUID_VALUE)]


def test_headers_without_it_stay_as_they_are() -> None:
    headers = Headers.of([("h", b"x")])
    assert PREFIXED.with_headers(headers) is headers
    assert PREFIXED.with_headers(None) == Headers()


# Rejects


@pytest.mark.parametrize("size", range(5))
def test_a_frame_that_is_cut_off_is_a_reject(size: int) -> None:
    with pytest.raises(TruncatedEntryError, match=f"Confluent frame has {size} bytes"):
        PREFIXED.decode(FRAMED[:size])


@pytest.mark.parametrize("size", range(5, 9))
def test_a_value_that_is_cut_off_is_a_reject(size: int) -> None:
    with pytest.raises(EntryError):
        PREFIXED.decode(FRAMED[:size])


def test_bytes_behind_the_value_are_a_reject() -> None:
    with pytest.raises(EntryError):
        PREFIXED.decode(FRAMED + b"\0")


def test_an_unknown_id_is_a_reject_that_names_the_known_ones() -> None:
    serde = _serde("confluent", *((number, OLD) for number in range(1, 12)))
    with pytest.raises(InvalidEntryError, match=r"the schema 42, which the spec does not name; known: 1, .*, \.\.\."):
        serde.decode(FRAMED)
    with pytest.raises(InvalidEntryError, match=f"the schema {UUID(int=1)}, which the spec does not name"):
        HEADED.decode_with(DATA, Headers.of([(VALUE_HEADER, pack_guid(UUID(int=1)))]))


def test_a_payload_without_its_frame_is_a_reject() -> None:
    with pytest.raises(InvalidEntryError, match="the first byte is 0x04, not 0x00"):
        PREFIXED.decode(DATA + b"xxxx")


def test_ids_are_unsigned_on_disk() -> None:
    with pytest.raises(InvalidEntryError, match="the schema 4294967295"):
        PREFIXED.decode(struct.pack(">BI", 0, 0xFFFFFFFF))


def test_what_does_not_fit_the_schema_is_a_reject() -> None:
    for wrong in ({"a": "hi"}, {"a": "hi", "n": "x"}, {"a": "hi", "n": 1, "z": 2}, "hi"):
        with pytest.raises(InvalidEntryError):
            PREFIXED.encode(wrong)


def test_where_several_schemas_are_known_none_of_them_writes() -> None:
    with pytest.raises(InvalidEntryError, match="several schemas"):
        HEADED.encode(OBJECT)


# Resolution


def test_without_a_function_a_payload_goes_straight_to_the_new_schema() -> None:
    target = _serde("confluent", (7, NEW))
    moved = resolving(PREFIXED, target)
    assert target.encode(moved.decode(FRAMED)) == target.encode({"n": -1, "b": "none"})


def test_what_was_resolved_to_one_schema_is_not_written_as_another() -> None:
    resolved = replace(PREFIXED, reader=NEW).decode(FRAMED)
    with pytest.raises(InvalidEntryError):
        PREFIXED.encode(resolved)


def test_a_pair_that_cannot_be_resolved_is_a_reject_with_the_path() -> None:
    with pytest.raises(InvalidEntryError, match=r"schema 42 cannot be read as the new one: .*text"):
        replace(PREFIXED, reader=OTHER).decode(FRAMED)


def test_a_serde_can_be_carried_to_an_executor() -> None:
    HEADED.decode_with(DATA, HEADERS)
    copy = pickle.loads(pickle.dumps(HEADED))
    assert copy == HEADED
    assert copy.decode_with(DATA, HEADERS) == OBJECT


GLUE_ID = UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")
LONG_ID = 1 << 40


@pytest.mark.parametrize(
    ("frame", "schema_id", "head"),
    [("apicurio", LONG_ID, struct.pack(">bq", 0, LONG_ID)), ("glue", GLUE_ID, b"\3\0" + GLUE_ID.bytes)],
)
def test_frames_of_other_registries_are_read_and_written(frame: Frame, schema_id: SchemaId, head: bytes) -> None:
    number = AvroSchema('"long"')
    other, confluent = AvroSerde(((schema_id, number),), frame), AvroSerde(((7, number),), "confluent")
    assert other.decode(head + b"\x0a") == 5
    assert other.encode(5) == head + b"\x0a"
    for source, target, payload, expected in (
        (other, confluent, head + b"\x0a", b"\0\0\0\0\7\x0a"),
        (confluent, other, b"\0\0\0\0\7\x0a", head + b"\x0a"),
    ):
        operations = compile_serdes(source, target)
        assert operations is not None
        assert run_operations(operations, payload) == expected
        assert target.encode(replace(source, reader=number).decode(payload)) == expected
    for size in range(len(head)):
        with pytest.raises(EntryError):
            other.decode(head[:size])


def test_a_compressed_payload_of_glue_is_rejected_with_a_sentence() -> None:
    serde = AvroSerde(((GLUE_ID, AvroSchema('"long"')),), "glue")
    with pytest.raises(InvalidEntryError, match="a Glue payload compressed with zlib: only payloads that are not"):
        serde.decode(b"\3\5" + GLUE_ID.bytes + zlib.compress(b"\x0a"))


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (struct.pack(">bq", 0, 15) + b"\2", "00, then eight bytes: Apicurio's, id 15"),
        (b"\3\0" + GLUE_ID.bytes + b"\2", f"03: AWS Glue's, schema version {GLUE_ID}, not compressed"),
        (b"\3\5" + GLUE_ID.bytes + b"\2", f"03: AWS Glue's, schema version {GLUE_ID}, compressed with zlib"),
        (struct.pack(">bi", 0, 9) + b"\0\x08\1\x12\1w", "00, then the id 9 and what may be message indexes"),
        (struct.pack(">bi", 0, 9) + b'{"id":1}', "00, then the id 9 and JSON: Confluent's for JSON Schema"),
        (struct.pack(">bi", 0, 9) + b"\2", "00, then the id 9: Confluent's"),
        (struct.pack(">bi", 0, 9) + b"\0\7abc", "00, then the id 9: Confluent's"),  # no kind of field of Protobuf's
        (struct.pack(">bi", 0, 9) + b"\0\x0a\5a", "00, then the id 9: Confluent's"),  # nor its size
        (b"\2ab", "no frame that is known"),
        (b"", "no frame that is known"),
    ],
)
def test_the_reason_names_the_frame_that_the_bytes_show(payload: bytes, shown: str) -> None:
    serde = AvroSerde(((1, AvroSchema('"long"')),), "confluent")
    with pytest.raises(
        EntryError, match=re.escape(f"the spec's frame is 'confluent', and the bytes look like {shown}")
    ):
        serde.decode(payload)


def test_bytes_that_do_not_fit_may_have_a_frame_that_the_spec_leaves_out() -> None:
    serde = AvroSerde(((None, AvroSchema('"string"')),), "none")
    with pytest.raises(EntryError, match="the spec's frame is 'none', and the bytes look like 00, then the id 9: Conf"):
        serde.decode(struct.pack(">bi", 0, 9) + b"\4ab")
    with pytest.raises(EntryError) as caught:
        serde.decode(b"\4a")
    assert "frame" not in str(caught.value)
