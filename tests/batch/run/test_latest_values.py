"""Stores that remember former values become such as know the latest one alone, and the other way round."""

from pathlib import Path
from struct import pack

import pytest

from migrate import run, verify
from migrate.errors import RejectedError
from tests.shared.windowed import OFFSETS, PLAIN, TIMESTAMPED, offsets, windowed_spec
from tests.support import make_families, raises, read_families

KEY_VALUE = "kafka-streams.key-value"
TIMESTAMPED_KEY_VALUE = "kafka-streams.timestamped-key-value"
VERSIONED = "kafka-streams.versioned"
LATEST = b"\xff" * 8
KEYS = [b"", b"\x00", b"\xff" * 9, *(b"k%03d" % number for number in range(60))]
TIME = 1_700_000_000_000
ALLOW = {"conversion": {"allow": ["loss:history", "loss:timestamp", "changelog", "unclean-source"]}}
PUBLISHED = {"target": {"path": "new/app"}}


def _history(segment: int, key: bytes, *values: bytes | None) -> tuple[bytes, bytes]:
    """Former values, the newest first; None: the key was deleted then."""
    begun = [TIME - 1000 * number for number in range(len(values))]
    heads = [pack(">qi", at, -1 if value is None else len(value)) for at, value in zip(begun, values, strict=True)]
    payloads = [value or b"" for value in reversed(values)]
    return pack(">q", segment) + key, pack(">qq", TIME + 500, begun[-1]) + b"".join([*heads, *payloads])


LATEST_RECORDS = {LATEST + key: pack(">q", TIME + number) + b"v" + key for number, key in enumerate(KEYS)}
HISTORY = dict(_history(segment, key, b"old", None, b"older") for segment in (2, 3) for key in KEYS)


def _make(base: Path, records: dict[bytes, bytes], family: str = PLAIN) -> None:
    make_families(base / "app/0_0/rocksdb/win", {OFFSETS: offsets(5), family: dict(sorted(records.items()))})
    (base / "app/0_0/other").mkdir()


def _published(base: Path) -> dict[str, dict[bytes, bytes]]:
    return read_families(base / "new/app/0_0/rocksdb/win")


@pytest.mark.parametrize("chunk_size", ["1 GiB", "1 KiB"])
def test_the_latest_value_of_each_key_stays_and_former_ones_are_counted(chunk_size: str, tmp_path: Path) -> None:
    _make(tmp_path, HISTORY | LATEST_RECORDS)
    spec = windowed_spec(
        tmp_path, VERSIONED, TIMESTAMPED_KEY_VALUE, run={"chunk_size": chunk_size}, **ALLOW, **PUBLISHED
    )
    report = run(spec)
    expected = {key[8:]: value for key, value in LATEST_RECORDS.items()}
    assert _published(tmp_path) == {PLAIN: {}, TIMESTAMPED: dict(sorted(expected.items())), OFFSETS: offsets(5)}
    totals = report.totals
    assert (totals.records_in, totals.records_out) == (len(HISTORY) + len(KEYS), len(KEYS))
    assert (totals.not_carried, totals.dropped, totals.rejected) == (len(HISTORY), 0, 0)
    assert verify(spec, mode="digest").verification.ok


def test_timestamped_values_become_the_latest_versions(tmp_path: Path) -> None:
    records = {key[8:]: value for key, value in LATEST_RECORDS.items()}
    _make(tmp_path, records, TIMESTAMPED)
    report = run(windowed_spec(tmp_path, TIMESTAMPED_KEY_VALUE, VERSIONED, **ALLOW, **PUBLISHED))
    assert _published(tmp_path) == {PLAIN: dict(sorted(LATEST_RECORDS.items())), OFFSETS: offsets(5)}
    assert report.totals.records_out == len(KEYS)


def test_a_value_of_unknown_time_cannot_be_a_version(tmp_path: Path) -> None:
    records = {key[8:]: value for key, value in LATEST_RECORDS.items()}
    _make(tmp_path, {**records, b"k001": LATEST + b"v"}, TIMESTAMPED)
    spec = windowed_spec(tmp_path, TIMESTAMPED_KEY_VALUE, VERSIONED, **ALLOW, **PUBLISHED)
    raises(RejectedError, "default_timestamp_ms", run, spec)
    accepting = {"run": {"on_reject": "skip", "max_rejects": 1}}
    report = run(windowed_spec(tmp_path, TIMESTAMPED_KEY_VALUE, VERSIONED, **accepting, **ALLOW, **PUBLISHED))
    assert (report.totals.rejected, report.totals.records_out) == (1, len(KEYS) - 1)
    assert LATEST + b"k001" not in _published(tmp_path)[PLAIN]


def test_a_function_converts_former_values_too(tmp_path: Path) -> None:
    code = "from formats import StateRecord\ndef convert(one):\n    return StateRecord(one.key, one.value.upper())\n"
    (tmp_path / "shouting.py").write_text(code, encoding="utf-8")
    _make(tmp_path, HISTORY | LATEST_RECORDS)
    conversion = {**ALLOW["conversion"], "function": "shouting:convert"}
    run(windowed_spec(tmp_path, VERSIONED, conversion=conversion, **PUBLISHED))
    expected = {key: value[:8] + value[8:].upper() for key, value in LATEST_RECORDS.items()}
    former = dict(_history(segment, key, b"OLD", None, b"OLDER") for segment in (2, 3) for key in KEYS)
    assert _published(tmp_path)[PLAIN] == dict(sorted((former | expected).items()))


def test_a_store_without_a_latest_value_becomes_an_empty_one(tmp_path: Path) -> None:
    """Every key was deleted."""
    _make(tmp_path, HISTORY)
    report = run(windowed_spec(tmp_path, VERSIONED, KEY_VALUE, **ALLOW, **PUBLISHED))
    assert (report.totals.records_out, report.totals.not_carried) == (0, len(HISTORY))
    assert _published(tmp_path) == {PLAIN: {}, OFFSETS: offsets(5)}
