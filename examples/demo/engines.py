"""The engines, at work on a store that is large enough for their rates to mean something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from rich.console import Console
from rocksdict import IngestExternalFileOptions, Options, Rdict, SstFileWriter

from migrate import run
from migrate.spec.spec import parse_spec

RECORDS = 500_000
VALUE_SIZE = 130
"""With their keys, more bytes than `[run] engine = "auto"` leaves to the portable engine."""
AT_ONCE = 10_000


def show_engines(console: Console, folder: Path) -> None:
    """Migrate half a million records in this process, by the engine that a run takes, and by the portable one.

    Printed are the rates of the rewriting and of the full verification.
    """
    console.print(f"[bold]{RECORDS:,} records, on each engine, in one process:")
    folder.mkdir(parents=True)
    _make_store(folder / "old")
    for setting in ("auto", "portable"):
        report = run(
            parse_spec(
                {
                    "name": setting,
                    "work_dir": "work",
                    "source": {"format": "kafka-streams.key-value", "path": "old"},
                    "target": {"format": "kafka-streams.timestamped-key-value", "path": f"new-{setting}"},
                    "run": {"engine": setting},
                },
                base_dir=folder,
            )
        )
        compared = report.verification.records / max(report.verification.seconds, 0.001)
        rates = f"{report.records_per_second:,.0f} records/s; full verification {compared:,.0f} records/s"
        console.print(f"  engine: {report.engine}, {rates}", markup=False)


def _make_store(path: Path) -> None:
    """As Kafka Streams leaves a store behind: in order, in an SST file."""
    file = path.with_suffix(".sst")
    writer = SstFileWriter(Options(raw_mode=True))
    writer.open(str(file))
    for key, value in _records():
        writer[key] = value
    writer.finish()
    move = IngestExternalFileOptions()
    move.set_move_files(True)
    store = Rdict(str(path), Options(raw_mode=True))
    store.ingest_external_file([str(file)], move)
    store.close()


def _records() -> Iterator[tuple[bytes, bytes]]:
    random = Random(1)
    for first in range(0, RECORDS, AT_ONCE):
        block = random.randbytes(AT_ONCE * VALUE_SIZE)
        for number in range(AT_ONCE):
            yield b"order-%012d" % (first + number), block[number * VALUE_SIZE : (number + 1) * VALUE_SIZE]
