"""Reading a changelog to its end, and comparing what a restore would give with the new store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

from formats import get_format
from migrate.batch.chunk.write_changelog import ToDelete, ToWrite
from migrate.batch.stop import never_stop
from migrate.engine.changelog_codec import keyed_by_time, placed, plain_key
from migrate.engine.columns import TIME_BYTES
from migrate.kafka.connection import Connection
from migrate.kafka.latest import Latest
from migrate.kafka.reader import read
from migrate.model.changelogs import Changelog
from migrate.model.comparison import Kind, RecordMismatch, Reread
from migrate.model.display import plural
from migrate.model.key_range import show_key
from migrate.stores.batch import ChangelogBatch, RecordHeaders
from migrate.stores.files import remove_tree
from migrate.stores.merge import OutOfOrderError, in_order, paired


@dataclass(frozen=True, slots=True)
class RereadTask:
    """The offsets [start, end) of the new topic's partition, and the new store partition that they must hold."""

    connection: Connection
    changelog: Changelog
    start: int
    end: int
    new: ToWrite
    old: ToDelete | None
    """Given: there must be a tombstone of each key that it alone has."""
    folder: str
    """For what does not fit in memory; it is removed."""
    expired_before: int | None = None
    """Records of earlier times may have been removed by the topic's retention; None: none may."""
    dropped_before: int | None = None
    """Keys of earlier times are of segments that have expired since they were written; None: there are none."""
    size: int = 0
    """About how many bytes the task reads."""

    def __str__(self) -> str:
        return f"changelog of {self.changelog.store_partition}, read back"


def reread(task: RereadTask, check: Callable[[], None] = never_stop) -> Reread:
    """Compare the last record of each key. Raises ChangelogFailedError where the topic cannot be read to the end."""
    started = time.perf_counter()
    remove_tree(Path(task.folder))
    found = None if task.old is not None else _compare_in_order(task, check)
    found = _compare_reduced(task, check) if found is None else found
    return found.model_copy(update={"seconds": round(time.perf_counter() - started, 6)})


def _compare_in_order(task: RereadTask, check: Callable[[], None]) -> Reread | None:
    """The comparison without a reduction, where no key comes twice; None: the records are not in order."""
    comparison = _TopicComparison(task)
    try:
        with _expected(task, check) as expected:
            comparison.compare(expected, in_order(_read(task, check)))
    except OutOfOrderError:
        return None
    return comparison.found()


def _compare_reduced(task: RereadTask, check: Callable[[], None]) -> Reread:
    comparison = _TopicComparison(task)
    with Latest.build(_read(task, check), Path(task.folder) / "read") as latest:
        with _expected(task, check) as expected:
            comparison.compare(expected, latest.scan())
        if task.old is not None:
            comparison.compare_tombstones(task.old.tombstones(task.new, check), latest.scan())
    return comparison.found()


def _read(task: RereadTask, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
    place = (task.changelog.new_topic, task.changelog.number, task.start, task.end)
    records = placed(get_format(task.new.format).changelog_form, read(task.connection, *place, check=check))
    return map(keyed_by_time, records) if task.new.is_in_order_of_time else records


@contextmanager
def _expected(task: RereadTask, check: Callable[[], None]) -> Iterator[Iterator[ChangelogBatch]]:
    records = task.new.records(check)
    if not task.new.is_in_order_of_time:
        yield records
        return
    with Latest.build(map(keyed_by_time, records), Path(task.folder) / "expected") as expected:
        yield expected.scan()


@dataclass(slots=True)
class _TopicComparison:
    task: RereadTask
    _kinds: Counter[Kind] = field(default_factory=Counter)
    _first: dict[Kind, RecordMismatch] = field(default_factory=dict)
    _equal: int = 0
    _expired: int = 0
    _outdated: int = 0

    def found(self) -> Reread:
        return Reread(
            store_partition=self.task.changelog.store_partition,
            end=self.task.end,
            records=self._equal,
            expired=self._expired,
            outdated=self._outdated,
            missing=self._kinds["missing"],
            differing=self._kinds["differing"],
            extra=self._kinds["extra"],
            first=tuple(self._first.values()),
        )

    def compare(self, expected: Iterator[ChangelogBatch], actual: Iterator[ChangelogBatch]) -> None:
        """Compare column by column; record by record where a column differs."""
        if not self.task.new.is_in_order_of_time:
            expected, actual = _live(expected), _live(actual)
        for wanted, got in paired(expected, actual):
            if (limit := self.task.expired_before) is not None:
                self._outdated += sum(0 <= at < limit for at in wanted.timestamps)
            if wanted.keys == got.keys and _columns(wanted) == _columns(got):
                self._equal += len(wanted)
            else:
                self._compare_each(wanted, got)

    def compare_tombstones(self, expected: Iterator[ChangelogBatch], actual: Iterator[ChangelogBatch]) -> None:
        """Look for tombstones; a record in place of one is extra, and found by `compare`."""
        for wanted, got in paired(expected, actual):
            there = {*got.keys}
            for key in wanted.keys:
                if key in there:
                    self._equal += 1
                else:
                    self._add("missing", key, None, ("tombstone", "", ""))

    def _compare_each(self, wanted: ChangelogBatch, got: ChangelogBatch) -> None:
        there = dict(zip(got.keys, _records(got), strict=True))
        for key, record in zip(wanted.keys, _records(wanted), strict=True):
            found = there.pop(key, None)
            if found is None:
                self._add_missing(key, record[1])
            elif found[:3] == record[:3]:
                self._equal += 1
            else:
                self._add("differing", key, found[3], _difference(record, found))
        for key, found in there.items():
            if self._is_dropped(key):
                self._expired += 1
            else:
                self._add("extra", key, found[3])

    def _is_dropped(self, key: bytes) -> bool:
        limit = self.task.dropped_before
        if limit is None:
            return False
        return int.from_bytes(key[get_format(self.task.new.format).segment_time], "big", signed=True) < limit

    def _add_missing(self, key: bytes, timestamp: int) -> None:
        limit = self.task.expired_before
        if limit is not None and timestamp < limit:
            self._expired += 1
        else:
            self._add("missing", key, None)

    def _add(self, kind: Kind, key: bytes, offset: int | None, what: tuple[str, str, str] = ("key", "", "")) -> None:
        self._kinds[kind] += 1
        if kind not in self._first:
            changelog, form = self.task.changelog, get_format(self.task.new.format).changelog_form
            self._first[kind] = RecordMismatch(
                kind=kind,
                topic=changelog.new_topic,
                number=changelog.number,
                offset=offset,
                key=key[TIME_BYTES:] if self.task.new.is_in_order_of_time else plain_key(form, key),
                **dict(zip(("field", "expected", "actual"), what, strict=True)),
            )


_Record = tuple[bytes | None, int, RecordHeaders, int | None]


def _columns(batch: ChangelogBatch) -> tuple[list[bytes | None], list[int], list[RecordHeaders] | None]:
    headers = None if batch.headers is None or not any(batch.headers) else list(batch.headers)
    return list(batch.values), _times(batch), headers


def _records(batch: ChangelogBatch) -> Iterator[_Record]:
    headers: Iterable[RecordHeaders] = batch.headers or repeat([])
    offsets: Iterable[int | None] = batch.offsets or repeat(None)
    return zip(batch.values, _times(batch), headers, offsets, strict=False)


def _times(batch: ChangelogBatch) -> list[int]:
    """A broker would take the time 0 for none: 1 is written in its place."""
    return [timestamp or 1 for timestamp in batch.timestamps]


def _live(batches: Iterator[ChangelogBatch]) -> Iterator[ChangelogBatch]:
    """Without tombstones: a key that is gone in both is not compared."""
    for batch in batches:
        live = batch if None not in batch.values else batch.where([value is not None for value in batch.values])
        if len(live):
            yield live


def _difference(expected: _Record, actual: _Record) -> tuple[str, str, str]:
    fields = zip(("value", "timestamp", "headers"), expected, actual, strict=False)
    return next((name, _shown(one), _shown(other)) for name, one, other in fields if one != other)


def _shown(content: bytes | int | RecordHeaders | None) -> str:
    if isinstance(content, bytes):
        return show_key(content)
    if isinstance(content, list):
        return plural(len(content), "header") if len(content) > 3 else str(content)
    return "a tombstone" if content is None else str(content)
