"""Whole migrations of Avro values: what the next application reads of them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from formats.avro.binary import encode_long
from migrate import run
from migrate.errors import RefusedError
from migrate.spec.spec import Spec
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


PERSON = json.dumps({"type": "record", "name": "Person", "fields": [{"name": "visits", "type": "long"}]})
FIRST, GLUE = 1 << 40, UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")


def _framed(folder: Path, head: bytes, source: Json, target: Json) -> Spec:
    records = {b"key-%05d" % number: head + encode_long(number) for number in range(200)}
    make_store(folder / "app/0_0/rocksdb/people", records)
    (folder / "app/0_0/.checkpoint").write_text("0\n1\napp-people-changelog 0 7\n", encoding="utf-8")
    (folder / "v.avsc").write_text(PERSON, encoding="utf-8")
    value = {"from": {"serde": "avro", **source}, "to": {"serde": "avro", "schema": "v.avsc", **target}}
    return make_spec(
        folder,
        folder / "app",
        source_format=KEY_VALUE,
        target_format=KEY_VALUE,
        source={"store": "people"},
        conversion={"allow": ["changelog", "unclean-source"], "value": value},
    )


@pytest.mark.parametrize(
    ("source", "head", "target", "new_head"),
    [
        ({"frame": "apicurio", "schemas": {FIRST: "v.avsc"}}, struct.pack(">bq", 0, FIRST), "confluent", b"\0\0\0\0\7"),
        ({"frame": "glue", "schemas": {str(GLUE): "v.avsc"}}, b"\3\0" + GLUE.bytes, "confluent", b"\0\0\0\0\7"),
        ({"frame": "confluent", "schemas": {7: "v.avsc"}}, b"\0\0\0\0\7", "glue", b"\3\0" + GLUE.bytes),
    ],
)
def test_a_frame_of_one_registry_becomes_that_of_another(
    tmp_path: Path, source: Json, head: bytes, target: str, new_head: bytes
) -> None:
    run(_framed(tmp_path, head, source, {"frame": target, **({"guid": str(GLUE)} if target == "glue" else {"id": 7})}))
    found = read_family(tmp_path / "new/app/0_0/rocksdb/people")
    assert found == {b"key-%05d" % number: new_head + encode_long(number) for number in range(200)}


def test_a_frame_that_the_spec_does_not_name_is_named_with_what_to_do(tmp_path: Path) -> None:
    source = {"frame": "confluent", "schemas": {7: "v.avsc"}}
    spec = _framed(tmp_path, struct.pack(">bq", 0, 15), source, {"frame": "confluent", "id": 7})
    with pytest.raises(RefusedError, match="the bytes look like 00, then eight bytes: Apicurio's, id 15") as raised:
        run(spec)
    assert "does [conversion.value] name the serde, the frame and the schema ids" in (raised.value.hint or "")
