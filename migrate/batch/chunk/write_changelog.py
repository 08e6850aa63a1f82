"""Writing a part of a new store to its changelog, with tombstones of the keys that the old store alone has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from formats import get_format
from migrate.batch.chunk.tail import TailEntries
from migrate.batch.stop import never_stop
from migrate.engine.changelog_codec import (
    ToChangelog,
    addressed,
    by_family,
    keyed_by_time,
    keyed_plainly,
    tombstones,
    window_times,
    with_prefix,
)
from migrate.engine.chunk_source import Inputs, open_inputs
from migrate.engine.columns import read_times
from migrate.engine.key_times import TimesColumn, open_times, times_column
from migrate.errors import ChangelogFailedError
from migrate.kafka.connection import FENCED, Connection
from migrate.kafka.latest import Latest, unpacked
from migrate.kafka.writer import Writer
from migrate.model.changelogs import Changelog, Produced, TopicPart
from migrate.model.key_range import KeyRange
from migrate.model.plan import FamilyMapping
from migrate.stores.batch import Batch, ChangelogBatch
from migrate.stores.merge import Changes, MergedScan, batches_without, paired
from migrate.stores.rocksdb.openings import open_pooled


@dataclass(frozen=True, slots=True)
class NewEntries:
    """Entries of a new store partition, in a form that a task can carry."""

    format: str
    directories: tuple[str, ...]
    families: tuple[str, ...]
    keys: KeyRange
    times: tuple[str, ...] = ()
    """The runs that the records take their times from, where the entries do not tell them; none: they tell them, or
    nothing but a key's window does."""
    newest_ms: int = -1
    """The time of keys that are in no such run."""
    overlays: tuple[str, ...] = ()
    """What tails have changed: their keys have the times of their records in it."""

    @property
    def is_in_order_of_time(self) -> bool:
        """Whether their records have to be written in the order of time, and one key may have several."""
        return get_format(self.format).changelog_form.is_in_order_of_time

    def records(self, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        """Their changelog records, in key order; of several directories in any order where a key has several."""
        form = get_format(self.format)
        convert = ToChangelog(form)
        with ExitStack() as stack:
            opened = [stack.enter_context(open_pooled(Path(directory))) for directory in self.directories]
            overlays = [stack.enter_context(open_pooled(Path(each))) for each in self.overlays]
            runs = [run for each in self.times if (run := stack.enter_context(open_times(each))) is not None]
            for prefix, families in by_family(form.changelog_form, self.families):
                places = [(each, family) for each in opened for family in families if family in each.families]
                scans = [batches_without(form.position_keys, *place, self.keys) for place in places]
                changes = [Changes(each, family) for each in overlays for family in families]
                times = times_column(runs, self.newest_ms, prefix)
                for batch in chain.from_iterable(scans) if self.is_in_order_of_time else MergedScan(scans):
                    check()
                    known = None if times is None else read_times(b"".join(times(batch.keys)))
                    latest = _with_changes(batch.keys, known, changes) if known else window_times(form, batch.keys)
                    if len(found := convert(batch, latest)):
                        yield with_prefix(found, prefix)


def _with_changes(keys: list[bytes], times: Sequence[int], changes: Sequence[Changes]) -> Sequence[int]:
    """The times, with those of the records that tails have changed."""
    later: dict[bytes, int] = {}
    for each in changes:
        found = each.among(keys)
        records = unpacked(Batch([*found], [*found.values()])) if found else ChangelogBatch([], [], [])
        later.update(zip(records.keys, records.timestamps, strict=True))
    return [later.get(key, known) for key, known in zip(keys, times, strict=True)] if later else times


@dataclass(frozen=True, slots=True)
class OldEntries:
    """The entries of an old store partition, in a form that a task can carry."""

    format: str
    inputs: tuple[tuple[Inputs, FamilyMapping], ...]
    """What each RocksDB directory of the new store is made from."""
    times: str | None = None
    """The run that the records take their times from; None: the entries tell them, or nothing does."""
    newest_ms: int = -1
    """The time of keys that are not in that run."""

    def tombstones(self, new: ToWrite, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        """A tombstone for each key in the old changelog that the new store does not have, in key order."""
        form = get_format(self.format).changelog_form
        for old, kept in paired(self.records(check), new.records(check)):
            there = {*kept.keys}
            if keys := [key for key in dict.fromkeys(old.keys) if key not in there]:
                yield tombstones(form, keys)

    def records(self, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
        form = get_format(self.format)
        convert = ToChangelog(form)
        with ExitStack() as stack:
            opened = [(stack.enter_context(open_inputs(inputs, form)), mapping) for inputs, mapping in self.inputs]
            run = stack.enter_context(open_times(self.times))
            for prefix, families in by_family(form.changelog_form, (mapping.source for _, mapping in opened)):
                scans = [records.batches(mapping) for records, mapping in opened if mapping.source in families]
                times = None if run is None else TimesColumn(run, self.newest_ms, prefix)
                for batch in MergedScan(scans):
                    check()
                    if len(found := convert(batch, None if times is None else read_times(b"".join(times(batch.keys))))):
                        yield with_prefix(found, prefix)


ToWrite = NewEntries | TailEntries
"""What a changelog must hold."""
ToDelete = OldEntries | TailEntries
"""The keys of which a changelog must hold a tombstone."""


@dataclass(frozen=True, slots=True)
class ProduceTask:
    """A part of a new store partition, to be written to its changelog."""

    connection: Connection
    changelog: Changelog
    part: TopicPart
    content: str
    transactional_id: str
    """One for each part, whoever writes it: so a later attempt ends an earlier one that lives on."""
    new: ToWrite
    has_records: bool
    """Whether the new store's records are written; otherwise only tombstones."""
    old: ToDelete | None
    """Given: the tombstones of the keys that it alone has are written, too."""
    folder: str
    """For what a sort does not keep in memory."""
    permit: str
    """A file that is there as long as attempts may write."""
    size: int = 0
    """About how many bytes the task reads."""

    def __str__(self) -> str:
        return str(self.part)


def produce(task: ProduceTask, check: Callable[[], None] = never_stop) -> Produced:
    """Write the part; the receipt says that the broker has confirmed every record. Raises ChangelogFailedError."""
    started = time.perf_counter()
    confirmed = write_records(
        task.connection,
        task.changelog,
        task.transactional_id,
        task.permit,
        addressed(get_format(task.new.format).changelog_form, _batches(task, check)),
    )
    return Produced(
        store_partition=task.part.store_partition,
        database=task.part.database,
        keys=task.part.keys,
        content=task.content,
        **confirmed._asdict(),
        seconds=round(time.perf_counter() - started, 6),
    )


def _batches(task: ProduceTask, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
    if task.has_records and task.new.is_in_order_of_time:
        with Latest.build(map(keyed_by_time, task.new.records(check)), Path(task.folder)) as latest:
            yield from map(keyed_plainly, latest.scan())
    elif task.has_records:
        yield from task.new.records(check)
    if task.old is not None:
        yield from task.old.tombstones(task.new, check)


def _check_permit(permit: str, changelog: Changelog) -> None:
    """Raises ChangelogFailedError where the command that this attempt belongs to writes no more."""
    try:
        Path(permit).read_bytes()  # over a network this asks the server; whether a file is there may be remembered
    except FileNotFoundError:
        raise ChangelogFailedError(
            f"the changelog of {changelog.store_partition} is written by another command, or was", hint=FENCED
        ) from None


class Confirmed(NamedTuple):
    """What the broker has confirmed."""

    records: int
    tombstones: int
    size: int
    """Bytes of keys and values."""
    last_offset: int | None


def write_records(
    connection: Connection,
    changelog: Changelog,
    transactional_id: str,
    permit: str,
    batches: Iterator[ChangelogBatch],
) -> Confirmed:
    """Write records to the new topic's partition, in their order. Raises ChangelogFailedError."""
    records = tombstones = size = 0
    with Writer(connection, changelog.new_topic, changelog.number, transactional_id) as writer:
        _check_permit(permit, changelog)
        for batch in batches:
            writer.write(batch)
            gone = batch.values.count(None)
            records, tombstones = records + len(batch) - gone, tombstones + gone
            size += sum(map(len, batch.keys)) + sum(map(len, filter(None, batch.values)))
        last_offset = writer.finish()
    return Confirmed(records, tombstones, size, last_offset)
