"""The digest of a function that is given as an object: of its syntax and its values, the same in every process."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, ModuleType

from migrate.spec.function.modules import bytes_digest
from migrate.spec.function.syntax_tree import constant, parsed, tree_digest

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(...))


@dataclass(slots=True)
class Described:
    """Takes values apart into digests, and collects the modules of their code."""

    modules: set[str] = field(default_factory=set)
    """The modules of the functions and classes that were found."""
    _open: list[int] = field(default_factory=list)

    def digest(self, value: object) -> str:
        """Equal for equal values. One that cannot be taken apart gets a new one each time: never a wrong resume."""
        if id(value) in self._open:
            return f"again {len(self._open) - self._open.index(id(value))}"
        self._open.append(id(value))
        try:
            return bytes_digest("\n".join(self._parts(value)).encode())
        finally:
            self._open.pop()

    def _parts(self, value: object) -> Iterator[str]:
        kind = type(value)
        yield kind.__qualname__
        if kind in _CONSTANTS:
            yield constant(value).hex()
        elif kind in (set, frozenset):
            yield from sorted(map(self.digest, value))  # type: ignore[call-overload]  # each process has its own order
        elif kind in (list, tuple, dict):
            yield from map(self.digest, value.items() if isinstance(value, dict) else value)  # type: ignore[call-overload]
        else:
            yield from self._of_code(value)

    def _of_code(self, value: object) -> Iterator[str]:
        match value:
            case FunctionType():
                yield from self._function(value)
            case MethodType():
                yield from map(self.digest, (value.__func__, value.__self__))
            case functools.partial():
                yield from map(self.digest, (value.func, value.args, value.keywords))
            case type():
                self.modules.add(value.__module__)
                yield f"{value.__module__} {value.__qualname__}"
            case ModuleType():
                yield value.__name__
            case CodeType():
                yield from map(self.digest, (value.co_code, value.co_names, value.co_consts))
            case _:
                yield from self._object(value)

    def _function(self, function: FunctionType) -> Iterator[str]:
        self.modules.add(function.__module__)
        yield function.__qualname__
        nodes = _nodes(function)
        yield tree_digest(*nodes) if nodes else self.digest(function.__code__)
        if getattr(sys.modules.get(function.__module__), "__file__", None) is None:
            names = sorted(_names(function.__code__) & function.__globals__.keys())  # no file holds these
            yield from (self.digest((name, function.__globals__[name])) for name in names)
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        yield from map(self.digest, (function.__defaults__, function.__kwdefaults__, function.__dict__, cells))

    def _object(self, value: object) -> Iterator[str]:
        """Take an object apart as pickle does."""
        own = getattr(value, "__module__", None)  # of a cached function it is the function's, not functools'
        self.modules |= {type(value).__module__, own if isinstance(own, str) else type(value).__module__}
        if (wrapped := getattr(value, "__wrapped__", None)) is not None:
            yield self.digest(wrapped)
        try:
            made = value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 - a lock, a socket: two of them cannot be compared
            yield uuid.uuid4().hex
            return
        if isinstance(made, str):
            yield made
            return
        yield from (self.digest(list(part) if isinstance(part, Iterator) else part) for part in made)


def _is_filled(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018
    except ValueError:
        return False
    return True


def _names(code: CodeType) -> set[str]:
    inner = (_names(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*inner)


def _nodes(function: FunctionType) -> list[ast.AST]:
    """The syntax nodes that define the function: several where lambdas of one line cannot be distinguished.

    Empty where it was typed at a prompt or made by `exec`: its bytecode serves, which depends on Python's version.
    """
    try:
        lines, _ = inspect.findsource(function)
    except (OSError, TypeError, IndexError):
        return []
    tree = parsed("".join(lines).encode())
    nodes = [] if tree is None else [node for node in ast.walk(tree) if _defines(node, function.__code__)]
    return [node for node in nodes if _holds(node, function.__code__)] or nodes


def _defines(node: ast.AST, code: CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return node.lineno == code.co_firstlineno and code.co_name == "<lambda>"
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return first == code.co_firstlineno and node.name == code.co_name


def _holds(node: ast.AST, code: CodeType) -> bool:
    """Whether an instruction is from the body of this lambda; true where Python does not record columns."""
    if not isinstance(node, ast.Lambda) or node.body.end_lineno is None or node.body.end_col_offset is None:
        return True
    begin, end = (node.body.lineno, node.body.col_offset), (node.body.end_lineno, node.body.end_col_offset)
    return any(
        None not in position and begin <= (position[0], position[2]) < (position[1], position[3]) <= end
        for position in code.co_positions()
    )
