"""Avro programs as Python source, for the portable engine.

The source is made of operations and of numbers; the bytes to write are bound to names, so that data is never code. It
reads only what is ordinary: a value that is not (damaged, in several blocks, nested too deeply) goes to `run_avro`,
which converts it or says what is wrong with it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from formats.avro.program import PACK, AvroProgram, run_avro
from migrate.engine.avro.function import render
from migrate.engine.avro.source import Source

Column = Callable[[list[bytes]], list[bytes]]


class OddError(Exception):
    """The value is not an ordinary one."""


FAILURES = (OddError, IndexError, UnicodeDecodeError, RecursionError, struct.error)
"""What the generated code raises for a value that is not an ordinary one; all of it by reading on."""


def long_number(data: bytes, at: int, bits: int = 64) -> tuple[int, int]:
    """(the number as it is stored, with its sign in the lowest bit; where it ends)."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    if not byte or value >> bits:
        raise OddError
    return value, at


def generate(program: AvroProgram) -> Callable[[bytes], bytes]:
    """Does what `run_avro` does with the program, and raises what it raises, many times faster."""
    return _bound(program)[0]


def generate_column(program: AvroProgram) -> Column:
    """The same for many values. Raises EntryError at the first that has no new form."""
    return _bound(program)[1]


@lru_cache(maxsize=64)
def _bound(program: AvroProgram) -> tuple[Callable[[bytes], bytes], Column]:
    source = Source(program)
    slow = partial(run_avro, program)
    names: dict[str, Any] = {
        "Odd": OddError,
        "FAILURES": FAILURES,
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
