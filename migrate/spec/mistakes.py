"""Mistakes in a spec, in words: each is named by its key, with the nearest known key for an unknown one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from migrate.errors import SpecError, did_you_mean

NAME = r"^[a-z0-9-]+$"
TOPIC = r"^[a-zA-Z0-9._-]+$"
"""What a topic's name can be: org.apache.kafka.common.internals.Topic."""
_TOPIC_NAMES = "letters, digits, '.', '_' and '-'"
FUNCTION = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
PARTITIONER = rf"^(murmur2|crc32|{FUNCTION})$"
VERSION = r"^\d+\.\d+(\.\d+)*$"
_EXPECTATIONS = {
    NAME: "should be lower-case letters, digits and hyphens",
    TOPIC: f"should be part of a topic's name: {_TOPIC_NAMES}",
    PARTITIONER: 'should be "murmur2", "crc32" or "module:function"',
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
_WAYS = ("table", "list")
"""Not keys: which of two ways a value is given in."""


def spec_error(error: ValidationError, model: type[BaseModel], *, where: str, hint: str) -> SpecError:
    """The error that names every mistake in a spec, or in a section of it; `where` it was read."""
    mistakes = "\n".join(f"  - {_message(mistake, model)}" for mistake in error.errors())
    return SpecError(f"{where} has mistakes:\n{mistakes}", hint=hint)


_HOST_AND_PORT = re.compile(
    r"(?:(?:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?(?:\[[\w:.%]+\]|[\w.-]+):(\d{1,5})", re.IGNORECASE
)


def checked_bootstrap(text: str) -> str:
    """The text, which names brokers as librdkafka reads them. Raises ValueError for what names none."""
    for each in re.split(r" *, *", text):
        found = _HOST_AND_PORT.fullmatch(each)
        if found is None or not 0 < int(found[1]) < 1 << 16:
            raise ValueError(
                f'{each!r} is not host:port; several brokers have commas between: "kafka-1:9092,kafka-2:9092"'
            )
    return text


def check_names(store: str | None, stores: Sequence[str]) -> None:
    """Raises ValueError where a section names its stores in two ways, or one of them twice."""
    if store is not None and stores:
        raise ValueError("give `store` or `stores`, not both")
    if len(set(stores)) != len(stores):
        raise ValueError("`stores` names a store twice")


def check_new_names(old: Sequence[str], new: Sequence[str], way: str | None) -> None:
    """Raises ValueError for new names of stores that cannot be. `way`: of their changelogs; "none": not allowed."""
    if not new:
        return
    if way == "none":
        raise ValueError(
            f"[target] names a new store, {new[0]!r}, which needs a section [changelog] with `bootstrap`, the broker: "
            "its changelog is a new topic, which gets the records. Beside [target] store add two lines: [changelog], "
            'and below it bootstrap = "host:port"; or, where the application disables logging for this store, so that '
            'it has no changelog: [conversion] allow = ["changelog"]'
        )
    if way == "append":
        raise ValueError(
            '[target] names a new store, whose changelog is a new topic, and [changelog] way = "append" keeps the old '
            "topic: leave one of them out"
        )
    if len(new) != len(old):
        raise ValueError(f"[target] names {len(new)} and [source] {len(old)} stores: give each its new name, in order")
    for name in new:
        if re.fullmatch(TOPIC, name) is None or name in (".", ".."):
            raise ValueError(f"[target] names {name!r}, which cannot be part of a topic's name: {_TOPIC_NAMES}")
        if name in old:
            raise ValueError(
                f"[target] names {name!r}, as [source] does: the old store stays, so the new one needs another name; "
                'to keep the name: [changelog] way = "append"; to give it to another store: first rename this one, in '
                "a spec of its own, with stateferry finalize SPEC --delete-topic"
            )


def names_in_order(old: Sequence[str], table: Mapping[str, str]) -> tuple[str, ...]:
    """The new names that a table has for the old ones. Raises ValueError where it has not just these."""
    if unknown := sorted({*table} - {*old}):
        raise ValueError(
            f"[target] stores, not [source], names {unknown[0]!r}: "
            + did_you_mean(unknown[0], old, f"[source] names {', '.join(old) or 'no store'}")
        )
    if missing := sorted({*old} - {*table}):
        raise ValueError(
            f"[target] stores has no new name for {missing[0]!r}: a store that keeps its name needs a spec of its own"
        )
    return tuple(table[name] for name in old)


def _message(mistake: ErrorDetails, model: type[BaseModel]) -> str:
    location = [str(part) for part in mistake["loc"]]
    where = ".".join(part for part in location if part not in _WAYS) or "the spec"
    if mistake["type"] == "extra_forbidden":
        known = _known_keys(model, location[:-1])
        return f"unknown key {where!r}: " + did_you_mean(location[-1], known, f"known: {', '.join(known)}")
    if mistake["type"] == "missing":
        return f"{where!r} is missing"
    if mistake["type"] == "value_error":
        message = mistake["msg"].removeprefix("Value error, ")
        return message if where == "the spec" else f"{where}: {message}"
    kind = mistake.get("ctx", {}).get("pattern", mistake["type"])
    wanted = _EXPECTATIONS.get(kind, mistake["msg"].replace("Input should", "should", 1))
    return f"{where}: {wanted}, is {mistake['input']!r}"


def _inner(annotation: object) -> Iterator[object]:
    """The annotation, and those that it is made of."""
    yield annotation
    for each in get_args(annotation):
        yield from _inner(each)


def _known_keys(model: type[BaseModel], location: list[str]) -> list[str]:
    for part in location:
        field = next((field for name, field in model.model_fields.items() if part in (name, field.alias)), None)
        if field is None:  # an index, or which of two ways a value is given in
            continue
        models = {each for each in _inner(field.annotation) if isinstance(each, type) and issubclass(each, BaseModel)}
        if len(models) != 1:
            return []
        model = models.pop()
    return [field.alias or name for name, field in model.model_fields.items() if name != "base_dir"]
