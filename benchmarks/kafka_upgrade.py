"""Kafka Streams' own way to a timestamped store: it moves a record when its key is read, here in random order."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from benchmarks.changelogs import is_unmeasured
from benchmarks.results import Bar, Result, route_result
from benchmarks.rounds import Sample, empty_folder, measure, ratio, take_turns
from benchmarks.routes import ENGINE_NAMES
from benchmarks.setting import PER_CORE, SMALL, Setting
from benchmarks.stores import Store
from tests.live.kafka_streams.events import Event
from tests.live.kafka_streams.program import KEY_VALUE, TIMESTAMPED_KEY_VALUE, VERSIONS, classpath, make_state_of

UPGRADE_BARS = {"native": 20.0}
_KAFKA = "Kafka Streams"
_NAME = "orders"


def kafka_upgrade(setting: Setting) -> list[Result]:
    """Each engine's rewriting, against every key's get in a store that is in upgrade mode."""
    store = setting.store(SMALL // 4 if setting.quick else SMALL)
    result = Result("kafka-upgrade", store.words, ["route"])
    if is_unmeasured(result):
        return [result]
    with empty_folder(setting.folder) as folder:
        application = _made(folder)

        def sample(route: str, _: int) -> Sample:
            if route == _KAFKA:
                return _upgraded(application, store)
            with empty_folder(setting.folder) as made:
                return measure("route", {"name": route, "source": str(store.path), "folder": str(made)})

        series = take_turns(setting.rounds, [*ENGINE_NAMES, _KAFKA], store.records, sample)
    result = route_result("kafka-upgrade", f"{store.words}; {_KAFKA} {max(VERSIONS)} without its start", series)
    for engine, bar in UPGRADE_BARS.items():
        if engine in series:
            times = ratio(series[engine], series[_KAFKA], "cpu")
            result.bars.append(Bar(result.name, f"{engine}: times {_KAFKA}' lazy upgrade, per core", bar, times))
    result.notes.append(PER_CORE)
    return [result]


def _made(folder: Path) -> Path:
    """A state directory with a store of one record, as Kafka Streams makes it."""
    application = folder / "application"
    events = {"0_0": {_NAME: [Event(key=b"k", value=b"v", timestamp=0)]}}
    make_state_of(max(VERSIONS), application, kinds={_NAME: KEY_VALUE}, events=events)
    return application


def _upgraded(application: Path, store: Store) -> Sample:
    """The store's records take the place of that one, and are all read once."""
    directory = application / "0_0" / "rocksdb" / _NAME
    shutil.rmtree(directory)
    shutil.copytree(store.path, directory)
    words = ["--app-dir", str(application), "--stores", f"{_NAME}={TIMESTAMPED_KEY_VALUE}:0"]
    java = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath(max(VERSIONS))]
    command = [*java, "stateferry.live.Main", "upgrade", *words, "--count", str(store.records)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    facts = json.loads(done.stdout.splitlines()[-1])
    return Sample(facts["wall"], facts["cpu"], 0.0)
