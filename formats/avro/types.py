"""A parsed Avro schema: its types as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Logical:
    """What a schema says that the bytes mean beyond their type, even where the specification has readers ignore it."""

    name: str
    precision: int = 0
    """0: none is given."""
    scale: int | str = 0
    """A text: what the schema has there is no number."""
    connect_scale: int | str | None = None
    """The scale that Kafka Connect keeps beside it."""

    def __str__(self) -> str:
        if self.name != "decimal":
            return self.name
        beside = "" if self.connect_scale in (None, self.scale) else f", for Connect {self.connect_scale}"
        return f"decimal({self.precision or '?'}, {self.scale}{beside})"


@dataclass(frozen=True, slots=True)
class Primitive:
    """null, boolean, int, long, float, double, bytes or string."""

    kind: str
    logical: Logical | None = None

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class Array:
    """An array: items of one type."""

    items: Type

    def __str__(self) -> str:
        return f"array of {self.items}"


@dataclass(frozen=True, slots=True)
class Map:
    """A map: values of one type by string keys."""

    values: Type

    def __str__(self) -> str:
        return f"map of {self.values}"


@dataclass(frozen=True, slots=True)
class Union:
    """A union: a value of one of several types."""

    number: int
    """The union's number in its schema, from 0."""
    branches: tuple[Type, ...]

    def __str__(self) -> str:
        return f"union of {', '.join(map(str, self.branches))}"


@dataclass(frozen=True, slots=True)
class Named:
    """A reference to a record, an enum or a fixed by its full name, also where it is defined."""

    name: str

    def __str__(self) -> str:
        return self.name


Type = Primitive | Array | Map | Union | Named


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record."""

    name: str
    type: Type
    aliases: tuple[str, ...] = ()
    default: str | None = None
    """The default as JSON text; None: the field has none."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record: fields, in the order of their bytes."""

    name: str
    aliases: tuple[str, ...]
    fields: tuple[AvroField, ...]

    def __str__(self) -> str:
        return f"record {self.name}"


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum: one of several symbols."""

    name: str
    aliases: tuple[str, ...]
    symbols: tuple[str, ...]
    default: str | None = None

    def __str__(self) -> str:
        return f"enum {self.name}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed: always `size` bytes."""

    name: str
    aliases: tuple[str, ...]
    size: int
    logical: Logical | None = None

    def __str__(self) -> str:
        return f"fixed {self.name}"


Definition = Record | Enum | Fixed


@dataclass(frozen=True, slots=True)
class Types:
    """All types of one schema."""

    root: Type
    named: Mapping[str, Definition]

    def definition(self, found: Type) -> Primitive | Array | Map | Union | Definition:
        """The type itself, or the definition that its name refers to."""
        return self.named[found.name] if isinstance(found, Named) else found

    def parts(self, whole: Type) -> tuple[Type, ...]:
        known = self.definition(whole)
        if isinstance(known, Record):
            return tuple(field.type for field in known.fields)
        if isinstance(known, Union):
            return known.branches
        if isinstance(known, Array):
            return (known.items,)
        return (known.values,) if isinstance(known, Map) else ()

    def unions(self) -> Iterator[Union]:
        parts = (part for name in self.named for part in self.parts(Named(name)))
        return (each for each in self._within(self.root, *parts) if isinstance(each, Union))

    def recursive(self) -> frozenset[str]:
        """The names of the types whose values may hold values of the same type.

        They are the cycles of who holds whom (Kosaraju): types stand here in the order in which their definitions end.
        """
        within = {
            name: {each.name for each in self._within(*self.parts(Named(name))) if isinstance(each, Named)}
            for name in self.named
        }
        around: dict[str, list[str]] = {name: [] for name in self.named}
        for name, names in within.items():
            for each in names:
                around[each].append(name)
        found: set[str] = set()
        done: set[str] = set()
        for first in reversed([*self.named]):
            cycle, left = set[str](), [first]
            while left:
                if (name := left.pop()) not in done:
                    done.add(name)
                    cycle.add(name)
                    left.extend(around[name])
            if len(cycle) > 1 or cycle & within[first]:
                found |= cycle
        return frozenset(found)

    def _within(self, *types: Type) -> Iterator[Type]:
        """These types, and what is in their arrays, maps and unions."""
        left = [*types]
        while left:
            yield (current := left.pop())
            if not isinstance(current, Named):
                left.extend(self.parts(current))
