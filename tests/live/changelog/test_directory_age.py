"""Kafka Streams 4.3 removes tasks that were not modified for long: a store that was just cut over is not among them."""

import os
import time
from dataclasses import replace
from pathlib import Path

from tests.broker.broker import Broker
from tests.live.changelog.app import Program
from tests.live.changelog.migrating import Migration, assert_finds
from tests.live.changelog.model import make_input_topic, random_inputs, rows_after, send

DAY_MS = 86_400_000


def test_a_store_that_was_cut_over_after_two_days_is_found(broker: Broker, tmp_path: Path) -> None:
    old = Program(broker.bootstrap, "directory-age", tmp_path / "state", kind="key-value")
    new = replace(old, kind="timestamped-key-value", directory_max_age_ms=DAY_MS)
    make_input_topic(broker.bootstrap, old.input)
    inputs = random_inputs(500, 100, seed=1, now_ms=time.time_ns() // 1_000_000)
    send(broker.bootstrap, old.input, inputs)
    assert_finds(old, rows_after(old.kind, inputs), restored=0)
    _leave_for_two_days(old.folder)
    migration = Migration(old, new, timestamps="changelog").write()
    migration.perform("run", "--cutover")
    expected = rows_after(new.kind, inputs)
    assert_finds(new, expected, restored=0)
    _leave_for_two_days(old.folder)
    assert_finds(new, expected, restored=600)


def _leave_for_two_days(folder: Path) -> None:
    then = time.time() - 2 * DAY_MS / 1000
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (then, then))
