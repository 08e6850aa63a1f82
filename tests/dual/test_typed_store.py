"""Objects around a store of bytes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from formats.avro.schema import AvroSchema
from formats.errors import InvalidEntryError
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.json_text import JsonSerde
from migrate import ConversionError, MemoryStore, SpecError, StateStore, StoreClosedError, TypedStore, open_store
from tests.support import RAW, make_store, raises


@dataclass(frozen=True)
class Text:
    name: str = "text"

    def decode(self, payload: bytes) -> str:
        try:
            return payload.decode()
        except UnicodeDecodeError as error:
            raise InvalidEntryError(str(error)) from error

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        return str(payload).encode()


@dataclass(frozen=True)
class Json:
    name: str = "json"

    def decode(self, payload: bytes) -> object:
        return json.loads(payload)

    def encode(self, payload: Any) -> bytes:  # noqa: ANN401
        if isinstance(payload, set):
            raise InvalidEntryError("a set is no JSON")
        return json.dumps(payload).encode()


def typed(store: StateStore) -> TypedStore[str, object]:
    return TypedStore(store, key=Text(), value=Json())


def test_objects_go_in_and_come_out(tmp_path: Path) -> None:
    directory = make_store(tmp_path / "store", {b"a": b"1"})
    with open_store(directory, format=RAW, read_only=False) as store:
        counts = typed(store)
        counts.put("b", {"n": 2})
        counts.put_all([("c", [3]), ("d", 4), ("a", None)])
        assert counts.get("b") == {"n": 2}
        assert counts.multi_get(["c", "a"]) == [[3], None]
        assert counts.put_if_absent("c", 0) == [3]
        assert counts.put_if_absent("e", 5) is None
        counts.delete("d")
        assert list(counts.all()) == [("b", {"n": 2}), ("c", [3]), ("e", 5)]
        assert list(counts.reverse_all()) == [("e", 5), ("c", [3]), ("b", {"n": 2})]
        assert list(counts.range("b", "e")) == [("b", {"n": 2}), ("c", [3])]
        assert list(counts.prefix_scan(b"c", reverse=True)) == [("c", [3])]
        assert store.get(b"b") == b'{"n": 2}'


def test_numbers_that_are_not_changed_stay_as_they_are_stored_and_none_is_rounded() -> None:
    store = MemoryStore()
    store.put(b"a", b'{"price":14.7600,"n":-0}')
    orders: TypedStore[str, Any] = TypedStore(store, key=Text(), value=JsonSerde())
    orders.put("a", {**(orders.get("a") or {}), "v": 2})
    assert store.get(b"a") == b'{"price":14.7600,"n":-0,"v":2}'
    counts: TypedStore[str, Any] = TypedStore(
        store, key=Text(), value=AvroSerde(((None, AvroSchema('"double"')),), "none")
    )
    raises(InvalidEntryError, "a double cannot hold 9007199254740993 exactly", counts.put, "b", 2**53 + 1)
    assert store.get(b"b") is None


def test_what_no_serde_can_write_is_not_written() -> None:
    counts = typed(MemoryStore())
    raises(InvalidEntryError, "a set is no JSON", counts.put_all, [("a", 1), ("b", {1})])
    assert list(counts.all()) == []


def test_bytes_that_are_no_object_are_an_error_that_names_the_key() -> None:
    store = MemoryStore()
    store.put(b"\xff\xfe", b"1")
    with pytest.raises(ConversionError, match=r"0xfffe is not what the serde 'text' reads") as refused:
        next(typed(store).all())
    assert refused.value.key == b"\xff\xfe"


def test_its_iterators_are_closed_like_those_below() -> None:
    store = MemoryStore()
    counts = typed(store)
    counts.put("a", 1)
    with counts.all() as records:
        assert next(records) == ("a", 1)
    raises(StoreClosedError, "", next, records)


def test_a_serde_that_needs_headers_is_refused(tmp_path: Path) -> None:
    """It would write what it cannot read: the schema's name would be nowhere."""
    serde = AvroSerde(((UUID(int=1), AvroSchema('"int"')),), "header")
    with (
        open_store(tmp_path / "new", format=RAW, read_only=False, create=True) as store,
        pytest.raises(SpecError, match="the frame 'header'"),
    ):
        TypedStore(store, key=Text(), value=serde)
