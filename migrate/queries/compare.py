"""The old store and the new one of a migration, side by side."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from formats import EntryError, Format, StateRecord, Window
from formats.conversion import Conversion
from formats.serde import BYTES
from migrate.batch.ledger.standing import read_standing
from migrate.errors import SpecError, StateStoreMigratedError, StoreNotReadyError, UnknownStateStoreError
from migrate.model.preview import shown
from migrate.queries.json_values import as_json, key_of
from migrate.queries.open.partition import Opened, OpenSegment, Partition
from migrate.queries.side_by_side import GetReport, RecordReport, SideBySide, Verdict
from migrate.queries.stores import QueryableStores
from migrate.spec.conversion import conversion_ref, load_conversion
from migrate.spec.spec import Spec
from migrate.stores.state_store import after_prefix

MOST_RECORDS = 100
"""Windows or sessions of one key that are shown."""
_PULL = 64
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
"""Bytes as other reports show them."""
_ATTEMPTS = 3
_Entry = tuple[bytes, bytes]


@dataclass(frozen=True)
class SideBySideStores:
    """Both stores of a migration. Safe to share between threads; files close with the last reader."""

    spec: Spec

    @cached_property
    def conversion(self) -> Conversion:
        """The conversion that the spec describes now. Raises SpecError."""
        return load_conversion(conversion_ref(self.spec))

    @cached_property
    def _sides(self) -> tuple[QueryableStores, QueryableStores]:
        old = QueryableStores.of_migration(self.spec, side="old", stale=True)
        return old, QueryableStores.of_migration(self.spec, side="new", stale=True)

    def get(self, store: str | None, key: str, window: Window | None = None, *, is_base64: bool = False) -> GetReport:
        """The records of one key; in a windowed store those of all its windows, up to MOST_RECORDS.

        Args:
            store: its old or its new name; None: the only one of the spec.
            key: the key's text as its serde writes it; of bytes: text in UTF-8, or 0x and hex digits.
            is_base64: `key` is the serialized key in base64.
            window: one window or session alone.

        Raises:
            SpecError: the text is no key, there are several stores, or a window is given where there are none.
            UnknownStateStoreError: there is no such store.
        """
        source = self.conversion.source
        if window is not None and not source.is_segmented:
            raise SpecError(f"a store of {source.id} has no windows", hint="leave --window out")
        payload = self._payload(key, is_base64=is_base64)
        return self._report(store, lambda pair: self._of_key(pair, payload, window), MOST_RECORDS)

    def first(self, store: str | None, start: str | None = None, limit: int = 50) -> GetReport:
        """The first records from a key on, in the order of its bytes, of one store partition after the other.

        Raises SpecError, UnknownStateStoreError, as `get`.
        """
        at = None if start is None else self._payload(start, is_base64=False)
        return self._report(store, lambda pair: self._first(pair, at, limit), limit)

    def _payload(self, key: str, *, is_base64: bool) -> bytes:
        serde = self.conversion.source.key_serde
        try:
            if serde == BYTES and not is_base64:
                return bytes.fromhex(key[2:]) if _HEX.fullmatch(key) else key.encode()
            return serde.encode(key_of(serde, key, is_base64=is_base64))
        except EntryError as error:
            raise SpecError(
                f"{key[:60]!r} is not a key of this store: {error}",
                hint=f"its serde is {serde.name!r}; --base64 takes the serialized key",
            ) from error

    def _name(self, store: str | None) -> str:
        """The old store's name."""
        section = self.spec.source.store_names or (self.spec.source_path.name,)
        names = dict(zip(section, self.spec.target.store_names or section, strict=True))
        found = [old for old, new in names.items() if store in (None, old, new)]
        if not found:
            raise UnknownStateStoreError(f"the spec has no store {store!r}", hint=f"it has {', '.join(names)}")
        if len(found) > 1:
            raise SpecError(f"the spec has several stores: {', '.join(names)}", hint="name one: --store")
        return found[0]

    def _report(self, store: str | None, find: Callable[[_Pair], Iterator[SideBySide]], limit: int) -> GetReport:
        name = self._name(store)
        for _ in range(_ATTEMPTS - 1):
            try:
                records = self._found(name, find, limit + 1)
                break
            except StateStoreMigratedError:
                continue  # a switch meanwhile: what is there now is asked
        else:
            records = self._found(name, find, limit + 1)
        newest = dict(zip(self.spec.source.store_names, self.spec.target.store_names, strict=False))
        return GetReport(
            store=name,
            new_store=newest.get(name, name),
            old_format=self.conversion.source.id,
            new_format=self.conversion.target.id,
            state=read_standing(self.spec.home).state,
            records=tuple(records[:limit]),
            is_complete=len(records) <= limit,
            leaves_out=self._leaves_out,
        )

    def _found(self, name: str, find: Callable[[_Pair], Iterator[SideBySide]], limit: int) -> list[SideBySide]:
        found: list[SideBySide] = []
        for pair in self._pairs(name):
            found += islice(find(pair), limit - len(found))
            pair.check()
        return found

    @property
    def _leaves_out(self) -> tuple[str, ...]:
        changelog = self.spec.changelog
        from_changelog = changelog is not None and changelog.timestamps == "changelog"
        return ("timestamp_ms",) if from_changelog and self.conversion.takes_times else ()

    def _pairs(self, name: str) -> list[_Pair]:
        old, new = (_partitions(side, name) for side in self._sides)
        by_place = {_place(each): each for each in new or ()}
        pairs = [_Pair(each, by_place.pop(_place(each), None), is_early=new is None) for each in old or ()]
        return pairs + [_Pair(None, each, is_gone=old is None) for each in by_place.values()]

    def _of_key(self, pair: _Pair, payload: bytes, window: Window | None) -> Iterator[SideBySide]:
        source = self.conversion.source
        if source.is_segmented and window is None:
            yield from self._windows(pair, payload)
            return
        old_key = _stored_key(source, payload, window)
        yield self._compared(pair, old_key, pair.old_value(old_key))

    def _windows(self, pair: _Pair, payload: bytes) -> Iterator[SideBySide]:
        """Each window or session of a key that either store has, in the order of stored keys."""
        source = self.conversion.source

        def is_asked_for(entry: _Entry) -> bool:
            return source.key_schema.unpack(entry[0])[0] == payload

        old = dict(filter(is_asked_for, pair.scan_old(payload, after_prefix(payload))))
        new_payload = self._new_payload(payload)
        new = (key for key, _ in pair.scan_new(new_payload, after_prefix(new_payload)))
        extra = {self._old_key(key) for key in new if self.conversion.target.key_schema.unpack(key)[0] == new_payload}
        for old_key in sorted(old.keys() | extra):
            yield self._compared(pair, old_key, old.get(old_key))

    def _first(self, pair: _Pair, start: bytes | None, limit: int) -> Iterator[SideBySide]:
        """The first records from a stored key on; those that only the new store has stand where its keys are."""
        old = dict(islice(pair.scan_old(start, None), limit + 1))
        end = max(old) if len(old) > limit else None
        extra = set()
        if self._keeps_keys:
            new = islice(pair.scan_new(start, None), limit + 1)
            extra = {key for key, _ in new if end is None or key <= end}
        for key in sorted(old.keys() | extra):
            yield self._compared(pair, key, old.get(key))

    @property
    def _keeps_keys(self) -> bool:
        source, target = self.conversion.source, self.conversion.target
        is_alike = (source.kind, source.key_serde, source.key_schema) == (
            target.kind,
            target.key_serde,
            target.key_schema,
        )
        return is_alike and not self.conversion.keys_may_change

    def _new_payload(self, payload: bytes) -> bytes:
        return self.conversion.target.key_serde.encode(self.conversion.source.key_serde.decode(payload))

    def _old_key(self, new_key: bytes) -> bytes:
        """The old key of a new window or session of the same key."""
        record = self.conversion.target.decode_key(new_key)
        return self.conversion.source.encode_key(record)

    def _compared(self, pair: _Pair, old_key: bytes, old_value: bytes | None) -> SideBySide:
        """The records of an old key."""
        converted, reason = self._converted(old_key, old_value)
        new_key, made_value = (self._new_key(old_key), None) if converted is None else converted
        new_value = pair.new_value(new_key)
        target = pair.new_format or self.conversion.target
        old = None if old_value is None else _reported(pair.old_format, old_key, old_value)
        made = None if made_value is None else _reported(target, new_key, made_value)
        new = None if new_value is None else _reported(target, new_key, new_value)
        differences = _differences(made, new, self._leaves_out)
        if None not in (made_value, new_value) and made_value != new_value and not (differences or self._leaves_out):
            differences = ("bytes",)
        return SideBySide(
            store_partition=pair.id,
            old=old,
            converted=made,
            new=new,
            verdict=_verdict(pair, old, made, new, reason, is_equal=not differences),
            reason=reason,
            changes=_differences(old, made),
            differences=differences,
        )

    def _new_key(self, old_key: bytes) -> bytes:
        """The key under which the new store would have the record of an old key that is not converted."""
        try:
            return self.conversion.convert_key(old_key)
        except EntryError:
            return old_key

    def _converted(self, key: bytes, value: bytes | None) -> tuple[_Entry | None, str]:
        """(the converted entry; None: there is none, why it is rejected)."""
        if value is None:
            return None, ""
        try:
            return self.conversion.convert(key, value), ""
        except EntryError as error:
            return None, str(error)


class _Pair:
    """A store partition of both stores, as they were when they were opened."""

    def __init__(
        self, old: Partition | None, new: Partition | None, *, is_early: bool = False, is_gone: bool = False
    ) -> None:
        self.id = "".join(each.id for each in (old or new,) if each is not None)
        self.is_early = is_early
        """Whether the new store is not assembled yet."""
        self.is_gone = is_gone
        """Whether the old store was removed."""
        self._partitions = old, new
        self._old, self._new = (None if each is None else each.opened() for each in (old, new))

    @property
    def old_format(self) -> Format:
        """The old store's format, whose serdes read values as they were written."""
        assert self._old is not None
        return self._old.format

    @property
    def new_format(self) -> Format | None:
        """The new store's format; None: it is not there."""
        return None if self._new is None else self._new.format

    def old_value(self, key: bytes) -> bytes | None:
        """The stored value of a stored key."""
        return _value(self._old, key)

    def new_value(self, key: bytes) -> bytes | None:
        """The stored value of a stored key."""
        return _value(self._new, key)

    def scan_old(self, start: bytes | None, end: bytes | None) -> Iterator[_Entry]:
        """The old entries in [start, end)."""
        return _scan(self._old, start, end)

    def scan_new(self, start: bytes | None, end: bytes | None) -> Iterator[_Entry]:
        """The new entries in [start, end)."""
        return _scan(self._new, start, end)

    def check(self) -> None:
        """Raises StateStoreMigratedError where a switch has moved one of them meanwhile."""
        for each in self._partitions:
            if each is not None:
                each.check()


def _partitions(stores: QueryableStores, name: str) -> list[Partition] | None:
    """The store partitions of one side; None: it is not there yet, or not any more."""
    try:
        return stores.partitions(name)
    except (StoreNotReadyError, UnknownStateStoreError):
        return None


def _place(partition: Partition) -> object:
    """What a partition of the old store has in common with that of the new one, whose name may be another."""
    return partition.id if partition.number is None else (partition.id.partition("/")[0], partition.number)


def _value(opened: Opened | None, key: bytes) -> bytes | None:
    found = (each.entries.get(key) for each in reversed(opened.segments)) if opened is not None else ()
    return next((value for value in found if value is not None), None)


def _scan(opened: Opened | None, start: bytes | None, end: bytes | None) -> Iterator[_Entry]:
    """The entries of all segments in one order of keys."""
    segments = () if opened is None else opened.segments
    return merge(*(_pulled(each, start, end) for each in segments), key=itemgetter(0))


def _pulled(segment: OpenSegment, start: bytes | None, end: bytes | None) -> Iterator[_Entry]:
    with closing(segment.entries.scan(start, end)) as source:
        while records := source.pull(_PULL):
            yield from records


def _stored_key(known: Format, payload: bytes, window: Window | None) -> bytes:
    """The key of a payload's newest value, as a store of the format has it."""
    return known.encode_key(StateRecord(known.key_serde.decode(payload), None, window=window))


def _reported(known: Format, key: bytes, value: bytes) -> RecordReport:
    plain = RecordReport(
        key_serde=known.key_serde.name,
        value_serde=known.value_serde.name,
        key_bytes=shown(key),
        value_bytes=shown(value),
    )
    try:
        record = known.decode(key, value)
        found = {
            "key": as_json(record.key),
            "value": as_json(record.value),
            "timestamp_ms": record.timestamp_ms,
            "headers": record.headers and tuple((name, _base64(each)) for name, each in record.headers),
        }
    except EntryError as error:
        return plain.model_copy(update={"problem": str(error)})
    if record.window is not None:
        found |= {"window_start_ms": record.window.start_ms, "window_end_ms": record.window.end_ms}
    return plain.model_copy(update=found)


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _verdict(
    pair: _Pair,
    old: RecordReport | None,
    made: RecordReport | None,
    new: RecordReport | None,
    reason: str,
    *,
    is_equal: bool,
) -> Verdict:
    if old is None:
        return "nowhere" if new is None else "gone" if pair.is_gone else "extra"
    if reason:
        return "rejected"
    if made is None:
        return "dropped" if new is None else "extra"
    if new is None:
        return "not there yet" if pair.is_early else "missing"
    return "equal" if is_equal else "different"


_FIELDS = ("key", "value", "timestamp_ms", "headers", "window_start_ms", "window_end_ms", "problem")


def _differences(
    one: RecordReport | None, other: RecordReport | None, leaves_out: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The fields in which two records differ, such as `value.total`; none where there are no two."""
    if one is None or other is None:
        return ()
    fields = (name for name in _FIELDS if name not in leaves_out)
    return tuple(path for name in fields for path in _paths(name, getattr(one, name), getattr(other, name)))


def _paths(path: str, one: Any, other: Any) -> Iterator[str]:  # noqa: ANN401 - values of JSON
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys((*one, *other)):
            if name not in one or name not in other:
                yield f"{path}.{name}"
            else:
                yield from _paths(f"{path}.{name}", one[name], other[name])
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _paths(f"{path}[{at}]", left, right)
    elif type(one) is not type(other) or one != other:
        yield path
