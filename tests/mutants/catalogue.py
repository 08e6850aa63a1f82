"""The mutants: of a run here, of a switch and of the adapter beside. A claim without one is only a sentence."""

from __future__ import annotations

from tests.mutants.avro import AVRO
from tests.mutants.damage import DAMAGE
from tests.mutants.dry_run import DRY_RUN
from tests.mutants.functions import FUNCTIONS
from tests.mutants.json_numbers import JSON_NUMBERS
from tests.mutants.lazy import LAZY
from tests.mutants.mutant import Mutant
from tests.mutants.openings import OPENINGS
from tests.mutants.queries import QUERIES
from tests.mutants.replaying import REPLAYING
from tests.mutants.segments import SEGMENTS
from tests.mutants.source import SOURCE
from tests.mutants.switching import SWITCHING
from tests.mutants.topics import TOPICS
from tests.mutants.verification import VERIFICATION

_EARLY_ROW = """\
    def started(task: RewriteTask) -> None:
        receipts = __import__("sys").modules[Receipt.__module__]
        scanned = tuple(receipts.Scanned(family=each.source, records=0, size=0, digest="") for each in task.mappings)
        nothing = {"file": None, "file_size": 0, "records": 0, "size": 0, "first_key": None, "last_key": None}
        written = tuple(receipts.Written(family=each.target, digest="", **nothing) for each in task.mappings)
        ledger.commit(chunk_row(Receipt(
            migration_id=plan.migration_id, run_id=context.run_id, attempt=f"early-{task.chunk.number}",
            store_partition=task.chunk.store_partition, database=task.chunk.database, number=task.chunk.number,
            keys=task.chunk.keys, scanned=scanned, written=written, dropped=0, rejected=0, rejects_file=None,
            seconds=0.0, engine="", host="",
        )))
        context.notify("chunk.started", task=task)
"""

_RUN: tuple[Mutant, ...] = (
    Mutant(
        name="chunk-name-not-synced",
        claim="I1",
        definition="_write_whole",
        old="        fsync_directory(path.parent)\n",
        new="",
        tests=("test_the_names_of_a_file_and_its_receipt_are_synced_in_the_end",),
    ),
    Mutant(
        name="assembled-not-synced",
        claim="I1",
        definition="SharedCommits.commit",
        old="            fsync_all(unsynced)\n",
        new="",
        tests=("test_every_step_is_durable_before_its_row_and_every_row_before_the_next_step",),
    ),
    Mutant(
        name="ledger-not-synced",
        claim="I1",
        definition="Ledger.commit",
        old="            write_new(entry_file(self._folder, version), self._written)\n",
        new="            entry_file(self._folder, version).write_bytes(self._written)\n",
        tests=("test_a_commit_is_synced_before_it_counts",),
    ),
    Mutant(
        name="found-ledger-not-synced",
        claim="I1",
        definition="Ledger.__init__",
        old="            fsync_file(path)\n",
        new="            pass\n",
        tests=("test_what_is_found_is_synced_before_anything_follows_it",),
    ),
    Mutant(
        name="commit-before-data",
        claim="I1",
        definition="rewrite",
        old='    started = lambda task: context.notify("chunk.started", task=task)\n',
        new=_EARLY_ROW,
        tests=("test_a_run_that_stopped_is_finished_by_the_next[chunk.started-1]",),
    ),
    Mutant(
        name="commit-without-receipt",
        claim="I1",
        definition="_Attempt.receipt",
        old="        write_receipt(Path(task.home), receipt)\n",
        new="",
        tests=("test_the_receipt_lies_beside_its_files",),
    ),
    Mutant(
        name="published-before-renamed",
        claim="I1",
        definition="publish",
        old="            rename_into_place(temporary, target)\n",
        new='            ledger.commit(ledger.row(Step.PUBLISHED, detail={"path": str(target)}))\n'
        "            rename_into_place(temporary, target)\n",
        tests=("test_the_intent_to_publish_is_recorded_before_the_rename",),
    ),
    Mutant(
        name="lost-files-count-as-done",
        claim="I1",
        definition="Standing.receipts",
        old="for receipt in self._valid if self._is_there(receipt)])",
        new="for receipt in self._valid])",
        tests=("test_a_chunk_whose_file_is_gone_is_not_done",),
    ),
    Mutant(
        name="overlapping-receipts-adopted",
        claim="I1",
        definition="_uncommitted",
        old="mine.overlapping(receipt.keys)",
        new="receipt is None",
        tests=("test_what_reaches_into_a_committed_interval_is_not_taken_over",),
    ),
    Mutant(
        name="live-attempts-collected",
        claim="I1",
        definition="_files_of",
        old="if run_of(name) in runs]",
        new="]",
        tests=("test_what_a_run_that_the_ledger_does_not_know_makes_is_left_alone",),
    ),
    Mutant(
        name="live-new-stores-collected",
        claim="I1",
        definition="_remove_unnamed_stores",
        old="        if run.name not in older:\n            continue\n",
        new="",
        tests=("test_what_a_run_that_the_ledger_does_not_know_makes_is_left_alone",),
    ),
    Mutant(
        name="attempts-share-a-name",
        claim="I1",
        definition="attempt_name",
        old='return f"{run_id}-{number:06d}-{uuid.uuid4().hex[:8]}"',
        new='return f"{run_id}-{number:06d}"',
        tests=("test_two_attempts_at_one_chunk_share_no_file",),
    ),
    Mutant(
        name="impure-functions-pass",
        claim="I2",
        definition="convert_sample",
        old="    if first != second:\n",
        new="    if first is None and second is not None:\n",
        tests=("test_every_verb_reports_the_same[a function that is not pure, random]",),
    ),
    Mutant(
        name="digest-without-lengths",
        claim="I2",
        definition="RecordDigest.update",
        old="        self._lengths.update(batch.lengths)\n",
        new="",
        tests=("test_lengths_tell_where_a_key_ends",),
    ),
    Mutant(
        name="inclusive-upper-bound",
        claim="I3",
        definition="Database.batches",
        old="bisect_left(batch.keys, keys.end)",
        new='bisect_left(batch.keys, keys.end + b"\\0")',
        tests=("test_ranges_that_tile_give_every_record_once",),
    ),
    Mutant(
        name="two-keys-become-one",
        claim="I3",
        definition="_check_ascending",
        old="if before.last_key >= written.first_key:",
        new="if before.last_key > written.first_key:",
        tests=("test_keys_that_clash_between_two_chunks_fail_before_anything_is_assembled",),
    ),
    Mutant(
        name="extra-keys-ignored",
        claim="I3",
        definition="_extra_keys",
        old="    if not next_one or next_one[0] not in keys:",
        new="    if next_one is not None:",
        tests=("test_an_extra_key[at the end of a chunk-full]",),
    ),
    Mutant(
        name="first-keys-belong-to-nobody",
        claim="I3",
        definition="target_ranges",
        old="    edges = [None, *(starts",
        new="    edges = [starts[filled[0]], *(starts",
        tests=("test_an_extra_key[before the first-digest]",),
    ),
    Mutant(
        name="no-status-check",
        claim="I4",
        definition="Database.check_ended",
        old="            check_end(self.column(family).iter(streaming()), at, where, ",
        new="            return\n            check_end(self.column(family).iter(streaming()), at, where, ",
        tests=("test_a_damaged_block_is_an_error_that_names_a_key",),
    ),
    Mutant(
        name="foreign-ledger-accepted",
        claim="I5",
        definition="Ledger.__init__",
        old="        check_migration(self.rows, migration_id, self._folder)\n",
        new="",
        tests=("test_another_migrations_ledger_is_refused_and_unchanged",),
    ),
    Mutant(
        name="no-fencing",
        claim="I5",
        definition="write_new",
        old="_link_new",
        new="Path.replace",
        tests=(
            "test_of_two_writers_of_a_new_file_one_succeeds",
            "test_of_racing_runs_at_most_one_can_commit_in_the_end",
        ),
    ),
    Mutant(
        name="fenced-commit-retried",
        claim="I5",
        definition="Ledger.commit",
        old="        self.check_not_fenced()\n",
        new="        self._version = newest_version(self._folder)\n",
        tests=("test_a_second_run_fences_the_first_one_off",),
    ),
    Mutant(
        name="torn-version-freed",
        claim="I5",
        definition="_write_again",
        old="    write_durably(file, as_entry(entry.version, entry.rows, part))\n",
        new="    file.unlink(missing_ok=True)\n",
        tests=("test_the_number_of_a_torn_commit_stays_taken",),
    ),
    Mutant(
        name="two-runs-at-a-time",
        claim="I5",
        definition="one_run_at_a_time",
        old="            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        new="",
        tests=("test_a_second_run_is_refused_while_the_first_is_at_work",),
    ),
    Mutant(
        name="held-source-accepted",
        claim="I6",
        definition="Source.check_stopped",
        old="        check_unlocked(self.system.layout.lock_files(self.path, self.partitions))\n",
        new="",
        tests=("test_every_verb_reports_the_same[a lock on .lock]",),
    ),
    Mutant(
        name="source-written-while-publishing",
        claim="I6",
        definition="_build",
        old="    check_unchanged(context)\n",
        new="",
        tests=("test_a_write_while_the_new_directory_is_built_is_refused",),
    ),
    Mutant(
        name="offsets-inside-not-compared",
        claim="I7",
        definition="compare_families",
        old="            if stated != (offsets := entries.get(family, {})):",
        new="            if len(stated) != len(offsets := entries.get(family, {})):",
        tests=("test_what_is_not_a_record_is_verified[changed0-full]",),
    ),
    Mutant(
        name="metadata-left-behind",
        claim="I7",
        definition="Assembly._make_database",
        old="files[family] = _write_carried(records, ",
        new="files[family] = _write_carried(iter(()), ",
        tests=("test_the_systems_own_family_is_carried_as_it_is",),
    ),
    Mutant(
        name="source-opened-in-place",
        claim="I8",
        definition="_open_view",
        old="            opened, families = _open_rocksdb(directory, view, options)\n",
        new="            opened, families = _open_rocksdb(directory, directory, options)\n",
        tests=("test_opening_and_scanning_touch_nothing",),
    ),
    Mutant(
        name="owners-log-linked",
        claim="I8",
        definition="_snapshot_database",
        old="(files.immutable, files.mutable) if",
        new="(files.every, ()) if",
        tests=("test_what_an_owner_changes_in_place_is_copied",),
    ),
    Mutant(
        name="old-store-collected",
        claim="I8",
        definition="_remove_unnamed_stores",
        old="retired.may_hold(run.name, partition, plan)",
        new="False",
        tests=("test_an_old_store_is_not_removed_from_any_place",),
    ),
    Mutant(
        name="interrupted-exits-0",
        claim="I9",
        definition="exit_code_of",
        old="        return error.exit_code\n",
        new="        return ExitCode.DONE if error.exit_code is ExitCode.INTERRUPTED else error.exit_code\n",
        tests=("test_an_interruption_is_5",),
    ),
    Mutant(
        name="chunks-start-after-a-stop",
        claim="I9",
        definition="run_all",
        old="if not (calls.failures or stop.is_requested or _is_past(deadline)):",
        new="if not (calls.failures or _is_past(deadline)):",
        tests=("test_a_stop_lets_running_tasks_end_and_starts_no_more",),
    ),
    Mutant(
        name="mismatch-published",
        claim="I9",
        definition="verify",
        old="    if not found.ok:\n        raise mismatch_error(found, hint=hint)\n",
        new="",
        tests=("test_a_new_store_that_was_damaged_is_not_published",),
    ),
)

MUTANTS = (
    *_RUN,
    *VERIFICATION,
    *REPLAYING,
    *SEGMENTS,
    *OPENINGS,
    *SOURCE,
    *SWITCHING,
    *LAZY,
    *DRY_RUN,
    *AVRO,
    *FUNCTIONS,
    *JSON_NUMBERS,
    *DAMAGE,
    *TOPICS,
    *QUERIES,
)
