"""Signatures of public functions as text, and what their docstrings say of parameters and errors."""

import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any

NOT_CONSTRUCTED = (
    "DualReadStore",
    "InStore",
    "KeyValueView",
    "Placement",
    "QueryIterator",
    "QueryableStoreType",
    "QueryableStores",
    "ReadHandle",
    "Records",
    "RocksStore",
    "SessionView",
    "StatedHosts",
    "StateStore",
    "TypedRecords",
    "VersionedView",
    "WindowView",
)
"""Classes whose objects come from a function: their `__init__` is no part of the interface."""
_ENTRIES = re.compile(r"^(Args|Raises):\n((?:    .*\n?|\n)+)", flags=re.MULTILINE)
_LONGEST = 100


def arguments_and_errors(function: Callable[..., object]) -> tuple[dict[str, str], dict[str, str]]:
    """What the docstring says of each parameter, and of each error that the function raises."""
    found: dict[str, dict[str, str]] = {"Args": {}, "Raises": {}}
    for title, block in _ENTRIES.findall(inspect.getdoc(function) or ""):
        for entry in re.split(r"\n    (?=\w)", f"\n{block.rstrip()}")[1:]:
            name, _, text = entry.partition(": ")
            found[title][name] = " ".join(text.split())
    return found["Args"], found["Raises"]


def summary(function: Callable[..., object]) -> str:
    """The docstring without its parameters and errors."""
    return _ENTRIES.sub("", inspect.getdoc(function) or "").strip()


def signature(function: Callable[..., object], name: str) -> str:
    """`name(parameters) -> result`, on several lines where it is long."""
    parameters, result = parameters_of(function), result_of(function)
    line = f"{name}({', '.join(parameters)}){result}"
    if len(line) <= _LONGEST:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in parameters), f"){result}"])


def result_of(function: Callable[..., object]) -> str:
    """` -> result`; empty for a function without one."""
    hint = typing.get_type_hints(function).get("return", type(None))
    return "" if hint is type(None) else f" -> {in_code(hint)}"


def parameters_of(function: Callable[..., object]) -> list[str]:
    """The parameters as code, `self` and `cls` left out."""
    hints, parts = typing.get_type_hints(function), []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if name not in ("self", "cls"):
            stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
            parts.append(f"{stars}{name}: {in_code(hints[name])}{_default(parameter.default)}")
    return parts


def _default(default: object) -> str:
    if default is inspect.Parameter.empty:
        return ""
    if callable(default):
        return " = ..."
    return f" = {default!r}" if isinstance(default, str | int | float | None) else f' = "{default}"'


def in_code(hint: Any) -> str:  # noqa: ANN401 - any annotation
    """A type as code, without the names of modules."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, list):  # the parameters of a Callable
        return f"[{', '.join(map(in_code, hint))}]"
    if origin in (typing.Required, typing.Annotated):
        return in_code(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(in_code, arguments))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    name = str(getattr(origin or hint, "__name__", hint))
    name = {"NoneType": "None", "Ellipsis": "..."}.get(name, name)
    return f"{name}[{', '.join(map(in_code, arguments))}]" if arguments else name
