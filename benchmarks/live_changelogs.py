"""A real application of Kafka Streams and its changelog: the whole migration, and for how long the application is away.

The new version knows other Avro schemas. The old one goes on while its snapshot is converted.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmarks.changelogs import is_unmeasured
from benchmarks.processes import CLI, Spent, run_command
from benchmarks.results import Bar, Result
from benchmarks.rounds import Sample, empty_folder, ratio, take_turns
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
    with _stopped_application(setting, records) as (old, _):
        _measure(Migration(old, old.next_version(), source="snapshot"), records, migration, away)
    return [migration, away]


@contextmanager
def _stopped_application(setting: Setting, records: int) -> Iterator[tuple[Program, Path]]:
    """An application with so many records, on a broker of its own, and the folder of both."""
    with empty_folder(setting.folder) as folder, running_broker(folder) as broker:
        old = Program(broker.bootstrap, "orders", folder / "app" / "state")
        make_input_topic(old.bootstrap, old.input)
        with App(old, _JVM_FLAGS) as app:
            _send_all(app, _orders(records))
            app.stop()
        yield old, folder


def changelog_restoration(setting: Setting) -> list[Result]:
    """A store from its changelog alone, in turns with Kafka Streams' own restoration of the same topic."""
    records = _QUICK_RECORDS if setting.quick else SMALL
    title = f"{records:,} Avro values of a real application, 2 partitions, one process or thread"
    result = Result("changelog-restoration", title, ["what", "seconds, median", "M records/s", "from its start, s"])
    if is_unmeasured(result):
        return [result]
    with _stopped_application(setting, records) as (old, folder):
        ways = {"restore": _restored_by_us, "Kafka Streams": _restored_by_kafka_streams}
        series = take_turns(setting.rounds, ways, records, lambda way, number: ways[way](old, folder, records, number))
    for name, each in series.items():
        wall, begun = (statistics.median(each.seconds(clock)) for clock in ("wall", "cpu"))
        result.rows.append([name, f"{wall:.1f}", f"{records / wall / 1e6:.3f}", f"{begun:.1f}"])
    times = ratio(series["restore"], series["Kafka Streams"], "wall")
    result.notes.append(
        f"`restore` reads and writes {times:.2f} times as fast as Kafka Streams, at the median of the rounds' ratios. "
        "Its seconds are those of its store partitions, one after the other; Kafka Streams' are from the first "
        "partition's start to the last one's end. The last column has the process's start, and what it asks the broker."
    )
    result.raw = {name: [(each.wall, each.cpu) for each in found.samples] for name, found in series.items()}
    return [result]


def _restored_by_us(old: Program, folder: Path, records: int, number: int) -> Sample:
    home = folder / f"ours-{number}"
    home.mkdir()
    spec = home / "lost.toml"
    spec.write_text(
        f"""
name = "lost"
work_dir = "work"
[source]
format = "kafka-streams.{old.kind}"
store = "{old.store}"
changelog = true
subtopology = 0
[target]
format = "kafka-streams.{old.kind}"
path = "back/{old.application_id}"
[changelog]
bootstrap = "{old.bootstrap}"
application_id = "{old.application_id}"
""",
        encoding="utf-8",
    )
    spent = run_command([*CLI, "restore", str(spec), "--jobs", "1"])
    made = json.loads((home / "work" / "lost" / "restored.json").read_bytes())
    stores = [each["store"] for each in made["pinned"]]
    if sum(each["keys"] for each in stores) != records:
        raise AssertionError(stores)
    shutil.rmtree(home)
    return Sample(sum(each["seconds"] for each in stores), spent.wall, 0.0)


def _restored_by_kafka_streams(old: Program, folder: Path, records: int, number: int) -> Sample:
    wiped = replace(old, state_dir=folder / f"theirs-{number}" / "state")
    since = time.perf_counter()
    with App(wiped, _JVM_FLAGS) as app:
        app.wait_running()
        begun = time.perf_counter() - since
        if app.restored < records:
            raise AssertionError(f"only {app.restored} records were restored")
        seen = app.seen("restored")
        app.stop()
    shutil.rmtree(wiped.state_dir.parent)
    seconds = (max(each["at_ms"] for each in seen) - min(each["since_ms"] for each in seen)) / 1000
    return Sample(seconds, begun, 0.0)


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
