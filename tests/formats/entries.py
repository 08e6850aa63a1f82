"""Entries of any format: as its own `encode` writes them, damaged, and any bytes at all."""

from hypothesis import strategies as st

from formats import Format, Headers, History, StateRecord, Version, Window

Entry = tuple[bytes, bytes]

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TIMES = st.integers(0, 1 << 41) | st.sampled_from([-1, 0, (1 << 63) - 1]) | INT64
EXPIRIES = st.sampled_from([0, (1 << 56) - 1]) | st.integers(0, 1 << 41)
KEYS = st.binary(max_size=20)
VALUES = st.binary(max_size=30) | st.integers(60, 300).map(bytes)
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=40)), max_size=3).map(Headers.of)
SEQUENCES = st.just(0) | st.integers(-(1 << 31), (1 << 31) - 1)
WINDOWS = {
    "window": st.builds(Window, TIMES, st.none(), SEQUENCES),
    "session": st.builds(Window, TIMES, TIMES),
}
HISTORIES = st.lists(INT64, min_size=2, max_size=5, unique=True).flatmap(
    lambda times: st.builds(_history, st.integers(0, 1 << 40), st.just(sorted(times)), st.lists(st.none() | VALUES))
)


def _history(segment: int, times: list[int], values: list[bytes | None]) -> History:
    begun = reversed(times[:-1])
    padded = [*values, *[b""] * len(times)]
    return History(segment, times[-1], tuple(Version(*version) for version in zip(begun, padded, strict=False)))


def records(known: Format) -> st.SearchStrategy[StateRecord]:
    """What a format's `decode` gives, where that is all of it."""
    carried = known.carries
    if known.kind == "versioned":
        latest = st.builds(StateRecord, KEYS, VALUES, st.integers(0, (1 << 63) - 1))
        return latest | st.builds(StateRecord, KEYS, st.none(), history=HISTORIES)
    return st.builds(
        StateRecord,
        KEYS,
        VALUES,
        TIMES if "timestamp" in carried else st.none(),
        HEADERS if "headers" in carried else st.none(),
        WINDOWS.get(known.kind, st.none()),
        st.none(),
        st.none() | EXPIRIES if "expiry" in carried else st.none(),
    )


@st.composite
def _damaged(draw: st.DrawFn, entry: Entry) -> Entry:
    """One byte changed, put in or cut off with all behind it."""
    part = draw(st.sampled_from([0, 1, 1, 1]))
    data = entry[part]
    at = draw(st.integers(0, min(len(data), 12)))
    byte = draw(st.sampled_from([b"\0", b"\1", b"\2", b"\x7f", b"\x80", b"\xff", b""]))
    changed = data[:at] + byte + draw(st.sampled_from([data[at:], data[at + 1 :], b""]))
    return (changed, entry[1]) if part == 0 else (entry[0], changed)


def entries(known: Format) -> st.SearchStrategy[Entry]:
    """Mostly such as its owner writes."""
    written = records(known).map(known.encode)
    found = written | written | written.flatmap(_damaged) | st.tuples(st.binary(max_size=40), st.binary(max_size=40))
    return found.filter(lambda entry: not entry[0].startswith(known.metadata_keys))
