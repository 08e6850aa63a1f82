"""The three ways to convert a value, held against one another."""

from __future__ import annotations

from formats import EntryError
from formats.avro.compiling import compile_schemas
from formats.avro.program import run_avro
from formats.avro.resolving import resolve
from formats.avro.schema import AvroSchema
from migrate.engine.avro.function import generate, generate_column

REJECTED = "rejected"


class Paths:
    """Converts a value in every way that there is."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        self.writer = writer
        self.reader = reader
        program = compile_schemas(writer, reader)
        self.program = program

    def __call__(self, data: bytes) -> bytes | str:
        """What all of them make of it."""
        reference = self.by_reference(data)
        assert self.by_program(data) == reference, self.program
        assert self.by_code(data) == reference, self.program
        assert self.by_column(data) == reference, self.program
        return reference

    def by_reference(self, data: bytes) -> bytes | str:
        try:
            return resolve(data, self.writer, self.reader)
        except EntryError:
            return REJECTED

    def by_program(self, data: bytes) -> bytes | str:
        try:
            return run_avro(self.program, data)
        except EntryError:
            return REJECTED

    def by_code(self, data: bytes) -> bytes | str:
        try:
            return generate(self.program)(data)
        except EntryError:
            return REJECTED

    def by_column(self, data: bytes) -> bytes | str:
        try:
            first, second = generate_column(self.program)([data, data])
        except EntryError:
            return REJECTED
        assert first == second
        return first
