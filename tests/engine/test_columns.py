"""Programs over whole columns give what they give over one record, for even and uneven batches alike."""

import struct
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import EntryError
from formats.conversion import compile_serdes
from formats.encoding.varint import pack_varint
from formats.program import (
    IDENTITY,
    ByteProgram,
    Choose,
    Copy,
    Insert,
    InsertSize,
    Operation,
    Reverse,
    Skip,
    SkipSize,
    SpanOperation,
    run_operations,
)
from formats.serdes.avro_serde import AvroSerde
from migrate.engine.bail_out import BailOutError
from migrate.engine.columns import MIN_ROWS, compile_program
from migrate.engine.generated import compile_pairs
from migrate.engine.portable import RecordDigest
from migrate.stores.batch import Batch
from tests.formats.serdes.schemas import NEW, OLD

Operations = tuple[Operation, ...]

SIZES = st.integers(0, 9)
SPANS: st.SearchStrategy[Operation] = st.sampled_from([SpanOperation("copy"), SpanOperation("skip")])
STEPS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Copy, SIZES),
    st.builds(Skip, SIZES),
    st.builds(Reverse, SIZES),
    st.builds(Insert, st.binary(max_size=4)),
    st.just(InsertSize()),
    st.just(SkipSize()),
    SPANS,
)
PREFIXES = st.sampled_from([(b"",), (b"\0", b"\1"), (b"\0\0\0\0\7", b"\0\0\0\0\x08", b"\1"), (b"ab", b"b")])


def _choices(cases: st.SearchStrategy[Operations]) -> st.SearchStrategy[Operation]:
    return PREFIXES.flatmap(
        lambda prefixes: st.tuples(*[cases] * len(prefixes)).map(
            lambda found: Choose(tuple(zip(prefixes, found, strict=True)))
        )
    )


def _programs(rest: st.SearchStrategy[Operation]) -> st.SearchStrategy[Operations]:
    """Mostly with one operation that takes the rest."""
    return st.tuples(
        st.lists(STEPS, max_size=4),
        st.sampled_from([1, 1, 1, 1, 0, 2]).flatmap(lambda count: st.lists(rest, min_size=count, max_size=count)),
        st.lists(STEPS.filter(_is_fixed), max_size=3),
    ).map(lambda parts: (*parts[0], *parts[1], *parts[2]))


def _is_fixed(operation: Operation) -> bool:
    return not isinstance(operation, SpanOperation)


RESTS: st.SearchStrategy[Operation] = st.sampled_from([Copy(), Skip()])
PROGRAMS = _programs(RESTS | _choices(_programs(RESTS | _choices(_programs(RESTS)))))


class Writer:
    """Writes records that fit a program, but now and then."""

    def __init__(self, chance: Random, *, is_even: bool) -> None:
        self._chance = chance
        self._is_even = is_even
        self._rest = chance.randint(0, 12)
        self._span = chance.choice([0, 0, 3, 64, 70])
        self._case = chance.choice([None, chance.random(), chance.random()])
        self._misfits = chance.choice([0, 0, 0, 0.05])

    def record(self, operations: Operations) -> bytes:
        """One that fits, unless chance has it otherwise."""
        written = self._written(operations)
        if self._chance.random() < self._misfits:
            written = written[: self._chance.randint(0, len(written))] + self._bytes(self._chance.randint(0, 2))
        return written

    def _written(self, operations: Operations) -> bytes:
        written = b""
        for operation in reversed(operations):
            written = b"".join(self._before(operation, written))
        return written

    def _before(self, operation: Operation, behind: bytes) -> Iterator[bytes]:
        match operation:
            case Copy(size=None) | Skip(size=None):
                yield self._bytes(self._size(self._rest))
            case Copy(size=int(size)) | Skip(size=int(size)) | Reverse(size=size):
                yield self._bytes(size)
            case SpanOperation():
                size = self._size(self._span)
                yield pack_varint(size) + self._bytes(size)
            case SkipSize():
                yield struct.pack("<i", len(behind))
            case Choose(cases=cases):
                place = self._chance.random() if self._case is None else self._case
                prefix, inner = cases[int(place * len(cases))]
                yield prefix + self._written(inner)
        yield behind

    def _bytes(self, size: int) -> bytes:
        return self._chance.randbytes(size)

    def _size(self, usual: int) -> int:
        return usual if self._is_even else self._chance.choice([usual, 0, 1, 63, 64, 200])


def _expected(operations: Operations, column: list[bytes]) -> list[bytes] | None:
    try:
        return [run_operations(operations, record) for record in column]
    except EntryError:
        return None


@settings(max_examples=200)
@given(PROGRAMS, PROGRAMS, st.sampled_from([1, 3, MIN_ROWS, 40]), st.booleans(), st.randoms(use_true_random=False))
def test_a_batch_converts_as_its_records_do(
    key: Operations, value: Operations, count: int, is_even: bool, chance: Random
) -> None:
    writer = Writer(chance, is_even=is_even)
    batch = _batch([writer.record(key) for _ in range(count)], [writer.record(value) for _ in range(count)])
    keys, values = _expected(key, batch.keys), _expected(value, batch.values)
    if keys is None or values is None:
        with pytest.raises(BailOutError):
            compile_program(ByteProgram(key, value))(batch)
        return
    converted = compile_program(ByteProgram(key, value))(batch)
    assert (converted.keys, converted.values) == (keys, values)
    by_hand, digest = RecordDigest(), RecordDigest()
    by_hand.update(Batch(keys, values))
    digest.update(converted)
    assert (str(digest), digest.size) == (str(by_hand), by_hand.size)


def _batch(keys: list[bytes], values: list[bytes]) -> Batch:
    sizes = {(len(key), len(value)) for key, value in zip(keys, values, strict=True)}
    return Batch(keys, values, sizes.pop() if len(sizes) == 1 else None)


@given(PROGRAMS, st.integers(1, 5), st.randoms(use_true_random=False))
def test_pairs_convert_as_their_values_do(program: Operations, count: int, chance: Random) -> None:
    writer = Writer(chance, is_even=False)
    values = [writer.record(program) for _ in range(count)]
    pairs = [(b"%d" % number, value) for number, value in enumerate(values)]
    expected = _expected(program, values)
    if expected is None:
        with pytest.raises(BailOutError):
            compile_pairs(program)(pairs)
        return
    assert compile_pairs(program)(pairs) == [(key, value) for (key, _), value in zip(pairs, expected, strict=True)]


@pytest.mark.parametrize("bad_ones", [slice(0, 1), slice(1, 2), slice(None)])
@pytest.mark.parametrize("count", [2, 2 * MIN_ROWS])
@pytest.mark.parametrize(
    ("operations", "good", "bad"),
    [
        ((SpanOperation("skip"), Copy()), "024161", "064161"),  # one byte more than there is
        ((SpanOperation("skip"), Copy()), "024161", "034161"),  # an odd byte: a negative size
        ((SpanOperation("skip"), Copy()), "024161", "086161"),  # more than there is
        ((SpanOperation("skip"), Copy(), Skip(1)), "024161", "066161"),  # into what must follow
        ((SpanOperation("copy"), Copy(1), Copy()), "024161", "0461 61"),
        ((SpanOperation("copy"), Copy()), "0000", "8000"),  # a zero of two bytes
        ((SpanOperation("copy"), Copy()), "0000", "8080"),  # no end
        ((SpanOperation("copy"), Copy()), "024100000000", "ffffffff7f00"),  # more than 32 bits
        ((SpanOperation("copy"),), "024161"[:4], "0041"),  # bytes left over
        ((Copy(), SpanOperation("skip")), "6100", "6102"),
        ((SkipSize(), Copy()), "0200000061 62", "010000006162"),
        ((SkipSize(), Copy()), "0200000061 62", "030000006162"),
        ((SkipSize(), Copy(), Skip(1)), "0200000061 62", "010000006162"),
        ((Choose(((b"\0", IDENTITY), (b"\1", (Skip(2),)))),), "0061", "0261"),
        ((Choose(((b"\0\0", IDENTITY),)), Skip(1)), "00006162", "00016162"),
        ((Choose(((b"\0", IDENTITY), (b"\1", (Skip(2),)))),), "0061", "0161"),
        ((Copy(2),), "6161", "616161"),
        ((Copy(1), Skip(1)), "6161", "61"),
    ],
)
def test_a_record_that_does_not_fit_is_noticed(
    operations: Operations, good: str, bad: str, count: int, bad_ones: slice
) -> None:
    column = [bytes.fromhex(good)] * count
    wanted = [run_operations(operations, record) for record in column]
    assert compile_program(ByteProgram(IDENTITY, operations))(_batch(column, column)).values == wanted
    column[bad_ones] = [bytes.fromhex(bad)] * len(column[bad_ones])
    for key, value in ((IDENTITY, operations), (operations, IDENTITY)):
        with pytest.raises(BailOutError):
            compile_program(ByteProgram(key, value))(_batch(column, column))
    with pytest.raises(BailOutError):
        compile_pairs(operations)([(record, record) for record in column])


@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (63, 63), (64, 64), (8191, 8192), (0, 64)])
def test_spans_of_any_size_are_passed_over(sizes: tuple[int, int]) -> None:
    values = [pack_varint(size) + bytes(size) + b"the rest" for size in sizes] * MIN_ROWS
    batch = _batch([b"%02d" % number for number in range(len(values))], values)
    assert compile_program(ByteProgram(IDENTITY, (SpanOperation("skip"), Copy())))(batch).values == [b"the rest"] * len(
        values
    )
    assert compile_program(ByteProgram(IDENTITY, (SpanOperation("copy"), Copy())))(batch).values == values


def test_what_stays_as_it_is_is_not_copied() -> None:
    for count in (1, 2 * MIN_ROWS):
        batch = _batch([b"%016d" % number for number in range(count)], [bytes(9)] * count)
        converted = compile_program(ByteProgram((Copy(), Copy(8), Copy(4)), (Copy(8), Copy())))(batch)
        assert all(map(lambda a, b: a is b, converted.keys + converted.values, batch.keys + batch.values))


def test_a_program_of_one_batch_does_not_outlive_it() -> None:
    """What a batch's records said of themselves is asked again of the next one."""
    program = ByteProgram(IDENTITY, (SpanOperation("skip"), Copy()))
    for heads in ("00616162", "02616162", "00616162", "04616162", "00"):
        values = [bytes.fromhex(heads)] * (2 * MIN_ROWS)
        batch = _batch([b"%02d" % number for number in range(len(values))], values)
        assert compile_program(program)(batch).values == [run_operations(program.value, value) for value in values]


SCHEMAS = {1: OLD, 2: NEW}
OLD_VALUES = st.builds(lambda a, n: (1, {"a": a, "n": n}), st.text(max_size=9), st.integers(-99, 99))
NEW_VALUES = st.builds(lambda b, n: (2, {"b": b, "n": n}), st.text(max_size=9), st.integers(-99, 99))
FRAMED = (OLD_VALUES | NEW_VALUES).map(
    lambda found: AvroSerde(((found[0], SCHEMAS[found[0]]),), "confluent").encode(found[1])
)


@given(st.lists(FRAMED, min_size=1, max_size=5), st.none() | st.binary(max_size=9), st.sampled_from([1, MIN_ROWS]))
def test_values_of_several_schemas_are_converted_together(values: list[bytes], bad: bytes | None, times: int) -> None:
    """Behind headers, as in a store of Kafka Streams, so that the frame is somewhere in the middle."""
    payload = compile_serdes(AvroSerde(tuple(SCHEMAS.items()), "confluent"), AvroSerde(((7, NEW),), "confluent"))
    assert payload is not None
    program: Operations = (SpanOperation("copy"), Copy(8), *payload)
    column = [pack_varint(3) + b"abc" + bytes(8) + value for value in values] * times
    if bad is not None:
        column.append(bad)
    expected = _expected(program, column)
    if expected is None:
        with pytest.raises(BailOutError):
            compile_program(ByteProgram(IDENTITY, program))(_batch(column, column))
        return
    assert compile_program(ByteProgram(IDENTITY, program))(_batch(column, column)).values == expected
