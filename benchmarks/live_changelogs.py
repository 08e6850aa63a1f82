"""A real application of Kafka Streams and its changelog: the whole migration, and for how long the application is away.

The new version knows other Avro schemas. The old one goes on while its snapshot is converted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from benchmarks.changelogs import is_unmeasured
from benchmarks.processes import CLI, Spent, run_command
from benchmarks.results import Bar, Result
from benchmarks.rounds import empty_folder
from benchmarks.setting import SMALL, Setting
from tests.broker.broker import running_broker
from tests.live.changelog.app import App, Program
from tests.live.changelog.migrating import Migration
from tests.live.changelog.model import Input, make_input_topic, send

AWAY_BAR, OURS_BAR = 15.0, 5.0
_QUICK_RECORDS = 100_000
_MEANWHILE = 20_000
"""Records that the old version writes during the run."""
_SENT_AT_ONCE = 50_000
_JVM_FLAGS = ("-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


def changelog_migration(setting: Setting) -> list[Result]:
    """The migration beside a restoration of the same, and the time in which no version of the application runs."""
    records = _QUICK_RECORDS if setting.quick else SMALL
    title = f"{records:,} Avro values, 2 partitions; {_MEANWHILE:,} of them written again during the run"
    migration = Result("changelog-migration", title, ["what", "seconds", "M records/s", "CPU, s"])
    away = Result("changelog-downtime", title, ["from the old version's end", "seconds", "CPU, s"])
    if is_unmeasured(migration, away):
        return [migration, away]
    with empty_folder(setting.folder) as folder, running_broker(folder) as broker:
        old = Program(broker.bootstrap, "orders", folder / "app" / "state")
        make_input_topic(old.bootstrap, old.input)
        with App(old, _JVM_FLAGS) as app:
            _send_all(app, _orders(records))
            app.stop()
        _measure(Migration(old, old.next_version(), source="snapshot"), records, migration, away)
    return [migration, away]


def _measure(its: Migration, records: int, migration: Result, away: Result) -> None:
    its.write()
    its.spec.write_text(its.spec.read_text(encoding="utf-8").replace('"64 KiB"', '"16 MiB"'), encoding="utf-8")
    snapshot = _command("snapshot", its)
    with App(its.old, _JVM_FLAGS) as app:
        app.wait_running()
        run = _command("run", its, "--no-spark")
        _send_all(app, _orders(_MEANWHILE))
        app.stop()
    closed = time.perf_counter()
    catch_up, cutover = _command("catch-up", its), _command("cutover", its)
    with App(its.new, _JVM_FLAGS) as app:
        app.wait_running()
        seconds = time.perf_counter() - closed
        if app.restored:
            raise AssertionError(f"the new version has restored {app.restored} records")
        app.stop()
    restored = _restoration(its.new.elsewhere(), records)
    for what, spent in {"snapshot": snapshot, "run, in process": run}.items():
        migration.rows.append([what, f"{spent.wall:.1f}", f"{records / spent.wall / 1e6:.3f}", f"{spent.cpu:.1f}"])
    migration.rows.append(["Kafka Streams restores", f"{restored:.1f}", f"{records / restored / 1e6:.3f}", ""])
    migration.notes.append(
        "The run converts, assembles and verifies the store, writes its new changelog and reads it back. "
        "Restoring counts from the start of the application's JVM, without local state, until it runs."
    )
    for what, spent in {"`stateferry catch-up`": catch_up, "`stateferry cutover`": cutover}.items():
        away.rows.append([what, f"{spent.wall:.2f}", f"{spent.cpu:.2f}"])
    away.rows.append(["until the new version runs", f"{seconds:.2f}", ""])
    ours = catch_up.wall + cutover.wall
    away.bars = [
        Bar(away.name, "seconds without a running version", AWAY_BAR, seconds, "at most"),
        Bar(away.name, "seconds of catch-up and cut-over, from the shell", OURS_BAR, ours, "at most"),
    ]
    migration.raw = {"snapshot": snapshot.wall, "run": run.wall, "restored": restored}
    away.raw = {"catch-up": catch_up.wall, "cutover": cutover.wall, "running": seconds}


def _restoration(program: Program, records: int) -> float:
    since = time.perf_counter()
    with App(program, _JVM_FLAGS) as app:
        app.wait_running()
        seconds = time.perf_counter() - since
        if app.restored < records:
            raise AssertionError(f"only {app.restored} records were restored")
        app.stop()
    return seconds


def _command(verb: str, its: Migration, *options: str) -> Spent:
    return run_command([*CLI, verb, str(its.spec), *options])


def _orders(count: int) -> Iterator[Input]:
    now = time.time_ns() // 1_000_000
    for number in range(count):
        yield Input(f"customer-{number:08}", {"item": f"item {number % 1000}", "quantity": number % 99}, now)


def _send_all(app: App, inputs: Iterator[Input]) -> None:
    """A part at a time: the application is not far behind."""
    while part := list(islice(inputs, _SENT_AT_ONCE)):
        send(app.program.bootstrap, app.program.input, part)
        app.wait_caught_up()
