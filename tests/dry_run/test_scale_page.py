"""The figures of docs/scale.md are those of the model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from jobs.executor import SparkExecutor
from migrate.dry_run import estimate as parts
from migrate.dry_run.estimate import DEFAULT_CHUNK_SIZE, Load, best_chunk_size, estimate, typical

PAGE = Path(__file__).parents[2] / "docs/scale.md"
TB = 10**12
RECORD = 117
_PARTITION = 16 * 10**9
_SST = 64 << 20


def _costs() -> Iterator[str]:
    yield "| store | slots | chunk_size | chunks | time | driver | worker | cut-over | disks |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for size in (TB, 10 * TB, 100 * TB):
        for slots in (1, 16, 256):
            yield _cost(size, slots)


def _cost(size: int, slots: int) -> str:
    partitions = -(-size // _PARTITION)
    load = Load(size, typical(RECORD), slots, DEFAULT_CHUNK_SIZE, partitions, ssts=size // _SST)
    load = replace(load, chunk_size=best_chunk_size(load)[0])
    found = estimate(load)
    cells = [
        f"{size // TB} TB",
        str(slots),
        f"{load.chunk_size >> 20:,} MiB",
        f"{load.chunks:,}",
        _time(found.seconds),
        f"{found.driver_bytes >> 20:,} MiB",
        f"{found.worker_bytes >> 20:,} MiB",
        f"{found.switch:.0f} s",
        f"{2 * size / found.rewrite / 1e9:.1f} GB/s",
    ]
    return f"| {' | '.join(cells)} |"


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _parts() -> Iterator[str]:
    yield "| part | taken as | benchmark |"
    yield "|---|---|---|"
    speeds = [f"{size / typical(size).rewrite_seconds / 1e6:.0f} MB/s with {size:,} bytes" for size in (RECORD, 1041)]
    yield f"| rewriting, by the size of a record | {', '.join(speeds)} | `engine` |"
    yield f"| reading alone | {parts.SCAN:.0%} of that time | `verify` |"
    for what, seconds, name in (
        ("a chunk, beside its records", parts.CHUNK, "`chunks`"),
        ("a Spark task of its own, for a chunk of 8 MiB or more", parts.SPARK_TASK, "empty tasks on `local[2]`"),
        ("an SST of the old store, in planning", parts.SST, "`tables`"),
        ("a store partition, planned, assembled and published; a cut-over: a quarter", parts.PARTITION, "`partitions`"),
    ):
        yield f"| {what} | {seconds * 1000:.3g} ms | {name} |"
    yield f"| the driver's share of a chunk and of its task | {parts.DRIVER:.0%} | `driver` |"
    yield f"| Spark's start | {parts.SPARK_START:.3g} s | `start` |"
    first = "what more the first query takes, where Spark sorts new keys"
    yield f"| {first} | {parts.SQL_START:.3g} s | `sorting`, cold less warm |"
    yield f"| what a slot adds to the first one of its host | {parts.SLOT} | `slots`, with two |"
    yield f"| memory of the driver's process | {parts.PROCESS_BYTES >> 20} MiB | `driver` |"
    yield f"| memory of a worker's process | {parts.WORKER_BYTES >> 20} MiB | `memory` |"
    yield f"| the driver's memory for a chunk | {parts.PLANNED_BYTES / 1000:.0f} kB | `driver` |"
    yield f"| a worker's memory for a record of its chunk | {parts.WRITTEN_BYTES} bytes | `memory` |"


def test_the_tables_are_those_of_the_model() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for rows in (_costs(), _parts()):
        table = "\n".join(rows)
        assert table in page, f"docs/scale.md should have:\n{table}"


def test_the_model_shares_tasks_as_spark_does() -> None:
    assert SparkExecutor.call_bytes == parts.TASK_BYTES
