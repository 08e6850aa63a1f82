"""The loop does what the reference does, and never leaves its buffers, whatever bytes it is given."""

import struct
import subprocess
import sys
from random import Random

import numpy as np
import pytest
import xxhash

from formats.avro import operations as avro
from formats.avro.operations import MAX_DEPTH, MAX_EMPTY
from formats.avro.program import AvroProgram
from formats.encoding.varint import pack_varint
from formats.errors import EntryError
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
    run_operations,
)
from migrate.engine.native.digests import STATE_SIZE, hexdigest, new_states
from tests.engine.native.agreement import MEMORIES, agree
from tests.engine.native.feeding import Feeding
from tests.engine.native.programs import damage

EACH_MEMORY = pytest.mark.parametrize("memory", MEMORIES)
Operations = tuple[Operation, ...]


@pytest.mark.parametrize("more", ["--records=20000", "--records=4000 --stack=9", "--records=20000 --memory=checked"])
def test_programs_by_chance_do_what_the_reference_does(more: str) -> None:
    """In a process of its own, which an overrun ends by a signal."""
    command = [sys.executable, "-m", "tests.engine.native", "--seed=7", *more.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "nothing found" in done.stdout) == (0, True), done.stderr[-3000:]


def test_the_source_as_python_does_what_the_reference_does() -> None:
    tally = agree("checked", 3000, 1)
    assert tally.converted > 500
    assert tally.rejected > 500
    assert tally.left < 30


def avro_of(*operations: avro.Operation, **named: avro.Operations) -> Operations:
    return (Avro(AvroProgram(operations, tuple(named.items()))),)


EACH = avro.Repeat((avro.Keep("string"),), 1)
NOTHING = avro.Repeat((), 0)
MOST_EMPTY = pack_varint(MAX_EMPTY) + b"\0"
CHAIN = avro_of(avro.Call("next", 1), next=(avro.Choice(((), (avro.Call("next", 1),))),))
WAY_DOWN = avro_of(avro.Call("next", 1), next=(EACH, avro.Choice(((), (avro.Call("next", 1),)))))

SINGLE: dict[str, tuple[Operations, bytes]] = {
    "copy": ((Copy(3),), b"abc"),
    "copy, more behind": ((Copy(3), Copy(2)), b"abcde"),
    "copy the rest": ((Copy(), Copy(2)), b"abcde"),
    "skip": ((Skip(3), Skip(1)), b"abcd"),
    "skip the rest": ((Skip(), Copy(2)), b"abcde"),
    "insert": ((Insert(b"x" * 70), Copy(1)), b"a"),
    "reverse": ((Reverse(9), Copy(1)), b"123456789a"),
    "copy a span": ((SpanOperation("copy"), Copy(1)), pack_varint(70) + b"v" * 71),
    "skip a span": ((SpanOperation("skip"), Copy(1)), pack_varint(2) + b"abc"),
    "skip size": ((Copy(1), SkipSize(), Copy()), b"a\3\0\0\0bcd"),
    "insert size": ((Copy(1), InsertSize(), Copy(1), InsertSize(), Copy()), b"abcde"),
    "choose": ((Choose(((b"ab", (Copy(1),)), (b"b", (InsertSize(), Copy())))), Skip(1)), b"abcd"),
    "choose among none": ((Choose(()),), b""),
    "choose by nothing": ((Choose(((b"", (Reverse(2),)),)),), b"ab"),
    "boolean": (avro_of(avro.Keep("boolean")), b"\1"),
    "int": (avro_of(avro.Keep("int")), pack_varint(-(1 << 31))),
    "long": (avro_of(avro.Keep("long")), pack_varint(-(1 << 63))),
    "float": (avro_of(avro.Keep("float", 4)), b"1234"),
    "bytes": (avro_of(avro.Keep("bytes")), b"\6\xff\xff\xff"),
    "string": (avro_of(avro.Keep("string")), pack_varint(19) + "plain text ä€\U0001f680".encode()[:19]),
    "fixed": (avro_of(avro.Keep("fixed", 16)), b"f" * 16),
    "int as float": (avro_of(avro.Promote("int", "float")), pack_varint(1 << 24)),
    "long as double": (avro_of(avro.Promote("long", "double")), pack_varint(-(1 << 53))),
    "float as double": (avro_of(avro.Promote("float", "double")), struct.pack("<f", -1.5)),
    "emit": (avro_of(avro.Emit(b"e" * 70), avro.Keep("int")), b"\2"),
    "refuse": (avro_of(avro.Refuse("no")), b""),
    "drop": (avro_of(avro.Drop((avro.Keep("string"), avro.Emit(b"gone"))), avro.Keep("int")), b"\4ab\2"),
    "choice": (avro_of(avro.Choice(((avro.Emit(b"\2"),), (avro.Emit(b"\0"), avro.Keep("int"))))), b"\2\4"),
    "kept choice": (avro_of(avro.Choice(((avro.Emit(b"\0"),), (avro.Emit(b"\2"), avro.Keep("int"))))), b"\2\4"),
    "choice among none": (avro_of(avro.Choice(())), b"\0"),
    "each": (avro_of(EACH), b"\4\2a\2b\0"),
    "each of several blocks": (avro_of(EACH), b"\2\2a\3\6\4bc\2\0\0"),
    "each of many": (avro_of(EACH), b"\x7e" + b"\0" * 63 + b"\x02\0\0"),
    "each without bytes": (avro_of(NOTHING), pack_varint(70) + b"\0"),
    "arrange": (
        avro_of(avro.Arrange(((avro.Keep("string"),), (avro.Emit(b"new"),), (avro.Keep("int"),)), (2, 1, 0))),
        b"\4ab\2",
    ),
    "arrange, and leave out": (avro_of(avro.Arrange(((avro.Keep("string"),), (avro.Keep("int"),)), (1,))), b"\4ab\2"),
    "arrange nothing": (avro_of(avro.Keep("int"), avro.Arrange((), ())), b"\2"),
    "call": (CHAIN, b"\2\2\0"),
}


def _by_reference(operations: Operations, record: bytes) -> bytes | None:
    try:
        return run_operations(operations, record)
    except EntryError:
        return None


@EACH_MEMORY
@pytest.mark.parametrize("name", SINGLE)
def test_each_operation_alone_does_what_the_reference_does(name: str, memory: str) -> None:
    operations, record = SINGLE[name]
    cut = [record[:at] for at in range(len(record) + 1)]
    longer = [record + b"\0", record + record]
    spoilt = [damage(Random(number), record) for number in range(200)]
    records = [*cut, *longer, *spoilt]
    feeding = Feeding(MEMORIES[memory](), Random(0))
    found = [feeding(operations, [each])[0] for each in records]  # each in rooms of other sizes
    expected = [_by_reference(operations, each) for each in records]
    if name == "float as double":  # what is no number is left to the portable engine
        expected = [None if each is None or each[-1] & 0x7F == 0x7F else each for each in expected]
    assert found == expected


LIMITS: dict[str, tuple[Operations, bytes, bool]] = {
    "the deepest": (CHAIN, b"\2" * (MAX_DEPTH - 1) + b"\0", True),
    "deeper": (CHAIN, b"\2" * MAX_DEPTH + b"\0", False),
    "the most empty items": (avro_of(NOTHING), MOST_EMPTY, True),
    "one more": (avro_of(NOTHING), pack_varint(MAX_EMPTY + 1) + b"\0", False),
    "one more in another place": (avro_of(NOTHING, NOTHING), MOST_EMPTY + b"\2\0", False),
    "one more in another block": (avro_of(NOTHING), MOST_EMPTY[:-1] + b"\2\0", False),
    "as many items as there can be": (avro_of(EACH), b"\6\0\0\0\0", True),
    "more items than bytes": (avro_of(EACH), b"\x0a\0\0\0\0", False),
    "more items than bytes, of none": (avro_of(avro.Repeat((), 1)), b"\x0a\0", False),
    "the smallest number of items": (avro_of(EACH), pack_varint(-(1 << 63)) + b"\2\0\0", False),
    "the smallest number of empty items": (avro_of(NOTHING), pack_varint(-(1 << 63)) + b"\0\0", False),
    "a block as long as it says": (avro_of(EACH), b"\1\4\2a\0", True),
    "a block that is shorter": (avro_of(EACH), b"\1\6\2a\0", False),
    "a block of a negative size": (avro_of(EACH), b"\1\1\0\0", False),
    "a block that goes beyond the end": (avro_of(EACH), b"\1\x0a\2a\0", False),
    "an int of 32 bits": (avro_of(avro.Keep("int")), b"\xff\xff\xff\xff\x0f", True),
    "an int of 33": (avro_of(avro.Keep("int")), b"\xff\xff\xff\xff\x1f", False),
    "a long of 64 bits": (avro_of(avro.Keep("long")), b"\xff" * 9 + b"\1", True),
    "a long of 65": (avro_of(avro.Keep("long")), b"\xff" * 9 + b"\2", False),
    "a long of eleven bytes": (avro_of(avro.Keep("long")), b"\xff" * 10 + b"\1", False),
    "a number in more bytes than it needs": (avro_of(avro.Keep("long")), b"\x81\0", False),
    "the largest float": (avro_of(avro.Promote("long", "float")), pack_varint(-((1 << 24) - 1) << 39), True),
    "no float": (avro_of(avro.Promote("int", "float")), pack_varint((1 << 24) + 1), False),
    "no double": (avro_of(avro.Promote("long", "double")), pack_varint(-(1 << 53) - 1), False),
    "a span of a negative size": ((SpanOperation("copy"), Copy()), b"\1abc", False),
    "text of a negative size": (avro_of(avro.Keep("bytes")), b"\1", False),
    "text of the largest size": (avro_of(avro.Keep("bytes")), pack_varint((1 << 63) - 1), False),
    "a negative choice": (avro_of(avro.Choice(((), ()))), b"\1", False),
    "a negative kept choice": (avro_of(avro.Choice(((avro.Emit(b"\0"),),))), b"\1", False),
}


@EACH_MEMORY
@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_are_those_of_the_reference(name: str, memory: str) -> None:
    operations, record, fits = LIMITS[name]
    (found,) = Feeding(MEMORIES[memory](), Random(0))(operations, [record])
    assert (found == _by_reference(operations, record)) and (found is not None) == fits


TEXTS: dict[str, list[str | bytes]] = {
    "shortest forms": ["\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"],
    "too long": [b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf"],
    "surrogates": [b"\xed\xa0\x80", b"\xed\xbf\xbf"],
    "too large": [b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff"],
    "cut off": [b"\xc3", b"\xe2\x82", b"\xf0\x9f\x9a", b"\xe2"],
    "no beginning": [b"\x80", b"\xbf\x80"],
    "no middle": [b"\xc3a", b"\xe2a\xac", b"\xe2\x82a", b"\xf0\x9f\x9aa", b"\xf0a\x9a\x80"],
}


@EACH_MEMORY
@pytest.mark.parametrize("name", TEXTS)
def test_text_is_utf8_as_python_reads_it(name: str, memory: str) -> None:
    parts = [part.encode() if isinstance(part, str) else part for part in TEXTS[name]]
    texts = [before + part + behind for part in parts for before in (b"", b"a" * 9) for behind in (b"", b"b" * 8)]
    operations, records = avro_of(avro.Keep("string")), [pack_varint(len(text)) + text for text in texts]
    found = Feeding(MEMORIES[memory](), Random(0))(operations, records)
    assert found == [_by_reference(operations, record) for record in records]
    assert [each is not None for each in found] == [name == "shortest forms"] * len(texts)


DEEP = {"calls": (CHAIN, b"\2" * 20 + b"\0"), "calls and items": (WAY_DOWN, b"\2\0\0\2" * 20 + b"\0\0")}


@EACH_MEMORY
@pytest.mark.parametrize("name", DEEP)
def test_what_is_too_deep_for_the_stack_is_left_to_the_portable_engine(name: str, memory: str) -> None:
    operations, record = DEEP[name]
    made = MEMORIES[memory]()
    found = [Feeding(made, Random(words), stack_words=words)(operations, [record])[0] for words in range(4, 60)]
    left = found.count(None)
    assert found == [None] * left + [_by_reference(operations, record)] * (len(found) - left)
    assert 40 < left < 55


SIZES = (0, 1, 7, 8, 31, 32, 33, 64, 500, 511, 512, 513, 2015, 2016, 2017, 2047, 2048, 2049, 5000)


@EACH_MEMORY
@pytest.mark.parametrize("is_key", [True, False])
def test_digests_are_those_of_xxhash_whatever_the_pieces(memory: str, is_key: bool) -> None:
    for seed in range(8):
        random = Random(seed)
        sizes = SIZES if seed < 4 else SIZES[:9]  # which leave the buffer alone until it is full
        pieces = [random.randbytes(random.choice(sizes)) for _ in range((1, 3, 30, 300)[seed % 4])]
        feeding = Feeding(MEMORIES[memory](), random, is_key=is_key, states=new_states(3).tobytes())
        assert feeding((Copy(),), pieces) == pieces
        states = np.frombuffer(feeding.states, np.uint64).reshape(3, STATE_SIZE // 8)
        sizes_of_records = b"".join(
            struct.pack("<II", *((len(piece), 0) if is_key else (0, len(piece)))) for piece in pieces
        )
        columns = (sizes_of_records, *((b"".join(pieces), b"") if is_key else (b"", b"".join(pieces))))
        assert [hexdigest(state) for state in states] == [xxhash.xxh64(column).hexdigest() for column in columns]
