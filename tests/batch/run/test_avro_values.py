"""Whole migrations of Avro values: what the next application reads of them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from formats.avro.binary import encode_long
from migrate import run
from tests.support import KEY_VALUE, make_spec, make_store, read_family

Json = Any


def _text(text: str) -> bytes:
    return encode_long(len(text)) + text.encode()


def test_a_field_that_was_renamed_keeps_its_value_where_its_old_name_is_used_again(tmp_path: Path) -> None:
    old = [{"name": "name", "type": "string"}, {"name": "visits", "type": "long"}]
    new: Json = [
        {"name": "full", "aliases": ["name"], "type": "string", "default": ""},
        {"name": "name", "type": "string", "default": "NEW"},
        {"name": "visits", "type": "float"},
    ]
    visits = 2**62 + 2**39
    records = {b"key-%05d" % number: _text(f"person {number}") + encode_long(visits) for number in range(500)}
    make_store(tmp_path / "app/0_0/rocksdb/people", records)
    (tmp_path / "app/0_0/.checkpoint").write_text("0\n1\napp-people-changelog 0 7\n", encoding="utf-8")
    sides = {}
    for side, fields in (("from", old), ("to", new)):
        schema = json.dumps({"type": "record", "name": "Person", "fields": fields})
        (tmp_path / f"{side}.avsc").write_text(f"// {side}\n{schema}", encoding="utf-8")
        sides[side] = {"serde": "avro", "frame": "none", "schema": f"{side}.avsc"}
    spec = make_spec(
        tmp_path,
        tmp_path / "app",
        source_format=KEY_VALUE,
        target_format=KEY_VALUE,
        source={"store": "people"},
        conversion={"allow": ["changelog", "unclean-source"], "value": sides},
    )
    run(spec)
    found = read_family(tmp_path / "new/app/0_0/rocksdb/people")
    as_float = struct.pack("<I", 0x5E800001)
    assert found == {
        key: value.removesuffix(encode_long(visits)) + _text("NEW") + as_float for key, value in records.items()
    }
