"""Loading a spec's file: reading and validation."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from migrate.errors import SpecError
from migrate.spec.mistakes import spec_error
from migrate.spec.spec import Spec


def load_spec(path: str | Path) -> Spec:
    """Read and validate a spec file: TOML in UTF-8, with the keys in docs/operations.md.

    Args:
        path: the file; relative paths in it are relative to its folder.

    Raises:
        SpecError: the file cannot be read, or has mistakes: each is named, with the nearest known key.
    """
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        hint = "name its TOML file: `stateferry init` writes one" if file.is_dir() else "check the path"
        raise SpecError(f"cannot read the spec {file}: {error.strerror}", hint=hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{file} is not valid TOML: {error}", hint="fix it there; a spec is text in UTF-8") from error
    return parse_spec(content, base_dir=file.resolve().parent, where=str(file))


def parse_spec(content: dict[str, Any], *, base_dir: Path, where: str = "the spec") -> Spec:
    """The spec of parsed TOML. Raises SpecError."""
    if "base_dir" in content:
        raise SpecError(f"{where}: unknown key 'base_dir'", hint="remove it: paths are relative to the spec file")
    try:
        return Spec.model_validate({**content, "base_dir": base_dir})
    except ValidationError as error:
        raise spec_error(error, Spec, where=where, hint="fix them and run the command again") from error
