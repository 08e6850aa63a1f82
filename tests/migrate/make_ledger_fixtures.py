"""`python -m tests.migrate.make_ledger_fixtures`: migrations as this release leaves them, for later ones to go on with.

A release that changes the schema of ledger, plan, receipt or journal adds fixtures under its own number; the old ones
stay.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest.mock import patch

from migrate import cutover, load_spec, run
from migrate.events import Event
from migrate.ledger import LEDGER_SCHEMA
from tests.support import make_store, numbered

FOLDER = Path(__file__).parents[1] / "fixtures" / "ledgers" / str(LEDGER_SCHEMA)
RECORDS = 1500
CHUNKS_DONE = 3
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


def make_migration(folder: Path) -> Path:
    """A store and the spec of its migration; returns the spec's file."""
    make_store(folder / "store", numbered(RECORDS))
    file = folder / "migration.toml"
    file.write_text(SPEC)
    return file


def main() -> None:
    """Both of them, anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    done = 0

    def stop(event: Event) -> None:
        nonlocal done
        done += event.name == "chunk.committed"
        if done == CHUNKS_DONE:
            raise _EnoughError

    try:
        run(load_spec(make_migration(FOLDER / "half-rewritten")), on_event=stop)
    except _EnoughError:
        shutil.rmtree(FOLDER / "half-rewritten/work/kept/snapshot")
    spec = load_spec(make_migration(FOLDER / "cut-over"))
    run(spec)
    cutover(spec)
    for name in ("snapshot", "chunks", "new"):
        shutil.rmtree(spec.home / name)


if __name__ == "__main__":
    with patch("socket.gethostname", return_value="example"):
        main()
