"""The model of the cost at any size, and the chunk size that follows from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrate.dry_run.estimate import (
    CHUNKS_PER_SLOT,
    MIB,
    MOST_CHUNKS,
    Load,
    Parts,
    chunk_size_warning,
    model,
    recommended_chunk_size,
)

GIB, TB = 1 << 30, 10**12
LOAD = Load(store_bytes=TB, records=TB // 117, slots=16, chunk_size=GIB, store_partitions=64, ssts=16_000)


def test_ten_times_the_store_takes_ten_times_as_long() -> None:
    small, large = model(LOAD), model(replace(LOAD, store_bytes=10 * TB, records=10 * TB // 117))
    assert large.rewrite == pytest.approx(10 * small.rewrite, rel=0.01)
    assert large.verify == pytest.approx(10 * small.verify, rel=0.01)
    assert large.chunks == pytest.approx(10 * small.chunks, abs=10)
    assert large.worker_memory == pytest.approx(small.worker_memory, rel=0.01)


def test_slots_help_until_the_driver_is_the_limit() -> None:
    tiny = replace(LOAD, chunk_size=MIB, slots=4096)
    assert model(tiny).rewrite == model(replace(tiny, slots=8192)).rewrite
    assert model(replace(LOAD, slots=32)).rewrite < 0.6 * model(LOAD).rewrite


def test_a_run_takes_no_less_than_its_biggest_chunk() -> None:
    even = Load(store_bytes=16 * GIB, records=16 * GIB // 117, slots=16, chunk_size=GIB)
    skewed = replace(even, chunks=16, biggest_chunk=8 * GIB)
    assert model(skewed).rewrite > 0.9 * 8 * model(replace(even, store_bytes=GIB, records=GIB // 117)).rewrite


@pytest.mark.parametrize(
    ("changes", "memory", "size", "reason"),
    [
        ({}, None, GIB, "default"),
        ({"store_bytes": 16 * GIB, "records": GIB}, None, 128 * MIB, "slots end together"),
        ({"store_bytes": 400 * TB, "records": TB}, None, 4 * GIB, "driver"),
        ({"store_bytes": 20 * MIB, "records": MIB}, None, GIB, "one chunk"),
        ({"store_bytes": GIB, "records": GIB // 117, "store_partitions": 1}, None, 64 * MIB, "20%"),
        ({"store_bytes": 4 * GIB, "records": GIB // 32, "store_partitions": 1, "slots": 1}, None, GIB, "default"),
        ({"records": TB // 10}, 8 * GIB, 256 * MIB, "memory"),
        ({"records": TB // 2}, None, 256 * MIB, "killed"),
    ],
)
def test_the_recommended_chunk_size(changes: dict[str, int], memory: int | None, size: int, reason: str) -> None:
    load = replace(LOAD, **changes)  # type: ignore[arg-type]
    best = recommended_chunk_size(load, memory)
    assert best.size == size
    assert reason in best.reason
    taken = model(replace(load, chunk_size=best.size))
    assert taken.chunks <= MOST_CHUNKS
    assert memory is None or load.slots * taken.worker_memory <= memory


def test_measured_parts_replace_the_typical_ones() -> None:
    slow = replace(Parts(), rewrite=replace(Parts().rewrite, byte=3e-7))
    assert model(LOAD, slow).rewrite > 10 * model(LOAD).rewrite
    assert recommended_chunk_size(LOAD, parts=slow).size < recommended_chunk_size(LOAD).size


def test_a_chunk_size_far_from_a_good_one_is_named() -> None:
    assert chunk_size_warning(LOAD) is None
    assert chunk_size_warning(replace(LOAD, chunk_size=TB // (CHUNKS_PER_SLOT * 16))) is None
    many = chunk_size_warning(replace(LOAD, chunk_size=MIB))
    few = chunk_size_warning(replace(LOAD, store_partitions=1, chunk_size=TB // 4))
    large = chunk_size_warning(replace(LOAD, store_bytes=TB, records=TB // 8), 16 * GIB)
    assert many is not None
    assert few is not None
    assert large is not None
    assert "953,675 chunks" in many
    assert "1,024 MiB" in many
    assert "fewer than the 16 slots" in few
    assert "this host has 16,384" in large
