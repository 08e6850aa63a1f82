"""Fields that a new Avro schema leaves out, and symbols that become its default: counted, and refused by default."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from formats import StateRecord
from migrate import RefusedError, Spec, run
from migrate.show.output import Output
from migrate.show.text.plan_text import show_plan
from tests.dry_run.support import planned
from tests.support import RAW, make_spec, make_store, read_family

OLD = [
    {"name": "name", "type": "string"},
    {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["A", "B"]}},
    {"name": "note", "type": ["null", "string"]},
]
NEW = [
    {"name": "full", "type": "string", "default": ""},
    {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["A"], "default": "A"}},
]
LOST = (
    "the field Person.name is left out: held by 300 of 300 sampled records",
    "the field Person.note is left out: held by 0 of 300 sampled records",
    "the symbol B of Person.suit becomes A: held by 100 of 300 sampled records",
)


def _schema(fields: list[Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Person", "fields": fields}


def _value(number: int) -> bytes:
    out = io.BytesIO()
    person = {"name": f"person {number}", "suit": "A" if number % 3 else "B", "note": None}
    fastavro.schemaless_writer(out, _schema(OLD), person)
    return out.getvalue()


def _spec(folder: Path, **conversion: Any) -> Spec:  # noqa: ANN401
    make_store(folder / "store", {b"%05d" % number: _value(number) for number in range(300)})
    sides = {}
    for side, fields in (("from", OLD), ("to", NEW)):
        (folder / f"{side}.avsc").write_text(json.dumps(_schema(fields)))
        sides[side] = {"serde": "avro", "frame": "none", "schema": f"{side}.avsc"}
    conversion = {"value": sides, **conversion}
    return make_spec(folder, folder / "store", source_format=RAW, target_format=RAW, conversion=conversion)


def test_what_is_left_out_is_counted_and_refused(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    report = planned(spec)
    assert (report.tried.losses, report.tried.losses_in_words) == (("loss:fields",), LOST)
    assert report.verdict.exit_code == 6
    assert "the field Person.name is left out; " in report.verdict.sentence
    assert '"loss:fields"' in report.verdict.next_step
    text = " ".join("\n".join(show_plan(report, Output())).split())
    assert all(each in text for each in LOST)
    with pytest.raises(RefusedError, match=r"the symbol B of Person\.suit becomes A"):
        run(spec)


def test_what_is_allowed_is_counted_and_converted(tmp_path: Path) -> None:
    spec = _spec(tmp_path, allow=["loss:fields"])
    report = planned(spec)
    assert report.verdict.exit_code == 0
    assert report.tried.losses_in_words == LOST
    run(spec)
    assert set(read_family(tmp_path / "new").values()) == {b"\0\0"}


def test_a_function_is_given_all_and_so_loses_nothing_by_the_schema(tmp_path: Path) -> None:
    def convert(record: StateRecord) -> StateRecord:
        return replace(record, value={"full": record.value["name"], "suit": "A"})

    report = planned(_spec(tmp_path, function=convert))
    assert (report.tried.losses, report.verdict.exit_code) == ((), 0)


def _with_another_scale(folder: Path, **conversion: Any) -> Spec:  # noqa: ANN401
    def amount(scale: int) -> dict[str, Any]:
        return {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale}}

    make_store(folder / "store", {b"%05d" % number: b"\x02\x7d" for number in range(20)})
    sides = {}
    for side, scale in (("from", 2), ("to", 4)):
        (folder / f"{side}.avsc").write_text(json.dumps(_schema([amount(scale)])))
        sides[side] = {"serde": "avro", "frame": "none", "schema": f"{side}.avsc"}
    conversion = {"value": sides, **conversion}
    return make_spec(folder, folder / "store", source_format=RAW, target_format=RAW, conversion=conversion)


def test_a_function_is_told_which_numbers_mean_something_else(tmp_path: Path) -> None:
    """It gets the bytes of a decimal: as they are, they would be other numbers by the new scale."""
    report = planned(_with_another_scale(tmp_path, function=lambda record: record))
    (warning,) = [each for each in report.warnings if "amount" in each]
    assert "Person.amount: decimal(9, 2) becomes decimal(9, 4): the function gets what is stored" in warning


def test_another_scale_without_a_function_is_one_finding(tmp_path: Path) -> None:
    checks = planned(_with_another_scale(tmp_path)).checks
    (failed,) = [each for each in checks if each.outcome == "failed"]
    assert (failed.name, "decimal(9, 2) cannot be read as decimal(9, 4)" in failed.detail) == (
        "conversion.allowed",
        True,
    )
    assert "fix the new schema" in failed.fix
    assert next(each for each in checks if each.name == "source.records").detail == "needs conversion.allowed"
