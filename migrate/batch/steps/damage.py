"""Damage: files of the migration that a run finds damaged are set aside, and made again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from migrate.batch.chunk.rewrite_chunk import chunk_directory, receipt_file
from migrate.batch.context import Context
from migrate.batch.home import CHECKED_CHUNK, DAMAGED_CHUNKS
from migrate.batch.ledger.receipts_in_force import has_files
from migrate.batch.ledger.standing import Standing
from migrate.batch.source.snapshot import check_copies
from migrate.engine.portable import RecordDigest
from migrate.errors import ChunkFailedError, CorruptionError, MigrationError, RefusedError, VerificationError
from migrate.model.changelogs import Tail, TailFile
from migrate.model.key_range import subtract
from migrate.model.ledger_row import Step
from migrate.model.receipt import Receipt, Written, read_receipt
from migrate.model.store_partition import StorePartition
from migrate.model.values import with_seal
from migrate.stores.files import content_digest, fsync_directory, make_directories, remove_tree, write_durably
from migrate.stores.rocksdb.database import DEFAULT_FAMILY
from migrate.stores.rocksdb.layout import rocksdb_identities
from migrate.stores.rocksdb.openings import open_tables

MOST_TIMES = 3
"""After that many times the disk, or a process that removes files, is at fault."""


@contextmanager
def hinting_at_repair(home: Path) -> Iterator[None]:
    """Add the hint that `run` repairs a file to errors about it, in commands that repair nothing.

    Raises RefusedError where the snapshot is damaged.
    """
    check_copies(home)
    try:
        yield
    except MigrationError as error:
        if error.place is not None and error.place.is_relative_to(home / "new"):
            error.hint = "stateferry run SPEC makes that store again, and rewrites a chunk that is damaged"
        raise


def is_as_written(home: Path, written: Written | TailFile) -> bool:
    """Whether an SST file of the migration has the records that it was written with."""
    try:
        with open_tables([home / str(written.file)], home / CHECKED_CHUNK) as database:
            digest = RecordDigest(database.batches(DEFAULT_FAMILY))
    except (CorruptionError, RefusedError, FileNotFoundError):
        return False
    return (digest.records, str(digest)) == (written.records, written.digest)


def without_damaged_tails(context: Context) -> Standing:
    """The standing before the first damaged tail of each store partition: from there on they have to be made again."""
    damaged: dict[str, int] = {}
    standing = context.standing
    every = [tail for tails in standing.tails.values() for tail in tails]
    for tail in every:
        if tail.store_partition not in damaged and not _is_intact(context.home, tail):
            damaged[tail.store_partition] = tail.start
            context.warn(
                f"tail {tail.number} of {tail.store_partition} was damaged or removed after it was written: it is made "
                "again from the old changelog"
            )
    if not damaged:
        return standing
    kept = [tail for tail in every if tail.start < damaged.get(tail.store_partition, tail.end)]
    names = {(tail.store_partition, tail.number) for tail in kept}
    rows = [
        row for row in standing.rows if row.step is not Step.TAIL or (row.store_partition, row.facts["number"]) in names
    ]
    return standing.with_rows(rows)


def _is_intact(home: Path, of: Receipt | Tail) -> bool:
    """Whether the files of a chunk or of a tail are as they were written."""
    rejects = home / (of.rejects_file or "")
    if of.rejects_file and not (rejects.is_file() and of.rejects_digest in (None, content_digest(rejects))):
        return False
    files = of.files if isinstance(of, Tail) else [each for each in of.written if each.file is not None]
    return all(is_as_written(home, file) for file in files)


class Repairs:
    """The repairs of one run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._home = context.home
        self._assembled_again: set[str] = set()

    def discard_damaged(self, error: MigrationError) -> None:
        """Set the damaged files that caused `error` aside: their chunks are pending again.

        Raises the error where no file of the migration is damaged, and ChunkFailedError the third time that one is.
        """
        partition = None if isinstance(error, VerificationError) else self._partition_of(error)
        if partition is None:
            raise error
        mine = (each for each in self._context.standing.receipts if each.store_partition == partition.id)
        damaged = [each for each in mine if not (has_files(each, self._home) and _is_intact(self._home, each))]
        if not damaged and partition.id in self._assembled_again:
            raise error
        self._drop_assembled(partition)
        if not damaged:
            self._assembled_again.add(partition.id)
            self._context.warn(f"{error.message}: the new store of {partition.id} is assembled again from its chunks")
        times = {receipt.attempt: self._set_aside(receipt) for receipt in damaged}
        self._context.standing = self._context.standing.looked_at_again()
        for receipt in damaged:
            if times[receipt.attempt] >= MOST_TIMES:
                raise ChunkFailedError(
                    f"{receipt}: its file was damaged or removed {times[receipt.attempt]} times after it was written",
                    hint=f"check the disk that holds {self._home} (the system's log, smartctl), and whether a process "
                    "removes files there; then run the command again, or start over with a work_dir on another disk",
                )

    def _partition_of(self, error: MigrationError) -> StorePartition | None:
        """The store partition whose chunks or new store cannot be read; None: the error has another cause."""
        place = error.place
        roots = [self._home / "chunks", *(self._home / "new").glob("*")]
        for partition in self._context.plan.store_partitions:
            if place is not None and any(place.is_relative_to(root / partition.id) for root in roots):
                return partition
        return None

    def _drop_assembled(self, partition: StorePartition) -> None:
        """Remove the new store, which links to the chunks' files; never an old store, the application's (I8)."""
        folder = self._context.standing.assembled.get(partition.id)
        old = rocksdb_identities(self._home / "snapshot")
        if folder is not None and old.isdisjoint(rocksdb_identities(folder)):
            remove_tree(folder)
            fsync_directory(folder.parent)

    def _set_aside(self, receipt: Receipt) -> int:
        """Move its files aside; returns how often files of this chunk were damaged, this time included."""
        aside = self._home / DAMAGED_CHUNKS / receipt.store_partition / receipt.database
        make_directories(aside)
        write_durably(aside / receipt_file(receipt), with_seal(receipt.model_dump_json()).encode())
        folder = chunk_directory(self._home, receipt.store_partition, receipt.database)
        for file in sorted(folder.glob(f"{receipt.attempt}.*")):
            file.rename(aside / file.name)
        for each in (aside, folder) if folder.is_dir() else (aside,):
            fsync_directory(each)
        found = [read_receipt(file) for file in sorted(aside.glob("*.receipt.json"))]
        times = sum(each is not None and subtract(receipt.keys, [each.keys]) != [receipt.keys] for each in found)
        self._context.warn(
            f"{receipt}: its file was damaged or removed after it was written; its remains are in {aside}, and the "
            "chunk is rewritten"
        )
        return times
