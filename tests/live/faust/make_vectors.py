"""Regenerates the vectors of Faust's format in tests/formats/vectors: `python -m tests.live.faust.make_vectors`.

Each case is a table of its own in the real Faust, without a broker; what it holds then is read with rocksdict.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import faust

from tests.live.faust.tables import make_table
from tests.support import read_families

VECTORS = Path(__file__).parents[2] / "formats" / "vectors"
FORMAT = "faust.table"


class Order(faust.Record, namespace="shop.Order"):
    """A value that Faust writes with the name of its class."""

    count: int
    buyer: str


@dataclass(frozen=True, slots=True)
class Case:
    """One record that is written to a table of these types."""

    what: str
    key: object
    value: object
    key_type: type | None = str
    value_type: type | None = None


CASES = (
    Case("a text -> a number, as JSON", "k", 10),
    Case("a text beyond ASCII -> an object, as JSON", "usér", {"sum": 1.5, "last": None}),
    Case("a number -> null, as JSON", -1, None, key_type=int),
    Case("a pair -> a text, as JSON", ("a", 1), 'say "é"', key_type=None),
    Case("a text -> a record, as JSON with the name of its class", "k", Order(2, "ann"), value_type=Order),
    Case("bytes -> bytes, raw", b"\x00\xff", b"\x01", key_type=bytes, value_type=bytes),
    Case("no bytes -> no bytes, raw", b"", b"", key_type=bytes, value_type=bytes),
)


def _written(case: Case, folder: Path) -> tuple[bytes, bytes]:
    types: dict[str, Any] = {"key_type": case.key_type, "value_type": case.value_type}
    home = make_table(folder, "cases", {0: {case.key: case.value}}, **types)
    ((key, value),) = read_families(home / "tables/cases-0.db")["default"].items()
    return key, value


def captured(folder: Path) -> list[dict[str, Any]]:
    """The vectors, in the order of the cases."""
    vectors = []
    for number, case in enumerate(CASES):
        key, value = _written(case, folder / f"case-{number}")
        stored = {"key": key.hex(), "value": value.hex()}
        source = f"faust-streaming {version('faust-streaming')} with rocksdict {version('rocksdict')}"
        provenance = f"{source}, a table: {case.what}; read with rocksdict"
        vectors.append({"provenance": provenance, "stored": stored, "record": {**stored, "timestamp_ms": None}})
    return vectors


def make_vectors(folder: Path = VECTORS) -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as scratch:
        content = {"format": FORMAT, "vectors": captured(Path(scratch))}
    (folder / f"{FORMAT}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make_vectors()
