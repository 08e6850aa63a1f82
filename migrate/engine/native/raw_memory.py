"""Memory by address, for compiled code: loads, stores, moves, and calls of C functions.

Nothing here checks an address. The loop checks each one before it uses it: what it reads lies in a record of RocksDB or
in a program, what it writes in a buffer whose room it knows. Numbers are little-endian, and need not be aligned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir
from numba import extending, njit, types
from numba.core import cgutils

Word: TypeAlias = Any
"""In compiled code: a 64-bit integer, such as an address, a size or a truth value; numba infers the types."""
Made: TypeAlias = Any
"""What numba and LLVM pass to a function that makes code."""
Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]
compiled_code: Compiler = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Compiles a function that compiled ones call, or C: without what Python would need to call it."""
intrinsic: Compiler = extending.intrinsic
WORD = ir.IntType(64)
BYTE = ir.IntType(8)
BYTES = BYTE.as_pointer()
NUMBERS = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}


def _load(bits: int, number: Made) -> Made:
    """The number at an address."""

    @intrinsic
    def load(_context: Made, address: Made) -> Made:
        def build(_: Made, builder: Made, __: Made, args: Made) -> Made:
            kind = NUMBERS.get(number, ir.IntType(bits))
            value = builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)
            return value if bits == 64 or number in NUMBERS else builder.zext(value, WORD)

        return number(types.int64), build

    return load


def _store(bits: int, number: Made) -> Made:
    """Write the lowest bits of a number to an address."""

    @intrinsic
    def store(_context: Made, address: Made, value: Made) -> Made:
        def build(context: Made, builder: Made, _: Made, args: Made) -> Made:
            kind = NUMBERS.get(number, ir.IntType(bits))
            stored = args[1] if bits == 64 or number in NUMBERS else builder.trunc(args[1], kind)
            builder.store(stored, builder.inttoptr(args[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, number), build

    return store


def _move(emit: Made) -> Made:
    """Move bytes: (to, from, size)."""

    @intrinsic
    def move(_context: Made, to: Made, begin: Made, size: Made) -> Made:
        def build(context: Made, builder: Made, _: Made, args: Made) -> Made:
            target, source = (builder.inttoptr(address, BYTES) for address in args[:2])
            emit(builder, target, source, args[2], 1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), build

    return move


def _emit_call(builder: Made, result: Made, args: Made) -> Made:
    """A call of the C function at the first of the addresses, with the others, which are words."""
    kind = ir.FunctionType(result, [WORD] * (len(args) - 1))
    return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])


@intrinsic
def call_flag(_context: Made, function: Made, a: Made) -> Made:
    """An `unsigned char` of one argument."""

    def build(_: Made, builder: Made, __: Made, args: Made) -> Made:
        return builder.zext(_emit_call(builder, BYTE, args), WORD)

    return types.int64(types.int64, types.int64), build


@intrinsic
def call_1(_context: Made, function: Made, a: Made) -> Made:
    """A function without a result."""

    def build(context: Made, builder: Made, _: Made, args: Made) -> Made:
        _emit_call(builder, ir.VoidType(), args)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), build


@intrinsic
def call_2(_context: Made, function: Made, a: Made, b: Made) -> Made:
    """A pointer, of two arguments."""

    def build(_: Made, builder: Made, __: Made, args: Made) -> Made:
        return _emit_call(builder, WORD, args)

    return types.int64(types.int64, types.int64, types.int64), build


@intrinsic
def call_6(_context: Made, function: Made, a: Made, b: Made, c: Made, d: Made, e: Made, f: Made) -> Made:
    """A function without a result, of six arguments."""

    def build(context: Made, builder: Made, _: Made, args: Made) -> Made:
        _emit_call(builder, ir.VoidType(), args)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), build


def load_words(count: int) -> Made:
    """A function that returns so many words from an address on."""

    @intrinsic
    def load(_context: Made, address: Made) -> Made:
        def build(context: Made, builder: Made, signature: Made, args: Made) -> Made:
            at = builder.inttoptr(args[0], WORD.as_pointer())
            places = [builder.gep(at, [WORD(number)]) for number in range(count)]
            words = [builder.load(place, align=1) for place in places]
            return context.make_tuple(builder, signature.return_type, words)

        return types.UniTuple(types.int64, count)(types.int64), build

    return load


load8 = _load(8, types.int64)
load32 = _load(32, types.int64)
load64 = _load(64, types.int64)
load_hash = _load(64, types.uint64)
load_float = _load(32, types.float32)
store8 = _store(8, types.int64)
store32 = _store(32, types.int64)
store64 = _store(64, types.int64)
store_hash = _store(64, types.uint64)
store_float = _store(32, types.float32)
store_double = _store(64, types.float64)
copy = _move(cgutils.raw_memcpy)
move = _move(cgutils.raw_memmove)
same = types.ExternalFunction("memcmp", types.int32(types.int64, types.int64, types.int64))
