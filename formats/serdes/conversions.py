"""Whether a payload can change from one serde to another, what that may lose, and whether it keeps its order."""

from __future__ import annotations

from dataclasses import replace

from formats.avro.program import EXACT
from formats.avro.resolving import findings
from formats.avro.schema import AvroSchema, names_java_refuses, types_of
from formats.avro.types import Array, Map, Primitive, Type, Union
from formats.serde import Serde
from formats.serdes.avro_serde import AvroSerde
from formats.serdes.json_text import JsonSerde
from formats.serdes.list_serde import ListSerde
from formats.serdes.numeric import NumberSerde

_NEEDS_FUNCTION = (
    "{source} cannot be converted to {target} without a [conversion] function (it may return the record as it is)"
)


def resolving(source: Serde, target: Serde) -> Serde:
    """`source` as a conversion without a function decodes it: Avro goes straight to the target's schema, JSON stays.

    With a function it stays unchanged: the function sees each value as it was written.
    """
    if isinstance(source, AvroSerde) and isinstance(target, AvroSerde):
        return replace(source, reader=target.written[1])
    if isinstance(source, JsonSerde) and isinstance(target, JsonSerde):
        return replace(source, is_only_checked=True)
    if isinstance(source, ListSerde) and isinstance(target, ListSerde):
        return replace(source, inner=resolving(source.inner, target.inner))
    return source


def decoding(serde: Serde) -> Serde:
    """The serde, set to decode objects whatever a conversion does without them."""
    if isinstance(serde, AvroSerde):
        return replace(serde, reader=None)
    if isinstance(serde, ListSerde):
        return replace(serde, inner=decoding(serde.inner))
    return replace(serde, is_only_checked=False) if isinstance(serde, JsonSerde) else serde


def payload_problem(source: Serde, target: Serde) -> str | None:
    """Why no payload of `source` can become one of `target` without a function; None: some or all can."""
    source, target = _of_entries(source, target)
    if isinstance(source, AvroSerde) and isinstance(target, AvroSerde):
        return _avro_problem(source, target.written[1])
    if isinstance(source, NumberSerde) and isinstance(target, NumberSerde):
        if source.name in ("float", "double") and target.name not in (source.name, "double"):
            return _NEEDS_FUNCTION.format(source=source.name, target=target.name)
        return None
    if source.name == target.name:
        return None
    if {source.name, target.name} == {"uuid", "string"}:
        return "uuid and string are the same bytes here: name neither"
    return _NEEDS_FUNCTION.format(source=source.name, target=target.name)


def _avro_problem(source: AvroSerde, reader: AvroSchema) -> str | None:
    problems = []
    for schema_id, writer in source.schemas:
        if found := findings(writer, reader).problems:
            named = "the old schema" if schema_id is None else f"schema {schema_id}"
            problems.append(f"{named} cannot be read as the new one: {'; '.join(found)}")
    return "; ".join(problems) or None


def payload_risks(source: Serde, target: Serde) -> tuple[str, ...]:
    """What some payloads may hold that the target cannot: each would be a reject."""
    source, target = _of_entries(source, target)
    if isinstance(source, AvroSerde) and isinstance(target, AvroSerde):
        found = ((each, findings(writer, target.written[1]).risks) for each, writer in source.schemas)
        return tuple(risk if each is None else f"schema {each}: {risk}" for each, risks in found for risk in risks)
    if isinstance(source, NumberSerde) and isinstance(target, NumberSerde):
        bits = 8 * source.size
        if target.name.startswith("int") and target.size < source.size:
            return (f"numbers of more than {8 * target.size} bits",)
        if source.name.startswith("int") and bits > EXACT.get(target.name, bits):
            return (f"numbers that a {target.name} cannot hold exactly",)
    return ()


def payload_meanings(source: Serde, target: Serde) -> tuple[str, ...]:
    """What a function gets as it is stored, and has to write with another meaning."""
    source, target = _of_entries(source, target)
    if not (isinstance(source, AvroSerde) and isinstance(target, AvroSerde)):
        return ()
    found = (findings(writer, target.written[1]).meanings for _, writer in source.schemas)
    return tuple(dict.fromkeys(text for texts in found for text in texts))


def _of_entries(source: Serde, target: Serde) -> tuple[Serde, Serde]:
    """The serdes of the entries where both are lists, else the serdes themselves."""
    if isinstance(source, ListSerde) and isinstance(target, ListSerde):
        return source.inner, target.inner
    return source, target


def names_refused(target: Serde) -> tuple[str, ...]:
    """The names of a new schema that Java's Avro refuses."""
    if isinstance(target, ListSerde):
        return names_refused(target.inner)
    return names_java_refuses(target.written[1]) if isinstance(target, AvroSerde) else ()


def needs_headers(serde: Serde) -> bool:
    """Whether the serde writes headers, which a format without headers cannot hold."""
    return isinstance(serde, AvroSerde) and serde.frame == "header"


def keeps_bytes(source: Serde, target: Serde) -> bool:
    """Whether every payload that is converted, without a function, is written as it was read."""
    return source == target and "avro" not in (source.name, getattr(source, "inner", source).name)


def is_order_preserving(source: Serde, target: Serde) -> bool:
    """Whether payloads, converted without a function, keep their order as bytes in every case."""
    if keeps_bytes(source, target):
        return True
    if isinstance(source, NumberSerde) and isinstance(target, NumberSerde):
        # Sign extension puts equal bytes before (or, in little-endian, behind) the bytes that determine the order.
        return source.endian == target.endian and not {"float", "double"} & {source.name, target.name}
    if isinstance(source, AvroSerde) and isinstance(target, AvroSerde):
        return _only_the_prefix_changes(source, target)
    return False


def _only_the_prefix_changes(source: AvroSerde, target: AvroSerde) -> bool:
    """Whether one schema, the same on both sides, has only types with a single encoding."""
    if len(source.schemas) != 1 or source.schemas[0][1] != target.written[1]:
        return False
    types = types_of(target.written[1])
    left, seen = [types.root], set[Type]()
    while left:
        found = left.pop()
        if found in seen:
            continue
        seen.add(found)
        if isinstance(found, Array | Map | Union) and not _is_nullable(found):
            return False
        left.extend(types.parts(found))
    return True


def _is_nullable(found: Array | Map | Union) -> bool:
    return isinstance(found, Union) and len(found.branches) == 2 and Primitive("null") in found.branches
