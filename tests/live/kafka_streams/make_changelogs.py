"""Regenerates tests/formats/changelogs: `python -m tests.live.kafka_streams.make_changelogs`.

Each case is a store of its own in the real Kafka Streams: what it holds in the end, and what it wrote to its changelog.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.live.kafka_streams.events import Event
from tests.live.kafka_streams.kinds import KINDS, VERSIONS, versions_of
from tests.live.kafka_streams.make_vectors import RETENTION_MS, stored_by
from tests.live.kafka_streams.program import write_more

CHANGELOGS = Path(__file__).parents[2] / "formats" / "changelogs"

_PUTS = (
    Event(b"k", b"v1", 61_000, (("h", b"x"), ("n", None))),
    Event(b"\x00\xffkey", b"", 62_000),
    Event(b"gone", b"v1", 63_000, (("h", b"y"),)),
)
_VERSIONS = (
    *(replace(put, headers=()) for put in _PUTS),
    Event(b"k", b"v2", 122_000),
    Event(b"k", b"late", 62_000),
    Event(b"never", None, 64_000),
    Event(b"again", b"v1", 61_000),
    Event(b"again", None, 122_000),
    Event(b"again", b"v2", 130_000),
)


def _events(kind: str) -> list[Event]:
    """What is written to a store of this kind, and deleted again where that can be."""
    known = KINDS[kind]
    puts = _VERSIONS if known.shape == "versioned" else (*_PUTS, replace(_PUTS[0], value=b"v2", timestamp=64_000))
    events = [*puts, *([] if known.duplicates else [Event(b"gone", None, 125_000)])]
    if known.shape == "window":
        return [replace(event, start=60_000) for event in events]
    if known.shape == "session":
        return [replace(event, start=60_995, end=61_000) for event in events]
    return events


def captured(version: str, folder: Path) -> dict[str, dict[str, Any]]:
    """What one release holds and logs, by kind of store."""
    kinds = {kind: kind for kind in KINDS if version in versions_of(kind)}
    logged = folder / "logged"
    logged.mkdir(parents=True)
    events: Mapping[str, list[Event]] = {kind: _events(kind) for kind in kinds}
    write_more(version, folder / "app", kinds=kinds, events={"0_0": events}, retention_ms=RETENTION_MS, logged=logged)
    return {
        kind: {
            "stored": [[key.hex(), value.hex()] for key, value in stored_by(folder / "app/0_0", kind, kind)],
            "changelog": [_record(line) for line in (logged / f"{kind}.jsonl").read_text("utf-8").splitlines()],
        }
        for kind in kinds
    }


def _record(line: str) -> dict[str, Any]:
    content = json.loads(line)
    return {"key": content["key"], "value": content["value"], "timestamp_ms": content["timestamp"]} | (
        {"headers": content["headers"]} if content["headers"] else {}
    )


def make_changelogs() -> None:
    """Write a file for each kind of store, from the newest release; all releases must agree."""
    with tempfile.TemporaryDirectory() as scratch:
        made = {version: captured(version, Path(scratch) / version) for version in VERSIONS}
    for kind, content in made[list(VERSIONS)[-1]].items():
        releases = versions_of(kind)
        assert all(made[version][kind] == content for version in releases), kind
        provenance = f"Kafka Streams {', '.join(releases)}, a processor that writes to the store: TopologyTestDriver"
        text = json.dumps({"provenance": provenance, **content}, indent=1, ensure_ascii=False) + "\n"
        (CHANGELOGS / f"{kind}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    make_changelogs()
