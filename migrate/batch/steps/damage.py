"""Damage: files of the migration that a run finds damaged are set aside, and made again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from migrate.batch.chunk.rewrite import chunk_directory, receipt_file
from migrate.batch.context import Context
from migrate.batch.home import CHECKED_CHUNK, DAMAGED_CHUNKS
from migrate.batch.ledger.intervals import has_files
from migrate.batch.ledger.standing import Standing
from migrate.batch.source.snapshot import check_copies
from migrate.engine.digest import RecordDigest
from migrate.errors import ChunkFailedError, CorruptionError, MigrationError, RefusedError, VerificationError
from migrate.model.key_range import subtract
from migrate.model.ledger_row import Row
from migrate.model.plan import Plan
from migrate.model.receipt import Receipt, Written, read_receipt
from migrate.model.store_partition import StorePartition
from migrate.model.values import with_seal
from migrate.stores.files import content_digest, fsync_directory, make_directories, remove_tree, write_durably
from migrate.stores.rocksdb.database import open_read_only
from migrate.stores.rocksdb.layout import rocksdb_identities
from migrate.stores.rocksdb.writing import TableOptions, create_database

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


class Repairs:
    """The repairs of one run."""

    def __init__(self, context: Context, plan: Plan) -> None:
        self._context = context
        self._home = context.home
        self._plan = plan
        self._assembled_again: set[str] = set()

    def discard_damaged(self, error: MigrationError, rows: Sequence[Row], receipts: list[Receipt]) -> list[Receipt]:
        """Set the damaged files that caused `error` aside, and return the receipts of undamaged chunks.

        Raises the error where no file of the migration is damaged, and ChunkFailedError the third time that one is.
        """
        partition = None if isinstance(error, VerificationError) else self._partition_of(error)
        if partition is None:
            raise error
        damaged = [each for each in receipts if each.store_partition == partition.id and not self._is_intact(each)]
        if not damaged and partition.id in self._assembled_again:
            raise error
        self._drop_assembled(partition, rows)
        if not damaged:
            self._assembled_again.add(partition.id)
            self._context.warn(f"{error.message}: the new store of {partition.id} is assembled again from its chunks")
        times = {receipt.attempt: self._set_aside(receipt) for receipt in damaged}
        for receipt in damaged:
            if times[receipt.attempt] >= MOST_TIMES:
                raise ChunkFailedError(
                    f"{receipt}: its file was damaged or removed {times[receipt.attempt]} times after it was written",
                    hint=f"check the disk that holds {self._home} (the system's log, smartctl), and whether a process "
                    "removes files there; then run the command again, or start over with a work_dir on another disk",
                )
        return [receipt for receipt in receipts if receipt.attempt not in times]

    def _partition_of(self, error: MigrationError) -> StorePartition | None:
        """The store partition whose chunks or new store cannot be read; None: the error has another cause."""
        place = error.place
        roots = [self._home / "chunks", *(self._home / "new").glob("*")]
        folders = {partition.id: [root / partition.id for root in roots] for partition in self._plan.store_partitions}
        for partition in self._plan.store_partitions:
            if place is not None and any(place.is_relative_to(folder) for folder in folders[partition.id]):
                return partition
        return None

    def _is_intact(self, receipt: Receipt) -> bool:
        """Whether its files have the content that the receipt records."""
        if not has_files(receipt, self._home):
            return False
        rejects, digest = receipt.rejects_file, receipt.rejects_digest
        if rejects is not None and digest not in (None, content_digest(self._home / rejects)):
            return False
        return all(self._is_whole(written) for written in receipt.written if written.file is not None)

    def _is_whole(self, written: Written) -> bool:
        folder = self._home / CHECKED_CHUNK
        remove_tree(folder)
        make_directories(folder)
        try:
            link = folder / "000000.sst"
            link.hardlink_to(self._home / str(written.file))
            options = {written.family: TableOptions()}
            create_database(folder / "rocksdb", options, {written.family: [link]}, {})
            digest = RecordDigest()
            with open_read_only(folder / "rocksdb") as database:
                for batch in database.batches(written.family):
                    digest.update(batch)
        except (CorruptionError, RefusedError):
            return False
        finally:
            remove_tree(folder)
        return (digest.records, str(digest)) == (written.records, written.digest)

    def _drop_assembled(self, partition: StorePartition, rows: Sequence[Row]) -> None:
        """Remove the new store, which links to the chunks' files; never an old store, the application's (I8)."""
        folder = Standing(self._home, rows).assembled.get(partition.id)
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
