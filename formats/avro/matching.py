"""Which type of the reader's schema reads each type of the writer's: by alias, by name, by branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from formats.avro.parsing import branch_name, first_twice
from formats.avro.types import (
    Array,
    Definition,
    Enum,
    Fixed,
    Logical,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Types,
    Union,
)
from formats.errors import UnresolvableSchemasError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Renaming:
    """The new names of the old schema's types and fields."""

    types: Mapping[str, str] = field(default_factory=dict)
    """New full names by old ones, of the renamed types."""
    fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """New names of fields by old ones, by the old name of their record."""

    def type(self, name: str) -> str:
        return self.types.get(name, name)

    def field(self, record: str, name: str) -> str:
        return self.fields.get(record, {}).get(name, name)


def find_renaming(writer: Types, reader: Types) -> Renaming:
    """What the aliases of `reader` rename. Raises UnresolvableSchemasError where they are ambiguous."""
    aliases = _Aliases(reader)
    aliases.collect(reader.root)
    if not (aliases.names or aliases.fields) or _without_aliases(writer) == _without_aliases(reader):
        return Renaming()
    names = {name: aliases.names[name] for name in writer.named if name in aliases.names}
    fields = {name: aliases.fields.get(names.get(name, name), {}) for name in writer.named}
    renaming = Renaming(names, fields)
    problems = [*_mixed(aliases, writer, renaming), *_renamed_twice(aliases, writer, renaming)]
    problems += _fields_with_one_name(writer, renaming)
    problems += _branches_with_one_name(writer, renaming)
    if problems:
        raise UnresolvableSchemasError(tuple(problems))
    return renaming


@dataclass(slots=True)
class _Aliases:
    reader: Types
    names: dict[str, str] = field(default_factory=dict)
    fields: dict[str, dict[str, str]] = field(default_factory=dict)
    """New names of fields by old ones, by the new name of their record."""
    in_java: dict[str, dict[str, str]] = field(default_factory=dict)
    """The same in Java's reader, which mixes two records where an alias of one is the name of the other."""
    seen: set[str] = field(default_factory=set)

    def collect(self, of: Type) -> None:
        known = self.reader.definition(of)
        if isinstance(of, Named) and isinstance(known, Definition):
            self.names.update(dict.fromkeys(known.aliases, known.name))
        if isinstance(known, Record):
            self._record(known)
            return
        for part in self.reader.parts(of):
            self.collect(part)

    def _record(self, record: Record) -> None:
        if record.name in self.seen:
            return
        self.seen.add(record.name)
        for each in record.fields:
            for found in (self.fields, self.in_java) if each.aliases else ():
                found.setdefault(record.name, {}).update(dict.fromkeys(each.aliases, each.name))
            self.collect(each.type)
        if record.name in self.in_java:
            self.in_java.update(dict.fromkeys(record.aliases, self.in_java[record.name]))


def _without_aliases(types: Types) -> Types:
    named: dict[str, Definition] = {name: replace(known, aliases=()) for name, known in types.named.items()}
    for name, known in named.items():
        if isinstance(known, Record):
            named[name] = replace(known, fields=tuple(replace(each, aliases=()) for each in known.fields))
    return Types(types.root, named)


def _mixed(aliases: _Aliases, writer: Types, renaming: Renaming) -> Iterator[str]:
    for name in sorted({renaming.type(name) for name in writer.named}):
        if aliases.fields.get(name) != aliases.in_java.get(name):
            yield (
                f"{name} and another record of the new schema have one's name among the other's aliases: Java's Avro "
                "mixes up the aliases of their fields, so give those none"
            )


def _renamed_twice(aliases: _Aliases, writer: Types, renaming: Renaming) -> Iterator[str]:
    """Java's reader applies all aliases twice, so that an alias of what an alias renames would count too."""
    twice = "is an alias too: by the specification it stays {}, and in Java it becomes {}"
    for old, new in renaming.types.items():
        if (last := aliases.names.get(new, new)) != new:
            yield f"{old} becomes {new} by an alias, which {twice.format(new, last)}"
    for record in writer.named.values():
        for each in record.fields if isinstance(record, Record) else ():
            new = renaming.field(record.name, each.name)
            if (last := renaming.field(record.name, new)) != new:
                yield f"{record.name}.{each.name} becomes {new} by an alias, which {twice.format(new, last)}"


def _fields_with_one_name(writer: Types, renaming: Renaming) -> Iterator[str]:
    for record in writer.named.values():
        first: dict[str, str] = {}
        for each in record.fields if isinstance(record, Record) else ():
            name = renaming.field(record.name, each.name)
            if first.setdefault(name, each.name) != each.name:
                yield f"{record.name}: the old fields {first[name]} and {each.name} both become {name}, by an alias"


def _branches_with_one_name(writer: Types, renaming: Renaming) -> Iterator[str]:
    for union in writer.unions():
        names = [renaming.type(branch_name(each)) for each in union.branches]
        if (twice := first_twice(names)) is not None:
            yield f"two branches of the old {union} both become {twice}, by an alias"


PROMOTIONS = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
"""The primitive types that may read another one, by the writer's type."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """The writer's and the reader's schema, and how the types of one match those of the other."""

    writer: Types
    reader: Types
    renaming: Renaming = field(default_factory=Renaming)
    _made: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Results by key, for the reference path needs them for every value."""

    def matches(self, old: Type, new: Type) -> bool:
        """Whether the new type can read the old one, regardless of what records hold."""
        if isinstance(old, Union) or isinstance(new, Union):
            return True
        if isinstance(old, Array) and isinstance(new, Array):
            return self.matches(old.items, new.items)
        if isinstance(old, Map) and isinstance(new, Map):
            return self.matches(old.values, new.values)
        if isinstance(old, Primitive) and isinstance(new, Primitive):
            return old.kind == new.kind or new.kind in PROMOTIONS.get(old.kind, ())
        return isinstance(old, Named) and isinstance(new, Named) and self._names_match(old, new)

    def _names_match(self, old: Named, new: Named) -> bool:
        """Whether short names match, as the specification says: the old type's own, or the one by an alias."""
        before, after = self.writer.named[old.name], self.reader.named[new.name]
        if type(before) is not type(after):
            return False
        if isinstance(before, Fixed) and isinstance(after, Fixed) and before.size != after.size:
            return False
        return short(new.name) in (short(self.renaming.type(old.name)), short(old.name))

    def branch(self, old: Type, new: Union) -> int | None:
        """The branch that reads the old type: the same type if there is one, else the first that matches.

        The specification says the first; but then an int, written and read with [long, int], would become a long.
        Java's Avro prefers the same type too.
        """
        return self.recall((old, new.number), lambda: self._branch(old, new))

    def _branch(self, old: Type, new: Union) -> int | None:
        found = [number for number, branch in enumerate(new.branches) if self.matches(old, branch)]
        if isinstance(old, Named):
            return self._named_branch(old, new, found)
        same = (number for number in found if branch_name(new.branches[number]) == branch_name(old))
        return next(same, found[0] if found else None)

    def _named_branch(self, old: Named, new: Union, found: list[int]) -> int | None:
        """The branch with the full name that aliases give, else, as in Java, the last one with the short name."""
        name = self.renaming.type(old.name)
        names = {number: branch_name(new.branches[number]) for number in found}
        full = [number for number in found if names[number] == name]
        alike = [number for number in found if short(names[number]) == short(name)]
        return next(reversed(full or alike or (found if len(found) == 1 else [])), None)

    def fields(self, old: Record, new: Record) -> tuple[int | None, ...]:
        """For each new field the number of the old field that it reads, or None."""
        return self.recall((old.name, new.name), lambda: self._fields(old, new))

    def _fields(self, old: Record, new: Record) -> tuple[int | None, ...]:
        numbers = {self.renaming.field(old.name, each.name): number for number, each in enumerate(old.fields)}
        return tuple(numbers.get(each.name) for each in new.fields)

    def symbols(self, old: Enum, new: Enum) -> tuple[int | None, ...]:
        """For each old symbol the number of the new one; None: the new enum has neither it nor a default."""
        return self.recall((old.name, new.name), lambda: _symbols(old, new))

    def recall(self, key: object, make: Callable[[], T]) -> T:
        try:
            found: T = self._made[key]
        except KeyError:
            found = self._made[key] = make()
        return found


def pair(writer: Types, reader: Types) -> Pairing:
    """The pairing of two schemas by the reader's aliases. Raises UnresolvableSchemasError."""
    return Pairing(writer, reader, find_renaming(writer, reader))


def _symbols(old: Enum, new: Enum) -> tuple[int | None, ...]:
    numbers = {symbol: number for number, symbol in enumerate(new.symbols)}
    default = None if new.default is None else numbers[new.default]
    return tuple(numbers.get(symbol, default) for symbol in old.symbols)


def short(name: str) -> str:
    """A full name without its namespace."""
    return name.rpartition(".")[2]


def meanings_differ(old: Logical | None, new: Logical | None) -> bool:
    """Whether the same bytes would mean something else. A decimal may get more digits, but no other scale."""
    if old is None or new is None:
        return False
    differ_for_connect = None not in (old.connect_scale, new.connect_scale) and old.connect_scale != new.connect_scale
    has_fewer_digits = 0 < new.precision < old.precision
    return (old.name, old.scale) != (new.name, new.scale) or differ_for_connect or has_fewer_digits
