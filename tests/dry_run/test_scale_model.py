"""The model of the cost at any size, and the chunk size that follows from it."""

from dataclasses import replace

import pytest

from migrate.dry_run.estimate import (
    CHUNKS_PER_SLOT,
    COPIED_PER_SECOND,
    MIB,
    MOST_CHUNKS,
    SCAN,
    Load,
    best_chunk_size,
    chunk_size_warning,
    estimate,
    typical,
)

GIB, TB = 1 << 30, 10**12
LOAD = Load(store_bytes=TB, piece=typical(117), slots=16, chunk_size=GIB, store_partitions=64, ssts=16_000)


def test_ten_times_the_store_takes_ten_times_as_long() -> None:
    small, large = estimate(LOAD), estimate(replace(LOAD, store_bytes=10 * TB))
    assert large.rewrite == pytest.approx(10 * small.rewrite, rel=0.01)
    assert large.verify == pytest.approx(10 * small.verify, rel=0.01)
    assert replace(LOAD, store_bytes=10 * TB).chunks == pytest.approx(10 * LOAD.chunks, abs=10)
    assert large.worker_bytes == pytest.approx(small.worker_bytes, rel=0.01)


def test_slots_help_until_the_driver_is_the_limit() -> None:
    tiny = replace(LOAD, chunk_size=MIB, slots=4096)
    assert estimate(tiny).rewrite == estimate(replace(tiny, slots=8192)).rewrite
    assert estimate(replace(LOAD, slots=32)).rewrite < 0.6 * estimate(LOAD).rewrite


def test_a_run_takes_no_less_than_its_biggest_chunk() -> None:
    even = Load(store_bytes=16 * GIB, piece=typical(117), slots=16, chunk_size=GIB)
    skewed = replace(even, chunk_sizes=(8 * GIB, *15 * [GIB // 2]))
    assert estimate(skewed).rewrite > 0.9 * 8 * estimate(replace(even, store_bytes=GIB)).rewrite


def test_a_verification_reads_both_stores_and_in_full_converts_again() -> None:
    rewrite = estimate(LOAD).rewrite
    full, digest, off = (estimate(replace(LOAD, verify=mode)).verify for mode in ("full", "digest", "off"))
    assert full == pytest.approx((1 + SCAN) * rewrite, rel=0.02)
    assert digest == pytest.approx(2 * SCAN * rewrite, rel=0.02)
    assert off == 0


@pytest.mark.parametrize(
    ("changes", "record", "size", "reason"),
    [
        ({}, 117, GIB, "default"),
        ({"store_bytes": 16 * GIB}, 16, 128 * MIB, "slots end together"),
        ({"store_bytes": 400 * TB}, 400, 4 * GIB, "driver"),
        ({"store_bytes": 20 * MIB}, 20, GIB, "one chunk"),
        ({"store_bytes": GIB, "store_partitions": 1}, 117, 64 * MIB, "20%"),
        ({"store_bytes": 4 * GIB, "store_partitions": 1, "slots": 1}, 128, GIB, "default"),
        ({"memory": 10 * GIB}, 10, 256 * MIB, "memory"),
        ({}, 2, 256 * MIB, "killed"),
    ],
)
def test_the_recommended_chunk_size(changes: dict[str, int], record: int, size: int, reason: str) -> None:
    load = replace(LOAD, piece=typical(record), **changes)  # type: ignore[arg-type]
    best, why = best_chunk_size(load)
    assert best == size
    assert reason in why
    taken = replace(load, chunk_size=best)
    assert taken.chunks <= MOST_CHUNKS
    assert load.memory is None or load.slots * estimate(taken).worker_bytes <= load.memory


def test_a_measured_piece_replaces_the_typical_one() -> None:
    slow = replace(LOAD, piece=replace(LOAD.piece, rewrite_seconds=117 * 3e-7))
    assert estimate(slow).rewrite > 10 * estimate(LOAD).rewrite
    assert best_chunk_size(slow)[0] < best_chunk_size(LOAD)[0]


def test_a_chunk_size_far_from_a_good_one_is_named() -> None:
    assert chunk_size_warning(LOAD) is None
    assert chunk_size_warning(replace(LOAD, chunk_size=TB // (CHUNKS_PER_SLOT * 16))) is None
    many = chunk_size_warning(replace(LOAD, chunk_size=MIB))
    few = chunk_size_warning(replace(LOAD, store_partitions=1, chunk_size=TB // 4))
    large = chunk_size_warning(replace(LOAD, piece=typical(8), memory=16 * GIB))
    assert many is not None
    assert few is not None
    assert large is not None
    assert "953,675 chunks" in many
    assert "1,024 MiB" in many
    assert "fewer than the 16 slots" in few
    assert "this host has 16,384" in large


@pytest.mark.parametrize("changes", [{"chunk_size": MIB}, {"chunk_size": TB // 4, "store_partitions": 1}])
def test_chunks_that_are_cut_already_are_judged_like_any_of_their_size(changes: dict[str, int]) -> None:
    load = replace(LOAD, **changes)  # type: ignore[arg-type]
    cut = replace(load, chunk_sizes=(load.chunk_size,) * load.chunks)
    assert chunk_size_warning(cut) is not None
    assert chunk_size_warning(cut) == chunk_size_warning(load)


def test_what_a_snapshot_copies_takes_time_before_the_run() -> None:
    linked, copied = estimate(LOAD), estimate(replace(LOAD, copied_bytes=TB))
    assert copied.plan == pytest.approx(linked.plan + TB / COPIED_PER_SECOND)
    assert copied.seconds - linked.seconds == pytest.approx(copied.plan - linked.plan)
