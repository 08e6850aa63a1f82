"""Generates docs/json.md: every field of every report that `--json` prints, with its docstring."""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

import migrate
from migrate.model.reports import ProgressReport, StandingReport
from migrate.model.values import REPORT_SCHEMA, Report

INTRODUCTION = f"""# What --json prints

Every verb that reports prints one JSON document with `--json`: the report of the library function of that name. Each
has `schema_version`, which is {REPORT_SCHEMA} now. Fields may be added without a new version; one that goes, or means
something else, makes a new version. A command that fails prints an [ErrorReport](#errorreport) in its place, and its
exit code is in there too.

Bytes (keys, values) are written as hex. Paths are absolute unless noted otherwise."""
SHARED = {ProgressReport, StandingReport}
"""What several reports have in common: no verb prints it by itself."""
WORDS = {
    Any: "any JSON",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    bytes: "hex",
}


def reports() -> list[type[Report]]:
    """Every report that a verb prints, wherever it is defined."""
    for module in pkgutil.walk_packages(migrate.__path__, "migrate."):
        importlib.import_module(module.name)
    ours = {report for report in _below(Report) if report.__module__.startswith("migrate.")}
    return sorted(ours - SHARED, key=lambda report: report.__name__)


def _below(kind: type[Report]) -> Iterator[type[Report]]:
    for narrower in kind.__subclasses__():
        yield narrower
        yield from _below(narrower)


def json_page() -> str:
    parts: dict[str, type[BaseModel]] = {}
    for report in reports():
        _collect(report, parts)
    names = [report.__name__ for report in reports()]
    inner = sorted(parts.keys() - set(names))
    sections = [INTRODUCTION, "## Reports", *(_section(parts[name]) for name in names)]
    sections += ["## Parts of reports", *(_section(parts[name]) for name in inner)]
    return re.sub(r"\bNone\b", "null", "\n\n".join(sections)) + "\n"


def _collect(model: type[BaseModel], found: dict[str, type[BaseModel]]) -> None:
    if found.setdefault(model.__name__, model) is not model:
        raise AssertionError(f"two models are called {model.__name__}: their anchors would clash")
    for field in model.model_fields.values():
        for part in _models(field.annotation):
            if part.__name__ not in found or found[part.__name__] is not part:
                _collect(part, found)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - any annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _section(model: type[BaseModel]) -> str:
    descriptions = _docstrings(model)
    rows = ["| field | type | |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        rows.append(f"| `{name}` | {in_words(field.annotation)} | {descriptions.get(name, '')} |")
    return f"### {model.__name__}\n\n{_joined(model.__doc__ or '')}\n\n" + "\n".join(rows)


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The text under each field, as the code has it."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if not issubclass(kind, BaseModel) or kind is BaseModel:
            continue
        found |= own_docstrings(kind)
    return found


def own_docstrings(kind: type) -> dict[str, str]:
    """The text under each field that the class itself has."""
    found: dict[str, str] = {}
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    for field, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(field.target)] = _joined(str(text.value.value))
    return found


def _joined(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def in_words(annotation: Any) -> str:  # noqa: ANN401 - any annotation
    """A type, for a reader who knows JSON."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if each is type(None) else in_words(each) for each in arguments)
    if origin is Literal:
        return ", ".join(f"`{value!r}`".replace("'", '"') for value in arguments)
    if origin is tuple:
        parts = [in_words(each) for each in arguments if each is not Ellipsis]
        return f"list of {parts[0]}" if Ellipsis in arguments else f"[{', '.join(parts)}]"
    if origin is dict:
        return f"object: {in_words(arguments[0])} to {in_words(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    return WORDS[annotation]
