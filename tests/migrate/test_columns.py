"""Programs over whole columns give what they give over one record, for even and uneven batches alike."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import TruncatedEntryError
from formats.program import ByteProgram, Copy, Insert, Operation, Skip, run_operations
from migrate.digest import RecordDigest
from migrate.engine.columns import TooShortError, run_program
from migrate.stores.batch import Batch

STEPS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Copy, st.integers(0, 5)), st.builds(Skip, st.integers(0, 5)), st.builds(Insert, st.binary(max_size=4))
)
PROGRAMS = st.tuples(
    st.lists(STEPS, max_size=4), st.booleans(), st.lists(st.builds(Insert, st.binary(max_size=3)))
).map(lambda parts: (*parts[0], *([Copy()] if parts[1] else []), *parts[2]))


def records(random: Random, count: int, sizes: tuple[int, int] | None) -> list[tuple[bytes, bytes]]:
    """Of these sizes; None: of sizes that differ."""
    return [
        (random.randbytes(key_size), random.randbytes(value_size))
        for key_size, value_size in (sizes or (random.randint(0, 12), random.randint(0, 12)) for _ in range(count))
    ]


@given(
    PROGRAMS, PROGRAMS, st.integers(1, 40), st.none() | st.tuples(st.integers(0, 12), st.integers(0, 12)), st.randoms()
)
def test_a_batch_converts_as_its_records_do(
    key: tuple[Operation, ...],
    value: tuple[Operation, ...],
    count: int,
    sizes: tuple[int, int] | None,
    random: Random,
) -> None:
    given_records = records(random, count, sizes)
    batch = Batch([key for key, _ in given_records], [value for _, value in given_records], sizes)
    try:
        wanted = [(run_operations(key, k), run_operations(value, v)) for k, v in given_records]
    except TruncatedEntryError:
        with pytest.raises(TooShortError):
            run_program(ByteProgram(key, value), batch)
        return

    converted = run_program(ByteProgram(key, value), batch)

    assert list(zip(converted.keys, converted.values, strict=True)) == wanted
    by_hand, digest = RecordDigest(), RecordDigest()
    by_hand.update(Batch([k for k, _ in wanted], [v for _, v in wanted]))
    digest.update(converted)
    assert (str(digest), digest.size) == (str(by_hand), by_hand.size)
