"""Which rows are meant, in options that are all text, as Spark and SQL give them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast, get_args

from formats.serde import Serde
from formats.serdes.avro_frame import Part
from formats.serdes.registry import ALIASES
from migrate.errors import MigrationError, SpecError, did_you_mean
from migrate.queries.json_values import serialized_key
from migrate.queries.open.partition import StoreDefinition
from migrate.rows.row_source import RowSelection, RowSide, RowSource, rows_of_path, rows_of_spec
from migrate.spec.serdes import stated_serde
from migrate.spec.spec import load_spec

_OF_BOTH = ("store", "columns", "from_key", "to_key", "window_size_ms", "mode")
_OF_A_SPEC = ("spec", "side", *_OF_BOTH)
_OF_A_PATH = ("path", "format", "key", "value", *_OF_BOTH)
_MODES = ("FAILFAST", "PERMISSIVE")
_HINT = "docs/rows.md lists the options"
_SIDES = get_args(RowSide)
_KEYS_OF_A_SPEC = re.compile(r"\[source\] (path|format)\b")


def rows_of_options(given: Mapping[str, str]) -> RowSource:
    """The rows that options name: `spec`, or `path`, `store` and `format`, and what is read of them.

    Raises SpecError for an unknown option, with the nearest, for one that is missing or does not go with the others,
    and for a value that it cannot have; and the errors of `load_spec`.
    """
    options = {name.lower(): value for name, value in given.items()}
    known = _OF_A_SPEC if "spec" in options else _OF_A_PATH
    for name in options:
        if name not in known:
            raise SpecError(_unknown(name, known), hint=_HINT)
    return _of_a_spec(options) if "spec" in options else _of_a_path(options)


@contextmanager
def naming_options(given: Mapping[str, str]) -> Iterator[None]:
    """Hints name options, not the keys of a spec, where there is no spec."""
    try:
        yield
    except MigrationError as error:
        if "spec" not in map(str.lower, given):
            error.hint = _KEYS_OF_A_SPEC.sub(r"the option `\1`", error.hint)
        raise


def _unknown(name: str, known: tuple[str, ...]) -> str:
    if name in (*_OF_A_SPEC, *_OF_A_PATH):
        if name in _OF_A_SPEC:
            return f"the option {name!r} goes with `spec`, the file of a migration"
        return f"the option {name!r} goes with `path`; with `spec`, the spec says it"
    return f"unknown option {name!r}: " + did_you_mean(name, known, f"known: {', '.join(known)}")


def _of_a_spec(options: Mapping[str, str]) -> RowSource:
    side = options.get("side", "").lower()
    if side and side not in (*_SIDES, "live"):
        raise SpecError(f"side is {', '.join(_SIDES)} or live, not {side!r}", hint="without it, what is live is read")
    chosen = None if side in ("", "live") else cast(RowSide, side)
    spec, store = load_spec(options["spec"]), options.get("store")
    source = rows_of_spec(spec, store, side=chosen)
    return source.choosing(_selection(options, source.definition.key))


def _of_a_path(options: Mapping[str, str]) -> RowSource:
    missing = [name for name in ("path", "store", "format") if not options.get(name)]
    if missing:
        raise SpecError(
            f"the option {missing[0]!r} is missing",
            hint="give `path`, `store` and `format`, which `stateferry inspect PATH` shows; or `spec`, a migration's",
        )
    key, value = _serde(options, "key"), _serde(options, "value")
    definition = StoreDefinition(options["format"], key, value)
    return rows_of_path(Path(options["path"]), options["store"], definition, _selection(options, key))


def _serde(options: Mapping[str, str], part: Part) -> Serde:
    text = options.get(part, "bytes").strip()
    return stated_serde(ALIASES.get(text.lower(), text), part)


def _selection(options: Mapping[str, str], key: Serde) -> RowSelection:
    first, last = (
        None if (text := options.get(name)) is None else serialized_key(key, text) for name in ("from_key", "to_key")
    )
    mode = options.get("mode", _MODES[0]).upper()
    if mode not in _MODES:
        raise SpecError(f"mode is {' or '.join(_MODES)}, not {mode!r}", hint=_HINT)
    size = options.get("window_size_ms")
    if size is not None and not (size.isascii() and size.isdigit() and int(size) > 0):
        raise SpecError(f"window_size_ms is a number of milliseconds, not {size!r}", hint=_HINT)
    return RowSelection(
        columns=tuple(name.strip() for name in options.get("columns", "").split(",") if name.strip()),
        from_key=first,
        to_key=last,
        window_size_ms=None if size is None else int(size),
        is_permissive=mode == "PERMISSIVE",
    )
