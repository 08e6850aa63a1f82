"""The example of a windowed store: it runs, and what it makes is what its two schemas say."""

from pathlib import Path
from typing import Any

from examples.windows.__main__ import main
from formats import get_format
from formats.avro.resolving import read, write
from formats.avro.schema import AvroSchema
from tests.support import read_families

FAMILY = "keyValueWithTimestamp"
WINDOWED = get_format("kafka-streams.timestamped-window")


def _values(application: Path, schema_id: int, schema: AvroSchema) -> dict[bytes, Any]:
    values = {}
    for segment in (application / "0_0" / "visits").iterdir():
        for key, value in read_families(segment)[FAMILY].items():
            payload = WINDOWED.decode(key, value).value
            assert payload[:5] == bytes([0]) + schema_id.to_bytes(4, "big")
            values[key] = read(payload[5:], schema, schema)
            assert write(values[key], schema) == payload[5:]
    return values


def test_every_window_of_the_example_has_the_new_schema(tmp_path: Path) -> None:
    assert main(tmp_path / "windows") == 0
    schemas = [AvroSchema((tmp_path / "windows" / f"visits-v{number}.avsc").read_text()) for number in (1, 2)]
    before = _values(tmp_path / "windows/state/shop-app", 1, schemas[0])
    after = _values(tmp_path / "windows/state-v2/shop-app", 2, schemas[1])
    assert len(before) == 300
    assert after == {
        key: {
            "count": value["count"],
            "duration_s": value["seconds"],
            "pages": value["pages"],
            "referer": value["referer"],
            "country": "unknown",
        }
        for key, value in before.items()
    }
