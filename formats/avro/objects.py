"""Values as a conversion function sees them: dicts, lists, numbers and strings.

Logical types are not turned into objects of their own: a timestamp is the number that is stored, a decimal its bytes.
A union's value stands for itself wherever `write` would find its branch by it, and else as (branch, value).
"""

from __future__ import annotations

from formats.avro.binary import PACK
from formats.avro.fastavro_tree import KEY, VALUE, Tree, branch_of, primitive_tree, slot, tagged
from formats.avro.parsing import branch_name
from formats.avro.program import EXACT, is_exact
from formats.avro.types import Array, AvroField, Enum, Fixed, Map, Named, Primitive, Record, Type, Types, Union
from formats.errors import InvalidEntryError

CLASSES = {
    "null": "none",
    "boolean": "bool",
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "bytes": "bytes",
    "string": "str",
}


class ToObject:
    """Turns a tree into an object. Raises InvalidEntryError for a map that holds a key twice, which a dict cannot."""

    __slots__ = ("_to_tree", "types")

    def __init__(self, types: Types) -> None:
        self.types = types
        self._to_tree = ToTree(types)

    def of(self, of: Type, tree: Tree) -> object:
        if isinstance(of, Primitive):
            return PACK[of.kind].unpack(tree)[0] if of.kind in PACK else tree
        if isinstance(of, Array):
            return [self.of(of.items, item) for item in tree]
        if isinstance(of, Map):
            return self._dict(of, tree)
        if isinstance(of, Union):
            return self._branch(of, tree)
        known = self.types.named[of.name]
        if isinstance(known, Record):
            fields = enumerate(known.fields)
            return {field.name: self.of(field.type, tree[slot(number)]) for number, field in fields}
        return known.symbols[tree] if isinstance(known, Enum) else tree

    def _dict(self, of: Map, tree: Tree) -> dict[str, object]:
        found: dict[str, object] = {}
        for entry in tree:
            if entry[KEY] in found:
                raise InvalidEntryError(f"a map holds the key {entry[KEY]!r} twice")
            found[entry[KEY]] = self.of(of.values, entry[VALUE])
        return found

    def _branch(self, of: Union, tree: Tree) -> object:
        number, content = branch_of(tree)
        value = self.of(of.branches[number], content)
        classes = [_class(self.types, branch) for branch in of.branches]
        if classes.count(classes[number]) == 1:
            return value
        chosen, _ = branch_of(self._to_tree.of(of, value))
        return value if chosen == number else (branch_name(of.branches[number]), value)


class ToTree:
    """Turns an object into a tree. Raises InvalidEntryError, with the path, for an object that is not of the type."""

    __slots__ = ("_chosen", "types")

    def __init__(self, types: Types) -> None:
        self.types = types
        self._chosen: dict[tuple[int, int], tuple[object, Tree | InvalidEntryError]] = {}
        """Trees or errors by union and value: trying again at each level would take exponential time."""

    def of(self, of: Type, found: object, path: str = "") -> Tree:
        if isinstance(of, Primitive):
            return _primitive(of.kind, found, path)
        if isinstance(of, Union):
            return self._union(of, found, path)
        if isinstance(of, Named):
            return self._named(of, found, path)
        if isinstance(of, Array) and isinstance(found, list):
            return [self.of(of.items, item, f"{path}[{at}]") for at, item in enumerate(found)]
        if isinstance(of, Map) and isinstance(found, dict):
            return [
                {KEY: _primitive("string", key, path), VALUE: self.of(of.values, value, f"{path}.{key}")}
                for key, value in found.items()
            ]
        raise _wrong(path, found, of)

    def _named(self, of: Named, found: object, path: str) -> Tree:
        known = self.types.named[of.name]
        if isinstance(known, Record) and isinstance(found, dict):
            return self._record(known, found, path)
        if isinstance(known, Enum) and isinstance(found, str) and found in known.symbols:
            return known.symbols.index(found)
        if isinstance(known, Fixed) and isinstance(found, bytes) and len(found) == known.size:
            return found
        raise _wrong(path, found, known)

    def _record(self, of: Record, found: dict[str, object], path: str) -> Tree:
        path = path or of.name.rpartition(".")[2]
        for each in of.fields:
            if each.name not in found:
                raise InvalidEntryError(f"{path}.{each.name} is missing")
        if len(found) > len(of.fields):
            extra = next(iter(set(found) - {each.name for each in of.fields}))
            raise InvalidEntryError(f"{path}: {of} has no field {extra!r}")

        def tree(each: AvroField) -> Tree:
            return self.of(each.type, found[each.name], f"{path}.{each.name}")

        return {slot(number): tree(each) for number, each in enumerate(of.fields)}

    def _union(self, of: Union, found: object, path: str) -> Tree:
        if isinstance(found, tuple) and len(found) == 2:
            names = [branch_name(branch) for branch in of.branches]
            if found[0] not in names:
                raise InvalidEntryError(f"{path}: the union has no branch {found[0]!r}")
            number = names.index(found[0])
            return tagged(of, number, self.of(of.branches[number], found[1], path))
        if not isinstance(found, dict | list):
            return self._first_branch(of, found, path)
        key = of.number, id(found)
        known = self._chosen.get(key)
        if known is None:
            try:
                known = found, self._first_branch(of, found, path)
            except InvalidEntryError as error:
                known = found, error
            self._chosen[key] = known
        if isinstance(known[1], InvalidEntryError):
            raise known[1]
        return known[1]

    def _first_branch(self, of: Union, found: object, path: str) -> Tree:
        """The tree in the first branch that fits exactly, else in the first that fits: an int may become a double."""
        for exactly in (True, False):
            for number, branch in enumerate(of.branches):
                if exactly and _rounds(branch, found):
                    continue
                try:
                    return tagged(of, number, self.of(branch, found, path))
                except InvalidEntryError:
                    continue
        raise _wrong(path, found, of)


def _class(types: Types, branch: Type) -> str:
    known = types.definition(branch)
    if isinstance(known, Primitive):
        return CLASSES[known.kind]
    if isinstance(known, Map | Record):
        return "dict"
    if isinstance(known, Array):
        return "list"
    return "str" if isinstance(known, Enum) else "bytes"


def _primitive(kind: str, found: object, path: str) -> Tree:
    if kind in EXACT and isinstance(found, int) and not is_exact(kind, found):
        raise InvalidEntryError(f"{path or 'the value'}: a {kind} cannot hold {found} exactly")
    try:
        return primitive_tree(kind, found)
    except ValueError:
        raise _wrong(path, found, kind) from None


def _rounds(branch: Type, found: object) -> bool:
    """Whether the branch would not return the same value."""
    if not isinstance(branch, Primitive) or branch.kind not in PACK:
        return False
    if not isinstance(found, float):
        return True
    try:
        back = PACK[branch.kind].unpack(PACK[branch.kind].pack(found))[0]
    except OverflowError:
        return True
    return bool(back != found and found == found)  # noqa: PLR0124 - NaN is not equal to itself


def _wrong(path: str, found: object, of: object) -> InvalidEntryError:
    shown = repr(found)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return InvalidEntryError(f"{path or 'the value'}: {shown} is not of the type {of}")
