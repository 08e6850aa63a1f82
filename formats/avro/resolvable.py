"""Why data of one schema cannot be read with another: problems, for any data, and risks, for some data."""

from __future__ import annotations

from dataclasses import dataclass, field

from formats.avro.binary import BITS
from formats.avro.defaults import default_tree
from formats.avro.matching import Pairing, meanings_differ, short
from formats.avro.program import EXACT
from formats.avro.types import Array, AvroField, Enum, Fixed, Map, Named, Primitive, Record, Type, Union
from formats.errors import SchemaError

Lost = dict[tuple[str, str], dict[int, str]]
"""Fields that are left out and symbols that become a default, in words: by the names of the old and the new type, and
the number of the field or the symbol."""


@dataclass(slots=True)
class Findings:
    """What a comparison of two schemas found. Each text begins with the path of its field."""

    problems: list[str] = field(default_factory=list)
    """Reasons why no value can be read."""
    risks: list[str] = field(default_factory=list)
    """Reasons why some values cannot be read."""
    meanings: list[str] = field(default_factory=list)
    """Logical types that differ: of `problems` those that a function may overlook, since the bytes fit."""
    lost: Lost = field(default_factory=dict)

    @property
    def losses(self) -> tuple[str, ...]:
        """What old values may hold and new ones cannot: fields that are left out, symbols that become a default."""
        return tuple(text for parts in self.lost.values() for text in parts.values())


def compare(pairing: Pairing) -> Findings:
    """Compare every part of both schemas."""
    root = pairing.writer.root
    comparison = _SchemaComparison(pairing)
    comparison.types(root, pairing.reader.root, short(root.name) if isinstance(root, Named) else str(root))
    return comparison.findings


@dataclass(slots=True)
class _SchemaComparison:
    pairing: Pairing
    findings: Findings = field(default_factory=Findings)
    seen: set[tuple[str, str]] = field(default_factory=set)

    def types(self, old: Type, new: Type, path: str) -> None:
        if isinstance(old, Union):
            self._old_union(old, new, path)
        elif isinstance(new, Union):
            self._new_union(old, new, path)
        elif isinstance(old, Array) and isinstance(new, Array):
            self.types(old.items, new.items, f"{path}[]")
        elif isinstance(old, Map) and isinstance(new, Map):
            self.types(old.values, new.values, f"{path}{{}}")
        elif not self.pairing.matches(old, new):
            self._unlike(old, new, path)
        elif isinstance(old, Named) and isinstance(new, Named):
            self._named(old, new, path)
        elif isinstance(old, Primitive) and isinstance(new, Primitive):
            self._primitives(old, new, path)

    def _primitives(self, old: Primitive, new: Primitive, path: str) -> None:
        if old.kind in BITS and BITS[old.kind] > EXACT.get(new.kind, BITS[old.kind]):
            self.findings.risks.append(f"{path}: numbers that a {new.kind} cannot hold exactly")
        if meanings_differ(old.logical, new.logical):
            self._mean_other(old.logical, new.logical, path)

    def _old_union(self, old: Union, new: Type, path: str) -> None:
        """A branch without a match is a risk; a problem, where no branch but null has one."""
        lost = [branch for branch in old.branches if not self._reads(branch, new)]
        left = [branch for branch in old.branches if branch not in lost]
        if lost and not [branch for branch in left if str(branch) != "null"]:
            self._unlike(old, new, path)
            return
        self.findings.risks.extend(
            f"{path}: a value of {self._shown(each)} has no place in the new schema" for each in lost
        )
        for branch in left:
            self.types(branch, new, path)

    def _new_union(self, old: Type, new: Union, path: str) -> None:
        branch = self.pairing.branch(old, new)
        if branch is None:
            self._unlike(old, new, path)
        else:
            self.types(old, new.branches[branch], path)

    def _reads(self, old: Type, new: Type) -> bool:
        if isinstance(new, Union):
            return self.pairing.branch(old, new) is not None
        return self.pairing.matches(old, new)

    def _named(self, old: Named, new: Named, path: str) -> None:
        if (old.name, new.name) in self.seen:
            return
        self.seen.add((old.name, new.name))
        before, after = self.pairing.writer.named[old.name], self.pairing.reader.named[new.name]
        if isinstance(before, Fixed) and isinstance(after, Fixed):
            if meanings_differ(before.logical, after.logical):
                self._mean_other(before.logical, after.logical, path)
        elif isinstance(before, Enum) and isinstance(after, Enum):
            self._enums(before, after, path)
        elif isinstance(before, Record) and isinstance(after, Record):
            self._records(before, after, path)

    def _enums(self, old: Enum, new: Enum, path: str) -> None:
        found, known = self.pairing.symbols(old, new), {*new.symbols}
        lost = [symbol for symbol, number in zip(old.symbols, found, strict=True) if number is None]
        if len(lost) == len(found):
            self.findings.problems.append(f"{path}: no symbol of {old} is one of {new}")
        else:
            self.findings.risks.extend(f"{path}: the symbol {symbol} has no place in the new schema" for symbol in lost)
            self.findings.lost[old.name, new.name] = {
                number: f"the symbol {symbol} of {path} becomes {new.default}"
                for number, symbol in enumerate(old.symbols)
                if symbol not in known and found[number] is not None
            }

    def _records(self, old: Record, new: Record, path: str) -> None:
        kept = self.pairing.fields(old, new)
        numbers = {*kept}
        self.findings.lost[old.name, new.name] = {
            number: f"the field {path}.{each.name} is left out"
            for number, each in enumerate(old.fields)
            if number not in numbers and str(each.type) != "null"
        }
        for wanted, number in zip(new.fields, kept, strict=True):
            where = f"{path}.{wanted.name}"
            if number is not None:
                self.types(old.fields[number].type, wanted.type, where)
            elif lost := self._lost(wanted, old, new):
                self.findings.problems.append(
                    f"{where}: the old field {lost} would be lost, for aliases match full names, and the old record "
                    f"is {self.pairing.renaming.type(old.name)}, the new one {new.name}: give the new record that alias"
                )
            elif wanted.default is None:
                self.findings.problems.append(f"{where}: the old schema has no such field, and there is no default")
            else:
                self._default(wanted, where)

    def _lost(self, wanted: AvroField, old: Record, new: Record) -> str | None:
        """The old field that the new one means, where Java's Avro would take the default."""
        if self.pairing.renaming.type(old.name) == new.name:
            return None
        return next((each.name for each in old.fields if each.name in (wanted.name, *wanted.aliases)), None)

    def _default(self, wanted: AvroField, where: str) -> None:
        try:
            default_tree(self.pairing.reader, wanted)
        except SchemaError as error:
            self.findings.problems.append(f"{where}: {error}")

    def _unlike(self, old: Type, new: Type, path: str) -> None:
        before, after = self._shown(old), str(self.pairing.reader.definition(new))
        self.findings.problems.append(f"{path}: {before} cannot be read as {after}")

    def _shown(self, old: Type) -> str:
        return str(self.pairing.writer.definition(old))

    def _mean_other(self, old: object, new: object, path: str) -> None:
        self.findings.meanings.append(f"{path}: {old} becomes {new}")
        self.findings.problems.append(
            f"{path}: {old} cannot be read as {new}: Avro would keep the bytes, and they would mean something else"
        )
