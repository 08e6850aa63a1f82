"""Stores whose owner had not finished an upgrade of its own: read as it would have read them."""

from pathlib import Path

import pytest

from migrate import cutover, plan, run, verify
from migrate.batch.ledger.standing import read_standing
from migrate.errors import RejectedError
from migrate.model.reports import RunReport
from tests.shared.windowed import (
    MINUTE,
    NO_HEADERS,
    OFFSETS,
    PLAIN,
    TIMESTAMPED,
    UNKNOWN,
    WITH_HEADERS,
    by_segment,
    checkpoint,
    offsets,
    read_segments,
    records_of,
    retentions,
    windowed_spec,
    windows,
)
from tests.support import digest_by_hand, make_families, raises, read_families, tree_state

KEY_VALUE = "kafka-streams.key-value"
TIMESTAMPED_KEY_VALUE = "kafka-streams.timestamped-key-value"
HEADERS_KEY_VALUE = "kafka-streams.headers-key-value"
TIME = (1_700_000_000_000).to_bytes(8, "big")
OLD = {b"k%03d" % number: b"old %d" % number for number in range(100)}
NEW = {b"k%03d" % number: TIME + b"new %d" % number for number in range(0, 160, 2)}
"""Half of the old ones were written again, and some came."""
BOTH = len(OLD.keys() & NEW.keys())
PUBLISHED = {"target": {"path": "new/app"}}


def _make(base: Path, families: dict[str, dict[bytes, bytes]]) -> Path:
    store = make_families(base / "app/0_0/rocksdb/win", families)
    (base / "app/0_0/.checkpoint").write_text(checkpoint("app-win-changelog 0 99"))
    return store


def _published(base: Path) -> dict[str, dict[bytes, bytes]]:
    return read_families(base / "new/app/0_0/rocksdb/win")


@pytest.mark.parametrize("verify_mode", ["full", "digest"])
def test_plain_records_that_nobody_wrote_since_have_no_time(verify_mode: str, tmp_path: Path) -> None:
    _make(tmp_path, {PLAIN: OLD, TIMESTAMPED: NEW})
    state = tree_state(tmp_path / "app")
    spec = windowed_spec(
        tmp_path,
        TIMESTAMPED_KEY_VALUE,
        HEADERS_KEY_VALUE,
        run={"verify": verify_mode, "chunk_size": "1 KiB"},
        **PUBLISHED,
    )
    report = run(spec)
    expected = {key: NO_HEADERS + UNKNOWN + value for key, value in OLD.items()}
    expected |= {key: NO_HEADERS + value for key, value in NEW.items()}
    assert _published(tmp_path) == {PLAIN: {}, WITH_HEADERS: dict(sorted(expected.items()))}
    assert tree_state(tmp_path / "app") == state
    totals = report.totals
    assert (totals.records_in, totals.records_out, totals.shadowed) == (len(expected), len(expected), BOTH)
    assert totals.chunks > 1
    for mode in ("full", "digest"):
        assert verify(spec, mode=mode).verification.records == len(expected)


def test_the_same_format_finishes_the_upgrade(tmp_path: Path) -> None:
    """In place: the owner then finds one family with records, and opens it without further ado."""
    store = _make(tmp_path, {PLAIN: OLD, TIMESTAMPED: NEW})
    spec = windowed_spec(tmp_path, TIMESTAMPED_KEY_VALUE)
    run(spec)
    cutover(spec)
    expected = {key: UNKNOWN + value for key, value in OLD.items()} | NEW
    assert read_families(store) == {PLAIN: {}, TIMESTAMPED: dict(sorted(expected.items()))}


@pytest.mark.parametrize("empty", [(), (PLAIN,)], ids=["", "default is empty"])
def test_timestamped_records_that_nobody_wrote_since_have_no_headers(empty: tuple[str, ...], tmp_path: Path) -> None:
    old = {key: TIME + value for key, value in OLD.items()}
    new = {key: b"\x0a\x02\x02h\x02x" + value for key, value in NEW.items()}
    _make(tmp_path, {**{name: {} for name in empty}, TIMESTAMPED: old, WITH_HEADERS: new, OFFSETS: offsets(99)})
    report = run(windowed_spec(tmp_path, HEADERS_KEY_VALUE, **PUBLISHED))
    expected = {key: NO_HEADERS + value for key, value in old.items()} | new
    assert _published(tmp_path) == {
        PLAIN: {},
        OFFSETS: offsets(99),
        WITH_HEADERS: dict(sorted(expected.items())),
    }
    assert report.totals.shadowed == BOTH


def test_plain_records_below_headers_are_read_where_there_is_nothing_between(tmp_path: Path) -> None:
    new = {key: NO_HEADERS + value for key, value in NEW.items()}
    _make(tmp_path, {PLAIN: OLD, WITH_HEADERS: new})
    run(windowed_spec(tmp_path, HEADERS_KEY_VALUE, **PUBLISHED))
    expected = {key: NO_HEADERS + UNKNOWN + value for key, value in OLD.items()} | new
    assert _published(tmp_path)[WITH_HEADERS] == dict(sorted(expected.items()))


def _run_with_bad_record(base: Path, **sections: object) -> RunReport:
    """A key whose new value is malformed, and whose old one would do."""
    _make(base, {PLAIN: OLD, TIMESTAMPED: {**NEW, b"k007": b"short"}})
    loss = {"conversion": {"allow": ["loss:timestamp"]}}
    return run(windowed_spec(base, TIMESTAMPED_KEY_VALUE, KEY_VALUE, **loss, **PUBLISHED, **sections))


def test_a_new_record_that_is_rejected_does_not_let_the_old_one_through(tmp_path: Path) -> None:
    """It would come back from the dead."""
    report = _run_with_bad_record(tmp_path, run={"on_reject": "skip", "max_rejects": 1})
    assert (report.totals.rejected, report.totals.shadowed) == (1, BOTH + 1)
    expected = OLD | {key: value[8:] for key, value in NEW.items()}
    del expected[b"k007"]
    assert _published(tmp_path) == {PLAIN: dict(sorted(expected.items()))}


def test_a_new_record_that_is_rejected_stops_the_run(tmp_path: Path) -> None:
    raises(RejectedError, "k007", _run_with_bad_record, tmp_path)


def test_a_malformed_old_record_is_a_reject_like_any_other(tmp_path: Path) -> None:
    """The owner puts empty headers before whatever is there."""
    good = {key: TIME + value for key, value in OLD.items()}
    _make(tmp_path, {TIMESTAMPED: {**good, b"bad": b"short"}, WITH_HEADERS: {}})
    report = run(windowed_spec(tmp_path, HEADERS_KEY_VALUE, run={"on_reject": "skip", "max_rejects": 1}, **PUBLISHED))
    assert (report.totals.rejected, report.totals.records_out) == (1, len(good))
    assert _published(tmp_path)[WITH_HEADERS] == {key: NO_HEADERS + value for key, value in sorted(good.items())}


def test_a_malformed_old_record_below_a_new_one_is_nobodys_business(tmp_path: Path) -> None:
    _make(tmp_path, {TIMESTAMPED: {b"k": b"short"}, WITH_HEADERS: {b"k": NO_HEADERS + TIME + b"v"}})
    report = run(windowed_spec(tmp_path, HEADERS_KEY_VALUE, **PUBLISHED))
    assert (report.totals.rejected, report.totals.records_out, report.totals.shadowed) == (0, 1, 1)


@pytest.mark.parametrize("chunk_size", ["1 GiB", "700 B"])
def test_digests_are_those_of_the_records_as_their_owner_reads_them(chunk_size: str, tmp_path: Path) -> None:
    """However the two families lie in files."""
    _make(tmp_path, {PLAIN: OLD, TIMESTAMPED: NEW})
    spec = windowed_spec(tmp_path, TIMESTAMPED_KEY_VALUE, run={"chunk_size": chunk_size})
    run(spec)
    expected = sorted(({key: UNKNOWN + value for key, value in OLD.items()} | NEW).items())
    receipts = read_standing(spec.home).receipts
    assert (len(receipts) > 1) == (chunk_size == "700 B")
    for receipt in receipts:
        mine = [pair for pair in expected if pair[0] in receipt.keys]
        assert receipt.scanned[0].digest == receipt.written[0].digest == digest_by_hand(mine)


@pytest.mark.parametrize("minutes", [30, 20, 120], ids=["as they are", "shrunk", "grown"])
def test_some_segments_of_a_store_may_be_half_upgraded(minutes: int, tmp_path: Path) -> None:
    size = 15 * MINUTE
    records = windows(200, until=4 * size)
    store = tmp_path / "app/0_0/win"
    expected: dict[bytes, bytes] = {}
    shadowed = 0
    for start, mine in by_segment(records, size).items():
        keys = list(mine)
        done, left, both = keys[::3], keys[1::3], keys[2::3]
        if start in (0, 2 * size):  # finished: every key was written since
            done, left, both = keys, [], []
        new = {key: TIME + mine[key] for key in sorted([*done, *both])}
        make_families(
            store / f"win.{start}", {PLAIN: {key: b"old" for key in sorted([*left, *both])}, TIMESTAMPED: new}
        )
        expected |= {key: UNKNOWN + b"old" for key in left} | new
        shadowed += len(both)
    sections = retentions(30 * MINUTE, minutes * MINUTE)
    spec = windowed_spec(tmp_path, "kafka-streams.timestamped-window", "kafka-streams.headers-window", **sections)
    assert plan(spec).verdict.go
    report = run(spec)
    kept = by_segment({key: NO_HEADERS + value for key, value in expected.items()}, minutes * MINUTE // 2)
    if minutes == 20:
        oldest = (max(int.from_bytes(key[-12:-4], "big") for key in expected) - 20 * MINUTE) // (10 * MINUTE)
        kept = {start: mine for start, mine in kept.items() if start >= oldest * 10 * MINUTE}
    else:
        assert report.totals.shadowed == shadowed
    cutover(spec)
    assert records_of(read_segments(store), WITH_HEADERS) == kept
    assert records_of(read_segments(store), PLAIN) == {}
