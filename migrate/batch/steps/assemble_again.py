"""New stores that are assembled again, after a verification, from the same chunks: with further tails, or with other
offsets inside. What can have changed is compared, and the result of the verification is committed for the new ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from migrate.batch.changelog.store_changelogs import position_entries
from migrate.batch.chunk.executor import Executor, collected
from migrate.batch.context import Context
from migrate.batch.ledger.standing import Standing
from migrate.batch.plan.new_stores import kept_databases
from migrate.batch.steps.assemble import assemble, by_place
from migrate.batch.steps.comparisons import Subject
from migrate.batch.steps.verify import compare_offsets, mismatch_error, record, verify, with_result
from migrate.kafka.latest import unpacked
from migrate.model.comparison import Mismatch, Verification, Verified, as_verified, differing
from migrate.model.ledger_row import Step
from migrate.model.store_partition import place_name
from migrate.stores.rocksdb.openings import open_pooled
from migrate.stores.rocksdb.table_digests import Inode, inode, table_digests


def state_offsets(context: Context, executor: Executor) -> None:
    """Let the new stores state the last records of their changelogs, where that is written inside of them."""
    if context.standing.behind_changelogs:
        assemble_again(context, executor)


def assemble_again(context: Context, executor: Executor) -> None:
    """Assemble the new stores that lack something, and compare what has changed. Raises VerificationError.

    Where an earlier command ended between the two, all is compared: nothing tells any more which tables were right.
    """
    was_interrupted = context.standing.awaits_comparison
    verified = _verified_inodes(context.standing)
    assemble(context)
    if context.standing.is_verified:
        return
    if was_interrupted:
        verify(context, executor)
        return
    databases = (each for part in context.plan.store_partitions for each in kept_databases(context.plan, part))
    subject = Subject(context, tuple(databases))
    known = context.standing.verification
    total = known if known is not None and known.ok else Verification(mode="off")
    tables = table_digests(subject.folders, verified)
    results = [as_verified(each) for each in _counted_wrong(subject)]
    results += collected(executor, subject.overlay_tasks(), Verified, name=context.spec.name, stop=context.stop)
    mode = "digest" if total.mode == "off" else total.mode
    found = Verification(mode=mode, records=total.records, dropped=total.dropped)
    for each in results:
        found = with_result(found, each)
    if not found.ok or total.mode != "off":
        record(context, found, tables)
    if not found.ok:
        hint = "stateferry run SPEC assembles the new stores again; the old ones are as they were"
        raise mismatch_error(found, hint=hint)


def _verified_inodes(standing: Standing) -> dict[Inode, str]:
    """The digests of the tables that were compared last, by what their links in the next assembly share with them."""
    facts = next((each.facts for each in reversed(standing.rows) if each.step is Step.VERIFIED), {})
    made = {each.facts["folder"]: str(each.store_partition) for each in standing.rows if each.step is Step.ASSEMBLED}
    found: dict[Inode, str] = {}
    for folder in facts.get("folders", ()):
        tables = facts.get("tables", {}).get(made.get(folder), {}).items()
        paths = ((standing.home / folder / name, digest) for name, digest in tables)
        found |= {inode(file): digest for file, digest in paths if file.is_file()}
    return found


def _counted_wrong(subject: Subject) -> Iterator[Mismatch]:
    """RocksDB directories whose tables do not have the number of records of their chunks and tails, or other offsets.

    The chunks' files were compared before; that all of them are there is what remains to be shown.
    """
    receipts = by_place(subject.context.standing.receipts)
    entries, left_out = position_entries(subject.context), subject.context.conversion.position_keys
    for database in subject.databases:
        mine = receipts[database.store_partition, database.database]
        overlay = subject.overlay_of(database)
        stated = entries.of(database.store_partition)
        with open_pooled(subject.target_of(database)) as target:
            for number, mapping in enumerate(database.mappings):
                expected = sum(receipt.written[number].records for receipt in mine)
                expected += len(stated.get(mapping.target, ()))
                expected += 0 if overlay is None else _puts(overlay, mapping.target)
                if (actual := target.table_puts(mapping.target)) != expected:
                    where = place_name(database.store_partition, database.database)
                    yield differing(where, "records in tables", f"{expected:,}", f"{actual:,}", family=mapping.target)
            if (wrong := compare_offsets(database, target, stated, left_out)) is not None:
                yield wrong


def _puts(overlay: Path, family: str) -> int:
    with open_pooled(overlay) as opened:
        return sum(len(batch) - list(unpacked(batch).values).count(None) for batch in opened.batches(family))
