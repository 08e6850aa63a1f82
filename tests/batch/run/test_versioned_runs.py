"""Versioned stores, migrated for real: to key-value stores and back, and by a function over every former value."""

import struct
from pathlib import Path
from typing import Any

from migrate import run
from migrate.spec.spec import Spec
from tests.support import TIMESTAMPED, make_families, make_spec, read_families

VERSIONED = "kafka-streams.versioned"
KEYS = [b"", b"k", b"k\0", b"k\xff", *(b"key-%03d" % number for number in range(200))]
LATEST = {struct.pack(">q", -1) + key: struct.pack(">q", 90_000) + b"now" for key in KEYS}
FORMER = {struct.pack(">q", 1) + key: struct.pack(">qqqi", 90_000, 61_000, 61_000, 4) + b"then" for key in KEYS[::3]}
SIMPLE = {key: struct.pack(">q", 90_000) + b"now" for key in KEYS}


def _spec(folder: Path, source: str, target: str, /, **sections: Any) -> Spec:  # noqa: ANN401
    family = "default" if source == VERSIONED else "keyValueWithTimestamp"
    records = LATEST | FORMER if source == VERSIONED else SIMPLE
    make_families(folder / "app/0_0/rocksdb/prices", {family: records})
    (folder / "app/0_0/.checkpoint").write_text("0\n1\napp-prices-changelog 0 7\n", encoding="utf-8")
    sections = {"source": {"store": "prices"}, "run": {"chunk_size": "4 KiB"}, **sections}
    return make_spec(folder, folder / "app", source_format=source, target_format=target, **sections)


def test_a_timestamped_store_becomes_a_versioned_one(tmp_path: Path) -> None:
    run(_spec(tmp_path, TIMESTAMPED, VERSIONED))
    assert read_families(tmp_path / "new/app/0_0/rocksdb/prices") == {"default": LATEST}


def test_a_versioned_store_becomes_one_of_the_latest_values(tmp_path: Path) -> None:
    run(_spec(tmp_path, VERSIONED, TIMESTAMPED, conversion={"allow": ["loss:history"]}))
    found = read_families(tmp_path / "new/app/0_0/rocksdb/prices")
    assert found == {"default": {}, "keyValueWithTimestamp": SIMPLE}


def test_a_function_converts_former_values_too(tmp_path: Path) -> None:
    code = (
        "from formats import StateRecord\n\n"
        "def convert(record):\n    return StateRecord(record.key, record.value.upper())"
    )
    (tmp_path / "shouting_prices.py").write_text(code, encoding="utf-8")
    conversion = {"allow": ["changelog", "unclean-source"], "function": "shouting_prices:convert"}
    run(_spec(tmp_path, VERSIONED, VERSIONED, conversion=conversion))
    shouted = {key: value.replace(b"now", b"NOW").replace(b"then", b"THEN") for key, value in (LATEST | FORMER).items()}
    assert read_families(tmp_path / "new/app/0_0/rocksdb/prices") == {"default": shouted}
