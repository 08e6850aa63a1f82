"""Values of stores that the real Kafka Streams made, from one serde or schema to another, and opened again."""

import io
import json
import struct
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest

from tests.formats.avro.shapes import field, record, written_by
from tests.live.kafka_streams import kinds
from tests.live.kafka_streams.kinds import RETENTION_MS
from tests.live.kafka_streams.program import require_live
from tests.live.migrating import make_application, migrate

COUNT: Final = struct.Struct(">i")
LONG_COUNT: Final = struct.Struct(">q")
V1: Final = record(
    field("count", "int"),
    field("seconds", "long"),
    field("pages", {"type": "array", "items": "string"}),
    field("referer", ["null", "string"], default=None),
    name="Visits",
)
V2: Final = record(
    field("count", "long"),
    field("seconds", "double"),
    field("country", "string", default="unknown"),
    field("urls", {"type": "array", "items": "string"}, aliases=["pages"]),
    name="Visits",
)
V1_PREFIX: Final = bytes.fromhex("0000000001")
V2_PREFIX: Final = bytes.fromhex("0000000002")


def old_value(store: str, noise: bytes) -> bytes:
    """What the application writes in place of random bytes."""
    if store.startswith("names"):
        return noise.hex().encode()
    if store.startswith("counts"):
        return COUNT.pack(int.from_bytes(noise[:4].ljust(4), "big", signed=True))
    visits = {
        "count": len(noise),
        "seconds": int.from_bytes(noise[:3], "big", signed=True),
        "pages": [f"/page/{number}" for number in noise[:4]],
        "referer": noise.hex() if len(noise) % 3 else None,
    }
    return V1_PREFIX + written_by(V1, visits)


def new_count(value: bytes) -> bytes:
    return LONG_COUNT.pack(*COUNT.unpack(value))


def new_visits(value: bytes) -> bytes:
    assert value.startswith(V1_PREFIX)
    read = fastavro.schemaless_reader(io.BytesIO(value[len(V1_PREFIX) :]), V1, V2)
    return V2_PREFIX + written_by(V2, read)


COUNTS: Final = {"from": {"serde": "int32"}, "to": {"serde": "int64"}}
NAMES: Final = {"from": {"serde": "string"}, "to": {"serde": "string"}}


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_values_become_others_in_every_kind(version: str, tmp_path: Path) -> None:
    require_live()
    for name, schema in (("v1", V1), ("v2", V2)):
        (tmp_path / f"{name}.avsc").write_text(json.dumps(schema))
    visits = {
        "from": {"serde": "avro", "frame": "confluent", "schemas": {"1": str(tmp_path / "v1.avsc")}},
        "to": {"serde": "avro", "frame": "confluent", "id": 2, "schema": str(tmp_path / "v2.avsc")},
    }
    visits_window = kinds.HEADERS_WINDOW if version == "4.3.1" else kinds.TIMESTAMPED_WINDOW
    # By store: its kind, the new one, the serdes, what each value becomes, the new retention.
    changes: dict[str, tuple[str, str, Any, Any, int | None]] = {
        "names": (kinds.KEY_VALUE, kinds.TIMESTAMPED_KEY_VALUE, NAMES, None, None),
        "counts": (kinds.SESSION, kinds.SESSION, COUNTS, new_count, None),
        "counts-history": (kinds.VERSIONED, kinds.VERSIONED, COUNTS, new_count, None),
        "visits": (kinds.TIMESTAMPED_WINDOW, visits_window, visits, new_visits, None),
        "visits-history": (kinds.VERSIONED, kinds.VERSIONED, visits, new_visits, None),
        "visits-longer": (kinds.WINDOW, kinds.TIMESTAMPED_WINDOW, visits, new_visits, 2 * RETENTION_MS),
    }
    made = make_application(
        version, tmp_path / "made", {store: change[0] for store, change in changes.items()}, value=old_value
    )
    migrated = made
    for store, (_, kind, serdes, value, retention_ms) in changes.items():
        migrated, report = migrate(
            migrated,
            tmp_path / store,
            store,
            kind,
            retention_ms=retention_ms,
            conversion={"value": serdes, "allow": ["changelog", "loss:fields", "unclean-source"]},
            value=value,
        )
        assert report.totals.rejected == 0
        assert report.totals.records_out > 100
    longer = "visits-longer"
    for verdict in (migrated.open(*(changes.keys() - {longer})), migrated.open(longer)):
        assert verdict.ok, verdict.difference
