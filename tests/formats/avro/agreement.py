"""The ways to convert a value, held against one another."""

from collections.abc import Callable
from functools import partial

from formats import EntryError
from formats.avro.compiling import compile_schemas
from formats.avro.program import run_avro
from formats.avro.resolving import resolve
from formats.avro.schema import AvroSchema
from migrate.engine.avro.function import generate_column

REJECTED = "rejected"


class Paths:
    """Converts a value in every way that there is: by the reference, the interpreter, and the generated code."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        self.program = compile_schemas(writer, reader)
        self._column = generate_column(self.program)
        self._ways = partial(resolve, writer=writer, reader=reader), partial(run_avro, self.program), self._by_column

    def __call__(self, data: bytes) -> bytes | str:
        """What all of them make of it."""
        reference, *others = [_made(way, data) for way in self._ways]
        assert others == [reference] * 2, self.program
        return reference

    def _by_column(self, data: bytes) -> bytes:
        first, second = self._column([data, data])
        assert first == second
        return first


def _made(way: Callable[[bytes], bytes], data: bytes) -> bytes | str:
    try:
        return way(data)
    except EntryError:
        return REJECTED
