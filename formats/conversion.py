"""Conversions between any two formats, through the hub record; and their compiled form, where there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from formats.errors import FunctionError, InvalidEntryError
from formats.format import Format
from formats.layout import Field, Layout
from formats.program import ByteProgram, Copy, Insert, Operation, Skip
from formats.record import StateRecord

CONVERSION_REVISION = 1
"""Raised when the same two formats would convert to other bytes than before; part of a migration's identity."""

Function = Callable[[StateRecord], StateRecord | None]


@dataclass(frozen=True, slots=True)
class Conversion:
    """The reference path: decode, convert, encode. Obvious, slow, always there."""

    source: Format
    target: Format
    default_timestamp_ms: int = -1
    """Written where the target carries a timestamp and the source has none."""
    function: Function | None = None
    keys_may_change: bool = False

    @property
    def program(self) -> ByteProgram | None:
        """The compiled path, or None where only the reference path serves."""
        if self.function is not None:
            return None
        return compile_conversion(self.source, self.target, default_timestamp_ms=self.default_timestamp_ms)

    @property
    def losses(self) -> tuple[str, ...]:
        """What the source carries and the target cannot, as names for the spec's `allow`."""
        return tuple(f"loss:{name}" for name in sorted(self.source.carries - self.target.carries))

    @property
    def changes_changelog(self) -> bool:
        """Whether a changelog written for the source would rebuild another store than the converted one."""
        if not self.target.has_changelog:
            return False
        return self.source.system != self.target.system or self.function is not None

    def convert(self, key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
        """The target's (key, value), or None where the function drops the record. Raises EntryError: a reject."""
        record: StateRecord | None = self.source.decode(key, value)
        if self.function is not None and record is not None:
            record = self._call(self.function, record)
        if record is None:
            return None
        if record.timestamp_ms is None:
            record = replace(record, timestamp_ms=self.default_timestamp_ms)
        new_key, new_value = self.target.encode(record)
        if new_key != key and not self.keys_may_change and self.target.keeps_keys_in_tasks:
            raise InvalidEntryError(
                "the function changed the key, and the key decides the task that owns the record: "
                'allow = ["key-change"] if the new key belongs to the same task'
            )
        return new_key, new_value

    @staticmethod
    def _call(function: Function, record: StateRecord) -> StateRecord | None:
        try:
            converted = function(record)
        except (MemoryError, OSError):
            raise  # the machine's trouble, not the record's: worth another attempt
        except (Exception, SystemExit) as error:
            raise FunctionError(f"the function raised {type(error).__name__}: {error}") from error
        if converted is not None and not isinstance(converted, StateRecord):
            raise FunctionError(f"the function returned {type(converted).__name__}, not a StateRecord or None")
        return converted


def compile_conversion(source: Format, target: Format, *, default_timestamp_ms: int = -1) -> ByteProgram | None:
    """The byte program that does what the reference path does, or None where there is none."""
    if source.key_serde != target.key_serde or source.value_serde != target.value_serde:
        return None
    defaults = {"timestamp": default_timestamp_ms}
    key = _compile_layout(source.key_schema, target.key_schema, defaults)
    value = _compile_layout(source.value_layout, target.value_layout, defaults)
    return None if key is None or value is None else ByteProgram(key, value)


def _compile_layout(source: Layout, target: Layout, defaults: dict[str, int]) -> tuple[Operation, ...] | None:
    """One pass over the source's fields in the order of its bytes, so the target's must come in the same order."""
    program: list[Operation] = []
    left = list(source.fields)
    for wanted in target.fields:
        if wanted.name not in {field.name for field in left}:
            if wanted.name in {field.name for field in source.fields}:
                return None  # already behind: the two layouts order their fields differently
            if wanted.pack is None or wanted.name not in defaults:
                return None
            program.append(Insert(wanted.pack(defaults[wanted.name])))
            continue
        while (field := left.pop(0)).name != wanted.name:
            program.append(_skip(field))
        if field.size != wanted.size:
            return None
        program.append(Copy(wanted.size))
    program.extend(_skip(field) for field in left)
    return tuple(program)


def _skip(field: Field) -> Operation:
    if field.size is None:
        raise AssertionError(f"the last field {field.name} is what every layout has in common")
    return Skip(field.size)
