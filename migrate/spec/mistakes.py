"""Mistakes in a spec, in words: each is named by its key, with the nearest known key for an unknown one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from migrate.errors import SpecError

NAME = r"^[a-z0-9-]+$"
VERSION = r"^\d+\.\d+(\.\d+)*$"
_EXPECTATIONS = {
    NAME: "should be lower-case letters, digits and hyphens",
    VERSION: 'should be a version, like "4.3"',
    "function": 'should be "module:function"',
    "byte_size": 'should be a size, like "512 MiB"',
    "int_parsing": "should be a whole number",
    "string_type": "should be text, in quotes",
    "tuple_type": "should be a list, in brackets",
    "path_type": "should be a path, in quotes",
    "model_type": "should be a section, with keys of its own",
}
"""Error messages in place of pydantic's own, by pattern or by the type of error."""


def spec_error(error: ValidationError, model: type[BaseModel], *, where: str, hint: str) -> SpecError:
    """The error that names every mistake in a spec, or in a section of it; `where` it was read."""
    mistakes = "\n".join(f"  - {_message(mistake, model)}" for mistake in error.errors())
    return SpecError(f"{where} has mistakes:\n{mistakes}", hint=hint)


def _message(mistake: ErrorDetails, model: type[BaseModel]) -> str:
    location = [str(part) for part in mistake["loc"]]
    where = ".".join(location) or "the spec"
    if mistake["type"] == "extra_forbidden":
        known = _known_keys(model, location[:-1])
        near = get_close_matches(location[-1], known, n=1, cutoff=0.5)
        return f"unknown key {where!r}: " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")
    if mistake["type"] == "missing":
        return f"{where!r} is missing"
    if mistake["type"] == "value_error":
        message = mistake["msg"].removeprefix("Value error, ")
        return message if where == "the spec" else f"{where}: {message}"
    kind = mistake.get("ctx", {}).get("pattern", mistake["type"])
    wanted = _EXPECTATIONS.get(kind, mistake["msg"].replace("Input should", "should", 1))
    return f"{where}: {wanted}, is {mistake['input']!r}"


def _known_keys(model: type[BaseModel], location: list[str]) -> list[str]:
    for part in location:
        field = next((field for name, field in model.model_fields.items() if part in (name, field.alias)), None)
        inner = [] if field is None else [field.annotation, *get_args(field.annotation)]
        models = [each for each in inner if isinstance(each, type) and issubclass(each, BaseModel)]
        if len(models) != 1:
            return []
        model = models[0]
    return [field.alias or name for name, field in model.model_fields.items() if name != "base_dir"]
