"""Real applications whose new version writes its keys by another serde find each one where their partitioner looks."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.batch.changelog.support import on_spark
from tests.broker.broker import Broker
from tests.live.kafka_streams import kinds
from tests.live.partitions.app import AVRO_KEY, Keys, Program
from tests.live.partitions.proving import prove
from tests.support import to_toml

_FUNCTIONS = """
from dataclasses import replace

def to_long(record):
    return replace(record, key=int(record.key.rpartition("-")[2]))

def to_avro(record):
    name, _, number = record.key.rpartition("-")
    return replace(record, key={"name": f"{name}-", "number": int(number)})
"""
_SERDES = {"long": {"serde": "int64"}, "avro": {"serde": "avro", "frame": "confluent", "id": 7, "schema": "key.avsc"}}


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[\W_]+", "-", request.node.name).strip("-")


def _spec_file(old: Program, new: Program) -> Path:
    """The spec, with the function and the schema of its keys beside it."""
    base, (kind,) = new.state_dir.parent, old.kinds
    (base / "key.avsc").write_text(json.dumps(AVRO_KEY))
    module = f"keys_of_{old.application_id.replace('-', '_')}"
    (base / f"{module}.py").write_text(_FUNCTIONS)
    content = {
        "name": old.application_id.lower(),
        "work_dir": "work",
        "source": {"format": f"kafka-streams.{kind}", "path": str(old.folder), "stores": [old.stores[kind]]},
        "target": {
            "format": f"kafka-streams.{kind}",
            "path": str(new.folder),
            "partitions": new.partitions,
            "store": new.stores[kind],
        },
        "conversion": {
            "function": f"{module}:to_{new.keys}",
            "key": {"from": {"serde": "string"}, "to": _SERDES[new.keys]},
        },
        "changelog": {"bootstrap": old.bootstrap},
    }
    file = base / "migration.toml"
    file.write_text(to_toml(content), encoding="utf-8")
    return file


def _proved(old: Program, base: Path, keys: Keys, partitions: int) -> None:
    new = replace(old, state_dir=base / "new", partitions=partitions, suffix="-n", keys=keys)
    prove(old, new, lambda: on_spark("run", _spec_file(old, new), seconds=500))


@pytest.mark.parametrize("kind", [kinds.TIMESTAMPED_KEY_VALUE, kinds.VERSIONED])
def test_text_becomes_numbers(broker: Broker, tmp_path: Path, name: str, kind: str) -> None:
    old = Program(broker.bootstrap, name, tmp_path / "state", 2, exactly_once=True, kinds=[kind])
    _proved(old, tmp_path, "long", 3)


@pytest.mark.parametrize(
    ("version", "exactly_once", "kind", "keys", "partitions"),
    [
        ("4.3.1", True, kinds.TIMESTAMPED_KEY_VALUE, "avro", 2),
        ("4.3.1", False, kinds.TIMESTAMPED_WINDOW, "long", 2),
        ("4.3.1", False, kinds.SESSION, "avro", 3),
        ("4.0.1", True, kinds.TIMESTAMPED_WINDOW, "avro", 3),
        ("4.0.1", False, kinds.SESSION, "long", 2),
        ("4.0.1", False, kinds.TIMESTAMPED_KEY_VALUE, "avro", 3),
        ("4.0.1", True, kinds.TIMESTAMPED_KEY_VALUE, "long", 2),
        ("4.0.1", False, kinds.VERSIONED, "long", 2),
        ("4.3.1", False, kinds.VERSIONED, "avro", 2),
    ],
)
def test_other_keys(
    broker: Broker,
    tmp_path: Path,
    name: str,
    *,
    version: str,
    exactly_once: bool,
    kind: str,
    keys: Keys,
    partitions: int,
) -> None:
    old = Program(broker.bootstrap, name, tmp_path / "state", 2, version, exactly_once=exactly_once, kinds=[kind])
    _proved(old, tmp_path, keys, partitions)
