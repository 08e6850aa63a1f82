"""What an application writes after its snapshot, laid over the new stores and written to their changelogs."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from migrate import RefusedError, VerificationError, catch_up, replay, run, verify
from migrate.batch.changelog import tails
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import read_ledger
from migrate.batch.steps import assemble
from migrate.model.events import TAIL_EVENTS
from tests.batch.changelog.support import DROPPED, FAMILIES, NOW, TASKS, WINDOW, App, Record
from tests.broker.broker import Broker
from tests.shared.windowed import window_key
from tests.support import KEY_VALUE, TIMESTAMPED, read_family

HOUR = 3_600_000
RETENTION = {"retention_ms": 12 * HOUR, "segment_ms": HOUR}
BEGINNING, END = TAIL_EVENTS[:3], TAIL_EVENTS[3:]
KILLS = (*BEGINNING, "assemble.started", "assemble.ingested", "assemble.committed", "verify.committed", *END)


def _windowed(app: App) -> App:
    """The application with the retention of its windowed store in the spec."""
    source = {"format": WINDOW, "path": app.name, "store": "orders", **RETENTION}
    return replace(app, sections={"source": source, "target": {"format": WINDOW, "store": "orders2", **RETENTION}})


def _tail(app: App, number: int, *, salt: bytes = b"") -> dict[bytes, Record]:
    """Changed, deleted and new keys, and some that the conversion drops: the last record of each."""
    known = sorted(app.old(number))
    tail: dict[bytes, Record] = {key: (b"changed" + salt, NOW + at) for at, key in enumerate(known[5:300:7])}
    tail |= {key: (None, NOW + 9) for key in known[6:300:7]}
    news = [DROPPED + b"new", *(b"key-%05d-%d-new%s" % (at, number, salt) for at in range(30))]
    if app.kind == WINDOW:
        news = [window_key(key, NOW + HOUR + at) for at, key in enumerate(news)]
    return tail | {key: (b"new" + salt, NOW + 10) for key in news}


def _apply(state: Mapping[bytes, Record], tail: Mapping[bytes, Record]) -> dict[bytes, Record]:
    """The state that a restore of the new changelog must give."""
    touched = {**state}
    for key, (value, at) in tail.items():
        touched.pop(key, None)
        if value is not None and not key.startswith(DROPPED):
            touched[key] = (value + b"!", at)
    return dict(sorted(touched.items()))


def _stored(app: App, number: int) -> dict[bytes, bytes]:
    """All entries of a new store partition, read from disk."""
    standing = Standing(app.spec.home, read_ledger(app.spec.home))
    folder = standing.assembled[f"{TASKS[number]}/orders"]
    databases = [file.parent for file in folder.rglob("CURRENT")]
    return {key: value for each in databases for key, value in read_family(each, FAMILIES[app.kind]).items()}


def _entries(app: App, state: Mapping[bytes, Record]) -> dict[bytes, bytes]:
    return {key: app._entry(*record) for key, record in state.items()}


@pytest.mark.parametrize("kind", [TIMESTAMPED, KEY_VALUE])
def test_tails_are_laid_over_the_stores_and_their_changelogs(kind: str, broker: Broker, tmp_path: Path) -> None:
    app = App(f"tails-{kind.rpartition('.')[2]}", tmp_path, broker, kind).make()
    run(app.spec)
    expected = [app.expected(number) for number in range(len(TASKS))]
    for salt in (b"", b"-again"):
        for number in range(len(TASKS)):
            tail = _tail(app, number, salt=salt)
            first = next(iter(tail))
            app.write(app.topic, number, {first: (b"an older one", NOW)})
            app.write(app.topic, number, tail)
            expected[number] = _apply(expected[number], tail)
        report = catch_up(app.spec)
        assert [each.records for each in report.tails] == [len(_tail(app, 0)) + 1] * 2
        for number in range(len(TASKS)):
            assert _stored(app, number) == _entries(app, expected[number])
            assert app.restored(number) == expected[number]
    assert catch_up(app.spec).tails == ()
    assert verify(app.spec, mode="full").verification.ok
    assert verify(app.spec, mode="digest").verification.ok
    assert run(app.spec).state == "verified"
    assert len(list((app.spec.home / "new").glob("*/*/orders"))) == len(TASKS)
    with pytest.raises(RefusedError, match="catch-up"):
        replay(app.spec)


def test_a_catch_up_killed_anywhere_is_finished_by_the_next_one(broker: Broker, tmp_path: Path) -> None:
    app = App("tail-killed", tmp_path, broker, count=60).make()
    run(app.spec)
    expected = []
    for number in range(len(TASKS)):
        tail = _tail(app, number)
        app.write(app.topic, number, tail)
        expected.append(_apply(app.expected(number), tail))
    before = app.old_state()
    for event in KILLS:
        command = [sys.executable, "-m", "tests.batch.changelog.catch_up_victim"]
        arguments = [str(tmp_path), broker.bootstrap, app.name, event]
        victim = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=100, check=False)
        assert victim.returncode == -signal.SIGKILL, (event, victim.stderr)
        assert app.old_state() == before, event
    seen: list[str] = []
    catch_up(app.spec, on_event=lambda event: seen.append(event.name))
    assert "tail.committed" not in seen, "what was recorded is not read again"
    for number in range(len(TASKS)):
        assert _stored(app, number) == _entries(app, expected[number])
        assert app.restored(number) == expected[number]
    home = app.spec.home
    assert len(list((home / "new").glob("*/*/orders"))) == len(TASKS)
    assert len(list((home / "changelog").glob("overlays-*/*/orders"))) == len(TASKS)
    assert len(list((home / "changelog").glob("*/orders/tail-*/*"))) == len(TASKS)


def test_a_windowed_store_gets_new_segments_and_loses_expired_ones(broker: Broker, tmp_path: Path) -> None:
    app = _windowed(App("tail-window", tmp_path, broker, WINDOW, count=200)).make()
    run(app.spec)
    for number in range(len(TASKS)):
        late = {window_key(b"late", NOW - 40 * HOUR): (b"expired", NOW), **_tail(app, number)}
        far = {window_key(b"far", NOW + 10 * HOUR): (b"new", NOW + 1)}
        app.write(app.topic, number, late | far)
    report = catch_up(app.spec)
    assert all(each.expired for each in report.tails)
    oldest = (NOW + 10 * HOUR - RETENTION["retention_ms"]) // HOUR * HOUR
    for number in range(len(TASKS)):
        tail = _tail(app, number) | {window_key(b"far", NOW + 10 * HOUR): (b"new", NOW + 1)}
        live = _apply(app.expected(number), tail)
        live = {key: each for key, each in live.items() if int.from_bytes(key[-12:-4], "big") >= oldest}
        assert _stored(app, number) == _entries(app, live)
        assert {key: each for key, each in app.restored(number).items() if key in live} == live
    assert verify(app.spec, mode="full").verification.ok
    assert verify(app.spec, mode="digest").verification.ok


def test_a_tail_that_may_lack_tombstones_is_laid_over_only_by_name(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("tail-old", tmp_path, broker, count=20).make()
    run(app.spec)
    app.write(app.topic, 0, {b"key-00001-0": (b"x", NOW)})
    monkeypatch.setattr(tails, "_DELETE_RETENTION_MS", 0)
    with pytest.raises(RefusedError, match="tombstones"):
        catch_up(app.spec)
    function = app.spec.conversion.function
    allowed = replace(app, sections={"conversion": {"function": function, "allow": ["lost-tombstones"]}})
    assert len(catch_up(allowed.spec).tails) == 1


def test_changes_that_did_not_arrive_are_found(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("tail-lost", tmp_path, broker, count=20).make()
    run(app.spec)
    app.write(app.topic, 0, {b"key-00001-0": (None, NOW)})
    with monkeypatch.context() as broken:
        broken.setattr(assemble, "write_changes", lambda *_: {})
        with pytest.raises(VerificationError, match="extra"):
            catch_up(app.spec)
    with pytest.raises(RefusedError):
        catch_up(app.spec)
    assert run(app.spec).state == "verified"
    assert b"key-00001-0" not in _stored(app, 0)
    catch_up(app.spec)
    assert b"key-00001-0" not in app.restored(0)
