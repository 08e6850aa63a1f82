"""Aliases: other names that the new schema has for what the old one holds; they rename its parts.

As in Java's Avro: an alias applies wherever the old schema has the name, also where the new one uses that name again;
of two aliases for one name the last counts; where the schemas are equal none does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from formats.avro.parsing import branch_name
from formats.avro.types import Definition, Named, Record, Type, Types
from formats.errors import UnresolvableSchemasError


@dataclass(frozen=True, slots=True)
class Renaming:
    """What the new schema calls the parts of the old one."""

    types: Mapping[str, str] = field(default_factory=dict)
    """New full names by old ones, of the types that have one."""
    fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """New names of fields by old ones, by the old name of their record."""

    def type(self, name: str) -> str:
        """The full name of a type."""
        return self.types.get(name, name)

    def field(self, record: str, name: str) -> str:
        """The name of a field of a record."""
        return self.fields.get(record, {}).get(name, name)


def find_renaming(writer: Types, reader: Types) -> Renaming:
    """What the aliases of `reader` rename. Raises UnresolvableSchemasError where it is not clear what they mean."""
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
    return Types(types.root, {name: _without(known) for name, known in types.named.items()})


def _without(known: Definition) -> Definition:
    if isinstance(known, Record):
        return replace(known, aliases=(), fields=tuple(replace(each, aliases=()) for each in known.fields))
    return replace(known, aliases=())


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
        if twice := [name for name in names if names.count(name) > 1]:
            yield f"two branches of the old {union} both become {twice[0]}, by an alias"
