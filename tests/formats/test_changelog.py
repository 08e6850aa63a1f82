"""Records of changelogs: programs do what the reference does, and the reference what the real system does."""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import FORMATS, Conversion, EntryError, Format, Headers, InvalidEntryError, get_format
from formats.changelog import ChangelogRecord
from formats.encoding.headers import unpack_sized
from formats.layout import HEADERS
from formats.program import run_operations
from migrate.engine.changelog_codec import ToChangelog, tombstones
from migrate.stores.batch import Batch
from tests.formats.entries import entries, records

ROOT = Path(__file__).parents[2]
CASES = {file.stem: json.loads(file.read_text("utf-8")) for file in (Path(__file__).parent / "changelogs").iterdir()}
COMPILED = [known for known in FORMATS if known.kind != "versioned"]
VERSIONED = get_format("kafka-streams.versioned").changelog_form


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _stored(kind: str) -> list[tuple[bytes, bytes]]:
    return [(bytes.fromhex(key), bytes.fromhex(value)) for key, value in CASES[kind]["stored"]]


def _logged(kind: str) -> list[ChangelogRecord]:
    return [_record(content) for content in CASES[kind]["changelog"]]


def _record(content: dict[str, Any]) -> ChangelogRecord:
    headers = Headers.of((name, _bytes(value)) for name, value in content.get("headers", []))
    return ChangelogRecord(bytes.fromhex(content["key"]), _bytes(content["value"]), content["timestamp_ms"], headers)


def _format_of(kind: str) -> Format:
    return get_format(f"kafka-streams.{kind.replace('join-', '')}")


def test_every_format_of_kafka_streams_has_a_real_changelog() -> None:
    wanted = {known.id for known in FORMATS if known.system == "kafka-streams"}
    assert {_format_of(kind).id for kind in CASES} == wanted


@pytest.mark.parametrize("kind", sorted(CASES.keys() - {"versioned"}))
def test_an_entry_stands_for_the_last_record_of_its_key_and_the_record_for_the_entry(kind: str) -> None:
    form, last = _format_of(kind).changelog_form, {record.key: record for record in _logged(kind)}
    for key, value in _stored(kind):
        (record,) = form.records(key, value)
        expected = last.pop(key)
        assert record.timestamp_ms in (expected.timestamp_ms, None)
        assert (record.value, record.headers) == (expected.value, expected.headers)
        assert (record.timestamp_ms is None) is not form.has_timestamp
        assert form.entry(expected) == (key, value)
    assert [form.entry(left)[1] for left in last.values()] == [None] * ("join" not in kind)


def test_a_versioned_store_stands_for_its_versions() -> None:
    found = {
        (record.timestamp_ms, record.key): record.value
        for entry in _stored("versioned")
        for record in VERSIONED.records(*entry)
    }
    assert found == {(record.timestamp_ms, record.key): record.value for record in _logged("versioned")}
    assert VERSIONED.is_in_order_of_time
    with pytest.raises(InvalidEntryError, match="part of the history of its key"):
        VERSIONED.entry(ChangelogRecord(b"k", b"v", 1))


@pytest.mark.parametrize("known", COMPILED, ids=lambda known: known.id)
@settings(max_examples=100)
@given(data=st.data())
def test_programs_do_what_the_reference_does(known: Format, data: st.DataObject) -> None:
    form, entry = known.changelog_form, data.draw(entries(known))
    programs = form.programs
    assert programs is not None
    try:
        (expected,) = form.records(*entry)
    except EntryError:
        with pytest.raises(EntryError):
            run_operations(programs.value, entry[1])
        return
    assert run_operations(programs.value, entry[1]) == expected.value
    if programs.timestamp is not None:
        timestamp = run_operations(programs.timestamp, entry[1])
        assert int.from_bytes(timestamp, "big", signed=True) == expected.timestamp_ms
    if programs.headers is not None:
        assert unpack_sized(run_operations(programs.headers, entry[1])) == (expected.headers, b"")
    assert (programs.timestamp is None, programs.headers is None) == (not form.has_timestamp, not form.has_headers)


@pytest.mark.parametrize("known", COMPILED, ids=lambda known: known.id)
@settings(max_examples=50)
@given(data=st.data())
def test_what_is_logged_is_restored_the_same(known: Format, data: st.DataObject) -> None:
    written = records(known).map(known.encode).filter(lambda entry: not entry[0].startswith(known.metadata_keys))
    form, entry = known.changelog_form, data.draw(written)
    (record,) = form.records(*entry)
    assert form.entry(record) == entry
    assert form.entry(ChangelogRecord(record.key, None)) == (entry[0], None)
    assert record.headers == Headers.of(known.constant_headers) or HEADERS in known.carries


def test_a_key_named_like_one_in_another_family_is_logged() -> None:
    known = get_format("quix.key-value")
    (key,) = known.position_keys
    assert known.changelog_form.records(key, b"1")[0].key == key


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
def test_a_form_can_be_sent_to_an_executor(known: Format) -> None:
    assert pickle.loads(pickle.dumps(known.changelog_form)) == known.changelog_form


def test_formats_of_a_kind_read_each_others_changelogs() -> None:
    for known in FORMATS:
        for other in FORMATS:
            is_alike = {known.kind, other.kind} <= {"key-value", "versioned"} or known.kind == other.kind
            is_alike &= known.family_header == other.family_header and known.carries ^ other.carries != {"expiry"}
            assert known.changelog_form.reads_as(other.changelog_form) is is_alike
            if is_alike and known.has_changelog and other.has_changelog:
                assert not Conversion(known, other).changes_changelog


def test_a_header_that_names_the_family_is_part_of_the_form() -> None:
    bare = get_format("kafka-streams.key-value").changelog_form
    named = replace(bare, family_header="family")
    assert (named.reads_as(named), named.reads_as(bare), bare.reads_as(named)) == (True, False, False)
    assert named.place_of([("other", b"sums"), ("family", b"totals")]) == "totals"
    with pytest.raises(InvalidEntryError, match="no header family names its column family"):
        named.place_of([("other", b"sums")])


def test_headers_that_every_record_has_are_part_of_the_form() -> None:
    bare, constant = get_format("kafka-streams.key-value"), (("stamped", b"\x01"),)
    known = replace(bare, constant_headers=constant)
    form = known.changelog_form
    assert (form.reads_as(form), form.reads_as(bare.changelog_form)) == (True, False)
    assert [list(record.headers) for record in form.records(b"key", b"value")] == [[*constant]]
    assert ToChangelog(known)(Batch([b"a", b"b"], [b"1", b"2"])).headers == [[*constant]] * 2
    assert tombstones(form, [b"a"]).headers == [[*constant]]


@pytest.mark.parametrize("known", [known for known in FORMATS if known.has_changelog], ids=lambda known: known.id)
def test_the_page_says_what_a_changelog_holds(known: Format) -> None:
    form = known.changelog_form
    key = ", ".join(
        {"payload": "key"}.get(field.name, field.name.removeprefix("window-")) for field in form.key_schema.fields
    )
    timestamp = "the stored one" if form.has_timestamp else "not stored"
    headers = "the stored ones" if form.has_headers else "none"
    order = "time" if form.is_in_order_of_time else "any"
    row = f"| `{known.id}` | {key} | {timestamp} | {headers} | {order} |"
    assert row in (ROOT / "docs/formats.md").read_text("utf-8")
