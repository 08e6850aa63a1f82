"""Pairs of schemas, by chance, of so few names that aliases meet all that they can meet."""

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from formats.avro.schema import AvroSchema

Json = Any

NAMES = {"R": "record", "S": "record", "T": "record", "E": "enum", "F": "fixed"}
SPACES = ("x", "y")
FIELDS = ("a", "b", "c", "d")


@dataclass
class _Drawing:
    random: Random
    is_new: bool
    defined: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    """Types that hold what is being drawn: in no union, they would have no end."""

    def named(self, depth: int, name: str) -> Json:
        full = f"{self.random.choice(('x', 'x', 'x', 'y'))}.{name}"
        if full in self.defined:
            return full
        self.defined.add(full)
        kind = NAMES[name]
        found: dict[str, Json] = {"type": kind, "name": full}
        if self.is_new and self.random.random() < 0.5:
            alike = [f"{space}.{other}" for space in SPACES for other in NAMES if NAMES[other] == kind]
            found["aliases"] = self.random.sample(alike, self.random.choice((1, 1, 2)))
        if kind == "record":
            names = self.random.sample(FIELDS, self.random.randint(1, 3))
            self.open.add(full)
            found["fields"] = [self.field(each, depth) for each in names]
            self.open.discard(full)
            return found
        return found | ({"symbols": ["A", "B"]} if kind == "enum" else {"size": 1})

    def field(self, name: str, depth: int) -> Json:
        found: dict[str, Json] = {"name": name, "type": self.type(depth)}
        if not self.is_new:
            return found
        if found["type"] in ("int", "long"):
            found["default"] = self.random.randint(50, 60)
        elif isinstance(found["type"], list):
            found["default"] = None
        if self.random.random() < 0.4:
            found["aliases"] = self.random.sample(FIELDS, self.random.choice((1, 1, 2)))
        return found

    def type(self, depth: int) -> Json:
        if depth == 0 or self.random.random() < 0.5:
            return self.random.choice(("int", "long")) if self.is_new else "int"
        if self.random.random() < 0.4:
            names = self.random.sample(sorted(NAMES), self.random.randint(1, 3))
            return ["null", *(self.named(depth - 1, name) for name in names)]
        found = self.named(depth - 1, self.random.choice(sorted(NAMES)))
        return "int" if isinstance(found, str) and found in self.open else found


def clashing_pair(random: Random) -> tuple[AvroSchema, AvroSchema]:
    """What wrote, and what is to read: seldom a pair that can be resolved."""
    old, new = (json.dumps(_Drawing(random, is_new).named(2, "R")) for is_new in (False, True))
    return AvroSchema(old), AvroSchema(new)
