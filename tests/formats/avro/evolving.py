"""Schemas, what becomes of them, and values, by chance: a seed's, or Hypothesis's, which can shrink what it finds."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, TypeVar

from formats.avro.fastavro_tree import KEY, SIZES, VALUE, branch_of, slot, tagged
from formats.avro.schema import AvroSchema, types_of
from formats.avro.types import Array, Enum, Fixed, Primitive, Record, Type, Types, Union
from formats.encoding.varint import pack_varint

T = TypeVar("T")
Json = Any
Tree = Any
Cut = Callable[[list[bytes]], list[tuple[list[bytes], bool]]]

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTED = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
    "bytes": ["string"],
}
LOGICAL: list[Json] = [
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "int", "logicalType": "date"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "string", "logicalType": "uuid"},
]
DEFAULTS: dict[str, list[Json]] = {
    "null": [None],
    "boolean": [True, False],
    "int": [0, -7, 2**31 - 1],
    "long": [0, 64, -(2**63)],
    "float": [0, 1.5],
    "double": [-0.25, 3],
    "bytes": ["", "\u00ff\u0000"],
    "string": ["", "basic", "\u00e4\u00f6\ud83d\ude80"],
}
TEXT_NUMBERS = ("NaN", "Infinity", "-Infinity", "-1.5e3")
"""What Java's Avro writes, and reads, as the default of a float or a double."""
SYMBOLS = ("RED", "GREEN", "BLUE", "BLACK", "WHITE")


@dataclass
class Growing:
    """Draws a schema, and then what it evolves to."""

    random: Random
    plain: bool = False
    """Only what fastavro resolves and encodes without having to guess."""
    numbers: Any = field(default_factory=count)
    renamed: dict[str, str] = field(default_factory=dict)
    space: str = ""
    """The namespace of all that is old."""

    def chance(self, one_in: int) -> bool:
        return self.random.randint(1, one_in) == one_in

    def one_of(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def mixed(self, found: Sequence[T]) -> list[T]:
        return self.random.sample(found, len(found))

    def name(self, letter: str) -> str:
        return f"{letter}{next(self.numbers)}"

    def type(self, depth: int, above: tuple[str, ...] = ()) -> Json:
        kinds = ["primitive"] * 4 + ["enum", "fixed", "logical"]
        if depth:
            kinds += ["record", "record", "array", "map", "union", "union"]
        kind = self.one_of(kinds)
        if kind == "union" and self.plain:
            return ["null", self.one_of(PRIMITIVES[1:])]
        if kind == "logical":
            return "long" if self.plain else dict(self.one_of(LOGICAL))
        makers: dict[str, Callable[[], Json]] = {
            "primitive": lambda: self.one_of(PRIMITIVES),
            "enum": self.enum,
            "fixed": lambda: {"type": "fixed", "name": self.name("Fixed"), "size": self.one_of([0, 1, 4, 16])},
            "record": lambda: self.record(depth - 1, above),
            "array": lambda: {"type": "array", "items": self.within(depth - 1, above)},
            "map": lambda: {"type": "map", "values": self.within(depth - 1, above)},
            "union": lambda: self.union(depth - 1, above),
        }
        return makers[kind]()

    def enum(self) -> Json:
        symbols = list(SYMBOLS[: self.random.randint(1, 4)])
        return {"type": "enum", "name": self.name("Enum"), "symbols": symbols}

    def record(self, depth: int, above: tuple[str, ...] = ()) -> Json:
        name = self.name("Record")
        fields = [
            {"name": self.name("field"), "type": self.type(depth, (*above, name))}
            for _ in range(self.random.randint(0, 4))
        ]
        return {"type": "record", "name": name, "fields": fields}

    def within(self, depth: int, above: tuple[str, ...]) -> Json:
        """May be a type that it stands in."""
        return self.one_of(above) if above and self.chance(4) else self.type(depth, above)

    def union(self, depth: int, above: tuple[str, ...]) -> Json:
        branches: dict[str, Json] = {}
        for _ in range(self.random.randint(1, 4)):
            branch = self.within(depth, above)
            if not isinstance(branch, list):
                branches.setdefault(self.key(branch), branch)
        if not branches or set(branches) & set(above):
            branches.setdefault("null", "null")  # or no value could come to an end
        return list(branches.values())

    @staticmethod
    def key(branch: Json) -> str:
        if isinstance(branch, str):
            return branch
        return str(branch["name"] if branch["type"] in ("record", "enum", "fixed") else branch["type"])

    def evolved(self, old: Json) -> Json:
        new = self.changed(old)
        if not isinstance(new, list) and self.key(new) != "null" and self.chance(8) and not self.plain:
            return self.one_of([["null", new], [new, "null"]])
        return new

    def changed(self, old: Json) -> Json:  # noqa: PLR0911 - one for each kind of type
        if isinstance(old, list):
            return [self.changed(branch) for branch in old] if self.plain else self.changed_union(old)
        if isinstance(old, str):
            if old in PROMOTED and self.chance(4) and not (self.plain and old in ("string", "bytes")):
                return self.one_of(PROMOTED[old])
            return self.renamed.get(old, old)
        kind = old["type"]
        if kind == "record":
            return self.changed_record(old)
        if kind == "enum":
            return self.changed_enum(old)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            return {**old, inner: self.evolved(old[inner])}
        if kind == "fixed":
            return self.again(old)
        return kind if self.chance(3) else old

    def again(self, old: Json) -> Json:
        """The same named type, perhaps by another name."""
        if not self.chance(5):
            return dict(old)
        self.renamed[old["name"]] = self.name("Renamed")
        alias = f"{self.space}.{old['name']}" if self.space and not self.chance(4) else old["name"]
        return {**old, "name": self.renamed[old["name"]], "aliases": [alias]}

    def changed_union(self, old: list[Json]) -> Json:
        branches = {self.key(new): new for new in (self.changed(branch) for branch in old)}
        if self.chance(3):
            added = self.type(0)
            branches.setdefault(self.key(added), added)
        if len(branches) > 1 and self.chance(5):
            del branches[self.one_of(sorted(branches))]
        mixed = self.mixed(list(branches.values()))
        return mixed[0] if len(mixed) == 1 and self.chance(4) else mixed

    def changed_enum(self, old: Json) -> Json:
        new = self.again(old)
        new["symbols"] = self.mixed(SYMBOLS)[self.random.randint(0, 4) :]
        if self.chance(2):
            new["default"] = self.one_of(new["symbols"])
        return new

    def changed_record(self, old: Json) -> Json:
        new = self.again(old)
        fields = []
        for each in old["fields"]:
            if self.chance(6):
                continue
            changed = {"name": each["name"], "type": self.evolved(each["type"])}
            if self.chance(5):
                changed = {**changed, "name": self.name("named"), "aliases": [each["name"]]}
            fields.append(changed)
        for _ in range(self.random.choice([0, 0, 1, 2])):
            fields.insert(self.random.randint(0, len(fields)), self.added_field())
        if fields and not self.plain and self.chance(3):
            self.clash(fields)
        new["fields"] = self.mixed(fields) if self.chance(3) else fields
        return new

    def clash(self, fields: list[Json]) -> None:
        """A field gets the name that another one had, the alias of another one, or a name for an alias."""
        each, other = self.one_of(fields), self.added_field()
        if "aliases" not in each:
            if isinstance(each["type"], str) and each["type"] in DEFAULTS:
                each["default"] = self.one_of(DEFAULTS[each["type"]])
                other = {**each, "name": other["name"], "aliases": [each["name"]]}
        elif self.chance(2):
            other["name"] = each["aliases"][0]
        else:
            other["aliases"] = [*each["aliases"], each["name"]][: self.random.randint(1, 2)]
        fields.insert(self.random.randint(0, len(fields)), other)

    def added_field(self) -> Json:
        kind = self.one_of(PRIMITIVES[:6] if self.plain else PRIMITIVES)
        name, default = self.name("added"), self.one_of(DEFAULTS[kind])
        if kind in ("float", "double") and not self.plain and self.chance(3):
            return {"name": name, "type": kind, "default": self.one_of(TEXT_NUMBERS)}
        wrapped = self.one_of(["as it is"] if self.plain else ["as it is", "union", "array", "record", "map"])
        if wrapped == "union":
            return {"name": name, "type": [kind, "null"] if kind != "null" else ["null", "int"], "default": default}
        if wrapped == "array":
            return {"name": name, "type": {"type": "array", "items": kind}, "default": [default, default]}
        if wrapped == "map":
            return {"name": name, "type": {"type": "map", "values": kind}, "default": {"k": default}}
        if wrapped == "record":
            fields = [{"name": "a", "type": kind}, {"name": "b", "type": "int", "default": 5}]
            of = {"type": "record", "name": self.name("Added"), "fields": fields}
            return {"name": name, "type": of, "default": {"a": default}}
        return {"name": name, "type": kind, "default": default}


def schema_pair(random: Random, *, plain: bool = False) -> tuple[AvroSchema, AvroSchema]:
    """A record and what it evolved to: not always a pair that can be resolved."""
    growing = Growing(random, plain)
    old = growing.record(3)
    if not plain and growing.chance(4):
        growing.space = "one"
    new = growing.changed(old)
    if growing.space:
        old = {**old, "namespace": "one"}
        new = {**new, "namespace": growing.one_of(["one", "one", "two"])}
        _name_leaves(new)
    return AvroSchema(json.dumps(old)), AvroSchema(json.dumps(new))


def _name_leaves(new: Json) -> None:
    """Enums and fixed get their old full names: by short names Java finds them in no union, and may take any record."""
    if isinstance(new, list):
        for branch in new:
            _name_leaves(branch)
    elif isinstance(new, dict):
        if new.get("type") in ("enum", "fixed"):
            name = new.get("aliases", [new["name"]])[0].rpartition(".")[2]
            new["aliases"] = [f"one.{name}"]
        for key in ("type", "items", "values", "fields"):
            _name_leaves(new.get(key))


def tree_of(random: Random, types: Types, of: Type, depth: int = 4) -> Tree:  # noqa: PLR0911 - one for each kind of type
    """A value of the type, as fastavro takes it."""
    known = types.definition(of)
    if isinstance(known, Primitive):
        return _leaf_of(random, known.kind)
    if isinstance(known, Enum):
        return random.randrange(len(known.symbols))
    if isinstance(known, Fixed):
        return random.randbytes(known.size)
    if isinstance(known, Record):
        return {slot(number): tree_of(random, types, each.type, depth - 1) for number, each in enumerate(known.fields)}
    if isinstance(known, Union):
        flat = [n for n, branch in enumerate(known.branches) if isinstance(types.definition(branch), Primitive | Enum)]
        branch = random.choice(flat if depth < 0 and flat else range(len(known.branches)))
        return tagged(known, branch, tree_of(random, types, known.branches[branch], depth - 1))
    size = random.choice([0, 1, 1, 2, 3]) if depth > 0 else 0
    if isinstance(known, Array):
        return [tree_of(random, types, known.items, depth - 1) for _ in range(size)]
    return [
        {KEY: _leaf_of(random, "string"), VALUE: tree_of(random, types, known.values, depth - 1)} for _ in range(size)
    ]


def _leaf_of(random: Random, kind: str) -> Tree:
    if kind in ("int", "long"):
        bits = random.randint(1, 31 if kind == "int" else 63)
        if random.randint(0, 3):
            return random.randint(-(1 << bits), (1 << bits) - 1)
        half = 1 << bits - 1  # near to where floats and doubles are rounded
        return random.choice((1, -1)) * (
            half + (half >> random.choice((1, 23, 24, 52, 53))) + random.randint(-1, 1) - 1
        )
    if kind == "string":
        return random.choice(("a", "\u00e9", "\u20ac", "\U0001f680", "\0")) * random.choice(
            (0, 1, 2, 5, 16, 63, 64, 70)
        )
    if kind == "bytes":
        return random.randbytes(random.choice((0, 1, 3, 63, 64, 200))) if random.randint(0, 1) else b"plain"
    if kind in SIZES:
        return random.randbytes(SIZES[kind])
    return random.choice((True, False)) if kind == "boolean" else None


def encoded(types: Types, of: Type, tree: Tree, blocks: Cut | None = None) -> bytes:
    """Written down from the specification. `blocks(items)` cuts a collection into (items, with a size or not)."""
    known = types.definition(of)
    if isinstance(known, Primitive):
        return _leaf(known.kind, tree)
    if isinstance(known, Enum | Fixed):
        return pack_varint(tree) if isinstance(known, Enum) else bytes(tree)
    if isinstance(known, Record):
        fields = enumerate(known.fields)
        return b"".join(encoded(types, each.type, tree[slot(number)], blocks) for number, each in fields)
    if isinstance(known, Union):
        branch, content = branch_of(tree)
        return pack_varint(branch) + encoded(types, known.branches[branch], content, blocks)
    if isinstance(known, Array):
        items = [encoded(types, known.items, item, blocks) for item in tree]
    else:
        items = [_leaf("string", each[KEY]) + encoded(types, known.values, each[VALUE], blocks) for each in tree]
    out = b""
    for part, sized in [(items, False)] if blocks is None else blocks(items):
        content = b"".join(part)
        if part:
            out += (pack_varint(-len(part)) + pack_varint(len(content)) if sized else pack_varint(len(part))) + content
    return out + b"\0"


def _leaf(kind: str, tree: Tree) -> bytes:
    if kind in ("int", "long"):
        return pack_varint(tree)
    if kind in SIZES:
        return bytes(tree)
    if kind in ("bytes", "string"):
        content: bytes = tree.encode() if kind == "string" else tree
        return pack_varint(len(content)) + content
    return b"" if kind == "null" else bytes([tree])


def blocks(random: Random) -> Cut:
    """A way to cut collections into blocks."""
    size, sized = random.randint(1, 2), random.choice((True, False))
    return lambda items: [(items[at : at + size], sized) for at in range(0, len(items), size)]


def root_of(schema: AvroSchema) -> tuple[Types, Type]:
    """(all types, the one of its values)."""
    types = types_of(schema)
    return types, types.root
