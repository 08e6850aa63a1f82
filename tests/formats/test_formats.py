"""The registry, what formats say of themselves, and the serdes."""

import pickle
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import FORMATS, Conversion, EntryError, Format, InvalidEntryError, StateRecord, UnknownFormatError, Window
from formats import get_format as find
from formats.layout import PAYLOAD, Framing
from formats.serdes.json_text import JsonSerde
from tests.formats.entries import entries, records
from tests.support import KEY_VALUE, RAW, TIMESTAMPED


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
def test_a_format_is_found_by_its_id(known: Format) -> None:
    assert find(known.id) is known
    assert re.fullmatch(r"[a-z0-9-]+\.[a-z0-9-]+", known.id)
    assert known.summary


@pytest.mark.parametrize(
    ("mistyped", "nearest"),
    [
        ("kafka-streams.keyvalue", KEY_VALUE),
        ("kafka-streams.timestamped-kv", TIMESTAMPED),
        ("kafkastreams.timestamped-key-value", TIMESTAMPED),
        ("rocksdb-raw", RAW),
        ("streamiz.timestamped-keyvalue", "streamiz.timestamped-key-value"),
        ("stream-iz.windows", "streamiz.window"),
    ],
)
def test_an_unknown_format_names_the_nearest_one(mistyped: str, nearest: str) -> None:
    with pytest.raises(UnknownFormatError, match=f"did you mean '{re.escape(nearest)}'") as caught:
        find(mistyped)
    assert (caught.value.format_id, caught.value.nearest) == (mistyped, nearest)


@pytest.mark.parametrize("missing", ["streamiz.session", "streamiz.versioned", "rocksdb.timestamped-key-value"])
def test_no_format_of_another_system_is_suggested(missing: str) -> None:
    system = f"{missing.partition('.')[0]}."
    with pytest.raises(UnknownFormatError) as caught:
        find(missing)
    listed = {known.id for known in FORMATS if f"{known.id}," in f"{caught.value},"}
    assert listed == {known.id for known in FORMATS if known.id.startswith(system)}


@pytest.mark.parametrize("system", ["kafka-streams", "streamiz"])
def test_a_name_without_a_system_is_taken_for_one_of_the_other_format_s(system: str) -> None:
    with pytest.raises(UnknownFormatError) as caught:
        find("timestamped-key-values", f"{system}.key-value")
    assert caught.value.nearest == f"{system}.timestamped-key-value"


@pytest.mark.parametrize("name", ["zzzz", "flink.key-value"])
def test_a_format_or_a_system_like_no_other_lists_all(name: str) -> None:
    with pytest.raises(UnknownFormatError) as caught:
        find(name)
    assert caught.value.nearest is None
    assert all(known.id in str(caught.value) for known in FORMATS)


@pytest.mark.parametrize(
    ("source", "target", "losses"),
    [
        (TIMESTAMPED, KEY_VALUE, ("loss:timestamp",)),
        (TIMESTAMPED, RAW, ("loss:timestamp",)),
        (KEY_VALUE, TIMESTAMPED, ()),
        (TIMESTAMPED, TIMESTAMPED, ()),
        (RAW, KEY_VALUE, ()),
    ],
)
def test_losses_are_what_the_target_cannot_carry(source: str, target: str, losses: tuple[str, ...]) -> None:
    assert Conversion(find(source), find(target)).losses == losses


@pytest.mark.parametrize(
    ("source", "target", "with_function", "changes"),
    [
        (KEY_VALUE, TIMESTAMPED, False, False),
        (TIMESTAMPED, KEY_VALUE, False, False),
        (KEY_VALUE, TIMESTAMPED, True, True),
        (RAW, KEY_VALUE, False, True),
        (KEY_VALUE, RAW, True, False),
        (RAW, RAW, True, False),
    ],
)
def test_whether_a_changelog_still_fits(source: str, target: str, with_function: bool, changes: bool) -> None:
    function = _same if with_function else None
    assert Conversion(find(source), find(target), function=function).changes_changelog is changes


def _same(record: StateRecord) -> StateRecord:
    return record


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
def test_a_layout_has_one_payload_and_its_size_is_known_by_the_other_fields(known: Format) -> None:
    for layout in (known.key_schema, known.value_layout):
        framings = {field.name: field.framing for field in layout.fields}
        assert len(framings) == len(layout.fields)
        assert [name for name, framing in framings.items() if framing is Framing.REST] == [PAYLOAD]
        assert {field.name for field in layout.fields if field.size is None} == {
            name for name, framing in framings.items() if framing in (Framing.REST, Framing.SPAN)
        }


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
@settings(max_examples=50)
@given(data=st.data())
def test_what_is_encoded_is_decoded_the_same(known: Format, data: st.DataObject) -> None:
    record = data.draw(records(known))
    stored = known.encode(record)
    assert known.decode(*stored) == record
    assert known.encode(known.decode(*stored)) == stored


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
@settings(max_examples=100)
@given(data=st.data())
def test_what_is_decoded_is_encoded_as_it_was(known: Format, data: st.DataObject) -> None:
    """Whatever the bytes: what a format accepts, it keeps to the last bit."""
    entry = data.draw(entries(known))
    try:
        record = known.decode(*entry)
    except EntryError as error:
        assert str(error)
        return
    if known.kind == "versioned" and record.timestamp_ms is not None and record.timestamp_ms < 0:
        return  # an unknown time, which no versioned store holds: whoever wants to write one is told
    assert known.encode(record) == entry


@pytest.mark.parametrize("known", [known for known in FORMATS if known.is_segmented], ids=lambda known: known.id)
@given(data=st.data())
def test_a_key_tells_its_segments_time(known: Format, data: st.DataObject) -> None:
    record = data.draw(records(known))
    assert record.window is not None
    time = record.window.end_ms if known.kind == "session" else record.window.start_ms
    key, _ = known.encode(record)
    assert int.from_bytes(key[known.segment_time], "big", signed=True) == time


def test_a_store_of_one_directory_has_no_segments() -> None:
    with pytest.raises(AssertionError, match="hold no time"):
        _ = find(KEY_VALUE).segment_time


@pytest.mark.parametrize(
    ("format_id", "window"),
    [("kafka-streams.window", None), ("kafka-streams.session", None), ("kafka-streams.session", Window(5))],
)
def test_a_record_without_its_place_cannot_be_written(format_id: str, window: Window | None) -> None:
    with pytest.raises(InvalidEntryError, match=f"needs its {format_id.rpartition('.')[2]}"):
        find(format_id).encode(StateRecord(b"k", b"v", window=window))


@pytest.mark.parametrize(
    ("format_id", "window"),
    [
        ("kafka-streams.window", Window(1 << 63)),
        ("kafka-streams.window", Window(0, sequence=1 << 31)),
        ("kafka-streams.session", Window(0, -(1 << 63) - 1)),
    ],
)
def test_a_place_that_does_not_fit_a_key_is_a_reject(format_id: str, window: Window) -> None:
    with pytest.raises(InvalidEntryError, match="do not fit a key"):
        find(format_id).encode(StateRecord(b"k", b"v", window=window))


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
def test_a_format_survives_pickling(known: Format) -> None:
    assert pickle.loads(pickle.dumps(known)) == known


@pytest.mark.parametrize("timestamp", [1 << 63, -(1 << 63) - 1, 1.5, "now"])
def test_a_timestamp_that_does_not_fit_is_a_reject(timestamp: object) -> None:
    with pytest.raises(EntryError, match="not a signed 64-bit number"):
        find(TIMESTAMPED).encode(StateRecord(b"k", b"v", timestamp))  # type: ignore[arg-type]


def test_a_missing_timestamp_is_written_as_the_owner_writes_unknown() -> None:
    assert find(TIMESTAMPED).encode(StateRecord(b"k", b"v")) == (b"k", b"\xff" * 8 + b"v")


def test_json_behind_a_frame_is_refused_with_the_frame_s_name() -> None:
    framed = replace(find(KEY_VALUE), value_serde=JsonSerde())
    with pytest.raises(EntryError, match="; the bytes look like 00, then the id 9 and JSON: Confluent's") as caught:
        framed.decode(b"k", b'\0\0\0\0\x09{"a":1}')
    assert caught.value.part == "value"
