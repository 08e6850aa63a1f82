"""Converting one record or a batch of them from the old format to the new one, and new keys back to old ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from operator import lt

from formats import Conversion, EntryError, Format, Function
from formats.errors import FunctionError
from formats.program import IDENTITY, Operation, run_operations
from formats.wide_columns import WideColumns
from migrate.engine.bail_out import BailOutError
from migrate.engine.columns import compile_program
from migrate.engine.generated import compile_column, compile_pairs
from migrate.errors import ConversionError, RefusedError
from migrate.model.key_range import show_key
from migrate.stores.batch import Batch
from migrate.stores.state_store import Record

KeyFunction = Callable[[bytes], bytes | None]
"""From a new key to its old one; None: no old key becomes this key."""


@dataclass(slots=True)
class Converted:
    """A batch of old records, converted; the four parallel columns lack the records that failed or were dropped."""

    old_keys: list[bytes]
    old_values: list[bytes]
    keys: list[bytes]
    values: list[bytes]
    failed: dict[bytes, str] = field(default_factory=dict)
    """Reasons by old key."""
    dropped: dict[bytes, int] = field(default_factory=dict)
    """The number of values that the function dropped of each old record, where it may."""

    def head(self, count: int) -> Converted:
        return Converted(self.old_keys[:count], self.old_values[:count], self.keys[:count], self.values[:count])

    def at(self, places: list[int]) -> Converted:
        columns = self.old_keys, self.old_values, self.keys, self.values
        return Converted(*([column[place] for place in places] for column in columns))  # type: ignore[arg-type]


def hub_conversion(source: Format, target: Format, function: Function | None) -> Conversion:
    """The conversion between two formats that the caller has named, which allows what they lose and no more."""
    lost = frozenset(Conversion(source, target).losses)
    return Conversion(source, target, function=function, keys_may_change=True, may_lose=lost)


class LazyConversion:
    """A conversion that can be reversed for keys: the old key of every new one is known."""

    def __init__(self, conversion: Conversion, old_key: KeyFunction | None = None, *, may_drop: bool = True) -> None:
        """`old_key`: from a new key to the old one, for functions that change keys. `may_drop`: else a record that the
        function drops is one that cannot be converted."""
        self._conversion = conversion
        self._may_drop = may_drop
        self._program = conversion.program
        back = Conversion(conversion.target, conversion.source).program
        self._back: tuple[Operation, ...] = IDENTITY if back is None else back.key
        self._old_key = old_key
        self.changes_keys = old_key is not None or self._back != IDENTITY
        is_plain = self._program is not None and not self.changes_keys
        self._value_column = compile_column(self._program.value) if is_plain and self._program is not None else None
        self._pairs = compile_pairs(self._program.value) if is_plain and self._program is not None else None

    @property
    def losses(self) -> tuple[str, ...]:
        return tuple(loss.removeprefix("loss:") for loss in self._conversion.losses)

    def old_key_of(self, key: bytes) -> bytes | None:
        """The old key under which the old copy of a new key would be; a record there may still become another key.

        Raises ConversionError where the caller's `old_key` fails.
        """
        try:
            return self._way_back(key)
        except FunctionError as error:
            raise ConversionError(
                f"the old key of {show_key(key)} is not known: {error}",
                key=key,
                reason=str(error),
                hint="fix old_key and open the store again",
            ) from error

    def one(self, old_key: bytes, old_value: bytes) -> tuple[bytes, bytes] | None:
        """The converted (key, value); None: the function drops the record, and may. Raises ConversionError."""
        return self.one_counting(old_key, old_value)[0]

    def one_counting(self, old_key: bytes, old_value: bytes) -> tuple[Record | None, int]:
        """As `one`, with the number of values that the function drops."""
        if self._value_column is not None and type(old_value) is not WideColumns:
            try:
                return (old_key, self._value_column([old_value])[0]), 0
            except BailOutError:
                pass  # the reference path knows the reason
        try:
            return self._reference(old_key, old_value)
        except EntryError as error:
            raise not_convertible(old_key, str(error)) from error

    def records(self, records: list[Record]) -> list[Record] | None:
        """The converted records; None where `many` is needed: for keys that change, or records that do not fit."""
        if self._pairs is None or self._conversion.source.has_columns(value for _, value in records):
            return None
        try:
            return self._pairs(records)
        except BailOutError:
            return None

    def many(self, batch: Batch) -> Converted:
        """Convert every record that can be, and give the reasons of the others."""
        if self._program is not None and not self._conversion.source.has_columns(batch.values):
            try:
                out = compile_program(self._program)(batch)
            except BailOutError:
                pass  # the reference path finds the record and its reason
            else:
                return Converted(batch.keys, batch.values, out.keys, out.values)
        converted = Converted([], [], [], [])
        for old_key, old_value in zip(batch.keys, batch.values, strict=True):
            try:
                record, dropped = self._reference(old_key, old_value)
            except EntryError as error:
                converted.failed[old_key] = str(error)
                continue
            if dropped:
                converted.dropped[old_key] = dropped
            if record is not None:
                converted.old_keys.append(old_key)
                converted.old_values.append(old_value)
                converted.keys.append(record[0])
                converted.values.append(record[1])
        return converted

    def check_order(self, keys: list[bytes]) -> None:
        """Raises RefusedError where the new keys do not ascend as the old ones do."""
        if self.changes_keys and not all(map(lt, keys, keys[1:])):
            before, key = next(pair for pair in pairwise(keys) if pair[0] >= pair[1])
            raise RefusedError(
                f"the conversion changes the order of keys: {show_key(key)} follows {show_key(before)}",
                hint="two stores that are ordered differently cannot be read as one: use the batch migration",
            )

    def _reference(self, old_key: bytes, old_value: bytes) -> tuple[Record | None, int]:
        """Convert one record without compiled code. Raises EntryError."""
        record, dropped = self._conversion.convert_counting(old_key, old_value)
        if dropped and not self._may_drop:
            raise EntryError("the function drops it (it returns None): if that is meant, may_drop=True allows it")
        if record is not None and self._way_back(record[0]) != old_key:
            raise EntryError(
                f"it became the key {show_key(record[0])}, whose old key is another one: "
                "keep keys as they are, or give old_key=, the function from a new key to the old one"
            )
        return record, dropped

    def _way_back(self, key: bytes) -> bytes | None:
        """Raises FunctionError where the caller's `old_key` fails."""
        if self._old_key is None:
            return key if self._back == IDENTITY else run_operations(self._back, key)
        try:
            return self._old_key(key)
        except (KeyboardInterrupt, OSError):
            raise  # an interrupt or a failure of the system, not of the record
        except BaseException as error:
            raise FunctionError(f"old_key raised {type(error).__name__}") from error


def not_convertible(key: bytes, reason: str) -> ConversionError:
    """The error for one old record, which stays where it is."""
    return ConversionError(
        f"the old record {show_key(key)} cannot be converted: {reason}",
        key=key,
        reason=reason,
        hint="it stays in the old store: fix the conversion and open the store again, or overwrite that key",
    )
