"""Loading a spec's file: reading, validation, error messages."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from migrate.errors import SpecError
from migrate.spec.spec import EXPECTATIONS, Spec


def load_spec(path: str | Path) -> Spec:
    """Read and validate a spec file. Raises SpecError, which names every mistake and the nearest known key."""
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"cannot read the spec {file}: {error.strerror}", hint="check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{file} is not valid TOML: {error}", hint="fix it there; a spec is text in UTF-8") from error
    return parse_spec(content, base_dir=file.resolve().parent, where=str(file))


def parse_spec(content: dict[str, Any], *, base_dir: Path, where: str = "the spec") -> Spec:
    """The spec of parsed TOML. Raises SpecError."""
    if "base_dir" in content:
        raise SpecError(f"{where}: unknown key 'base_dir'", hint="remove it: paths are relative to the spec file")
    try:
        spec = Spec.model_validate({**content, "base_dir": base_dir})
    except ValidationError as error:
        mistakes = "\n".join(f"  - {_message(mistake)}" for mistake in error.errors())
        raise SpecError(f"{where} has mistakes:\n{mistakes}", hint="fix them and run the command again") from error
    for path in (spec.home, spec.source_path, spec.target_path):
        if path is not None and not _is_text(path):
            raise SpecError(
                f"the path {str(path)!r} is not UTF-8, which the ledger and reports are written in",
                hint="rename that directory",
            )
    return spec


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _message(mistake: ErrorDetails) -> str:
    location = [str(part) for part in mistake["loc"]]
    where = ".".join(location) or "the spec"
    if mistake["type"] == "extra_forbidden":
        known = _known_keys(location[:-1])
        near = get_close_matches(location[-1], known, n=1, cutoff=0.5)
        return f"unknown key {where!r}: " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")
    if mistake["type"] == "missing":
        return f"{where!r} is missing"
    if mistake["type"] == "value_error":
        message = mistake["msg"].removeprefix("Value error, ")
        return message if where == "the spec" else f"{where}: {message}"
    kind = mistake.get("ctx", {}).get("pattern", mistake["type"])
    wanted = EXPECTATIONS.get(kind, mistake["msg"].replace("Input should", "should", 1))
    return f"{where}: {wanted}, is {mistake['input']!r}"


def _known_keys(location: list[str]) -> list[str]:
    model: type[BaseModel] = Spec
    for part in location:
        field = next((field for name, field in model.model_fields.items() if part in (name, field.alias)), None)
        inner = [] if field is None else [field.annotation, *get_args(field.annotation)]
        models = [each for each in inner if isinstance(each, type) and issubclass(each, BaseModel)]
        if len(models) != 1:
            return []
        model = models[0]
    return [field.alias or name for name, field in model.model_fields.items() if name != "base_dir"]
