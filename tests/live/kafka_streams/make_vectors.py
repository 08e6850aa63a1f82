"""Regenerates vectors in tests/formats/vectors: `python -m tests.live.kafka_streams.make_vectors`.

Each case is a store of its own in the real Kafka Streams; what it holds then is read with rocksdict.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from formats import get_format
from tests.live.kafka_streams import kinds
from tests.live.kafka_streams.events import Event, Headers, Row
from tests.live.kafka_streams.kinds import VERSIONS, versions_of
from tests.live.kafka_streams.model import rows_after, rows_as
from tests.live.kafka_streams.program import make_state_of, write_more
from tests.support import read_families

VECTORS = Path(__file__).parents[2] / "formats" / "vectors"
RETENTION_MS = 10 * 60 * 1000

CALLS: Mapping[str, str] = {
    kinds.KEY_VALUE: "persistentKeyValueStore",
    kinds.TIMESTAMPED_KEY_VALUE: "persistentTimestampedKeyValueStore",
    kinds.HEADERS_KEY_VALUE: "persistentTimestampedKeyValueStoreWithHeaders",
    kinds.WINDOW: "persistentWindowStore",
    kinds.JOIN_WINDOW: "persistentWindowStore with retainDuplicates",
    kinds.TIMESTAMPED_WINDOW: "persistentTimestampedWindowStore",
    kinds.HEADERS_WINDOW: "persistentTimestampedWindowStoreWithHeaders",
    kinds.HEADERS_JOIN_WINDOW: "persistentTimestampedWindowStoreWithHeaders with retainDuplicates",
    kinds.SESSION: "persistentSessionStore",
    kinds.HEADERS_SESSION: "persistentSessionStoreWithHeaders",
    kinds.VERSIONED: "persistentVersionedKeyValueStore of 10 minutes",
}

_ONE: Headers = (("h", b"x"),)
_NULL: Headers = (("h", None),)
_MANY: Headers = (("trace", b"\x00\xff"), ("", b""), ("trace", bytes(70)), ("größe", b"1"))


@dataclass(frozen=True)
class Case:
    """What is written, to which kind of store; of an old kind first, if it is upgraded by reading it."""

    kind: str
    what: str
    events: tuple[Event, ...]
    old_kind: str | None = None
    records: tuple[dict[str, Any], ...] | None = None
    """Where the model does not say what the entries of the store are, in the order of their keys."""

    @property
    def provenance(self) -> str:
        """What is written, and to which store."""
        call = CALLS[self.kind]
        if self.old_kind is None:
            return f"a processor that writes to a {call}: {self.what}"
        return f"a processor that writes to a {CALLS[self.old_kind]}, then reads it as a {call}: {self.what}"

    @property
    def format_id(self) -> str:
        """The format of this kind of store."""
        return format_of(self.kind)


def format_of(kind: str) -> str:
    """The format of a kind of store; join windows are windows."""
    return f"kafka-streams.{kind.replace('join-', '')}"


def put(what: str, kind: str, *events: Event, old_kind: str | None = None) -> Case:
    """A case of which the model knows the records."""
    return Case(kind, what, events, old_kind)


def _versions(what: str, *records: dict[str, Any], puts: Mapping[int, bytes | None]) -> Case:
    events = tuple(Event(b"k", value, time) for time, value in puts.items())
    return Case(kinds.VERSIONED, what, events, records=records)


def _former(segment: int, valid_to_ms: int, *versions: tuple[int, str | None]) -> dict[str, Any]:
    listed = [{"valid_from_ms": begun, "value": value} for begun, value in versions]
    history = {"segment": segment, "valid_to_ms": valid_to_ms, "versions": listed}
    return {"key": "6b", "value": None, "timestamp_ms": None, "history": history}


_KV = Event(b"k", b"v1", 61_000)
_WINDOW = Event(b"k", b"v1", 61_000, start=60_000)
_SESSION = Event(b"k", b"AGG", 61_000, start=60_995, end=61_000)
_ODD = b"\x00\xffkey"

CASES: tuple[Case, ...] = (
    put("k -> v1 at 61000 with header h=x", kinds.HEADERS_KEY_VALUE, replace(_KV, headers=_ONE)),
    put("k -> v1 at 61000 with header h=null", kinds.HEADERS_KEY_VALUE, replace(_KV, headers=_NULL)),
    put("k -> v1 at 61000 without headers", kinds.HEADERS_KEY_VALUE, _KV),
    put("an empty value with four headers", kinds.HEADERS_KEY_VALUE, Event(_ODD, b"", 61_000, _MANY)),
    put("k -> v1 at 61000", kinds.HEADERS_KEY_VALUE, _KV, old_kind=kinds.KEY_VALUE),
    put(
        "k -> v1 at 61000",
        kinds.HEADERS_KEY_VALUE,
        _KV,
        old_kind=kinds.TIMESTAMPED_KEY_VALUE,
    ),
    put("k -> v1 in the window of 60000", kinds.WINDOW, _WINDOW),
    put("an empty value", kinds.WINDOW, Event(_ODD, b"", 61_000, start=60_000)),
    put(
        "k -> v1 and k -> v2 at 61000",
        kinds.JOIN_WINDOW,
        replace(_WINDOW, start=61_000),
        replace(_WINDOW, start=61_000, value=b"v2"),
    ),
    put("k -> v1 at 61000 in the window of 60000", kinds.TIMESTAMPED_WINDOW, _WINDOW),
    put("an empty value", kinds.TIMESTAMPED_WINDOW, Event(_ODD, b"", 61_000, start=60_000)),
    put("k -> v1 at 61000", kinds.TIMESTAMPED_WINDOW, _WINDOW, old_kind=kinds.WINDOW),
    put("k -> v1 at 61000 with header h=x", kinds.HEADERS_WINDOW, replace(_WINDOW, headers=_ONE)),
    put("k -> v1 at 61000 with header h=null", kinds.HEADERS_WINDOW, replace(_WINDOW, headers=_NULL)),
    put("k -> v1 at 61000 without headers", kinds.HEADERS_WINDOW, _WINDOW),
    put("an empty value with four headers", kinds.HEADERS_WINDOW, Event(_ODD, b"", 61_000, _MANY, start=60_000)),
    put(
        "k -> v1 and k -> v2 at 61000",
        kinds.HEADERS_JOIN_WINDOW,
        replace(_WINDOW, start=61_000, headers=_ONE),
        replace(_WINDOW, start=61_000, value=b"v2"),
    ),
    put("k -> v1 at 61000", kinds.HEADERS_WINDOW, _WINDOW, old_kind=kinds.WINDOW),
    put(
        "k -> v1 at 61000",
        kinds.HEADERS_WINDOW,
        _WINDOW,
        old_kind=kinds.TIMESTAMPED_WINDOW,
    ),
    put("k -> AGG in the session of 60995 to 61000", kinds.SESSION, _SESSION),
    put("an empty aggregate of a session of one record", kinds.SESSION, Event(_ODD, b"", 61_000, (), 61_000, 61_000)),
    put("k -> AGG with header h=x", kinds.HEADERS_SESSION, replace(_SESSION, headers=_ONE)),
    put("k -> AGG with header h=null", kinds.HEADERS_SESSION, replace(_SESSION, headers=_NULL)),
    put("k -> AGG without headers", kinds.HEADERS_SESSION, _SESSION),
    put(
        "an empty aggregate with four headers",
        kinds.HEADERS_SESSION,
        Event(_ODD, b"", 61_000, _MANY, start=61_000, end=61_000),
    ),
    put("k -> AGG", kinds.HEADERS_SESSION, _SESSION, old_kind=kinds.SESSION),
    _versions(
        "k -> v1 at 61000, v2 at 122000",
        _former(2, 122_000, (61_000, "7631")),
        {"key": "6b", "value": "7632", "timestamp_ms": 122_000},
        puts={61_000: b"v1", 122_000: b"v2"},
    ),
    _versions(
        "five values in one segment, one of them empty, one a deletion",
        _former(1, 60_040, (60_030, ""), (60_020, "626172"), (60_010, None), (60_000, "666f6f")),
        {"key": "6b", "value": "6c617374", "timestamp_ms": 60_040},
        puts={60_000: b"foo", 60_010: None, 60_020: b"bar", 60_030: b"", 60_040: b"last"},
    ),
    _versions(
        "k -> v1 at 61000, deleted at 122000",
        _former(2, 122_000, (61_000, "7631")),
        puts={61_000: b"v1", 122_000: None},
    ),
    _versions("k deleted at 61000, never there", _former(1, 61_000, (61_000, None)), puts={61_000: None}),
)


def captured(version: str, app_dir: Path) -> dict[str, list[dict[str, Any]]]:
    """Write all cases with one release, and return the vectors of each format, without provenance."""
    cases = {f"case{at}": case for at, case in enumerate(CASES) if version in versions_of(case.kind)}
    first = {store: case.old_kind or case.kind for store, case in cases.items()}
    events = {"0_0": {store: list(case.events) for store, case in cases.items()}}
    make_state_of(version, app_dir, kinds=first, events=events, retention_ms=RETENTION_MS)
    upgraded = {store: case for store, case in cases.items() if case.old_kind is not None}
    if upgraded:
        reads = {store: [replace(event, read=True) for event in case.events] for store, case in upgraded.items()}
        later = {store: case.kind for store, case in upgraded.items()}
        write_more(version, app_dir, kinds=later, events={"0_0": reads}, retention_ms=RETENTION_MS)
    vectors: dict[str, list[dict[str, Any]]] = {}
    for store, case in cases.items():
        stored, records = stored_by(app_dir / "0_0", store, case.kind), _records(case)
        assert len(stored) == len(records), (case, stored)
        for (key, value), record in zip(stored, records, strict=True):
            vector = {"what": case.provenance, "stored": {"key": key.hex(), "value": value.hex()}, "record": record}
            vectors.setdefault(case.format_id, []).append(vector)
    return vectors


def stored_by(task: Path, store: str, kind: str) -> list[tuple[bytes, bytes]]:
    """The entries of a store of this kind in the order of their keys."""
    segments = task / store
    databases = list(segments.iterdir()) if segments.is_dir() else [task / "rocksdb" / store]
    families = get_format(format_of(kind)).column_families
    assert families is not None
    return sorted(entry for database in databases for entry in read_families(database)[families[0]].items())


def _records(case: Case) -> list[dict[str, Any]]:
    if case.records is not None:
        return list(case.records)
    rows = rows_after(case.old_kind or case.kind, case.events, retention_ms=RETENTION_MS)
    return [_record(row) for row in rows_as(case.kind, rows)]


def _record(row: Row) -> dict[str, Any]:
    assert row.value is not None
    record: dict[str, Any] = {"key": row.key.hex(), "value": row.value.hex(), "timestamp_ms": row.timestamp}
    if row.headers is not None:
        record["headers"] = [[name, None if value is None else value.hex()] for name, value in row.headers]
    if row.start is not None:
        record["window"] = {"start_ms": row.start, "end_ms": row.end, "sequence": row.sequence or 0}
    return record


def make_vectors(folder: Path = VECTORS) -> None:
    """Write a file for each format that has cases, from the newest release; all releases must agree."""
    with tempfile.TemporaryDirectory() as scratch:
        made = {version: captured(version, Path(scratch) / version / "app") for version in VERSIONS}
    for format_id, vectors in made[list(VERSIONS)[-1]].items():
        releases = [version for version in VERSIONS if made[version].get(format_id) == vectors]
        assert set(releases) == {version for version in VERSIONS if format_id in made[version]}, format_id
        listed = ", ".join(releases)
        for vector in vectors:
            vector["provenance"] = f"Kafka Streams {listed}, {vector.pop('what')}; read with rocksdict"
        content = {"format": format_id, "vectors": [_in_order(vector) for vector in vectors]}
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{format_id}.json").write_text(text, encoding="utf-8")


def _in_order(vector: dict[str, Any]) -> dict[str, Any]:
    return {name: vector[name] for name in ("provenance", "stored", "record")}


if __name__ == "__main__":
    make_vectors()
