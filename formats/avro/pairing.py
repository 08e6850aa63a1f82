"""Avro's rules of resolution: which type, branch, field and symbol of the new schema stands for one of the old one."""

from __future__ import annotations

from dataclasses import dataclass

from formats.avro.types import Array, Enum, Fixed, Logical, Map, Named, Primitive, Record, Type, Types, Union

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
        """The branch that reads the old type: the one of the same full name, else the first one that matches."""
        if isinstance(old, Named) and old in new.branches and self.matches(old, old):
            return new.branches.index(old)
        return next((number for number, branch in enumerate(new.branches) if self.matches(old, branch)), None)

    def fields(self, old: Record, new: Record) -> tuple[int | None, ...]:
        """For each new field the number of the old one that it reads; each old field is read once.

        Names go before aliases.
        """
        numbers = {field.name: number for number, field in enumerate(old.fields)}
        found = {field.name: numbers.pop(field.name) for field in new.fields if field.name in numbers}
        for field in new.fields:
            alias = next((alias for alias in field.aliases if alias in numbers), None)
            if field.name not in found and alias is not None:
                found[field.name] = numbers.pop(alias)
        return tuple(found.get(field.name) for field in new.fields)

    def symbols(self, old: Enum, new: Enum) -> tuple[int | None, ...]:
        """For each old symbol the number of the new one; None: the new enum has neither it nor a default."""
        default = None if new.default is None else new.symbols.index(new.default)
        return tuple(new.symbols.index(symbol) if symbol in new.symbols else default for symbol in old.symbols)


def short(name: str) -> str:
    """Without its namespace."""
    return name.rpartition(".")[2]


def meanings_differ(old: Logical | None, new: Logical | None) -> bool:
    """Whether the same bytes would mean something else. A decimal may get more digits, but no other scale."""
    if old is None or new is None:
        return False
    return (old.name, old.scale) != (new.name, new.scale) or old.precision > new.precision
