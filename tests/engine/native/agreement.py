"""The loop on programs and records by chance, held against the portable engine's code and against the reference."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import NamedTuple

from formats.errors import EntryError
from formats.program import Operation, run_operations
from migrate.engine.bail_out import BailOutError
from migrate.engine.generated import compile_column
from migrate.engine.native.byte_code import TooLargeError
from tests.engine.native.feeding import Feeding
from tests.engine.native.memories import CheckedMemory, GuardedMemory, Memory
from tests.engine.native.programs import Case, case

RECORDS_OF_A_PROGRAM = 40
MEMORIES: dict[str, Callable[[], Memory]] = {"guarded": GuardedMemory, "checked": CheckedMemory}


class Tally(NamedTuple):
    """Records, by what became of them."""

    converted: int = 0
    rejected: int = 0
    left: int = 0
    """To the portable engine, which converts them."""

    @property
    def records(self) -> int:
        return self.converted + self.rejected + self.left


def agree(memory: str, records: int, seed: int, *, stack_words: int | None = None) -> Tally:
    """Convert so many records. Raises AssertionError where they differ, and what the memory raises."""
    total, number = Tally(), 0
    feedings = {}
    made = MEMORIES[memory]()
    for is_key in (False, True):
        feedings[is_key] = Feeding(made, Random(seed), is_key=is_key)
    while total.records < records:
        random = Random(f"{seed}:{number}")
        drawn = case(random, RECORDS_OF_A_PROGRAM)
        feeding = feedings[number % 4 == 0]
        feeding.stack_words = stack_words or feeding.stack_words
        try:
            total = Tally(*map(sum, zip(total, _agreed(feeding, drawn), strict=True)))
        except TooLargeError:
            pass
        except Exception as error:
            error.add_note(f"seed {seed}, program {number}: {', '.join(map(str, drawn.operations))}")
            raise
        number += 1
    return total


def _agreed(feeding: Feeding, drawn: Case) -> Tally:
    found = feeding(drawn.operations, drawn.records)
    column = compile_column(drawn.operations)
    converted = rejected = left = 0
    for record, native in zip(drawn.records, found, strict=True):
        reference = _by_reference(drawn.operations, record)
        assert native in (None, reference), f"{record.hex()} becomes {native!r}, and not {reference!r}"
        if drawn.is_usual:
            with suppress(BailOutError):
                assert column([record]) == [reference], f"the portable engine's own: {record.hex()}"
        converted += native is not None
        rejected += reference is None
        left += native is None and reference is not None
    return Tally(converted, rejected, left)


def _by_reference(operations: tuple[Operation, ...], record: bytes) -> bytes | None:
    try:
        return run_operations(operations, record)
    except EntryError:
        return None
