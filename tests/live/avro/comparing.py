"""Pairs of schemas with values, held against what Java's Avro makes of them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from formats.avro.fastavro_tree import KEY, VALUE, Tree, branch_of, codec, slot, tagged
from formats.avro.program import run_avro
from formats.avro.schema import AvroSchema
from formats.avro.types import Array, Map, Record, Type, Types, Union
from formats.errors import EntryError, UnresolvableSchemasError
from tests.formats.avro.agreement import REJECTED, Paths
from tests.formats.avro.clashing import clashing_pair
from tests.formats.avro.evolving import encoded, root_of, schema_pair, tree_of
from tests.live.avro.java import Case, JavaError, resolve_by_java

VALUES = 3

NOT_JAVA = {
    "an enum or a fixed of a union by its short name": r"Exception: Found \S+\.(Enum|Fixed|E|F)\d*, expecting union",
    "1.11 fails when it skips recursive values": r'PointerException: Cannot read field "kind" because "top" is null',
}
"""What docs/avro.md says that Java does not read, and this does: by what Java says."""
JAVA_ALONE = {
    "a pair that is refused, for what no value met": r"refused: ",
    "bytes that are not UTF-8 as a string": r"rejected: .* a string that is not UTF-8",
    "a number that the wider type cannot hold exactly": r"rejected: a (float|double) cannot hold -?\d+ exactly",
    "a record of a union by its fields alone": r"rejected: a value of record \S+ has no place in the new schema",
}
"""What it says that Java reads, and this does not: by what this says."""

Answer = bytes | str


@dataclass(frozen=True, slots=True)
class Expected:
    """What our paths, which agree, made of a case's values; no answers: the pair is refused."""

    case: Case
    reader: AvroSchema
    answers: tuple[Answer, ...]


@dataclass(slots=True)
class Comparison:
    """What was found with one release of Avro."""

    equal: int = 0
    known: Counter[str] = field(default_factory=Counter)
    """Values that one of the two reads, for a reason that docs/avro.md names."""
    differences: list[str] = field(default_factory=list)
    """All else."""


def generate(seed: int, pairs: int) -> Iterator[Expected]:
    """Cases by chance, every third one of few names."""
    for number in range(pairs):
        random = Random(f"{seed}/{number}")
        writer, reader = schema_pair(random) if number % 3 else clashing_pair(random)
        types, root = root_of(writer)
        values = tuple(encoded(types, root, tree_of(random, types, root)) for _ in range(VALUES))
        yield expected(_commented(writer, random), _commented(reader, random), values)


def expected(writer: AvroSchema, reader: AvroSchema, values: Sequence[bytes]) -> Expected:
    """The case, converted in every way that there is."""
    case = Case(writer.text, reader.text, tuple(values))
    try:
        paths = Paths(writer, reader)
    except UnresolvableSchemasError as error:
        return Expected(case, reader, tuple(f"refused: {error}" for _ in values))
    return Expected(case, reader, tuple(_answer(paths, value) for value in values))


def _answer(paths: Paths, value: bytes) -> Answer:
    found = paths(value)
    if found != REJECTED:
        return found
    try:
        run_avro(paths.program, value)
    except EntryError as error:
        return f"rejected: {error}"
    raise AssertionError("rejected by all paths, and then not")


def _commented(schema: AvroSchema, random: Random) -> AvroSchema:
    comment = random.choice(("", "", '/* {a "comment"} */', '// and one more {"\n'))
    return AvroSchema(schema.text.replace("{", f"{{{comment}"))


def compare(version: str, cases: Sequence[Expected]) -> Comparison:
    """Holds every value against what this release makes of it."""
    found = Comparison()
    answers = resolve_by_java(version, [each.case for each in cases])
    for each, theirs in zip(cases, answers, strict=True):
        for value, our, their in zip(each.case.values, each.answers, theirs, strict=True):
            _compare(each, value, our, their, found)
    return found


def _compare(each: Expected, value: bytes, our: Answer, their: bytes | JavaError, found: Comparison) -> None:
    both_fail = isinstance(our, str) and isinstance(their, JavaError)
    if both_fail or _same(each.reader, our, their):
        found.equal += 1
    elif reason := _known(our, their):
        found.known[reason] += 1
    else:
        shown = their.hex() if isinstance(their, bytes) else their
        ours = our.hex() if isinstance(our, bytes) else our
        case = each.case
        found.differences.append(f"{case.writer}\n{case.reader}\n{value.hex()}\nours   {ours}\ntheirs {shown}\n")


def _known(our: Answer, their: bytes | JavaError) -> str | None:
    reasons = JAVA_ALONE if isinstance(our, str) else NOT_JAVA
    told = our if isinstance(our, str) else their.message if isinstance(their, JavaError) else ""
    return next((reason for reason, pattern in reasons.items() if re.search(pattern, told)), None)


def _same(reader: AvroSchema, our: Answer, their: bytes | JavaError) -> bool:
    """Java's maps have no order, and each key once."""
    if our == their:
        return True
    if isinstance(our, str) or isinstance(their, JavaError):
        return False
    types, root = root_of(reader)
    read = codec(types, root)
    ours, theirs = (_sorted(types, root, read.decode(data)[0]) for data in (our, their))
    return bool(ours == theirs)


def _sorted(types: Types, of: Type, tree: Tree) -> Tree:
    known = types.definition(of)
    if isinstance(known, Map):
        entries = {each[KEY]: _sorted(types, known.values, each[VALUE]) for each in tree}
        return sorted(entries.items())
    if isinstance(known, Array):
        return [_sorted(types, known.items, item) for item in tree]
    if isinstance(known, Union):
        number, content = branch_of(tree)
        return tagged(known, number, _sorted(types, known.branches[number], content))
    if isinstance(known, Record):
        return [_sorted(types, each.type, tree[slot(number)]) for number, each in enumerate(known.fields)]
    return tree
