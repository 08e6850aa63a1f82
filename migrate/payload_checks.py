"""Whether keys and values can become what `[conversion.key]` and `[conversion.value]` say, before anything is read."""

from __future__ import annotations

from formats import Conversion
from formats.layout import HEADERS
from formats.serde import Serde
from formats.serdes.numeric import NumberSerde
from formats.serdes.pairs import is_order_preserving, keeps_bytes, needs_headers, payload_problem, payload_risks
from migrate.errors import RefusedError
from migrate.payload_serdes import PayloadSerdes


def check_payloads(conversion: Conversion, key: PayloadSerdes | None, value: PayloadSerdes | None) -> None:
    """Raises RefusedError for serdes that do not go together, and for keys that would lose their place."""
    for part, serdes in (("key", key), ("value", value)):
        if serdes is None:
            continue
        problem = payload_problem(serdes.source, serdes.target)
        if conversion.function is None and problem is not None:
            raise RefusedError(f"[conversion.{part}]: {problem}", hint=_hint(serdes))
        _check_headers(part, serdes.source, conversion.source.id, HEADERS in conversion.source.carries)
        _check_headers(part, serdes.target, conversion.target.id, HEADERS in conversion.target.carries)
    if key is not None:
        _check_key(conversion, key)


def payload_warnings(key: PayloadSerdes | None, value: PayloadSerdes | None) -> list[str]:
    """What some payloads may hold that the target cannot."""
    return [
        f"[conversion.{part}]: {risk}: such records would be rejected"
        for part, serdes in (("key", key), ("value", value))
        if serdes is not None
        for risk in payload_risks(serdes.source, serdes.target)
    ]


def _check_headers(part: str, serde: Serde, format_id: str, carries: bool) -> None:
    if needs_headers(serde) and not carries:
        raise RefusedError(
            f"[conversion.{part}]: the frame 'header' names the schema in the record's headers, which {format_id} "
            "does not hold",
            hint='name a format with headers, or another frame: frame = "confluent"',
        )


def _check_key(conversion: Conversion, key: PayloadSerdes) -> None:
    if not is_order_preserving(key.source, key.target):
        raise RefusedError(
            f"[conversion.key]: keys would change their order from {_in_words(key.source)} to {_in_words(key.target)}",
            hint="a store is rewritten in the order of its keys: only a conversion that keeps it can be done yet",
        )
    may_move = conversion.target.keeps_keys_in_tasks and not keeps_bytes(key.source, key.target)
    if may_move and not conversion.keys_may_change:
        raise RefusedError(
            "[conversion.key]: the new key may belong to another task, which its hash decides",
            hint='allow = ["key-change"] if every new key belongs to the same task as the old one',
        )


def _in_words(serde: Serde) -> str:
    return f"{serde.name} ({serde.endian}-endian)" if isinstance(serde, NumberSerde) else serde.name


def _hint(serdes: PayloadSerdes) -> str:
    if serdes.source.name == "avro" and serdes.target.name == "avro":
        return "mend the new schema (an alias, a default), leave a version out with ids = [...], or give a function"
    return "name other serdes, or give a [conversion] function"
