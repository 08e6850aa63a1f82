"""Records move to segments of another retention on Spark's workers, as they do in one process."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from migrate import load_spec, run
from tests.shared.windowed import (
    MINUTE,
    PLAIN,
    TIMESTAMPED,
    by_segment,
    checkpoint,
    make_segments,
    read_segments,
    windows,
)
from tests.spark.job import Job
from tests.support import make_families

SEGMENT = 15 * MINUTE
FIRST = {"type": "record", "name": "Count", "fields": [{"name": "count", "type": "int"}]}
SECOND = {**FIRST, "fields": [{"name": "count", "type": "long"}, {"name": "of", "type": "string", "default": "all"}]}
_SPEC = """
name = "windows"
work_dir = "work"
[source]
format = "kafka-streams.timestamped-window"
path = "state/app"
store = "win"
retention_ms = 1800000
[target]
format = "kafka-streams.headers-window"
retention_ms = 1200000
path = "new/app"
[run]
chunk_size = "2 KiB"
[conversion]
allow = ["changelog", "unclean-source"]
[conversion.value]
from = { serde = "avro", frame = "none", schema = "first.avsc" }
to = { serde = "avro", frame = "none", schema = "second.avsc" }
"""


def _make(folder: Path) -> Path:
    """One segment is half-upgraded, so that all that a task may carry is carried."""
    app = folder / "state/app"
    values = {key: b"\x02" for key in windows(300, until=4 * SEGMENT)}
    make_segments(
        app / "0_0/win", {key: bytes(8) + value for key, value in values.items()}, SEGMENT, family=TIMESTAMPED
    )
    last = by_segment(values, SEGMENT)[3 * SEGMENT]
    half = dict(list(last.items())[::2])
    new = {key: bytes(8) + value for key, value in last.items() if key not in half}
    shutil.rmtree(app / f"0_0/win/win.{3 * SEGMENT}")
    make_families(app / f"0_0/win/win.{3 * SEGMENT}", {PLAIN: half, TIMESTAMPED: new})
    (app / "0_0/.checkpoint").write_text(checkpoint("app-win-changelog 0 99"))
    (folder / "first.avsc").write_text(json.dumps(FIRST))
    (folder / "second.avsc").write_text(json.dumps(SECOND))
    spec = folder / "migration.toml"
    spec.write_text(_SPEC)
    return spec


def test_segments_move_on_workers(submit: Callable[..., Job], tmp_path: Path) -> None:
    here = _make(tmp_path / "here")
    alone = run(load_spec(here))
    assert alone.totals.expired > 0
    there = _make(tmp_path / "there")
    job = submit(there, "local[2]")
    assert job.exit_code == 0, job.errors
    totals = job.report["totals"]
    counts = ("records_in", "records_out", "expired", "shadowed", "chunks")
    assert [totals[name] for name in counts] == [getattr(alone.totals, name) for name in counts]
    new = [read_segments(file.parent / "new/app/0_0/win") for file in (here, there)]
    assert new[0] == new[1]
    assert sum(len(records) for families in new[0].values() for records in families.values()) == totals["records_out"]
