"""Python's source by its syntax tree: layout and comments do not count, and every version of Python gives the same."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Iterator
from threading import Lock

_SPELLING = {"kind", "type_comment", "type_ignores"}
"""Fields for how something was written, not for what it does."""
_PARSING = Lock()
"""Neither the filters of warnings nor the parser of Python 3.11 work in several threads."""


def parsed(source: bytes) -> ast.Module | None:
    """The syntax tree; None: the source is not Python, or nested too deeply for its parser."""
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # importing the module warns too
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def tree_digest(*trees: ast.AST) -> str:
    """The digest of the trees, in this order."""
    digest = hashlib.sha256()
    for part in _parts(list(trees)):
        digest.update(part)
    return digest.hexdigest()


def _parts(trees: list[ast.AST]) -> Iterator[bytes]:
    """The bytes to digest, found without recursion, since a long sum is a deep tree.

    A field without a value is left out, so that a field which a later Python adds changes nothing.
    """
    waiting: list[object] = [*reversed(trees)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, bytes):
            yield item
        elif isinstance(item, ast.AST):
            fields = [name for name in sorted(item._fields) if name not in _SPELLING]
            yield f"({type(item).__name__}".encode()
            waiting.append(b")")
            for name in reversed(fields):
                value = getattr(item, name, None)
                if isinstance(item, ast.JoinedStr):  # 3.12 puts empty texts between
                    value = [each for each in item.values if not isinstance(each, ast.Constant) or each.value]
                if value not in (None, []):
                    waiting += [value, f" {name}=".encode()]
        elif isinstance(item, list):
            yield b"["
            waiting.append(b"]")
            waiting += [part for each in reversed(item) for part in (b",", each)]
        else:
            yield constant(item)


def constant(value: object) -> bytes:
    """A constant or a name as bytes, unambiguous by its type and length."""
    kind = type(value).__name__
    match value:
        case bool() | None:
            text = str(value).encode()
        case int():
            text = b"%x" % value
        case float():
            text = value.hex().encode()
        case complex():
            text = f"{value.real.hex()} {value.imag.hex()}".encode()
        case str():
            text = value.encode("utf-8", "surrogatepass")
        case bytes():
            text = value
        case _:
            text = b"..."
    return f"<{kind} {len(text)}:".encode() + text + b">"


def imported_modules(tree: ast.Module, package: str) -> Iterator[str]:
    """The modules that import statements anywhere in the tree may load; `package`: the package that it belongs to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            above = parents[: max(0, len(parents) - node.level + 1)] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
