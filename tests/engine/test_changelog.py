"""Columns of entries and of records are what the reference makes of them one by one."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import FORMATS, EntryError, Format, Headers, get_format
from formats.changelog import ChangelogRecord
from migrate.engine.changelog_codec import FromChangelog, ToChangelog, keyed_by_time, keyed_plainly
from migrate.stores.batch import Batch, ChangelogBatch
from tests.formats.entries import HEADERS, INT64, KEYS, TIMES, VALUES, Entry, entries, records
from tests.support import KEY_VALUE, TIMESTAMPED

Record = tuple[bytes, bytes | None, int, list[tuple[str, bytes | None]]]
VERSIONED = get_format("kafka-streams.versioned")


@st.composite
def _some(draw: st.DrawFn, known: Format) -> list[Entry]:
    """Few or many entries, alike or not, now and then malformed."""
    drawn = draw(st.lists(records(known).map(known.encode), min_size=1, max_size=4))
    some = drawn * draw(st.sampled_from([1, 20])) if draw(st.booleans()) else [drawn[0]] * 20
    return [*some, draw(entries(known))] if draw(st.booleans()) else some


def _batch(some: list[Entry]) -> Batch:
    sizes = {(len(key), len(value)) for key, value in some}
    return Batch([key for key, _ in some], [value for _, value in some], sizes.pop() if len(sizes) == 1 else None)


def _listed(batch: ChangelogBatch) -> list[Record]:
    headers = batch.headers or [[]] * len(batch)
    return list(zip(batch.keys, batch.values, batch.timestamps, headers, strict=True))


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.id)
@settings(max_examples=60)
@given(data=st.data())
def test_entries_become_the_records_that_the_reference_gives(known: Format, data: st.DataObject) -> None:
    some = data.draw(_some(known))
    times = data.draw(st.lists(TIMES, min_size=len(some), max_size=len(some)) | st.none())
    try:
        expected = [
            (
                record.key,
                record.value,
                record.timestamp_ms if record.timestamp_ms is not None else time,
                list(record.headers),
            )
            for entry, time in zip(some, times or [-1] * len(some), strict=True)
            for record in known.changelog_form.records(*entry)
        ]
    except EntryError as reason:
        with pytest.raises(EntryError, match=re.escape(str(reason))):
            ToChangelog(known)(_batch(some), times)
        return
    assert _listed(ToChangelog(known)(_batch(some), times)) == expected


@pytest.mark.parametrize("known", [known for known in FORMATS if known.kind != "versioned"], ids=lambda known: known.id)
@settings(max_examples=60)
@given(data=st.data())
def test_records_are_restored_as_the_reference_does(known: Format, data: st.DataObject) -> None:
    some = data.draw(st.lists(st.tuples(KEYS, st.none() | VALUES, INT64, HEADERS), max_size=20))
    pack = known.changelog_layout.pack
    some = [(key, None if value is None else pack(value, {}), at, headers) for key, value, at, headers in some]
    has_headers = data.draw(st.booleans())
    batch = ChangelogBatch(
        [key for key, _, _, _ in some],
        [value for _, value, _, _ in some],
        [time for _, _, time, _ in some],
        [list(headers) for _, _, _, headers in some] if has_headers else None,
        offsets=range(len(some)),
    )
    restored = FromChangelog(known)(batch)
    expected = [
        known.changelog_form.entry(ChangelogRecord(key, value, time, headers if has_headers else Headers()))
        for key, value, time, headers in some
    ]
    assert list(zip(restored.puts.keys, restored.puts.values, strict=True)) == [
        entry for entry in expected if entry[1] is not None
    ]
    assert restored.times == [time for _, value, time, _ in some if value is not None]
    assert restored.deleted == [key for key, value in expected if value is None]


@given(times=st.lists(INT64, min_size=1, max_size=9))
def test_keys_by_time_sort_by_time(times: list[int]) -> None:
    batch = ChangelogBatch([b"%d" % at for at in range(len(times))], [None] * len(times), times)
    keyed = keyed_by_time(batch)
    assert [time for _, time in sorted(zip(keyed.keys, times, strict=True))] == sorted(times)
    assert keyed_plainly(keyed) == batch


def test_the_last_record_of_a_time_is_the_one_that_counts() -> None:
    """A version ends where the next one begins: the end comes first, in the order of the store's keys."""
    rows = [
        (
            bytes.fromhex("00000000000000016b"),
            bytes.fromhex("000000000000f230000000000000ee48000000000000ee48000000027631"),
        ),
        (bytes.fromhex("ffffffffffffffff6b"), bytes.fromhex("000000000000f2307632")),
    ]
    keyed = keyed_by_time(ToChangelog(VERSIONED)(_batch(rows)))
    last = dict(zip(keyed.keys, keyed.values, strict=True))
    assert [last[key] for key in sorted(last)] == [b"v1", b"v2"]


def test_the_owners_own_keys_are_not_logged() -> None:
    known = replace(get_format(TIMESTAMPED), metadata_keys=(b"__own__", b"offset"), position_keys=(b"offset",))
    entries_of = [(key, bytes(8) + b"v") for key in (b"__own__made", b"a", b"offset", b"z")]
    assert _listed(ToChangelog(known)(_batch(entries_of))) == [(b"a", b"v", 0, []), (b"z", b"v", 0, [])]


def test_what_needs_no_conversion_is_not_copied() -> None:
    batch = Batch([b"a", b"b"], [b"1", b"2"])
    made = ToChangelog(get_format(KEY_VALUE))(batch, [5, 6])
    assert made.keys is batch.keys
    assert made.values is batch.values
    assert made.timestamps == [5, 6]
