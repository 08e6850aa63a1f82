"""Plans and receipts as they are stored."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from migrate.batch.home import load_plan, store_plan
from migrate.errors import RefusedError
from migrate.model.receipt import Receipt
from tests.shared.builders import chunk, plan, receipt, written

KEYS = st.binary(max_size=20)


@given(start=KEYS, end=KEYS, first=KEYS)
def test_a_receipt_survives_json(start: bytes, end: bytes, first: bytes) -> None:
    made = receipt(start, end, outputs=(written(first=first, file="chunks/a.sst"), written(0)))
    assert Receipt.model_validate_json(made.model_dump_json()) == made


def test_bytes_are_written_as_hex() -> None:
    content = json.loads(receipt(b"\x00\xff").model_dump_json())
    assert content["keys"] == {"start": "00ff", "end": None}


def test_a_receipt_adds_up_its_families() -> None:
    made = receipt(outputs=(written(2), written(5)))
    assert (made.records_in, made.records_out, made.bytes_in, made.bytes_out) == (3, 7, 30, 20)


def test_a_receipt_of_another_schema_is_not_read() -> None:
    content = json.loads(receipt().model_dump_json()) | {"schema_version": 2}
    with pytest.raises(ValidationError):
        Receipt.model_validate_json(json.dumps(content))


def test_a_plan_survives_storing(tmp_path: Path) -> None:
    made = plan(chunk(0, None, b"\x80\xff"), chunk(1, b"\x80\xff", None))
    store_plan(tmp_path, made)
    assert load_plan(tmp_path) == made


def test_the_newest_revision_counts(tmp_path: Path) -> None:
    for revision in (1, 2, 10):
        store_plan(tmp_path, plan(chunk(), revision=revision))
    loaded = load_plan(tmp_path)
    assert loaded is not None
    assert loaded.revision == 10


def test_no_plan_yet(tmp_path: Path) -> None:
    assert load_plan(tmp_path) is None
    assert load_plan(tmp_path / "missing") is None


@pytest.mark.parametrize(
    "change", [{"schema_version": 2}, {"migration_id": 5}, {"a_field_from_the_future": 1}], ids=lambda c: next(iter(c))
)
def test_a_plan_that_cannot_be_read_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    store_plan(tmp_path, plan(chunk()))
    (file,) = tmp_path.glob("plan-*.json")
    file.write_text(json.dumps(json.loads(file.read_bytes()) | change), encoding="utf-8")
    with pytest.raises(RefusedError, match=file.name):
        load_plan(tmp_path)


def test_a_torn_plan_is_refused(tmp_path: Path) -> None:
    store_plan(tmp_path, plan(chunk()))
    (file,) = tmp_path.glob("plan-*.json")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(RefusedError, match="damaged"):
        load_plan(tmp_path)
