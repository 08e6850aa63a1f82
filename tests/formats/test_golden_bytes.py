"""Every format against bytes that the system owning it wrote."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from formats import FORMATS, Format, Headers, History, StateRecord, TruncatedEntryError, Version, Window, get_format
from formats.layout import HEADERS
from tests.support import FIXTURE, KEY_VALUE, TIMESTAMPED, fixture_records, read_families

VECTORS = Path(__file__).parent / "vectors"
TASKS = ("0_0", "0_1", "0_2")
KIND_OF = {"orders": KEY_VALUE, "refunds": KEY_VALUE, "customers": TIMESTAMPED}


@dataclass(frozen=True, slots=True)
class Vector:
    """One record, as it lies in the store and as the hub holds it."""

    format_id: str
    stored: tuple[bytes, bytes]
    record: StateRecord


def _vector(format_id: str, content: dict[str, Any]) -> Vector:
    stored, record = content["stored"], content["record"]
    return Vector(
        format_id,
        (bytes.fromhex(stored["key"]), bytes.fromhex(stored["value"])),
        _record(record),
    )


def _record(content: dict[str, Any]) -> StateRecord:
    """What a format does not carry is left out."""
    headers, window, history = content.get("headers"), content.get("window"), content.get("history")
    return StateRecord(
        bytes.fromhex(content["key"]),
        _bytes(content["value"]),
        content["timestamp_ms"],
        headers=None if headers is None else Headers.of((name, _bytes(value)) for name, value in headers),
        window=None if window is None else Window(**window),
        history=None if history is None else _history(history),
        expires_ms=content.get("expires_ms"),
    )


def _history(content: dict[str, Any]) -> History:
    versions = tuple(Version(each["valid_from_ms"], _bytes(each["value"])) for each in content["versions"])
    return History(content["segment"], content["valid_to_ms"], versions)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _vectors() -> list[Any]:
    return [
        pytest.param(_vector(file.stem, content), id=f"{file.stem}-{number}")
        for file in sorted(VECTORS.glob("*.json"))
        for number, content in enumerate(json.loads(file.read_text(encoding="utf-8"))["vectors"])
    ]


@pytest.mark.parametrize("vector", _vectors())
def test_decodes_what_the_owner_wrote(vector: Vector) -> None:
    assert get_format(vector.format_id).decode(*vector.stored) == vector.record


@pytest.mark.parametrize("vector", _vectors())
def test_encodes_what_the_owner_would_write(vector: Vector) -> None:
    assert get_format(vector.format_id).encode(vector.record) == vector.stored


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
def test_every_format_has_vectors_with_provenance(known: Format) -> None:
    content = json.loads((VECTORS / f"{known.id}.json").read_text(encoding="utf-8"))
    assert content["format"] == known.id
    assert content["vectors"]
    assert all(len(vector["provenance"]) > 20 for vector in content["vectors"])


def test_no_vectors_without_a_format() -> None:
    assert {file.stem for file in VECTORS.iterdir()} == {known.id for known in FORMATS}


@pytest.mark.parametrize("store", sorted(KIND_OF))
@pytest.mark.parametrize("task", TASKS)
def test_reads_and_rewrites_every_record_of_a_real_store(task: str, store: str, tmp_path: Path) -> None:
    known = get_format(KIND_OF[store])
    directory = shutil.copytree(FIXTURE / "orders-app" / task / "rocksdb" / store, tmp_path / store)
    assert known.column_families is not None
    (family,) = known.column_families
    stored = list(read_families(directory)[family].items())
    decoded = [known.decode(key, value) for key, value in stored]
    assert [(record.key, record.value, record.timestamp_ms) for record in decoded] == fixture_records(task, store)
    assert [known.encode(record) for record in decoded] == stored


@pytest.mark.parametrize("size", range(8))
def test_a_timestamped_value_cut_within_its_timestamp_is_truncated(size: int) -> None:
    value = bytes.fromhex("000000000001dc907633")[:size]
    with pytest.raises(TruncatedEntryError, match=f"has {size} bytes, the layout needs at least 8") as caught:
        get_format(TIMESTAMPED).decode(b"k", value)
    assert (caught.value.size, caught.value.needed) == (size, 8)


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
def test_the_declared_fields_say_how_short_a_value_may_be(known: Format) -> None:
    shortest = sum(field.size or 0 for field in known.value_layout.fields)
    shortest += HEADERS in known.carries  # their size takes a byte at least
    key = _stored_keys(known)[-1]  # of a versioned store, that of the latest value
    assert known.decode(key, bytes(shortest)).value == b""
    if shortest:
        with pytest.raises(TruncatedEntryError):
            known.decode(key, bytes(shortest - 1))


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
def test_a_key_cut_within_its_fixed_part_is_truncated(known: Format) -> None:
    fixed = 8 if known.kind == "versioned" else sum(field.size or 0 for field in known.key_schema.fields)
    if fixed:
        with pytest.raises(TruncatedEntryError):
            known.decode(bytes(fixed - 1), bytes(32))


def _stored_keys(known: Format) -> list[bytes]:
    content = json.loads((VECTORS / f"{known.id}.json").read_text(encoding="utf-8"))
    return sorted(bytes.fromhex(vector["stored"]["key"]) for vector in content["vectors"])
