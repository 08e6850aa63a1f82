"""Plain stores become versioned ones: each key is laid out in another way and stays what it is."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from formats import InvalidEntryError, StateRecord, get_format
from formats.conversion import Conversion
from migrate import run
from tests.support import copy_fixture, fixture_records, kafka_spec, read_family

VERSIONED = "kafka-streams.versioned"
SINCE_MS = 1_699_999_000_000
LATEST = b"\xff" * 8


def test_each_value_becomes_the_latest_of_its_key(tmp_path: Path) -> None:
    application = copy_fixture(tmp_path / "state")
    spec = kafka_spec(
        tmp_path,
        application,
        source={"store": "orders", "stores": []},
        target={"format": VERSIONED},
        conversion={"default_timestamp_ms": SINCE_MS},
    )
    report = run(spec)
    assert report.published is not None
    for task in ("0_0", "0_1"):
        records = fixture_records(task, "orders")
        since = struct.pack(">q", SINCE_MS)
        assert records
        assert read_family(report.published / task / "rocksdb" / "orders") == {
            LATEST + key: since + value for key, value, _ in records
        }


@pytest.mark.parametrize("target", [VERSIONED, "kafka-streams.timestamped-key-value"])
def test_a_function_that_changes_keys_is_found_out_in_any_layout(target: str) -> None:
    def same(record: StateRecord) -> StateRecord:
        return replace(record, value=b"new", timestamp_ms=SINCE_MS)

    def other(record: StateRecord) -> StateRecord:
        return replace(record, key=record.key + b"!")

    source = get_format("kafka-streams.key-value")
    converted = Conversion(source, get_format(target), SINCE_MS, function=same).convert(b"key", b"old")
    assert converted is not None
    assert converted[0].endswith(b"key")
    with pytest.raises(InvalidEntryError, match="the function changed the key"):
        Conversion(source, get_format(target), SINCE_MS, function=other).convert(b"key", b"old")
