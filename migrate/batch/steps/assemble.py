"""Assemble: each store partition's chunks, with its tails applied to them, become its new RocksDB directories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path

from migrate.batch.changelog.store_changelogs import position_entries
from migrate.batch.context import Context
from migrate.batch.home import CHANGELOG, NEW, OVERLAYS
from migrate.batch.identity import created_state
from migrate.batch.ledger.standing import Standing
from migrate.batch.ledger.table import SharedCommits
from migrate.batch.plan.new_stores import link_written, make_overlay, overlay_of, plan_of, write_changes
from migrate.errors import ChunkFailedError, CorruptionError, MigrationError
from migrate.model.key_range import show_key
from migrate.model.ledger_row import Row, Step
from migrate.model.plan import DatabasePlan
from migrate.model.receipt import Receipt
from migrate.model.store_partition import StorePartition, StoreState
from migrate.stores.batch import Batch
from migrate.stores.files import make_directories, remove_empty, remove_tree, write_file
from migrate.stores.merge import batches_without
from migrate.stores.regular_files import walk
from migrate.stores.rocksdb.database import DEFAULT_FAMILY, StoreContent
from migrate.stores.rocksdb.layout import is_immutable
from migrate.stores.rocksdb.openings import keeping_open, open_pooled
from migrate.stores.rocksdb.writing import COLLAPSE, SORT, SstWriter, TableOptions, create_database


def assemble(context: Context) -> None:
    """Assemble the new store partitions.

    Those of an earlier run are used as they are, unless a verification has found them wrong, or their changelogs have
    got records since whose offsets lie inside them. Rows share commits: what a killed run made and did not commit, the
    next one removes and makes again.
    """
    standing = context.standing
    right = {each for each, folder in standing.assembled.items() if folder not in standing.refuted}
    right -= standing.behind_changelogs
    left = [partition for partition in context.plan.store_partitions if partition.id not in right]
    if not left:
        return  # and leave no empty folder of this run
    _check_files(standing)
    waiting = _Waiting(context)
    with _links(context.home / NEW / context.run_id) as links:
        assembly = Assembly(context, links)
        try:
            for partition in left:
                context.stop.check()
                context.notify("assemble.started", store_partition=partition)
                folder, state = assembly.make(partition)
                context.notify("assemble.ingested", store_partition=partition, folder=folder)
                waiting.add(partition, folder, state)
        except MigrationError:
            waiting.commit()  # else the next run, or this one after a repair, would make them again
            raise
        waiting.commit()


def _check_files(standing: Standing) -> None:
    """Raises CorruptionError for a file that is not as it was committed: its chunk's records would be missing."""
    for receipt in standing.looked_at_again().without_files:
        file = standing.home / receipt.files[0]
        raise CorruptionError(
            f"{receipt}: {file} was removed or changed after it was written", hint="run the command again", place=file
        )


class _Waiting:
    """New store partitions that wait for the commit that says that they are durable."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._commits = SharedCommits[tuple[Row, StorePartition, Path]](self._record)
        self.commit = self._commits.commit

    def add(self, partition: StorePartition, folder: Path, state: StoreState) -> None:
        home, standing = self._context.home, self._context.standing
        relative = folder.relative_to(home)
        detail: dict[str, object] = {"folder": str(relative), "state": state.model_dump()}
        detail["revision"] = standing.revision_id
        if self._context.conversion.target.position_keys:
            detail["last"] = standing.changelogs.last_offsets.get(partition.id)
        unsynced = [_unsynced(folder, partition)]
        if tails := standing.tails.get(partition.id, ()):
            overlay = overlay_folder(self._context, partition)
            detail |= {"tail": tails[-1].number, "overlay": str(overlay.relative_to(home))}
            unsynced += [_unsynced(overlay, partition)]
        row = self._context.ledger.row(Step.ASSEMBLED, store_partition=partition.id, detail=detail)
        self._commits.add((row, partition, folder), unsynced=chain.from_iterable(unsynced))
        self._commits.commit_due()

    def _record(self, *made: tuple[Row, StorePartition, Path]) -> None:
        self._context.commit(*(row for row, *_ in made))
        for _, partition, folder in made:
            self._context.notify("assemble.committed", store_partition=partition, folder=folder)


LINKS = ".links"


@contextmanager
def _links(run: Path) -> Iterator[Path]:
    """The folder, beside one run's new stores, of links to the chunks: ingestion moves the files that it is given."""
    links = run / LINKS
    remove_tree(links)
    make_directories(run)
    links.mkdir()
    try:
        yield links
    finally:
        remove_tree(links)
        remove_empty(run, below=run.parent)  # empty if the run ended before its first store partition


Entries = dict[str, dict[bytes, bytes]]
"""Values by column family and key."""


class Assembly:
    """Makes the new store partitions of one run."""

    def __init__(self, context: Context, links: Path) -> None:
        """`links`: an empty folder for links to the chunks: ingestion moves its files."""
        self._context = context
        self._chunks = by_place(context.standing.receipts)
        self._entries = position_entries(context)
        self._links = links

    def make(self, partition: StorePartition) -> tuple[Path, StoreState]:
        """Make the new store partition. Returns its directory, of which only tables are durable, and its state.

        Raises ChunkFailedError where chunks overlap.
        """
        folder = self._context.home / NEW / self._context.run_id / partition.id
        remove_tree(folder)
        directories = self._context.plan.new_partition(partition).below(folder)
        if tails := self._context.standing.tails.get(partition.id, ()):
            home = self._context.home
            make_overlay(home, tails, [*directories], overlay_folder(self._context, partition), self._links)
        contents = {}
        for database, directory in directories.items():
            contents[database] = self._make_database(partition, database, directory)
        folder.mkdir(parents=True, exist_ok=True)  # it may have no segment
        return folder, created_state(directories, contents)

    def _make_database(self, partition: StorePartition, database: str, directory: Path) -> StoreContent:
        home, mapped = self._context.home, plan_of(self._context.plan, partition.id, database)
        snapshots = self._context.snapshots_of(partition.id)
        files = _link_chunks(home, self._chunks[partition.id, database], self._links)
        with keeping_open():
            for number, family in enumerate(mapped.carried_families):
                writer = SstWriter(self._links / f"carried-{number}.sst", TableOptions())
                for batch in carried_records(mapped, snapshots, family, self._context.conversion.position_keys):
                    writer.write(batch)
                files[family] = writer.finish()
            changes = write_changes(overlay_of(overlay_folder(self._context, partition), database), self._links)
        entries = self._entries.of(partition.id)
        families = {mapping.target: TableOptions(compression=mapping.compression) for mapping in mapped.mappings}
        families = dict.fromkeys((*mapped.carried_families, *entries, DEFAULT_FAMILY), TableOptions()) | families
        content = create_database(directory, families, files, entries, changes=changes)
        config = snapshots[mapped.carriers[0]] / "rocksdict-config.json" if mapped.carriers else None
        if config is not None and config.exists():  # the owner's own, where it uses rocksdict
            write_file(directory / config.name, config.read_bytes())
        return content


def overlay_folder(context: Context, partition: StorePartition) -> Path:
    """Where this run makes the overlay of a store partition."""
    return context.home / CHANGELOG / f"{OVERLAYS}-{context.run_id}" / partition.id


def _unsynced(folder: Path, partition: StorePartition) -> Iterator[Path]:
    """The directories of a new store partition, those above it up to the run's, and its files but for the tables."""
    yield from folder.parents[: len(Path(partition.id).parts)]
    for inside, _, names in walk(folder):
        yield inside
        yield from (inside / name for name in names if not is_immutable(name))


def by_place(receipts: Sequence[Receipt]) -> defaultdict[tuple[str, str], list[Receipt]]:
    """The receipts of each (store partition, database), in key order."""
    found: defaultdict[tuple[str, str], list[Receipt]] = defaultdict(list)
    for receipt in sorted(receipts, key=lambda receipt: receipt.keys.start or b""):
        found[receipt.store_partition, receipt.database].append(receipt)
    return found


def _link_chunks(home: Path, receipts: list[Receipt], links: Path) -> dict[str, list[Path]]:
    _check_ascending(receipts)
    files: dict[str, list[Path]] = defaultdict(list)
    for receipt in receipts:
        for written in receipt.written:
            if written.file is not None:
                link = links / Path(written.file).name
                hint = "run the command again: it rewrites that chunk, and no other"
                link_written(home / written.file, link, hint)
                files[written.family].append(link)
    return files


def carried_records(
    plan: DatabasePlan, snapshots: dict[str, Path], family: str, left_out: Sequence[bytes]
) -> Iterator[Batch]:
    """One of the owning system's own families as it is (I7), but for keys that are written for the new store.

    Of several directories, which are segments with a handful of entries each, the newest one's entry counts.
    """
    entries: dict[bytes, bytes] = {}
    for carrier in plan.carriers:
        with open_pooled(snapshots[carrier]) as database:
            for batch in batches_without(left_out, database, family) if family in database.families else ():
                if len(plan.carriers) == 1:
                    yield batch
                else:
                    entries = dict(zip(batch.keys, batch.values, strict=True)) | entries
    if entries:
        yield Batch(sorted(entries), [entries[key] for key in sorted(entries)])


def _check_ascending(receipts: list[Receipt]) -> None:
    """Raises ChunkFailedError unless the converted chunks are still in key order."""
    for family in range(len(receipts[0].written) if receipts else 0):
        filled = [(receipt, receipt.written[family]) for receipt in receipts if receipt.written[family].records]
        for (_, before), (receipt, written) in pairwise(filled):
            assert before.last_key is not None and written.first_key is not None
            if before.last_key >= written.first_key:
                raise ChunkFailedError(
                    f"{receipt}: the conversion changes the order of keys, or maps two to one: "
                    f"{show_key(written.first_key)} does not come after {show_key(before.last_key)}",
                    hint=f"{SORT}; {COLLAPSE}",
                )
