"""Writing a part of a new store to its changelog."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from migrate.batch.chunk.changelog_entries import ToDelete, ToWrite, in_order_of_time
from migrate.batch.stop import never_stop
from migrate.errors import ChangelogFailedError
from migrate.kafka.connection import Connection
from migrate.kafka.failures import FENCED
from migrate.kafka.writer import Writer
from migrate.model.changelog.written import Changelog, Part, Produced
from migrate.stores.changelog_batch import ChangelogBatch


@dataclass(frozen=True, slots=True)
class ProduceTask:
    """A part of a new store partition, to be written to its changelog."""

    connection: Connection
    changelog: Changelog
    part: Part
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
    records, tombstones, size, last_offset = write_records(
        task.connection, task.changelog, task.transactional_id, task.permit, _batches(task, check)
    )
    return Produced(
        store_partition=task.part.store_partition,
        database=task.part.database,
        keys=task.part.keys,
        content=task.content,
        records=records,
        tombstones=tombstones,
        size=size,
        last_offset=last_offset,
        seconds=round(time.perf_counter() - started, 6),
    )


def _batches(task: ProduceTask, check: Callable[[], None]) -> Iterator[ChangelogBatch]:
    if task.has_records and task.new.is_in_order_of_time:
        yield from in_order_of_time(task.new.records(check), Path(task.folder))
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
