"""Regenerates the vectors of Streamiz' formats in tests/formats/vectors: `python -m tests.live.streamiz.make_vectors`.

Each case is a store of its own in the real Streamiz; what it holds then is read with rocksdict.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live.streamiz.program import VERSION, drive, run_program
from tests.support import read_families

VECTORS = Path(__file__).parents[2] / "formats" / "vectors"
SERDES = Path(__file__).parents[2] / "formats/serdes/streamiz.json"
FORMATS = {"plain": "key-value", "ts": "timestamped-key-value", "win": "window", "twin": "timestamped-window"}
"""Of each kind of store, as the program names it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One record that is written, and what it is then."""

    kind: str
    what: str
    key: bytes
    value: bytes
    time: int | None = None
    start: int | None = None
    sequence: int = 0

    @property
    def line(self) -> str:
        """As the program reads it."""
        parts = [self.key.hex(), *([] if self.start is None else [str(self.start)]), self.value.hex()]
        return "\t".join([*parts, str(self.time or 0)])

    def record(self) -> dict[str, Any]:
        """What is stored, as the vectors have it."""
        record: dict[str, Any] = {"key": self.key.hex(), "value": self.value.hex(), "timestamp_ms": self.time}
        if self.start is not None:
            record["window"] = {"start_ms": self.start, "sequence": self.sequence}
        return record


_ONE, _TWO, _HOUR = (1).to_bytes(8, "little"), (2).to_bytes(8, "little"), 3_600_000
CASES: tuple[Case, ...] = (
    Case("plain", "k -> v1", b"k", b"v1"),
    Case("plain", "an empty value, which is one: only null deletes", b"k", b""),
    Case("plain", "an empty key", b"", b"v1"),
    Case("plain", "1 -> 2 as its long serde writes them, little-endian", _ONE, _TWO),
    Case("ts", "k -> v1 at 61000", b"k", b"v1", 61_000),
    Case("ts", "an empty value, which has its timestamp and its size", b"k", b"", 1_735_689_605_862),
    Case("ts", "300 bytes: the size takes its second byte", b"k", b"a" * 300, 0),
    Case("ts", "k -> v1 at -1", b"k", b"v1", -1),
    Case("win", "k -> v1 in the window of 60000", b"k", b"v1", start=60_000),
    Case("win", "the second of two in the window of 61000, where duplicates stay", b"k", b"v1", None, 61_000, 2),
    Case("win", "an empty key and an empty value", b"", b"", start=0),
    Case("twin", "k -> v1 at 61000 in the window of 60000", b"k", b"v1", 61_000, 60_000),
    Case("twin", "1 -> 2 as its long serde writes them, an hour later", _ONE, _TWO, _HOUR + 1, _HOUR),
)


def stored_by(case: Case, application: Path) -> tuple[bytes, bytes]:
    """The entry that the real Streamiz makes of a case, in an application of its own."""
    lines = [case.line] * max(case.sequence, 1)
    drive(application, case.kind, lines, duplicates="true" if case.sequence else "false")
    task = application / "0-0"
    databases = [task / "rocksdb/kv"] if case.start is None else list((task / "kv").iterdir())
    return sorted(entry for each in databases for entry in read_families(each)["default"].items())[-1]


def captured(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The vectors of each format, in the order of the cases."""
    vectors: dict[str, list[dict[str, Any]]] = {}
    for number, case in enumerate(CASES):
        key, value = stored_by(case, folder / f"case-{number}")
        vector = {
            "provenance": f"Streamiz {VERSION}, a processor that writes to a persistent store: {case.what}; read with "
            "rocksdict",
            "stored": {"key": key.hex(), "value": value.hex()},
            "record": case.record(),
        }
        vectors.setdefault(f"streamiz.{FORMATS[case.kind]}", []).append(vector)
    return vectors


def make_vectors(folder: Path = VECTORS) -> None:
    """Write a file for each format, and one of what serdes make."""
    with tempfile.TemporaryDirectory() as scratch:
        made = captured(Path(scratch))
    for format_id, vectors in made.items():
        text = json.dumps({"format": format_id, "vectors": vectors}, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{format_id}.json").write_text(text, encoding="utf-8")
    SERDES.write_text(json.dumps(run_program(mode="serdes"), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make_vectors()
