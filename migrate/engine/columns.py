"""Byte programs over whole columns: a program becomes one Python list comprehension."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from formats.program import IDENTITY, ByteProgram, Insert, Operation, Skip, fixed_size
from migrate.stores.batch import Batch

Column = Callable[[list[bytes]], list[bytes]]


class TooShortError(Exception):
    """A record is shorter than the program's fixed part; the reference path says which, and why that matters."""


def run_program(program: ByteProgram, batch: Batch) -> Batch:
    """Convert a batch. Raises TooShortError; nothing is converted then."""
    keys = _run(program.key, batch.keys)
    values = _run(program.value, batch.values)
    converted = Batch(keys, values)
    if keys is batch.keys:
        converted.joined_keys = batch.joined_keys
    return converted


def _run(operations: tuple[Operation, ...], column: list[bytes]) -> list[bytes]:
    if operations == IDENTITY:
        return column
    needed = fixed_size(operations)
    if needed and min(map(len, column)) < needed:
        raise TooShortError
    return compile_column(operations)(column)


@lru_cache(maxsize=64)
def compile_column(operations: tuple[Operation, ...]) -> Column:
    """`[insert ff, skip 8, copy the rest]` becomes `[c0 + v[8:] for v in column]`; c0 is bound, no data becomes code."""
    terms: list[str] = []
    constants: dict[str, bytes] = {}
    at = 0
    for operation in operations:
        if isinstance(operation, Insert):
            name = f"c{len(constants)}"
            constants[name] = operation.data
            terms.append(name)
            continue
        end = "" if operation.size is None else str(at + operation.size)
        if not isinstance(operation, Skip):
            terms.append("v" if (at, end) == (0, "") else f"v[{at}:{end}]")
        at += operation.size or 0
    expression = " + ".join(terms) or "b''"
    source = f"lambda {', '.join(constants)}: lambda column: [{expression} for v in column]"
    bind: Callable[..., Column] = eval(source)
    return bind(**constants)
