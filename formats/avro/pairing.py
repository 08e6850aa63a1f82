"""Avro's rules of resolution: which type, branch, field and symbol of the new schema stands for one of the old one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

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
        """Short names are compared, as the specification says; an alias is a full name."""
        before, after = self.writer.named[old.name], self.reader.named[new.name]
        if type(before) is not type(after):
            return False
        if isinstance(before, Fixed) and isinstance(after, Fixed) and before.size != after.size:
            return False
        return short(old.name) == short(new.name) or old.name in after.aliases or short(old.name) in after.aliases

    def branch(self, old: Type, new: Union) -> int | None:
        """The branch that reads the old type: the same type if there is one, else the first that matches.

        The specification says the first; but then an int, written with [long, int] and read with the same, would turn
        into a long. Java's Avro takes the same type first too.
        """
        return self.recall((old, new.number), lambda: self._branch(old, new))

    def _branch(self, old: Type, new: Union) -> int | None:
        name = branch_name(old)
        for number, branch in enumerate(new.branches):
            if branch_name(branch) == name and self.matches(old, branch):
                return number
        return next((number for number, branch in enumerate(new.branches) if self.matches(old, branch)), None)

    def fields(self, old: Record, new: Record) -> tuple[int | None, ...]:
        """For each new field the number of the old one that it reads; each old field is read once.

        Names go before aliases.
        """
        return self.recall((old.name, new.name), lambda: _fields(old, new))

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


def _fields(old: Record, new: Record) -> tuple[int | None, ...]:
    numbers = {each.name: number for number, each in enumerate(old.fields)}
    found = {each.name: numbers.pop(each.name) for each in new.fields if each.name in numbers}
    for wanted in new.fields:
        alias = next((alias for alias in wanted.aliases if alias in numbers), None)
        if wanted.name not in found and alias is not None:
            found[wanted.name] = numbers.pop(alias)
    return tuple(found.get(each.name) for each in new.fields)


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
