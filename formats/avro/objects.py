"""Values as a conversion function sees them: dicts, lists, numbers and strings.

Logical types are not turned into objects of their own: a timestamp is the number that is stored, a decimal its bytes.
A union's value stands for itself wherever `write` would find its branch by it, and else as (branch, value).
"""

from __future__ import annotations

from formats.avro.marking import KEY, VALUE, Tree, branch_of, slot, tagged
from formats.avro.parsing import branch_name
from formats.avro.program import PACK, pack_number
from formats.avro.types import Array, Enum, Field, Fixed, Map, Named, Primitive, Record, Type, Types, Union
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


def to_object(types: Types, of: Type, tree: Tree) -> object:
    """Raises InvalidEntryError for a map that holds a key twice, which no dict can."""
    if isinstance(of, Primitive):
        return PACK[of.kind].unpack(tree)[0] if of.kind in PACK else tree
    if isinstance(of, Array):
        return [to_object(types, of.items, item) for item in tree]
    if isinstance(of, Map):
        return _to_dict(types, of, tree)
    if isinstance(of, Union):
        return _to_branch(types, of, tree)
    known = types.named[of.name]
    if isinstance(known, Record):
        fields = enumerate(known.fields)
        return {field.name: to_object(types, field.type, tree[slot(number)]) for number, field in fields}
    return known.symbols[tree] if isinstance(known, Enum) else tree


def _to_dict(types: Types, of: Map, tree: Tree) -> dict[str, object]:
    found: dict[str, object] = {}
    for entry in tree:
        if entry[KEY] in found:
            raise InvalidEntryError(f"a map holds the key {entry[KEY]!r} twice")
        found[entry[KEY]] = to_object(types, of.values, entry[VALUE])
    return found


def _to_branch(types: Types, of: Union, tree: Tree) -> object:
    number, content = branch_of(tree)
    value = to_object(types, of.branches[number], content)
    classes = [_class(types, branch) for branch in of.branches]
    if classes.count(classes[number]) == 1:
        return value
    chosen, _ = branch_of(to_tree(types, of, value, ""))
    return value if chosen == number else (branch_name(of.branches[number]), value)


def _class(types: Types, branch: Type) -> str:
    known = types.definition(branch)
    if isinstance(known, Primitive):
        return CLASSES[known.kind]
    if isinstance(known, Map | Record):
        return "dict"
    if isinstance(known, Array):
        return "list"
    return "str" if isinstance(known, Enum) else "bytes"


def to_tree(types: Types, of: Type, found: object, path: str) -> Tree:
    """Raises InvalidEntryError, which names the path, for an object that is not of this type."""
    if isinstance(of, Primitive):
        return _primitive(of.kind, found, path)
    if isinstance(of, Union):
        return _union(types, of, found, path)
    if isinstance(of, Named):
        return _named(types, of, found, path)
    if isinstance(of, Array) and isinstance(found, list):
        return [to_tree(types, of.items, item, f"{path}[{at}]") for at, item in enumerate(found)]
    if isinstance(of, Map) and isinstance(found, dict):
        return [
            {KEY: _primitive("string", key, path), VALUE: to_tree(types, of.values, value, f"{path}.{key}")}
            for key, value in found.items()
        ]
    raise _wrong(path, found, of)


def _primitive(kind: str, found: object, path: str) -> Tree:
    if kind in PACK and isinstance(found, float | int) and not isinstance(found, bool):
        try:
            return pack_number(kind, found)
        except OverflowError:
            raise _wrong(path, found, kind) from None
    if not _is(kind, found):
        raise _wrong(path, found, kind)
    return found


def _is(kind: str, found: object) -> bool:
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        return isinstance(found, int) and not isinstance(found, bool) and -(1 << bits) <= found < 1 << bits
    if kind == "string":
        return isinstance(found, str) and (found.isascii() or not any("\ud800" <= one <= "\udfff" for one in found))
    return isinstance(found, {"null": type(None), "boolean": bool, "bytes": bytes}.get(kind, ()))


def _named(types: Types, of: Named, found: object, path: str) -> Tree:
    known = types.named[of.name]
    if isinstance(known, Record) and isinstance(found, dict):
        return _record(types, known, found, path)
    if isinstance(known, Enum) and isinstance(found, str) and found in known.symbols:
        return known.symbols.index(found)
    if isinstance(known, Fixed) and isinstance(found, bytes) and len(found) == known.size:
        return found
    raise _wrong(path, found, known)


def _record(types: Types, of: Record, found: dict[str, object], path: str) -> Tree:
    path = path or of.name.rpartition(".")[2]
    for field in of.fields:
        if field.name not in found:
            raise InvalidEntryError(f"{path}.{field.name} is missing")
    if len(found) > len(of.fields):
        extra = next(iter(set(found) - {field.name for field in of.fields}))
        raise InvalidEntryError(f"{path}: {of} has no field {extra!r}")

    def tree(field: Field) -> Tree:
        return to_tree(types, field.type, found[field.name], f"{path}.{field.name}")

    return {slot(number): tree(field) for number, field in enumerate(of.fields)}


def _union(types: Types, of: Union, found: object, path: str) -> Tree:
    """The first branch that it fits exactly, else the first that it fits: an int may become a double."""
    if isinstance(found, tuple) and len(found) == 2:
        names = [branch_name(branch) for branch in of.branches]
        if found[0] not in names:
            raise InvalidEntryError(f"{path}: the union has no branch {found[0]!r}")
        number = names.index(found[0])
        return tagged(of, number, to_tree(types, of.branches[number], found[1], path))
    for exactly in (True, False):
        for number, branch in enumerate(of.branches):
            if exactly and _rounds(branch, found):
                continue
            try:
                return tagged(of, number, to_tree(types, branch, found, path))
            except InvalidEntryError:
                continue
    raise _wrong(path, found, of)


def _rounds(branch: Type, found: object) -> bool:
    """Whether the branch would not give the same value back."""
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
