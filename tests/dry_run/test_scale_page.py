"""The figures of docs/scale.md are those of the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from jobs.executor import SparkExecutor
from migrate.dry_run.estimate import DEFAULT_CHUNK_SIZE, PARTS, Load, Work, model, recommended_chunk_size

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
    load = Load(size, size // RECORD, slots, DEFAULT_CHUNK_SIZE, partitions, ssts=size // _SST)
    load = replace(load, chunk_size=recommended_chunk_size(load).size)
    found = model(load)
    cells = [
        f"{size // TB} TB",
        str(slots),
        f"{load.chunk_size >> 20:,} MiB",
        f"{found.chunks:,}",
        _time(found.seconds),
        f"{found.driver_memory >> 20:,} MiB",
        f"{found.worker_memory >> 20:,} MiB",
        f"{found.switch:.0f} s",
        f"{2 * size / found.rewrite / 1e9:.1f} GB/s",
    ]
    return f"| {' | '.join(cells)} |"


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _parts() -> Iterator[str]:
    parts = PARTS
    yield "| part | taken as | benchmark |"
    yield "|---|---|---|"
    for what, work, name in (
        ("rewrite", parts.rewrite, "`engine`"),
        ("verify in full", parts.verify, "`verify`"),
        ("verify by digest", parts.verify_digest, "`verify`"),
    ):
        yield f"| {what} | {_speed(work)} | {name} |"
    for what, seconds, name in (
        ("a chunk, beside its records, in process", parts.chunk, "`chunks`"),
        ("the same on Spark, in a task with others", parts.chunk_on_spark, "`chunks`: on `local[2]`"),
        ("a Spark task of its own, for a chunk of 8 MiB or more", parts.spark_task, "empty tasks on `local[2]`"),
        ("the driver's share of a chunk", parts.driver_chunk, "`driver`"),
        ("the driver's share of a Spark task", parts.driver_task, "empty tasks on `local[2]`"),
        ("an SST of the old store, in planning", parts.sst, "`tables`"),
        ("a store partition, in planning", parts.plan_partition, "`partitions`"),
        ("the same, assembled and published", parts.assemble_partition, "`partitions`"),
        ("the same, cut over", parts.switch_partition, "`partitions`"),
    ):
        yield f"| {what} | {seconds * 1000:.3g} ms | {name} |"
    yield f"| a cut-over, beside its store partitions | {parts.switch:.3g} s | from the shell |"
    yield f"| Spark's start | {parts.spark_start:.3g} s | `start` |"
    yield f"| what a slot adds to the first one of its host | {parts.slot_efficiency} | `slots`, with two |"
    memory = f"{parts.driver_bytes >> 20} MiB and {parts.driver_chunk_bytes / 1000:.0f} kB a chunk"
    yield f"| the driver's memory | {memory} | `driver` |"
    memory = f"{parts.worker_bytes >> 20} MiB and {parts.worker_record_bytes} bytes a record of the chunk"
    yield f"| a worker's memory | {memory} | `memory` |"


def _speed(work: Work) -> str:
    return ", ".join(
        f"{size / work.seconds(1, size) / 1e6:.0f} MB/s a slot with {size:,} bytes a record" for size in (RECORD, 1041)
    )


def test_the_tables_are_those_of_the_model() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for rows in (_costs(), _parts()):
        table = "\n".join(rows)
        assert table in page, f"docs/scale.md should have:\n{table}"


def test_the_model_shares_tasks_as_spark_does() -> None:
    assert PARTS.task_bytes == SparkExecutor.call_bytes
