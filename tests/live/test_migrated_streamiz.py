"""What the real Streamiz left behind, migrated to Kafka Streams, which opens it, reads all of it and works on."""

import tarfile
from pathlib import Path

import pytest

from formats import get_format
from migrate import Spec, run
from tests.live.kafka_streams.events import Row, write_expected
from tests.live.kafka_streams.program import open_state, require_live
from tests.live.streamiz.make_fixture import FIXTURE, RETENTION_MS
from tests.support import read_families


@pytest.mark.parametrize("kind", ["timestamped-key-value", "timestamped-window"])
def test_kafka_streams_opens_it(kind: str, tmp_path: Path) -> None:
    require_live()
    with tarfile.open(FIXTURE / "states.tar.xz") as packed:
        packed.extractall(tmp_path)
    old, kept = tmp_path / "StateDir" / kind, {"retention_ms": RETENTION_MS} if kind.endswith("window") else {}
    spec = Spec(
        name="java",
        work_dir=tmp_path / "work",
        source={"format": f"streamiz.{kind}", "path": old, "store": "kv"} | kept,
        target={"format": f"kafka-streams.{kind}", "path": tmp_path / "java" / kind} | kept,
    )
    run(spec)
    for task in ("0-0", "0-1"):
        rows = []
        for database in (each.parent for each in (old / task).rglob("CURRENT")):
            for key, value in read_families(database)["default"].items():
                record = get_format(spec.source.format).decode(key, value)
                start = None if record.window is None else record.window.start_ms
                rows.append(Row(record.key, record.value, record.timestamp_ms, start=start))
        write_expected(tmp_path / "expected" / task.replace("-", "_") / "kv.jsonl.gz", rows)
    assert spec.target.path is not None
    verdict = open_state(
        "4.3.1", spec.target.path, store="kv", kind=kind, expected=tmp_path / "expected", retention_ms=RETENTION_MS
    )
    assert verdict.ok, verdict.difference
    assert verdict.records("kv") == (23 if kind == "timestamped-key-value" else 100)
