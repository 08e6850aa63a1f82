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
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import read_ledger
from migrate.kafka.cluster import Cluster
from migrate.model.events import TAIL_EVENTS, Event
from migrate.spec.spec import Spec
from tests.batch.changelog.support import DROPPED, FAMILIES, NOW, TASKS, WINDOW, App, Record
from tests.broker.broker import Broker
from tests.shared.windowed import window_key
from tests.support import KEY_VALUE, TIMESTAMPED, read_family

HOUR = 3_600_000
RETENTION = {"retention_ms": 12 * HOUR, "segment_ms": HOUR}
KILLS = [*TAIL_EVENTS, "assemble.started", "assemble.ingested", "assemble.committed", "verify.committed"]


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
    app = App(f"tails-{kind.rpartition('.')[2]}", tmp_path, broker.bootstrap, kind).make()
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
    for mode in ("full", "digest"):
        assert verify(app.spec, mode=mode, master=None).verification.ok
    assert run(app.spec).state == "verified"
    assert len(list((app.spec.home / "new").glob("*/*/orders"))) == len(TASKS)
    with pytest.raises(RefusedError, match="catch-up"):
        replay(app.spec)
