"""The old store and the new one of a migration side by side, each store partition read by stored keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import merge
from itertools import islice
from operator import itemgetter

from formats import EntryError, Format, StateRecord, Window
from formats.conversion import Conversion
from formats.serde import BYTES, Serde
from migrate.batch.ledger.standing import Standing, read_standing
from migrate.engine.columns import unpacked_times
from migrate.engine.key_times import TimesColumn, open_times
from migrate.errors import SpecError, StoreNotReadyError, UnknownStateStoreError
from migrate.model.journal import HALF_DONE
from migrate.model.ledger_row import Step
from migrate.model.plan import KeyPlace, elsewhere
from migrate.queries.get_report import GetReport, RecordReport, SideBySide, Verdict, reported
from migrate.queries.get_report import differences as differences_of
from migrate.queries.json_values import serialized_key
from migrate.queries.open.partition import Opened, Partition
from migrate.queries.open.store_sources import chosen_store
from migrate.queries.queryable_stores import QueryableStores
from migrate.queries.retries import with_retries
from migrate.queries.views.composite import records
from migrate.spec.changelog_way import sees_times, takes_times
from migrate.spec.conversion import conversion_ref, load_conversion
from migrate.spec.spec import Spec
from migrate.stores.state_store import Record, after_prefix

MOST_RECORDS = 100
"""Windows or sessions of one key that are shown."""
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
"""Bytes as other reports show them."""
_WINDOW = re.compile(r"([0-9]{1,18})(?:,([0-9]{1,18}))?")
_REMOVED = (Step.FINALIZING, Step.FINALIZED)
_MOST_BYTES = 16 << 20
"""Of values, after which a report ends."""
_MOVING_SECONDS = 2.0
"""How long a store is waited for that is being moved."""
_Found = tuple[bytes, SideBySide]
"""With its old stored key."""


@dataclass(frozen=True)
class SideBySideStores:
    """Both stores of a migration. Safe to share between threads; files close with the last reader."""

    spec: Spec

    @cached_property
    def conversion(self) -> Conversion:
        """The conversion that the spec describes now. Raises SpecError."""
        return load_conversion(conversion_ref(self.spec))

    @property
    def names(self) -> tuple[str, ...]:
        """The old names of the stores."""
        return self.spec.source.store_names or (self.spec.source_path.name,)

    @property
    def _new_names(self) -> dict[str, str]:
        """The new name of each store, by its old one."""
        return dict(zip(self.names, self.spec.target.store_names or self.names, strict=True))

    @property
    def key_serde(self) -> Serde:
        """What a key's text is read by."""
        key = conversion_ref(self.spec).key
        return BYTES if key is None else key.source

    @cached_property
    def _sides(self) -> tuple[QueryableStores, QueryableStores]:
        old = QueryableStores.of_migration(self.spec, side="old", stale=True)
        return old, QueryableStores.of_migration(self.spec, side="new", stale=True)

    def get(
        self,
        store: str | None,
        key: str,
        window: Window | None = None,
        *,
        is_base64: bool = False,
        encoding: str | None = None,
    ) -> GetReport:
        """The records of one key; in a windowed store those of all its windows, up to MOST_RECORDS.

        Args:
            store: its old or its new name; None: the only one of the spec.
            key: the key's text as its serde writes it; of bytes: text in UTF-8, or 0x and hex digits.
            is_base64: `key` is the serialized key in base64.
            encoding: how `key` is written otherwise: one of ENCODINGS.
            window: one window or session alone.

        Raises:
            SpecError: the text is no key, there are several stores, or a window is given where there are none.
            UnknownStateStoreError: there is no such store.
        """
        if self.spec.source.moved_stores:
            return self._of(store).get(store, key, window, is_base64=is_base64, encoding=encoding)
        source = self.conversion.source
        if window is not None:
            _check_window(source, window)
        payload = self._payload(key, "base64" if is_base64 else encoding)
        return self._report(store, lambda pair: self._of_key(pair, payload, window), MOST_RECORDS)

    def first(self, store: str | None, start: str | None = None, limit: int = 50, *, place: str = "") -> GetReport:
        """The first records from a key on, in the order of its bytes, of one store partition after the other.

        `place`: the `next_place` of the report before. Raises SpecError, UnknownStateStoreError, as `get`.
        """
        if self.spec.source.moved_stores:
            return self._of(store).first(store, start, limit, place=place)
        payload = b"" if start is None else self._payload(start)
        source = self.conversion.source  # of a versioned store, the latest values
        at = payload if source.is_segmented else _stored_key(source, payload, None)
        where, key = _parsed(place)

        def find(pair: Pair) -> Iterator[_Found]:
            return self._first(pair, key if pair.id == where else at, limit)

        return self._report(store, find, limit, where)

    def _of(self, store: str | None) -> SideBySideStores:
        """One store alone, whose format may be its own."""
        return SideBySideStores(self.spec.of_store(chosen_store(self.spec, store)))

    def _payload(self, key: str, encoding: str | None = None) -> bytes:
        return serialized_key(self.conversion.source.key_serde, key, encoding)

    def _report(
        self, store: str | None, find: Callable[[Pair], Iterator[_Found]], limit: int, where: str = ""
    ) -> GetReport:
        name = chosen_store(self.spec, store)
        records, following = with_retries(
            lambda: self._found(name, find, limit, where), on_migrated=lambda: None, timeout=_MOVING_SECONDS
        )
        return GetReport(
            store=name,
            new_store=self._new_names[name],
            old_format=self.conversion.source.id,
            new_format=self.conversion.target.id,
            state=read_standing(self.spec.home).state,
            records=tuple(records),
            is_complete=not following,
            next_place=following,
            leaves_out=self._leaves_out,
        )

    def _found(
        self, name: str, find: Callable[[Pair], Iterator[_Found]], limit: int, where: str
    ) -> tuple[list[SideBySide], str]:
        """(the records from a store partition on, where the next one is; empty: these are all)."""
        records: list[SideBySide] = []
        count = size = 0
        pairs = self._pairs(name)
        ids = [pair.id for pair in pairs]
        if where and where not in ids:
            raise SpecError(f"there is no store partition {where[:60]!r} here", hint="begin with the first records")
        for pair in pairs[ids.index(where) if where else 0 :]:
            for key, each in find(pair):
                if each.verdict != "nowhere":
                    if count == limit or size > _MOST_BYTES:
                        pair.check()
                        return records, f"{pair.id}:{key.hex()}"
                    count += 1
                    size += sum(side.value_bytes.size for side in (each.old, each.new) if side is not None)
                records.append(each)
            pair.check()
        return records, ""

    @property
    def _leaves_out(self) -> tuple[str, ...]:
        return ("timestamp_ms",) if takes_times(self.spec, self.conversion) else ()

    def _pairs(self, name: str) -> list[Pair]:
        names = name, self._new_names[name]
        old, new = (self._partitions(side, each) for side, each in zip(self._sides, names, strict=True))
        by_place = {place_of(each): each for each in new or ()}
        standing = read_standing(self.spec.home)
        times, plan = self._times(standing), standing.plan
        if plan is not None and plan.old_partitions and (old or new):  # each key is in one of either
            return [Pair(old or (), new or (), id=name, is_early=new is None, is_gone=old is None)]
        pairs = [
            Pair(
                (each,),
                filter(None, (by_place.pop(place_of(each), None),)),
                times=times.get(each.id),
                key_place=None if plan is None else plan.key_place(each.id),
                is_early=new is None,
            )
            for each in old or ()
        ]
        return pairs + [Pair((), (each,), is_gone=old is None) for each in by_place.values()]

    def _times(self, standing: Standing) -> dict[str, str]:
        """By store partition, the run whose times the function has seen."""
        if not sees_times(self.spec, self.conversion):
            return {}
        folders = {partition: self.spec.home / each.folder for partition, each in standing.times.items()}
        return {partition: str(folder) for partition, folder in folders.items() if folder.is_dir()}

    def _partitions(self, stores: QueryableStores, name: str) -> list[Partition] | None:
        """The store partitions of one side; None: not assembled yet, removed by `finalize`, or never there.

        Raises StoreNotReadyError while they are being moved.
        """
        if self.spec.source.rows and stores is self._sides[0]:
            return None
        try:
            return stores.partitions(name)
        except (StoreNotReadyError, UnknownStateStoreError) as error:
            standing = read_standing(self.spec.home)
            if _is_early(standing) if stores is self._sides[1] else standing.step in _REMOVED:
                return None
            if standing.step in HALF_DONE:
                raise StoreNotReadyError(error.message, hint=error.hint) from error
            raise

    def _of_key(self, pair: Pair, payload: bytes, window: Window | None) -> Iterator[_Found]:
        source = self.conversion.source
        if source.is_segmented and window is None:
            yield from self._windows(pair, payload)
            return
        old_key = _stored_key(source, payload, window)
        yield old_key, self._compared(pair, old_key, _value(pair.old, old_key))

    def _windows(self, pair: Pair, payload: bytes) -> Iterator[_Found]:
        """Each window or session of a key that either store has, in the order of stored keys."""
        source, target = self.conversion.source, self.conversion.target

        def is_asked_for(entry: Record) -> bool:
            return source.key_schema.unpack(entry[0])[0] == payload

        most = MOST_RECORDS + 1  # a key may have a million
        old = dict(islice(filter(is_asked_for, _scan(pair.old, payload, after_prefix(payload))), most))
        end = max(old) if len(old) == most else None
        extra = set[bytes]()
        with suppress(EntryError):  # only the function knows the new key
            new_payload = target.key_serde.encode(source.key_serde.decode(payload))
            new = (key for key, _ in _scan(pair.new, new_payload, after_prefix(new_payload)))
            extra = {self._old_key(key) for key in new if target.key_schema.unpack(key)[0] == new_payload}
        for old_key in sorted(old.keys() | {key for key in extra if end is None or key <= end}):
            yield old_key, self._compared(pair, old_key, old.get(old_key))

    def _first(self, pair: Pair, start: bytes, limit: int) -> Iterator[_Found]:
        """The first records from a stored key on; those that only the new store has stand where its keys are."""
        old = dict(islice(_scan(pair.old, start, None), limit + 1))
        end = max(old) if len(old) > limit else None
        extra = set()
        if self._keeps_keys:
            new = islice(_scan(pair.new, start, None), limit + 1)
            extra = {key for key, _ in new if end is None or key <= end}
        for key in sorted(old.keys() | extra):
            yield key, self._compared(pair, key, old.get(key))

    @property
    def _keeps_keys(self) -> bool:
        source, target = self.conversion.source, self.conversion.target
        is_alike = (source.kind, source.key_serde, source.key_schema) == (
            target.kind,
            target.key_serde,
            target.key_schema,
        )
        return is_alike and not self.conversion.keys_may_change

    def _old_key(self, new_key: bytes) -> bytes:
        """The old key of a new window or session of the same key."""
        source, target = self.conversion.source, self.conversion.target
        if source.key_serde == target.key_serde:  # which keeps the bytes
            source, target = (replace(each, key_serde=BYTES) for each in (source, target))
        return source.encode_key(target.decode_key(new_key))

    def _compared(self, pair: Pair, old_key: bytes, old_value: bytes | None) -> SideBySide:
        converted, reason = self._converted(pair, old_key, old_value)
        new_key, made_value = (self._new_key(old_key), None) if converted is None else converted
        new_value = _value(pair.new, new_key)
        target = self.conversion.target if pair.new is None else pair.new.format
        old = None if pair.old is None or old_value is None else reported(pair.old.format, old_key, old_value)
        made = None if made_value is None else reported(target, new_key, made_value)
        new = None if new_value is None else reported(target, new_key, new_value)
        differences = differences_of(made, new, self._leaves_out)
        if None not in (made_value, new_value) and made_value != new_value and not (differences or self._leaves_out):
            differences = ("bytes",)
        return SideBySide(
            store_partition=pair.id,
            old=old,
            converted=made,
            new=new,
            verdict=_verdict(pair, old, made, new, reason, is_equal=not differences),
            reason=reason,
            changes=differences_of(old, made),
            differences=differences,
        )

    def _new_key(self, old_key: bytes) -> bytes:
        """The key under which the new store would have the record of an old key that is not converted."""
        try:
            return self.conversion.convert_key(old_key)
        except EntryError:
            return old_key

    def _converted(self, pair: Pair, key: bytes, value: bytes | None) -> tuple[Record | None, str]:
        """(the converted entry; None: there is none, why it is rejected)."""
        if value is None:
            return None, ""
        try:
            conversion = replace(self.conversion, elsewhere=elsewhere(pair.key_place))
            return conversion.convert(key, value, self._time_of(pair, key)), ""
        except EntryError as error:
            return None, str(error)

    def _time_of(self, pair: Pair, key: bytes) -> int | None:
        """The time that the function sees; None: none, or a run has not read it from the changelog yet."""
        with open_times(pair.times) as run:
            times = None if run is None else TimesColumn(run, self.conversion.default_timestamp_ms)([key])
            return unpacked_times(times, 1)[0]


def _parsed(place: str) -> tuple[str, bytes]:
    """(store partition, stored key) of a `next_place`. Raises SpecError."""
    where, _, key = place.rpartition(":")
    try:
        return where, bytes.fromhex(key)
    except ValueError as error:
        raise SpecError(f"{place[:60]!r} is no place in a store", hint="begin with the first records") from error


def stated_window(text: str | None) -> Window | None:
    """The window of `START`, or the session of `START,END`, in ms. Raises SpecError."""
    if text is None:
        return None
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise SpecError(f"the window {text[:60]!r} is not START or START,END", hint="for example: 1700000000000")
    return Window(int(found[1]), None if found[2] is None else int(found[2]))


def _check_window(source: Format, window: Window) -> None:
    if not source.is_segmented:
        raise SpecError(f"a store of {source.id} has no windows", hint="ask without a window")
    if (window.end_ms is None) is (source.kind == "session"):
        what = "a session is given by START,END" if window.end_ms is None else "a window is given by its START alone"
        raise SpecError(f"{what}: the store is of {source.id}", hint="without one, all those of the key are shown")


def _is_early(standing: Standing) -> bool:
    """Whether the new stores were neither switched to nor are complete."""
    planned = () if standing.plan is None else standing.plan.store_partitions
    is_assembled = bool(planned) and all(each.id in standing.assembled for each in planned)
    return standing.step in (None, Step.ROLLED_BACK) and not is_assembled


def _stored_key(known: Format, payload: bytes, window: Window | None) -> bytes:
    """The key of a payload's newest value, as a store of the format has it."""
    return replace(known, key_serde=BYTES).encode_key(StateRecord(payload, None, window=window))


def _verdict(
    pair: Pair,
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


class Pair:
    """A store partition of both stores, as they were when they were opened; all of them where their number changes."""

    def __init__(
        self,
        old: Iterable[Partition],
        new: Iterable[Partition],
        *,
        id: str = "",
        times: str | None = None,
        key_place: KeyPlace | None = None,
        is_early: bool = False,
        is_gone: bool = False,
    ) -> None:
        sides = [*old], [*new]
        self.partitions = [each for side in sides for each in side]
        self.id = id or self.partitions[0].id
        self._opened = [[each.opened() for each in side] for side in sides]  # which keeps their files open
        self.old, self.new = map(_together, self._opened)
        self.times = times
        """The run of times that new records took theirs from; None: there is none."""
        self.key_place = key_place
        """Where new keys belong; None: they are not checked."""
        self.is_early = is_early
        """Whether the new store is not assembled yet."""
        self.is_gone = is_gone
        """Whether the old store was removed."""

    def check(self) -> None:
        """Raises StateStoreMigratedError where a switch has moved one of them meanwhile."""
        for each in self.partitions:
            each.check()


def _together(opened: Sequence[Opened]) -> Opened | None:
    segments = tuple(segment for each in opened for segment in each.segments)
    return replace(opened[0], segments=segments) if opened else None


def place_of(partition: Partition) -> object:
    """What a partition of the old store has in common with that of the new one, whose name may be another."""
    return partition.id if partition.number is None else (partition.id.partition("/")[0], partition.number)


def _value(opened: Opened | None, key: bytes) -> bytes | None:
    found = (each.entries.get(key) for each in reversed(opened.segments)) if opened is not None else ()
    return next((value for value in found if value is not None), None)


def _scan(opened: Opened | None, start: bytes | None, end: bytes | None) -> Iterator[Record]:
    """The entries of all segments in [start, end), in one order of keys."""
    segments = () if opened is None else opened.segments
    return merge(*(records(each.entries.scan(start, end)) for each in segments), key=itemgetter(0))
