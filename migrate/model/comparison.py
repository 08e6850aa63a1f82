"""Differences between what should be and what is, in a new store and in a changelog read back; the counts of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from formats import EntryError, Format
from migrate.model.display import beginning
from migrate.model.key_range import show_key
from migrate.model.preview import Shown
from migrate.model.values import Stored, Value

Kind = Literal["missing", "differing", "extra"]


class Mismatch(Stored):
    """One key, or one property of a store, that differs from what is expected."""

    kind: Kind
    store_partition: str
    family: str
    key: bytes
    field: str
    """The first field that differs; the key itself where it is missing or extra."""
    expected: str
    actual: str

    def __str__(self) -> str:
        where = self.store_partition + (f", column family {self.family!r}" if self.family else "")
        if not self.key:
            return f"{where}: {self.field} should be {self.expected}, is {self.actual}"
        where += f", key {show_key(self.key)}"
        if self.kind == "missing":
            return f"missing in the new store: {where}"
        if self.kind == "extra":
            return f"extra in the new store: {where}"
        return f"differing: {where}: {self.field} should be {self.expected}, is {self.actual}"


def differing(partition: str, field: str, expected: str, actual: str, *, family: str = "") -> Mismatch:
    """A difference in something other than a key's value."""
    return Mismatch(
        kind="differing",
        store_partition=partition,
        family=family,
        key=b"",
        field=field,
        expected=expected,
        actual=actual,
    )


_LONGEST = 200
_FIELDS = ("timestamp_ms", "headers", "value", "history")


def first_difference(target: Format, key: bytes, expected: bytes, actual: bytes) -> tuple[str, str, str]:
    """(field, expected, actual) of the first difference; a field within a value has a path: `value.items[2].price`."""
    try:
        wanted, got = target.decode(key, expected), target.decode(key, actual)
    except EntryError as error:
        return "value", show_key(expected), f"{show_key(actual)} ({error})"
    for field in _FIELDS:
        left, right = getattr(wanted, field), getattr(got, field)
        if left != right:
            path, left, right = _within(field, left, right)
            return path, _show(left), _show(right)
    return "value", show_key(expected), show_key(actual)


def _within(path: str, left: object, right: object) -> tuple[str, object, object]:
    """The innermost part that differs."""
    for name, one, other in _parts(left, right):
        if one != other:
            return _within(f"{path}{name}", one, other)
    return path, left, right


def _parts(left: object, right: object) -> Iterator[tuple[str, object, object]]:
    """(name, left, right) of each part, where both have the same parts."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        yield from ((f".{name}", left[name], right[name]) for name in left)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        yield from ((f"[{at}]", one, other) for at, (one, other) in enumerate(zip(left, right, strict=True)))


def _show(field: object) -> str:
    if isinstance(field, bytes):
        return show_key(field)
    return beginning(repr(field), _LONGEST)


def difference(
    target: Format, where: tuple[str, str], key: bytes, expected: bytes | None, actual: bytes | None
) -> Mismatch:
    """The mismatch of a key; None: there is no such key. `where`: the store partition and the column family."""
    kind: Kind = "missing" if actual is None else "extra" if expected is None else "differing"
    field = ("key", "", "")
    if expected is not None and actual is not None:
        field = first_difference(target, key, expected, actual)
    return differing(where[0], *field, family=where[1]).model_copy(update={"kind": kind, "key": key})


class FamilyCount(Stored):
    """The number of records that were read of one column family of a RocksDB directory of the source."""

    directory: str
    family: str
    seen: int
    used: int
    """The records in the times to be read."""


class Verified(Stored):
    """The result of one verification task."""

    records: int
    missing: int = 0
    differing: int = 0
    extra: int = 0
    first: tuple[Mismatch, ...] = ()
    """The first mismatch of each kind."""
    seconds: float = 0.0
    ends: tuple[bytes, bytes] | None = None
    """The first and the last key of the expected new records; None: there are none."""
    dropped: int = 0
    """Values that the function dropped, where old records were converted again."""
    counts: tuple[FamilyCount, ...] = ()
    is_after_death: bool = False
    """Whether the portable engine did it because a process had died at it in another one."""

    @property
    def mismatches(self) -> int:
        return self.missing + self.differing + self.extra

    def with_mismatch(self, mismatch: Mismatch, count: int = 1) -> Verified:
        """The result with a number of mismatches more, of which this is the first."""
        is_known = mismatch.kind in {each.kind for each in self.first}
        first = self.first if is_known else (*self.first, mismatch)
        return self.model_copy(update={"first": first, mismatch.kind: count + getattr(self, mismatch.kind)})


def as_verified(found: Mismatch, count: int = 1) -> Verified:
    """The result for a mismatch that no task has found."""
    return Verified(records=0).with_mismatch(found, count)


class Totals(Value):
    """Counts over all committed chunks, and the tails that a catch-up has applied to them."""

    chunks: int = 0
    records_in: int = 0
    records_out: int = 0
    dropped: int = 0
    """Values that the function dropped: records, and former values of keys of a versioned store."""
    dropped_keys: tuple[Shown, ...] = ()
    """The first keys of those, at most three."""
    not_carried: int = 0
    """Records that the new format does not carry: former values, and keys of the owning system's own."""
    expired: int = 0
    """Records older than the new store's retention."""
    shadowed: int = 0
    """Records of a pre-upgrade family whose keys were written again since; not part of `records_in`."""
    rejected: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    task_seconds: float = 0.0
    """Seconds of work, summed over all workers."""


class Verification(Value):
    """How the new stores were compared, and the result."""

    mode: Literal["full", "digest", "off"]
    records: int = 0
    records_before: int = 0
    """Those among `records` that were compared before an interruption, in addition to the `seconds`."""
    dropped: int = 0
    """Values that the function dropped, so that no new record stands for them; by digest, as the receipts say."""
    missing: int = 0
    differing: int = 0
    extra: int = 0
    first: tuple[Mismatch, ...] = ()
    """The first of each kind."""
    seconds: float = 0.0
    after_deaths: int = 0
    """Ranges that the portable engine compared because a process had died at them in another one."""

    @property
    def ok(self) -> bool:
        return self.missing + self.differing + self.extra == 0


class RecordMismatch(Stored):
    """A key of a changelog whose last record is not the one that the new store's entry stands for."""

    kind: Kind
    topic: str
    number: int
    offset: int | None
    """That of the record; None: there is none."""
    key: bytes
    field: str
    """What differs."""
    expected: str
    actual: str

    def __str__(self) -> str:
        where = f"{self.topic}, partition {self.number}, key {show_key(self.key)}"
        where += "" if self.offset is None else f", offset {self.offset}"
        if self.kind == "differing":
            return f"differing: {where}: {self.field} should be {self.expected}, is {self.actual}"
        if self.kind == "extra":
            return f"extra in the changelog: {where}: the new store has no such entry"
        return f"missing in the changelog: {where}" + (": a tombstone" if self.field == "tombstone" else "")


class Reread(Stored):
    """A changelog that was read to its end, and compared with the new store."""

    store_partition: str
    end: int
    """The offset behind the last record that was read."""
    records: int
    """Keys whose last record is as it should be, those of tombstones included."""
    expired: int = 0
    """Records that the topic's retention has removed, and that the application's store has no use for any more."""
    outdated: int = 0
    """Records that are older than the topic's retention: the broker removes them, or has."""
    missing: int = 0
    differing: int = 0
    extra: int = 0
    first: tuple[RecordMismatch, ...] = ()
    """The first of each kind."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether a restore gives the new store."""
        return self.missing + self.differing + self.extra == 0
