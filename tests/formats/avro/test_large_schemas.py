"""Schemas as generators write them: tens of thousands of fields, types and symbols; unions of hundreds of branches."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from formats.avro.compiling import compile_schemas
from formats.avro.program import run_avro
from formats.avro.resolving import findings, resolve, write
from formats.avro.schema import AvroSchema, types_of
from formats.errors import SchemaError

Json = Any

FEW, MANY = 10_000, 60_000
MOST = 15
"""How much longer six times as many fields may take: about 6 times without a quadratic step, and 36 times by one."""


def _field(number: int, of: Json, **more: object) -> Json:
    return {"name": f"field{number}", "type": of, **more}


def _flat(count: int, of: str) -> Json:
    return {"type": "record", "name": "R", "fields": [_field(number, of) for number in range(count)]}


def _renamed(count: int, of: str) -> Json:
    fields = [_field(number, of, aliases=[f"field{number}"]) | {"name": f"new{number}"} for number in range(count)]
    return {"type": "record", "name": "R", "fields": fields}


def _types(count: int, of: str) -> Json:
    """A record of records, each of which refers to the one before it."""
    fields = [
        _field(
            number,
            {
                "type": "record",
                "name": f"T{number}",
                "fields": [_field(0, of), *([_field(1, ["null", f"T{number - 1}"])] if number else [])],
            },
        )
        for number in range(count // 2)
    ]
    return {"type": "record", "name": "R", "fields": fields}


def _symbols(count: int, of: str) -> Json:
    symbols = [f"S{number}" for number in range(count)]
    return {"type": "enum", "name": "R", "symbols": symbols + ["M", "N"][: of == "int"], "default": "S0"}


SHAPES: dict[str, Callable[[int, str], Json]] = {
    "fields": _flat,
    "renamed": _renamed,
    "types": _types,
    "symbols": _symbols,
}


def seconds_to_match(count: int) -> float:
    """Of the processor, to parse, match and compile a pair of schemas of each shape."""
    begun = time.process_time()
    for make in SHAPES.values():
        old, new = AvroSchema(json.dumps(make(count, "int"))), AvroSchema(json.dumps(make(count, "long")))
        assert findings(old, new).risks == []
        assert compile_schemas(old, new).main
    return time.process_time() - begun


def test_tens_of_thousands_of_fields_are_matched_without_a_quadratic_step() -> None:
    """In a process of its own, which leaves no garbage to others."""
    code = f"from {__name__} import seconds_to_match; print(*map(seconds_to_match, ({FEW}, {MANY})))"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True, text=True)
    few, many = map(float, done.stdout.split())
    assert many < MOST * few, (few, many)


@pytest.mark.parametrize("shape", SHAPES)
def test_small_ones_of_the_same_shapes_are_matched_right(shape: str) -> None:
    old, new = (AvroSchema(json.dumps(SHAPES[shape](40, of))) for of in ("int", "long"))
    types = types_of(old)
    assert types.recursive() == frozenset()
    data = b"\x02" if shape == "symbols" else write(_object(shape), old)
    assert run_avro(compile_schemas(old, new), data) == resolve(data, old, new) == data


def _object(shape: str) -> Json:
    inner = {"field0": 1, "field1": None}
    if shape == "types":
        return {f"field{number}": inner if number else {"field0": 1} for number in range(20)}
    return {f"{'new' if shape == 'renamed' else 'field'}{number}": 5 for number in range(40)}


def test_types_are_recursive_in_circles_alone() -> None:
    def record(name: str, *held: Json) -> Json:
        return {"type": "record", "name": name, "fields": [_field(number, of) for number, of in enumerate(held)]}

    leaf = record("Leaf", "int")
    lower = record("Lower", ["null", "Upper"], {"type": "array", "items": leaf})
    upper = record("Upper", {"type": "map", "values": lower})
    root = record("Root", upper, record("Beside", ["null", "Lower"]), record("Own", ["null", "Own"]))
    assert types_of(AvroSchema(json.dumps(root))).recursive() == {"Upper", "Lower", "Own"}


def test_a_union_of_more_than_a_thousand_branches_is_refused() -> None:
    def union(count: int) -> str:
        return json.dumps([{"type": "fixed", "name": f"F{number}", "size": 1} for number in range(count)])

    AvroSchema(union(1000))
    with pytest.raises(SchemaError, match="schema: a union with 1,001 branches; at most 1,000 are possible"):
        AvroSchema(union(1001))
