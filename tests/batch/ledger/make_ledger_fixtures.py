"""`python -m tests.batch.ledger.make_ledger_fixtures`: migrations left by this release, for later ones to resume.

A release that changes the schema of ledger, plan, receipt or journal adds fixtures under its own number; the old ones
stay.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from migrate import Spec, cutover, load_spec, run
from migrate.model.events import Event
from migrate.model.ledger_row import LEDGER_SCHEMA
from tests.support import make_store, numbered

FOLDER = Path(__file__).parents[2] / "fixtures" / "ledgers" / str(LEDGER_SCHEMA)
RECORDS = 1500
CHUNKS_DONE = 3
FEW_RECORDS = 200
STAGES = {
    "planned": "plan.stored",
    "assembled": "assemble.committed",
    "verified": "verify.committed",
    "published": "publish.committed",
}
"""By folder: the event after which the run was killed. A ledger names a published directory by its full path."""
SPEC = """
name = "kept"
work_dir = "work"
[source]
format = "rocksdb.raw"
path = "store"
[target]
format = "rocksdb.raw"
[run]
chunk_size = "8 KiB"
"""


class _EnoughError(Exception):
    """Ends a run."""


def make_migration(folder: Path, records: int = RECORDS, target: str = "") -> Spec:
    """A store and the spec of its migration."""
    make_store(folder / "store", numbered(records))
    file = folder / "migration.toml"
    file.write_text(SPEC.replace("[run]", f"{target}[run]"))
    return load_spec(file)


def _run_until(spec: Spec, name: str, times: int = 1) -> None:
    done = 0

    def stop(event: Event) -> None:
        nonlocal done
        done += event.name == name
        if done == times:
            raise _EnoughError

    with suppress(_EnoughError):
        run(spec, on_event=stop)


def main(folder: Path) -> None:
    """Write every fixture again."""
    spec = make_migration(folder / "half-rewritten")
    _run_until(spec, "chunk.committed", CHUNKS_DONE)
    shutil.rmtree(spec.home / "snapshot")
    spec = make_migration(folder / "cut-over")
    run(spec)
    cutover(spec)
    for name in ("snapshot", "chunks", "new"):
        shutil.rmtree(spec.home / name)
    for stage, event in STAGES.items():
        target = 'path = "new"\n' if stage == "published" else ""
        spec = make_migration(folder / stage, FEW_RECORDS, target)
        _run_until(spec, event)


if __name__ == "__main__":
    made = Path(tempfile.gettempdir()) / "stateferry-fixtures"  # the same path for every user
    with patch("socket.gethostname", return_value="example"):
        main(made)
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.move(made, FOLDER)
