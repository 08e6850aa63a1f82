"""Avro's rules of resolution: which type, branch, field and symbol of the new schema stands for one of the old one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from formats.avro.aliases import Renaming, find_renaming
from formats.avro.parsing import branch_name
from formats.avro.types import Array, Enum, Fixed, Logical, Map, Named, Primitive, Record, Type, Types, Union

T = TypeVar("T")

PROMOTIONS = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


@dataclass(frozen=True, slots=True)
class Pairing:
    """The schema that wrote the values, and the one that is to read them."""

    writer: Types
    reader: Types
    renaming: Renaming = field(default_factory=Renaming)
    _made: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was worked out once, for the reference path asks for it with every value."""

    def matches(self, old: Type, new: Type) -> bool:
        """Whether the rules pair these two at all; what is inside of records is not looked at."""
        if isinstance(old, Union) or isinstance(new, Union):
            return True
        if isinstance(old, Array) and isinstance(new, Array):
            return self.matches(old.items, new.items)
        if isinstance(old, Map) and isinstance(new, Map):
            return self.matches(old.values, new.values)
        if isinstance(old, Primitive) and isinstance(new, Primitive):
            return old.kind == new.kind or (old.kind, new.kind) in PROMOTIONS
        return isinstance(old, Named) and isinstance(new, Named) and self._names_match(old, new)

    def _names_match(self, old: Named, new: Named) -> bool:
        """Short names are compared, as the specification says: that which an alias gives, and its own."""
        before, after = self.writer.named[old.name], self.reader.named[new.name]
        if type(before) is not type(after):
            return False
        if isinstance(before, Fixed) and isinstance(after, Fixed) and before.size != after.size:
            return False
        return short(new.name) in (short(self.renaming.type(old.name)), short(old.name))

    def branch(self, old: Type, new: Union) -> int | None:
        """The branch that reads the old type: the same type if there is one, else the first that matches.

        The specification says the first; but then an int, written with [long, int] and read with the same, would turn
        into a long. Java's Avro takes the same type first too.
        """
        return self.recall((old, new.number), lambda: self._branch(old, new))

    def _branch(self, old: Type, new: Union) -> int | None:
        found = [number for number, branch in enumerate(new.branches) if self.matches(old, branch)]
        if isinstance(old, Named):
            return self._named_branch(old, new, found)
        same = (number for number in found if branch_name(new.branches[number]) == branch_name(old))
        return next(same, found[0] if found else None)

    def _named_branch(self, old: Named, new: Union, found: list[int]) -> int | None:
        """The branch of the full name that aliases give, else, as Java has it, the last one of the short name."""
        name = self.renaming.type(old.name)
        names = {number: branch_name(new.branches[number]) for number in found}
        full = [number for number in found if names[number] == name]
        alike = [number for number in found if short(names[number]) == short(name)]
        return next(reversed(full or alike or (found if len(found) == 1 else [])), None)

    def fields(self, old: Record, new: Record) -> tuple[int | None, ...]:
        """For each new field the number of the old one that it reads."""
        return self.recall((old.name, new.name), lambda: self._fields(old, new))

    def _fields(self, old: Record, new: Record) -> tuple[int | None, ...]:
        numbers = {self.renaming.field(old.name, each.name): number for number, each in enumerate(old.fields)}
        return tuple(numbers.get(each.name) for each in new.fields)

    def symbols(self, old: Enum, new: Enum) -> tuple[int | None, ...]:
        """For each old symbol the number of the new one; None: the new enum has neither it nor a default."""
        return self.recall((old.name, new.name), lambda: _symbols(old, new))

    def recall(self, key: object, make: Callable[[], T]) -> T:
        """What was made under this key before, or is now."""
        try:
            found: T = self._made[key]
        except KeyError:
            found = self._made[key] = make()
        return found


def pair(writer: Types, reader: Types) -> Pairing:
    """The two, with the aliases of the new schema. Raises UnresolvableSchemasError."""
    return Pairing(writer, reader, find_renaming(writer, reader))


def _symbols(old: Enum, new: Enum) -> tuple[int | None, ...]:
    numbers = {symbol: number for number, symbol in enumerate(new.symbols)}
    default = None if new.default is None else numbers[new.default]
    return tuple(numbers.get(symbol, default) for symbol in old.symbols)


def short(name: str) -> str:
    """Without its namespace."""
    return name.rpartition(".")[2]


def meanings_differ(old: Logical | None, new: Logical | None) -> bool:
    """Whether the same bytes would mean something else. A decimal may get more digits, but no other scale."""
    if old is None or new is None:
        return False
    return (old.name, old.scale) != (new.name, new.scale) or old.precision > new.precision
