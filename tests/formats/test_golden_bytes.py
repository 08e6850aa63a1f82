"""Every format against bytes that the system owning it wrote."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from formats import FORMATS, Format, StateRecord, TruncatedEntryError, get_format
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
        StateRecord(bytes.fromhex(record["key"]), bytes.fromhex(record["value"]), record["timestamp_ms"]),
    )


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
    assert known.decode(b"k", bytes(shortest)).value == b""
    if shortest:
        with pytest.raises(TruncatedEntryError):
            known.decode(b"k", bytes(shortest - 1))
