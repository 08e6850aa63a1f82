"""Avro programs as Python source, for the portable engine.

The source is made of operations and numbers. The bytes to write are bound to names, so that data never becomes code.
The generated code bails out of an unusual value (damaged, in several blocks, nested too deeply): `run_avro` converts it
or reports what is wrong with it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from formats.avro.binary import PACK
from formats.avro.program import AvroProgram, is_exact, run_avro
from migrate.engine.avro.function import render
from migrate.engine.avro.source import Source
from migrate.engine.bail_out import BailOutError

Column = Callable[[list[bytes]], list[bytes]]


FAILURES = (BailOutError, IndexError, UnicodeDecodeError, RecursionError, struct.error)
"""What the generated code raises where it bails out: itself, or by reading past what it expects."""


def long_number(data: bytes, at: int, bits: int = 64) -> tuple[int, int]:
    """(the number as stored, with its sign in the lowest bit; where it ends). Raises BailOutError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    if not byte or value >> bits:
        raise BailOutError
    return value, at


def generate(program: AvroProgram) -> Callable[[bytes], bytes]:
    """A function that does what `run_avro` does with the program, and raises what it raises, many times faster."""
    return _bound(program)[0]


def generate_column(program: AvroProgram) -> Column:
    """A function that converts many values. It raises EntryError at the first that has no new form."""
    return _bound(program)[1]


@lru_cache(maxsize=64)
def _bound(program: AvroProgram) -> tuple[Callable[[bytes], bytes], Column]:
    source = Source(program)
    slow = partial(run_avro, program)
    names: dict[str, Any] = {
        "BailOut": BailOutError,
        "FAILURES": FAILURES,
        "is_exact": is_exact,
        "long_number": long_number,
        "slow": slow,
        "pack_float": PACK["float"].pack,
        "pack_double": PACK["double"].pack,
        "float_at": PACK["float"].unpack_from,
    }
    text = render(source)
    names.update(source.constants)
    try:
        exec(compile(text, "<avro program>", "exec"), names)
    except RecursionError:  # a union of thousands of branches is more than Python's compiler takes
        return slow, lambda column: list(map(slow, column))
    return names["convert"], names["convert_column"]
