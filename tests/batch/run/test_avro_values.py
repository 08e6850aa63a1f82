"""Whole migrations of Avro values: what the next application reads of them."""

import json
import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from formats.encoding.varint import pack_varint
from migrate import StateRecord, plan, run
from migrate.batch.plan.sample import SampleError, with_places
from migrate.errors import RefusedError
from migrate.spec.spec import Spec
from tests.support import KEY_VALUE, make_spec, make_store, raises, read_family

Json = Any


def _text(text: str) -> bytes:
    return pack_varint(len(text)) + text.encode()


def test_a_field_that_was_renamed_keeps_its_value_where_its_old_name_is_used_again(tmp_path: Path) -> None:
    old = [{"name": "name", "type": "string"}, {"name": "visits", "type": "long"}]
    new: Json = [
        {"name": "full", "aliases": ["name"], "type": "string", "default": ""},
        {"name": "name", "type": "string", "default": "NEW"},
        {"name": "visits", "type": "float"},
    ]
    visits = 2**62 + 2**39
    records = {b"key-%05d" % number: _text(f"person {number}") + pack_varint(visits) for number in range(500)}
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
        key: value.removesuffix(pack_varint(visits)) + _text("NEW") + as_float for key, value in records.items()
    }


PERSON = json.dumps({"type": "record", "name": "Person", "fields": [{"name": "visits", "type": "long"}]})
FIRST, GLUE = 1 << 40, UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")


def _framed(folder: Path, head: bytes, source: Json, target: Json, **conversion: Json) -> Spec:
    records = {b"key-%05d" % number: head + pack_varint(number) for number in range(200)}
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
        conversion={"allow": ["changelog", "unclean-source"], "value": value, **conversion},
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
    assert found == {b"key-%05d" % number: new_head + pack_varint(number) for number in range(200)}


def test_a_frame_that_the_spec_does_not_name_is_named_with_what_to_do(tmp_path: Path) -> None:
    source = {"frame": "confluent", "schemas": {7: "v.avsc"}}
    spec = _framed(tmp_path, struct.pack(">bq", 0, 15), source, {"frame": "confluent", "id": 7})
    raised = raises(RefusedError, "the bytes look like 00, then eight bytes: Apicurio's, id 15", run, spec)
    assert raised.hint.startswith("does [conversion.value] name the serde, the frame and the schema ids")


@pytest.mark.parametrize(
    "head",
    [b"\0\0\0\0\x09\0\x08", b"\0\0\0\0\x09{", b"\3\5" + GLUE.bytes],
    ids=["protobuf", "json-schema", "compressed"],
)
def test_what_no_serde_reads_behind_a_frame_is_left_to_a_function(tmp_path: Path, head: bytes) -> None:
    source = {"frame": "confluent", "schemas": {7: "v.avsc"}}
    with pytest.raises(RefusedError, match="the bytes look like ") as raised:
        run(_framed(tmp_path, head, source, {"frame": "confluent", "id": 7}))
    way = "without [conversion.value] a [conversion] function gets the bytes (docs/serdes.md)"
    assert raised.value.hint.startswith(f"no serde reads what these bytes look like: {way}; if they are something else")


def test_a_cause_is_one_finding_with_its_store_partitions(tmp_path: Path) -> None:
    source = {"frame": "confluent", "schemas": {7: "v.avsc"}}
    spec = _framed(tmp_path, struct.pack(">bq", 0, 15), source, {"frame": "confluent", "id": 7})
    offsets = (tmp_path / "app/0_0/.checkpoint").read_text(encoding="utf-8")
    for number in (1, 2):
        shutil.copytree(tmp_path / "app/0_0", tmp_path / f"app/0_{number}")
        (tmp_path / f"app/0_{number}/.checkpoint").write_text(offsets.replace(" 0 7", f" {number} 7"), encoding="utf-8")
    report = plan(spec)
    (found,) = (check for check in report.checks if check.outcome == "failed")
    assert found.name == "source.records"
    assert found.detail.endswith("; so in 3 of 3 store partitions: 0_0/people, 0_1/people, 0_2/people")
    assert "[conversion.value]" in report.verdict.next_step
    assert "more)" not in report.verdict.sentence
    refused = raises(RefusedError, "", run, spec)
    assert (refused.message, refused.hint) == (found.detail, found.fix)


def test_store_partitions_with_another_fault_are_not_counted_among_them() -> None:
    found = {"0_0": "the serde", "0_1": "the function", "0_2": "the serde"}
    error = with_places({where: SampleError(f"of {where}", hint=hint) for where, hint in found.items()}, 3)
    assert (error.message, error.hint) == ("of 0_0; so in 2 of 3 store partitions: 0_0, 0_2", "the serde")


@pytest.mark.parametrize(
    ("allowed", "match", "hint"),
    [
        ((), r"may belong to another partition .* the frame's among them", "leave [conversion.key] out"),
        (("key-change",), r"the run sorts the new keys.*: keys of avro, written otherwise", "leave --no-spark"),
    ],
)
def test_keys_with_another_id_are_refused_for_their_partition_and_then_sorted(
    tmp_path: Path, allowed: Sequence[str], match: str, hint: str
) -> None:
    """The hash of a key's bytes, its id among them, decides the partition; and the id decides the order."""
    side = {"serde": "avro", "frame": "confluent"}
    key = {"from": {**side, "schemas": {7: "v.avsc", 8: "v.avsc"}}, "to": {**side, "id": 9, "schema": "v.avsc"}}
    source, target = {"frame": "confluent", "schemas": {7: "v.avsc"}}, {"frame": "confluent", "id": 7}
    allow = ["changelog", "unclean-source", *allowed]
    with pytest.raises(RefusedError, match=match) as refused:
        run(_framed(tmp_path, b"\0\0\0\0\7", source, target, key=key, allow=allow))
    assert hint in refused.value.hint


def test_a_list_of_objects_becomes_a_list_of_others_without_code_for_frames(tmp_path: Path) -> None:
    lists = {b"key-%05d" % number: ([], [3], [5, None, 7], [None])[number % 4] for number in range(200)}
    old = {key: _listed(numbers, lambda each: b"\0\0\0\0\7" + pack_varint(each)) for key, numbers in lists.items()}
    (tmp_path / "new.avsc").write_text(PERSON.replace("]", ', {"name": "seen", "type": "long"}]'), encoding="utf-8")
    inner, new = {"frame": "confluent", "schemas": {7: "v.avsc"}}, {"frame": "confluent", "id": 8, "schema": "new.avsc"}
    value = {
        "from": {"serde": "list", "inner": {"serde": "avro", **inner}},
        "to": {"serde": "list", "inner": {"serde": "avro", **new}},
    }
    spec = _framed(tmp_path, b"", inner, new, value=value, function=_add_seen)
    shutil.rmtree(tmp_path / "app/0_0/rocksdb/people")
    make_store(tmp_path / "app/0_0/rocksdb/people", old)
    run(spec)
    assert read_family(tmp_path / "new/app/0_0/rocksdb/people") == {
        key: _listed(numbers, lambda each: b"\0\0\0\0\x08" + pack_varint(each) + pack_varint(42))
        for key, numbers in lists.items()
    }


def _listed(numbers: Sequence[int | None], pack: Callable[[int], bytes]) -> bytes:
    """What Kafka's ListSerializer writes of entries of any size: 01, their count, the size of each, -1 for null."""
    entries = [None if each is None else pack(each) for each in numbers]
    sized = [b"\xff" * 4 if each is None else struct.pack(">i", len(each)) + each for each in entries]
    return b"\1" + struct.pack(">i", len(entries)) + b"".join(sized)


def _add_seen(record: StateRecord) -> StateRecord:
    return replace(record, value=[each and {**each, "seen": 42} for each in record.value])
