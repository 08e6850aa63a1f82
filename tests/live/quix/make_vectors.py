"""Regenerates the vectors of Quix Streams' formats in tests/formats/vectors: `python -m tests.live.quix.make_vectors`.

Each case is a store of its own in the real Quix Streams, without a broker; what it holds then is read with rocksdict.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.live.quix.stores import NOW_MS, TTL, make_store
from tests.support import read_families

VECTORS = Path(__file__).parents[2] / "formats" / "vectors"


@dataclass(frozen=True, slots=True)
class Case:
    """One value that is set."""

    what: str
    key: bytes
    name: object
    value: object
    ttl: timedelta | None = None


_VALUES = (
    Case("a number, as JSON", b"k", "total", 10),
    Case("a text beyond ASCII, as JSON", "usér".encode(), "näme", "é"),
    Case("an object under a name of two parts, as JSON", b"k", ("by", 1), {"sum": 1.5, "last": None}),
    Case("null under a number, as JSON", b"a|b", 7, None),
    Case("bytes", b"\x00\xff", "raw", b"\x00\x01"),
    Case("no bytes", b"", "raw", b""),
)
CASES: Mapping[str, tuple[Case, ...]] = {
    "quix.key-value": _VALUES,
    "quix.ttl-key-value": (
        *(Case(f"{each.what}, for an hour", each.key, each.name, each.value, TTL) for each in _VALUES),
        Case("a number, for ever", b"k", "kept", 1),
    ),
}


def _vector(format_id: str, case: Case, folder: Path) -> dict[str, Any]:
    values = {case.key: {case.name: case.value}}
    if format_id == "quix.ttl-key-value":
        values.setdefault(b"switches it on", {})["on"] = 0
    home = make_store(folder, {0: values}, ttl=TTL if format_id == "quix.ttl-key-value" else None)
    records = read_families(home / "default/orders/0")["default"].items()
    ((key, value),) = ((key, value) for key, value in records if not key.startswith(b"switches it on"))
    record: dict[str, Any] = {"key": key.hex(), "value": value.hex(), "timestamp_ms": None}
    if format_id == "quix.ttl-key-value":
        expires_ms = None if case.ttl is None else NOW_MS + case.ttl // timedelta(milliseconds=1)
        record |= {"value": value[8:].hex(), "expires_ms": expires_ms}
    provenance = (
        f"quixstreams {version('quixstreams')} with rocksdict {version('rocksdict')}, {case.what}; read with rocksdict"
    )
    return {"provenance": provenance, "stored": {"key": key.hex(), "value": value.hex()}, "record": record}


def captured(format_id: str, folder: Path) -> list[dict[str, Any]]:
    """The vectors of a format, in the order of its cases."""
    return [_vector(format_id, case, folder / f"case-{number}") for number, case in enumerate(CASES[format_id])]


def make_vectors(folder: Path = VECTORS) -> None:
    """Write the files."""
    for format_id in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            content = {"format": format_id, "vectors": captured(format_id, Path(scratch))}
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{format_id}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    make_vectors()
