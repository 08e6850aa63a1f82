"""What a function, and a sample, see of the times that the old changelog has."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from formats import StateRecord
from migrate import catch_up, plan, run
from migrate.batch.changelog import take_key_times as times
from migrate.dry_run.examples import timestamp_in_words
from migrate.queries.side_by_side import SideBySideStores
from migrate.spec.spec import Spec
from tests.batch.changelog.support import NOW, TASKS, Record
from tests.batch.changelog.test_times import PlainApp
from tests.broker.broker import Broker
from tests.support import KEY_VALUE, TIMESTAMPED

COUNT = 60
SET = 77
"""A time that a function sets."""


def needs_time(record: StateRecord) -> StateRecord:
    """Puts the time behind the value, and cannot do without."""
    if record.timestamp_ms is None or record.timestamp_ms < NOW - 60_000:
        raise ValueError(f"no time: {record.timestamp_ms}")
    return replace(record, value=b"%s at %d" % (record.value, record.timestamp_ms))


def sets_time(record: StateRecord) -> StateRecord:
    """Gives every second record a time of its own."""
    return replace(record, timestamp_ms=SET) if record.key[7:9] in (b"-0", b"-1") or record.key[8] % 2 else record


class SeenApp(PlainApp):
    """Its function changes values by their times."""

    def convert(self, key: bytes, record: Record) -> Record:
        """What the new store has."""
        value, at = record
        assert value is not None
        return b"%s at %d" % (value, at), at

    def expected(self, number: int) -> dict[bytes, Record]:
        return {key: self.convert(key, record) for key, record in self.old(number).items()}


def _app(name: str, base: Path, broker: Broker, function: Callable[[StateRecord], StateRecord] = needs_time) -> SeenApp:
    sections = {
        "target": {"format": TIMESTAMPED, "store": "orders2"},
        "conversion": {"function": f"{__name__}:{function.__name__}"},
        "changelog": {"bootstrap": broker.bootstrap, "timestamps": "changelog", "application": "stopped"},
    }
    return SeenApp(name, base, broker, KEY_VALUE, count=COUNT, sections=sections)


def _entries(records: Mapping[bytes, Record]) -> dict[bytes, bytes]:
    return {key: at.to_bytes(8, "big", signed=True) + (value or b"") for key, (value, at) in records.items()}


def test_the_function_sees_the_time_that_the_record_will_have(broker: Broker, tmp_path: Path) -> None:
    app = _app("seen-run", tmp_path, broker).make()
    report = run(app.spec)
    assert report.verification is not None
    assert report.verification.ok
    for number in range(len(TASKS)):
        assert app.migrated(number) == _entries(app.expected(number))
    found = SideBySideStores(app.spec).first(None, limit=2 * COUNT).records
    assert {each.verdict for each in found} == {"equal"}


def test_a_time_that_the_function_sets_wins(broker: Broker, tmp_path: Path) -> None:
    app = _app("seen-set", tmp_path, broker, sets_time).make()
    run(app.spec)
    records = {key: StateRecord(key, value, at) for key, (value, at) in app.old(0).items()}
    expected = {key: (each.value, sets_time(each).timestamp_ms or 0) for key, each in records.items()}
    assert app.migrated(0) == _entries(expected)
    assert SET in {at for _, at in expected.values()}
    assert {SET} != {at for _, at in expected.values()}


def test_the_function_sees_the_times_of_a_tail(broker: Broker, tmp_path: Path) -> None:
    app = _app("seen-tail", tmp_path, broker).make()
    run(app.spec)
    tail: dict[bytes, Record] = {min(app.old(0)): (b"changed", NOW + 5), b"new": (b"new", NOW + 6)}
    app.write(app.topic, 0, tail)
    catch_up(app.spec)
    expected = app.expected(0) | {key: app.convert(key, record) for key, record in tail.items()}
    assert app.restored(0) == dict(sorted(expected.items()))


def test_plan_shows_what_the_function_makes_of_the_times(broker: Broker, tmp_path: Path) -> None:
    app = _app("seen-plan", tmp_path, broker).make()
    report = plan(app.spec)
    tried = report.tried
    assert tried is not None
    assert (tried.converted, tried.rejected, tried.is_full) == (2 * COUNT, 0, True)
    known = {timestamp_in_words(at) for _, at in app.old(0).values()}
    assert known.issuperset(dict(each.fields)["timestamp"] for each in tried.examples)
    assert "from their first record" in tried.times
    assert report.verdict.exit_code == 0


def _most_sampled(monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    monkeypatch.setattr(times, "MOST_SAMPLED", records)


def _plan(spec: Spec, *, full: bool) -> tuple[int, int, bool, str]:
    tried = plan(spec, full=full).tried
    assert tried is not None
    return tried.converted, tried.rejected, tried.is_full, tried.times


def test_a_sample_has_keys_that_the_end_of_a_long_changelog_names(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so; all records are tried only where that is asked for, with the times of whole changelogs."""
    app = _app("seen-sample", tmp_path, broker).make()
    _most_sampled(monkeypatch, 21)
    converted, rejected, is_full, words = _plan(app.spec, full=False)
    assert (converted, rejected, is_full) == (2 * 21, 0, False)
    assert "20,000 records of each" not in words
    assert "the sample has keys that 21 records of each name" in words
    assert _plan(app.spec, full=True)[:3] == (2 * COUNT, 0, True)
    run(app.spec)  # its own sample sees the times too
    assert app.migrated(1) == _entries(app.expected(1))


def test_a_sample_that_finds_no_record_is_no_proof(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a changelog may name only keys that are deleted by now."""
    app = _app("seen-none", tmp_path, broker).make()
    _most_sampled(monkeypatch, 0)
    report = plan(app.spec)
    assert report.tried is not None
    assert report.tried.records == 0
    check = next(each for each in report.checks if each.name == "conversion.paths")
    assert (check.outcome, check.detail) == ("warning", "no record was tried")
    assert "--full" in check.fix
