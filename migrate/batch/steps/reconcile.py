"""Reconcile: files and ledger are compared both ways at the start of every run.

A receipt in the ledger without its file does not count (`Standing.receipts`). A receipt beside its files that the
ledger lacks, because of a power cut or a kill, is committed, if the conversion that holds has made it. Any other file
of an *older* run is removed. Files of a newer run are never touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from migrate.batch.chunk.rewrite_chunk import write_receipt
from migrate.batch.context import Context
from migrate.batch.home import CHANGELOG, NEW, OVERLAYS, remove_unfinished, temporary_directories
from migrate.batch.identity import RetiredStores
from migrate.batch.ledger.receipts_in_force import FIRST, Revision, assembled_by, attempts_at, disjoint, has_files
from migrate.batch.ledger.standing import Standing
from migrate.batch.steps.assemble import LINKS
from migrate.batch.steps.rewrite import commit_chunks
from migrate.model.ledger_row import Step
from migrate.model.receipt import Receipt, attempt_name, attempt_of, read_receipt, run_of
from migrate.stores.files import remove_empty, remove_tree

_File = tuple[str, str]
"""Its folder and its name: of thousands, a Path each is slow."""


def reconcile(context: Context) -> None:
    """Commit the receipts that the ledger lacks, and remove unreferenced files."""
    older, walked = _older(context), os.walk(context.home / "chunks")
    files = [(folder, name) for folder, _, names in walked for name in names if run_of(name) in older]
    found = _uncommitted(context.standing, files)
    if adopted := [mine for receipt in found if (mine := _adopt(context, receipt)) is not None]:
        commit_chunks(context, *adopted)
        context.notify("chunks.adopted", receipts=adopted)
    _remove_orphans(context, files)
    context.notify("orphans.removed")


def _older(context: Context) -> set[str]:
    """The runs before this one."""
    return {row.run_id for row in context.standing.rows} - {context.run_id}


def revise(context: Context, revision: Revision) -> None:
    """Commit the revision. The chunks that lack rejected or dropped records are rewritten from then on.

    So are those that lacked some before an earlier revision; and everything that earlier ones have rewritten if a
    verification has shown that functions differ in other records too.
    """
    standing = context.standing
    is_refuted, fixed = standing.mismatch is not None, _replacements(standing)
    void = tuple(
        each.attempt
        for each in standing.receipts
        if context.plan.is_sorted  # what the function mends may get a key of any range
        or each.rejected
        or each.dropped
        or (each.revision != FIRST and (is_refuted or each.attempt in fixed))
    )
    detail = revision.model_copy(update={"superseded": void}).model_dump(mode="json")
    context.record(Step.REVISED, detail=detail)
    context.notify("conversion.revised", revision=revision.number, superseded=len(void))


def _replacements(standing: Standing) -> set[str]:
    """The attempts in the place of chunks that lacked rejected or dropped records."""
    void = {attempt for revision in standing.revisions for attempt in revision.superseded}
    return attempts_at(standing.receipts, (each for each in standing.recorded if each.attempt in void))


def _uncommitted(standing: Standing, files: Iterable[_File]) -> list[Receipt]:
    """Receipts, among these files of older runs, that no row has; of two attempts at one chunk, one."""
    known = {receipt.attempt for receipt in standing.recorded}
    taken = disjoint(standing.receipts)
    found = []
    for folder, name in sorted(files):
        if not name.endswith(".receipt.json") or attempt_of(name) in known:
            continue
        receipt = read_receipt(Path(folder, name))
        if receipt is None or receipt.attempt in known or receipt.migration_id != standing.migration_id:
            continue
        if receipt.revision != standing.revision_id:
            continue  # of a function that was replaced since, or of a revision whose row is lost
        mine = taken[receipt.store_partition, receipt.database]
        if has_files(receipt, standing.home) and not mine.overlapping(receipt.keys):
            mine.replace(receipt)
            found.append(receipt)
    return found


def _adopt(context: Context, receipt: Receipt) -> Receipt | None:
    """The same chunk under this run's name; None where its files were removed meanwhile.

    The files are linked, since their worker, or another run after it, may still remove them.
    """
    mine = receipt.renamed(context.run_id, attempt_name(context.run_id, receipt.number))
    home = context.home
    try:
        for theirs, ours in zip(receipt.files, mine.files, strict=True):
            (home / ours).hardlink_to(home / theirs)
    except FileNotFoundError:
        return None
    write_receipt(home, mine)
    return mine


def _remove_orphans(context: Context, files: Iterable[_File]) -> None:
    attempts = {receipt.attempt for receipt in context.standing.receipts}
    for folder, name in files:
        if attempt_of(name) not in attempts:
            Path(folder, name).unlink(missing_ok=True)
    remove_unfinished(context.home)
    _remove_unnamed_stores(context)
    for temporary in temporary_directories(context.spec.target_path, _older(context)):
        remove_tree(temporary)


def _remove_unnamed_stores(context: Context) -> None:
    """Remove new stores that no row names; never an old one, which is the application's (I8)."""
    older, plan = _older(context), context.plan
    assembled = _needed(context.standing)
    retired = RetiredStores(context.spec.source_path, context.standing)
    for run in (context.home / NEW).glob("*"):
        if run.name not in older:
            continue
        remove_tree(run / LINKS)
        for partition in plan.store_partitions:
            folder = run / partition.id
            if folder not in assembled and not retired.may_hold(run.name, partition, plan):
                remove_tree(folder)
            remove_empty(folder.parent, below=run)
        remove_empty(run, below=run.parent)
    _remove_unnamed_overlays(context, older)


def _needed(standing: Standing) -> set[Path]:
    """The new stores that count; of a store partition with a further tail, the one before until it is there."""
    made = assembled_by(standing.revision_id, standing.rows)
    return {*{partition: standing.home / facts["folder"] for partition, facts in made}.values()}


def _remove_unnamed_overlays(context: Context, older: set[str]) -> None:
    overlays = set(context.standing.overlays.values())
    for run in (context.home / CHANGELOG).glob(f"{OVERLAYS}-*"):
        if run.name.removeprefix(f"{OVERLAYS}-") not in older:
            continue
        for partition in context.plan.store_partitions:
            if run / partition.id not in overlays:
                remove_tree(run / partition.id)
            remove_empty((run / partition.id).parent, below=run)
        remove_empty(run, below=run.parent)


def remove_superseded(context: Context) -> None:
    """Remove new stores, overlays and files of tails, of runs before this one, that no row needs any more."""
    older = _older(context)
    _remove_unnamed_stores(context)
    tails = [tail for found in context.standing.tails.values() for tail in found]
    named = {context.home / file.file for tail in tails for file in tail.files}
    named |= {context.home / (tail.rejects_file or ".") for tail in tails}
    for partition in context.plan.store_partitions:
        for path in (context.home / CHANGELOG / partition.id).glob("tail-*/*"):
            if path not in named and run_of(path.name) in older:
                remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)
