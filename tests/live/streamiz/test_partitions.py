"""Stores of real applications of Streamiz get other partitions, other keys, or are made anew; it finds every key."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from migrate import RefusedError, Spec, export, restore, run
from tests.batch.changelog.support import on_spark
from tests.broker.broker import Broker
from tests.broker.topics import make_topic_again
from tests.live.streamiz.adding import Input, feed, inputs, rows
from tests.live.streamiz.make_vectors import FORMATS
from tests.live.streamiz.program import require_streamiz, work
from tests.support import raises, to_toml

DAY = 86_400_000
SETTINGS: dict[str, Any] = {"retention": 60 * DAY}
KEPT: dict[str, Any] = {"retention_ms": 60 * DAY}
MURMUR2, CRC32 = "murmur2_random", "consistent_random"
FIRST, MORE, LAST = inputs(100), inputs(69, since=100), inputs(46, since=169)
_TO_LONG = """
from dataclasses import replace

def to_long(record):
    return replace(record, key=64 + int(record.key[-2:]))
"""
_IMPORT = "import sys, migrate; migrate.import_rows(migrate.load_spec(sys.argv[1]), sys.argv[2], master='local[2]')"


@pytest.fixture(autouse=True)
def _live() -> None:
    require_streamiz()


def kept(kind: str) -> dict[str, Any]:
    """What a spec says of stores that have segments."""
    return KEPT if kind in ("win", "twin") else {}


def spec_of(old: Path, new: Path, kind: str, broker: Broker, **sections: Mapping[str, object]) -> Spec:
    """The store `kv` of an application becomes `kv-n` in another state directory."""
    form = f"streamiz.{FORMATS[kind]}"
    given: dict[str, Any] = {name: dict(section) for name, section in sections.items()}
    given["source"] = {"format": form, "store": "kv"} | kept(kind) | given.get("source", {"path": old})
    given["target"] = {"format": form, "path": new, "store": "kv-n"} | given.get("target", {})
    changelog = {"bootstrap": broker.bootstrap, "application_id": old.name}
    return Spec(name=old.name, work_dir=new.parent / "work", changelog=changelog, **given)


def fed(app: Path, kind: str, broker: Broker, *, partitions: int = 2, partitioner: str = MURMUR2) -> str:
    """An application that has added up the first inputs; the name of their topic."""
    topic = f"{app.name}-input"
    feed(broker.bootstrap, topic, FIRST, partitions=partitions, partitioner=partitioner)
    assert work(app, kind, broker.bootstrap, topic, len(FIRST), **SETTINGS)["rows"] == rows(FIRST, kind)
    return topic


def goes_on(
    app: Path,
    kind: str,
    broker: Broker,
    name: Callable[[Input], Input] = lambda each: each,
    *,
    store: str = "kv-n",
    partitioner: str = MURMUR2,
) -> None:
    """The application finds each key where its input is, and restores nothing; after a wipe it restores the same.

    The last inputs are of every key: Streamiz says that it runs before it has restored all, and adds up afterwards.
    """
    topic, settings = f"{app.name}-input", SETTINGS | {"store": store}
    before, later, last = ([*map(name, some)] for some in (FIRST, MORE, LAST))
    feed(broker.bootstrap, topic, later, partitioner=partitioner)
    said = work(app, kind, broker.bootstrap, topic, len(later), **settings)
    assert (said["rows"], said["restored"]) == (rows([*before, *later], kind), 0)
    feed(broker.bootstrap, topic, last, partitioner=partitioner)
    wiped = work(app.parent / f"wiped/{app.name}", kind, broker.bootstrap, topic, len(last), **settings)
    assert wiped["rows"] == rows([*before, *later, *last], kind)
    assert wiped["restored"] > 0


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("before", "after"), [(2, 3), (2, 12), (12, 2)])
def test_another_number_of_partitions(kind: str, before: int, after: int, broker: Broker, tmp_path: Path) -> None:
    app, new = (tmp_path / f"{name}/parts-{kind}-{before}-{after}" for name in ("old", "new"))
    topic = fed(app, kind, broker, partitions=before)
    assert run(spec_of(app, new, kind, broker, target={"partitions": after})).state == "published"
    make_topic_again(broker.bootstrap, topic, after)
    goes_on(new, kind, broker)


def test_keys_of_another_partitioner(broker: Broker, tmp_path: Path) -> None:
    app, new = (tmp_path / f"{name}/parts-crc32" for name in ("old", "new"))
    topic = fed(app, "ts", broker, partitioner=CRC32)
    work(app, "ts", broker.bootstrap, topic, 0, **SETTINGS)  # its number is past the end of the changelog then
    spec = spec_of(app, new, "ts", broker, target={"partitions": 3})
    error = raises(RefusedError, r"is in task 0-\d, and murmur2 of 2 partitions puts it into 0-\d", run, spec)
    assert error.hint == 'every sampled key is where crc32 puts it: [source] partitioner = "crc32"'
    assert not new.exists()
    run(spec_of(app, new, "ts", broker, source={"path": app, "partitioner": "crc32"}, target={"partitions": 3}))
    make_topic_again(broker.bootstrap, topic, 3)
    goes_on(new, "ts", broker, partitioner=CRC32)


def numbered(given: Input) -> Input:
    """With the key's number in place of the key, as Streamiz writes a long: little-endian, which here is text too."""
    return replace(given, key=chr(64 + int(given.key[-2:])) + 7 * "\0")


@pytest.mark.parametrize("kind", FORMATS)
def test_text_becomes_numbers(kind: str, broker: Broker, tmp_path: Path) -> None:
    app, new = (tmp_path / f"{name}/parts-long-{kind}" for name in ("old", "new"))
    topic, after = fed(app, kind, broker), 2 if kind in ("plain", "twin") else 3
    module = f"numbers_of_{kind}"
    (tmp_path / f"{module}.py").write_text(_TO_LONG)
    key = {"from": {"serde": "string"}, "to": {"serde": "int64", "endian": "little"}}
    form = f"streamiz.{FORMATS[kind]}"
    content = {
        "name": app.name,
        "work_dir": "work",
        "source": {"format": form, "path": str(app), "store": "kv"} | kept(kind),
        "target": {"format": form, "path": str(new), "store": "kv-n", "partitions": after},
        "conversion": {"function": f"{module}:to_long", "key": key},
        "changelog": {"bootstrap": broker.bootstrap},
    }
    (tmp_path / "migration.toml").write_text(to_toml(content), encoding="utf-8")
    on_spark("run", tmp_path / "migration.toml", seconds=500)
    make_topic_again(broker.bootstrap, topic, after)
    goes_on(new, kind, broker, numbered)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_lost_disk_comes_back(kind: str, broker: Broker, tmp_path: Path) -> None:
    app, new = (tmp_path / f"{name}/parts-lost-{kind}" for name in ("old", "new"))
    fed(app, kind, broker)
    app.rename(tmp_path / "lost")
    source = {"changelog": True, "subtopology": 0}
    spec = spec_of(app, new, kind, broker, source=source, target={"store": None})
    assert restore(spec).keys == len(rows(FIRST, kind))
    assert run(spec).state == "published"
    goes_on(new, kind, broker, store="kv")


@pytest.mark.parametrize("kind", FORMATS)
def test_exported_rows_are_imported(kind: str, broker: Broker, tmp_path: Path) -> None:
    app, new = (tmp_path / f"{name}/parts-rows-{kind}" for name in ("old", "new"))
    topic, form = fed(app, kind, broker), f"streamiz.{FORMATS[kind]}"
    text = {"serde": "string"}
    old = {"format": form, "path": app, "store": "kv"}
    export(
        Spec(
            name="out",
            work_dir=tmp_path / "out",
            source=old,
            target={"format": form},
            conversion={"key": {"from": text, "to": text}},
        ),
        tmp_path / "table",
    )
    content = {
        "name": app.name,
        "work_dir": "work",
        "target": {"format": form, "path": str(new), "store": "kv-n", "partitions": 3, "subtopology": 0} | kept(kind),
        "conversion": {"allow": [], "key": {"to": text}},
        "changelog": {"bootstrap": broker.bootstrap},
    }
    (tmp_path / "filled.toml").write_text(to_toml(content), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", _IMPORT, tmp_path / "filled.toml", tmp_path / "table"], check=True, timeout=500
    )
    make_topic_again(broker.bootstrap, topic, 3)
    goes_on(new, kind, broker)
