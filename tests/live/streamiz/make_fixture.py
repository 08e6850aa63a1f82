"""Regenerates tests/fixtures/streamiz-1.8.2: `python -m tests.live.streamiz.make_fixture`."""

import tarfile
import tempfile
from pathlib import Path

from tests.broker.broker import running_broker
from tests.live.streamiz.adding import BEGIN_MS, feed, inputs, rows
from tests.live.streamiz.make_vectors import FORMATS
from tests.live.streamiz.program import VERSION, work

FIXTURE = Path(__file__).parents[2] / "fixtures" / f"streamiz-{VERSION}"
RECORDS = 100
RETENTION_MS = 60 * 86_400_000
NEWEST_TABLES = "newest-tables"
"""The application whose tables are as RocksDB 11 writes them."""


def make_fixture(fixture: Path = FIXTURE) -> None:
    """Make the applications anew; the README stays."""
    with tempfile.TemporaryDirectory() as scratch:
        states = Path(scratch) / "states"
        states.mkdir()
        (states / "began-at").write_text(f"{BEGIN_MS}\n", encoding="ascii")
        with running_broker(Path(scratch) / "broker") as broker:
            feed(broker.bootstrap, "input", given := inputs(RECORDS))
            for kind, name in FORMATS.items():
                app = states / "StateDir" / name
                said = work(app, kind, broker.bootstrap, "input", RECORDS, retention=RETENTION_MS)
                assert said["rows"] == rows(given, kind)
                for _ in range(2):
                    work(app, kind, broker.bootstrap, "input", 0, retention=RETENTION_MS)
            work(states / "StateDir" / NEWEST_TABLES, "ts", broker.bootstrap, "input", RECORDS, format=7)
        for left in (*states.rglob("LOG*"), *states.rglob("LOCK"), *states.rglob("*.dump")):
            left.unlink()
        fixture.mkdir(exist_ok=True)
        with tarfile.open(fixture / "states.tar.xz", "w:xz", preset=9) as packed:
            for each in sorted(states.rglob("*")):
                packed.add(each, each.relative_to(states), recursive=False, filter=_of_nobody)


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    make_fixture()
