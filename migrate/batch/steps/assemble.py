"""Assemble: each store partition's chunks become its new RocksDB directories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from migrate.batch.chunk.side_by_side import batches_without
from migrate.batch.context import Context
from migrate.batch.identity import store_state
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import Ledger
from migrate.batch.plan.target_positions import position_entries
from migrate.batch.source.snapshot import snapshot_directories
from migrate.errors import ChunkFailedError, CorruptionError
from migrate.model.key_range import show_key
from migrate.model.ledger_row import Step
from migrate.model.plan import DatabasePlan, Plan
from migrate.model.receipt import Receipt
from migrate.model.store_partition import StorePartition
from migrate.stores.batch import Batch
from migrate.stores.files import fsync_tree, make_directories, remove_tree
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, open_read_only
from migrate.stores.rocksdb.layout import database_files
from migrate.stores.rocksdb.writing import SstWriter, TableOptions, create_database


def assemble(context: Context, plan: Plan, ledger: Ledger, receipts: list[Receipt]) -> dict[str, Path]:
    """Assemble the new store partitions, and return their directories by id.

    Those of an earlier run are used as they are, unless a verification has found them wrong.
    """
    standing = Standing(context.home, ledger.rows)
    folders = {each: folder for each, folder in standing.assembled.items() if folder not in standing.refuted}
    for partition in plan.store_partitions:
        if partition.id in folders:
            continue
        context.stop.check()
        context.notify("assemble.started", store_partition=partition)
        mine = [receipt for receipt in receipts if receipt.store_partition == partition.id]
        entries = position_entries(context.spec, plan, partition.id)
        folder = assemble_partition(context, plan, partition, mine, entries)
        context.notify("assemble.ingested", store_partition=partition, folder=folder)
        state = store_state(plan.new_partition(partition).below(folder))
        relative = str(folder.relative_to(context.home))
        detail: dict[str, object] = {"folder": relative, "state": state.model_dump(), "revision": standing.revision_id}
        ledger.commit(ledger.row(Step.ASSEMBLED, store_partition=partition.id, detail=detail))
        context.notify("assemble.committed", store_partition=partition, folder=folder)
        folders[partition.id] = folder
    return folders


Entries = dict[str, dict[bytes, bytes]]
"""Values by column family and key."""
LINKS = ".links"
"""The folder, beside one attempt's new stores, of links to the chunks: ingestion moves the files that it is given."""


def assemble_partition(
    context: Context, plan: Plan, partition: StorePartition, receipts: list[Receipt], entries: Entries
) -> Path:
    """Make the new store partition and return its directory, durable, named by the run.

    `entries`: put into each of its RocksDB directories. Raises ChunkFailedError where chunks overlap.
    """
    home, attempt = context.home, context.run_id
    folder = home / "new" / attempt / partition.id
    remove_tree(folder)
    make_directories(folder.parent)
    snapshots = snapshot_directories(home, partition)
    for database in plan.new_partition(partition).databases:
        mine = [receipt for receipt in receipts if receipt.database == database]
        directory = folder / database
        make_directories(directory.parent)
        links = home / "new" / attempt / LINKS
        files = _link_chunks(home, in_key_order(mine), links)
        mapped = plan.database(partition.id, database)
        for number, family in enumerate(mapped.carried_families):
            records = carried_records(mapped, snapshots, family, context.conversion.position_keys)
            files[family] = _write_carried(records, links / f"carried-{number}.sst")
        _assemble_database(mapped, files, entries, snapshots=snapshots, directory=directory)
    make_directories(folder)
    remove_tree(home / "new" / attempt / LINKS)
    fsync_tree(folder)
    return folder


def in_key_order(receipts: Sequence[Receipt]) -> list[Receipt]:
    """Receipts of one database sorted by their chunks' keys."""
    return sorted(receipts, key=lambda receipt: receipt.keys.start or b"")


def _link_chunks(home: Path, receipts: list[Receipt], links: Path) -> dict[str, list[Path]]:
    _check_ascending(receipts)
    remove_tree(links)
    make_directories(links)
    files: dict[str, list[Path]] = defaultdict(list)
    for receipt in receipts:
        for written in receipt.written:
            if written.file is not None:
                link = links / Path(written.file).name
                _link(home / written.file, link)
                files[written.family].append(link)
    return files


def _link(file: Path, link: Path) -> None:
    try:
        link.hardlink_to(file)
    except FileNotFoundError as error:
        raise CorruptionError(
            f"{file} was removed after it was written",
            hint="run the command again: it rewrites that chunk, and no other",
            place=file,
        ) from error


def _write_carried(records: Iterator[Batch], file: Path) -> list[Path]:
    writer: SstWriter | None = None
    for batch in records:
        writer = writer or SstWriter(file, TableOptions())
        writer.write(batch)
    if writer is None:
        return []
    writer.finish()
    return [file]


def _assemble_database(
    plan: DatabasePlan, files: dict[str, list[Path]], entries: Entries, *, snapshots: dict[str, Path], directory: Path
) -> None:
    families = {mapping.target: TableOptions(compression=mapping.compression) for mapping in plan.mappings}
    families = dict.fromkeys((*plan.carried_families, *entries, DEFAULT_FAMILY), TableOptions()) | families
    create_database(directory, families, files, entries)
    for file in database_files(snapshots[plan.sources[0].database]).mutable:
        if file.name == "rocksdict-config.json":  # the owner's own, where it uses rocksdict
            (directory / file.name).write_bytes(file.read_bytes())


def carried_records(
    plan: DatabasePlan, snapshots: dict[str, Path], family: str, left_out: Sequence[bytes]
) -> Iterator[Batch]:
    """One of the owning system's own families as it is (I7), but for keys that are written for the new store.

    Of several directories, which are segments with a handful of entries each, the newest one's entry counts.
    """
    entries: dict[bytes, bytes] = {}
    for carrier in plan.carriers:
        with open_read_only(snapshots[carrier]) as database:
            for batch in batches_without(left_out, database, family) if family in database.families else ():
                if len(plan.carriers) == 1:
                    yield batch
                else:
                    entries = dict(zip(batch.keys, batch.values, strict=True)) | entries
    if entries:
        yield Batch(sorted(entries), [entries[key] for key in sorted(entries)])


def _check_ascending(receipts: list[Receipt]) -> None:
    """Raises ChunkFailedError unless the converted chunks are still in key order."""
    for family in range(len(receipts[0].written)):
        filled = [(receipt, receipt.written[family]) for receipt in receipts if receipt.written[family].records]
        for (_, before), (receipt, written) in pairwise(filled):
            assert before.last_key is not None and written.first_key is not None
            if before.last_key >= written.first_key:
                raise ChunkFailedError(
                    f"{receipt}: the conversion changes the order of keys, or maps two to one: "
                    f"{show_key(written.first_key)} does not come after {show_key(before.last_key)}",
                    hint="the function must keep the order of keys and map no two keys to one",
                )
