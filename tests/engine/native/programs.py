"""Byte programs by chance, and records for them: such as they take, and damaged ones."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import NamedTuple

from formats.avro import operations as avro
from formats.avro.compiling import compile_schemas
from formats.avro.program import AvroProgram
from formats.encoding.varint import pack_varint
from formats.errors import UnresolvableSchemasError
from formats.program import (
    Avro,
    Choose,
    Copy,
    Insert,
    InsertSize,
    Operation,
    Reverse,
    Skip,
    SkipSize,
    SpanOperation,
)
from tests.formats.avro.evolving import blocks, encoded, root_of, schema_pair, tree_of

Operations = tuple[Operation, ...]
_NUMBERS = (0, 1, -1, 2, -2, 63, 64, 100, 65536, 65537, -65536, 1 << 31, -(1 << 31), 1 << 53, 1 << 62, -(1 << 63))
_KINDS = ("boolean", "int", "long", "float", "double", "bytes", "string", "fixed")
_UNSIZED = ("boolean", "int", "long", "bytes", "string")
_FLOATS = (0.0, -1.5, float("inf"), float("nan"))
_TEXTS = (b"", b"plain", "ä€\U0001f680".encode(), b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xff", b"a" * 9)
_NAMES = ("one", "two")


class Case(NamedTuple):
    """A program and records for it."""

    operations: Operations
    records: list[bytes]
    is_usual: bool
    """Whether it may come up: the portable engine relies on what a dropped part of an Avro program never has."""


def case(random: Random, records: int) -> Case:
    """A program and so many records."""
    kind = random.choice((_plain_case, _avro_case, _evolved_case))
    operations, draw = kind(random)
    whole = [draw() for _ in range(max(1, records // 4))]
    damaged = [damage(random, random.choice(whole)) for _ in range(records - len(whole))]
    return Case(operations, whole + damaged, kind is not _avro_case)


def damage(random: Random, record: bytes) -> bytes:
    """The record after some accidents."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at = random.randint(0, len(record))
        to = min(len(record), at + random.choice((0, 0, 1, 2, 5)))
        spoilt = bytearray(record[:at] + _put(random, record[at : at + 8]) + record[to:])
        if spoilt and random.randint(0, 2) == 0:
            spoilt[random.randrange(len(spoilt))] ^= 1 << random.randrange(8)
        record = bytes(spoilt if random.randint(0, 5) else spoilt[: random.randint(0, len(spoilt))])
    return record


def _put(random: Random, there: bytes) -> bytes:
    """What gets into a record."""
    kind = random.randrange(6)
    if kind == 0:
        return random.randbytes(random.randint(1, 4))
    if kind == 1:
        return pack_varint(random.choice(_NUMBERS))
    if kind == 2:
        return b"\x80" * random.randint(1, 10) + random.choice((b"", b"\0", b"\1", b"\2"))
    if kind == 3:
        return random.choice(_TEXTS)
    return there * random.randint(1, 3) if kind == 4 else b""


Draw = Callable[[], bytes]


def _plain_case(random: Random) -> tuple[Operations, Draw]:
    operations = plain_operations(random, 2)
    return operations, lambda: plain_record(random, operations)


def plain_operations(random: Random, depth: int) -> Operations:
    """Of every kind but Avro."""
    return tuple(_plain_operation(random, depth) for _ in range(random.choice((0, 1, 2, 2, 3, 5))))


def _plain_operation(random: Random, depth: int) -> Operation:
    size = random.choice((0, 1, 2, 4, 8, 9))
    makers: list[Callable[[], Operation]] = [
        lambda: Copy(size),
        lambda: Skip(size),
        Copy,
        Copy,
        Skip,
        lambda: Reverse(size),
        lambda: Insert(random.randbytes(random.choice((0, 1, 5, 70)))),
        lambda: SpanOperation("copy"),
        lambda: SpanOperation("skip"),
        SkipSize,
        InsertSize,
    ]
    if depth:
        makers += [lambda: _choose(random, depth - 1)] * 3
        makers.append(lambda: Avro(AvroProgram(tuple(avro.Keep(kind) for kind in random.sample(_UNSIZED, 2)))))
    return random.choice(makers)()


def _choose(random: Random, depth: int) -> Choose:
    prefixes = random.choice(((b"",), (b"a", b"b"), (b"\0\0\0\0\1", b"\0\0\0\0\2", b"\1"), (b"long" * 9, b"x"), ()))
    return Choose(tuple((prefix, plain_operations(random, depth)) for prefix in prefixes))


def plain_record(random: Random, operations: Operations) -> bytes:
    """A record that these operations take, unless several of them take the rest."""
    record = b""
    for operation in reversed(operations):
        record = _piece(random, operation, record) + record
    return record


def _piece(random: Random, operation: Operation, behind: bytes) -> bytes:  # noqa: PLR0911 - one for each kind
    match operation:
        case Copy(size=None) | Skip(size=None):
            return random.randbytes(random.choice((0, 0, 1, 3, 20)))
        case Copy(size=int(size)) | Skip(size=int(size)) | Reverse(size=size):
            return random.randbytes(size)
        case SpanOperation():
            size = random.choice((0, 1, 5, 63, 64, 70))
            return pack_varint(size) + random.randbytes(size)
        case SkipSize():
            return struct.pack("<i", len(behind))
        case Choose(cases=cases) if cases:
            prefix, inner = random.choice(cases)
            return prefix + plain_record(random, inner)
        case Avro(program=program):
            return _Values(random, program).of(program.main)
        case _:
            return b""


def _evolved_case(random: Random) -> tuple[Operations, Draw]:
    """A pair of schemas."""
    while True:
        writer, reader = schema_pair(random)
        with suppress(UnresolvableSchemasError):
            program = compile_schemas(writer, reader)
            break
    types, root = root_of(writer)

    def draw() -> bytes:
        return encoded(types, root, tree_of(random, types, root), random.choice((None, blocks(random))))

    return (Avro(program),), draw


def _avro_case(random: Random) -> tuple[Operations, Draw]:
    """Operations that no pair of schemas has: they mean something all the same."""
    named = tuple((name, _avro_operations(random, 2, _NAMES)) for name in _NAMES)
    program = AvroProgram(_avro_operations(random, 3, _NAMES), named)
    around: Operations = random.choice(((), (Insert(b"head"), Copy(2))))
    operations = (*around, Avro(program), *random.choice(((), (Skip(3),))))
    return operations, lambda: plain_record(random, operations)


def _avro_operations(random: Random, depth: int, names: tuple[str, ...]) -> avro.Operations:
    return tuple(_avro_operation(random, depth, names) for _ in range(random.choice((0, 1, 1, 2, 3))))


def _avro_operation(random: Random, depth: int, names: tuple[str, ...]) -> avro.Operation:
    kind = random.choice(_KINDS)
    number = random.choice(("int", "long"))
    makers: list[Callable[[], avro.Operation]] = [
        lambda: avro.Keep(kind, {"float": 4, "double": 8, "fixed": random.choice((0, 1, 16))}.get(kind, 0)),
        lambda: avro.Keep(number),
        lambda: avro.Promote(number, random.choice(("float", "double"))),
        lambda: avro.Promote("float", "double"),
        lambda: avro.Emit(random.randbytes(random.choice((0, 1, 9, 100)))),
    ]
    if random.randint(0, 9) == 0:
        makers = [lambda: avro.Refuse("there is no place for it")]
    if names:
        makers.append(lambda: avro.Call(random.choice(names), 1))
    if depth:

        def inner() -> avro.Operations:
            return _avro_operations(random, depth - 1, names)

        count = random.randint(1, 3)
        makers += [
            lambda: avro.Drop(inner()),
            lambda: avro.Choice(tuple(inner() for _ in range(count))),
            lambda: avro.Choice(tuple((avro.Emit(pack_varint(each)), *inner()) for each in range(count))),
            lambda: avro.Repeat(inner(), random.choice((0, 1, 1, 2))),
            lambda: avro.Repeat(inner(), 1),
            lambda: avro.Arrange(
                tuple(inner() for _ in range(count)), tuple(random.sample(range(count), random.randint(0, count)))
            ),
        ]
    return random.choice(makers)()


class _Values:
    """Draws what a program reads."""

    def __init__(self, random: Random, program: AvroProgram) -> None:
        self._random, self._named = random, dict(program.named)
        self._left = random.choice((10, 10, 20, 40))
        """Of calls: a program of chance need not come to an end."""

    def of(self, operations: avro.Operations) -> bytes:
        return b"".join(map(self._one, operations))

    def _one(self, operation: avro.Operation) -> bytes:  # noqa: PLR0911 - one for each kind
        random = self._random
        match operation:
            case avro.Keep(kind=kind, size=size):
                return self._leaf(kind, size)
            case avro.Promote(kind=kind):
                return self._leaf(kind, 4)
            case avro.Call(name=name):
                self._left -= 1
                return self.of(self._named[name]) if self._left > 0 else b""
            case avro.Drop(body=body):
                return self.of(body)
            case avro.Choice(branches=branches):
                index = random.randrange(len(branches))
                return pack_varint(index) + self.of(branches[index])
            case avro.Repeat(body=body):
                return b"".join(self._block(body) for _ in range(random.choice((0, 1, 1, 2)))) + b"\0"
            case avro.Arrange(parts=parts):
                return b"".join(map(self.of, parts))
            case _:
                return b""

    def _block(self, body: avro.Operations) -> bytes:
        count = self._random.choice((1, 1, 2, 3))
        if not body:
            count = self._random.choice((1, 70, 1000, 40000))
        content = b"".join(self.of(body) for _ in range(count)) if body else b""
        if self._random.randint(0, 1):
            return pack_varint(count) + content
        return pack_varint(-count) + pack_varint(len(content)) + content

    def _leaf(self, kind: str, size: int) -> bytes:
        random = self._random
        if kind in ("int", "long"):
            bits = random.randint(1, 31 if kind == "int" else 63)
            return pack_varint(random.choice((1, -1)) * (random.getrandbits(bits) | random.choice((0, 1 << bits - 1))))
        if kind in ("float", "double") and random.randint(0, 1):
            return struct.pack("<f" if size == 4 else "<d", random.choice(_FLOATS))
        if kind in ("bytes", "string"):
            text = random.choice(_TEXTS[:3]) * random.choice((1, 1, 20))
            return pack_varint(len(text)) + text
        return bytes([random.randint(0, 1)]) if kind == "boolean" else random.randbytes(size)
