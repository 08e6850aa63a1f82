"""Stores of a real application that are exported, repaired by SQL and imported: its next version opens them."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from migrate import Spec, export
from tests.broker.broker import Broker
from tests.live.kafka_streams import kinds
from tests.live.partitions.app import App, Program, found_by, make_input, records, send
from tests.live.partitions.proving import KEYS, MURMUR2
from tests.support import to_toml

_TEXT = {"serde": "string"}
_LOST = "customer-7"
_REPAIR = f"SELECT * REPLACE (concat(value, '!') AS value) FROM orders WHERE key <> '{_LOST}'"
_IMPORT = "import sys, migrate; migrate.import_rows(migrate.load_spec(sys.argv[1]), sys.argv[2], master='local[2]')"
_HOURS = {"retention_ms": 2 * 3_600_000}


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[\W_]+", "-", request.node.name).strip("-")


def _export(old: Program, table: Path) -> None:
    (kind,) = old.kinds
    known = f"kafka-streams.{kind}"
    spec = Spec(
        name="out",
        work_dir=old.state_dir.parent / "work",
        source={"format": known, "path": old.folder, "store": old.stores[kind]},
        target={"format": known},
        conversion={part: {"from": _TEXT, "to": _TEXT} for part in ("key", "value")},
    )
    export(spec, table)


def _import(new: Program, table: Path) -> None:
    (kind,) = new.kinds
    content = {
        "name": "filled",
        "work_dir": "work",
        "target": {
            "format": f"kafka-streams.{kind}",
            "path": str(new.folder),
            "store": new.stores[kind],
            "partitions": new.partitions,
            "subtopology": 0,
            **({} if kind == kinds.TIMESTAMPED_KEY_VALUE else _HOURS),
        },
        "conversion": {"allow": [], "key": {"to": _TEXT}, "value": {"to": _TEXT}},
        "changelog": {"bootstrap": new.bootstrap},
    }
    file = new.state_dir.parent / "filled.toml"
    file.write_text(to_toml(content), encoding="utf-8")
    subprocess.run([sys.executable, "-c", _IMPORT, str(file), str(table)], check=True, timeout=500)


def _repaired(found: str) -> str:
    """A store's answer, in which the value ends as the rows were changed: `...=<VALUE,TIME>` or `...=VALUE`."""
    value, comma, time = found.rpartition(",") if found.endswith(">") else (found, "", "")
    return f"{value}!{comma}{time}"


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("4.3.1", kinds.TIMESTAMPED_KEY_VALUE),
        ("4.3.1", kinds.SESSION),
        ("4.0.1", kinds.TIMESTAMPED_WINDOW),
        ("4.0.1", kinds.TIMESTAMPED_KEY_VALUE),
    ],
)
def test_what_sql_has_repaired_is_there(
    broker: Broker, tmp_path: Path, name: str, version: str, kind: str, *, exactly_once: bool
) -> None:
    old = Program(broker.bootstrap, name, tmp_path / "state", 2, version, exactly_once, kinds=[kind])
    every = records(KEYS, 2)
    keys = sorted({key for key, _, _ in every})
    make_input(old, MURMUR2, every)
    whole = found_by(old, keys)
    exported, repaired = tmp_path / "exported", tmp_path / "repaired"
    _export(old, exported)
    rows = QueryBuilder().register("orders", DeltaTable(str(exported))).execute(_REPAIR)
    write_deltalake(str(repaired), rows)
    new = replace(old, state_dir=tmp_path / "new", partitions=3, suffix="-n")
    _import(new, repaired)
    make_input(new)
    with App(new) as app:
        app.wait_caught_up()
        assert app.restored == 0
        found = app.find(keys)
        assert found.pop(_LOST)[kind] == []
        assert found == {key: {kind: [*map(_repaired, whole[key][kind])]} for key in found}
        send(new, MURMUR2, [(keys[0], "more", every[-1][2] + 1)])
        app.wait_caught_up()
        now = app.find(keys)
        assert now[keys[0]] != found.get(keys[0])
        assert app.stop()["clean"]
    shutil.rmtree(new.folder)
    assert found_by(new, keys, is_restored=True) == now
