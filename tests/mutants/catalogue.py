"""The mutants: of a run here, of a switch and of the adapter beside. A claim without one is only a sentence."""

from __future__ import annotations

from tests.mutants.avro import AVRO
from tests.mutants.damage import DAMAGE
from tests.mutants.dry_run import DRY_RUN
from tests.mutants.functions import FUNCTIONS
from tests.mutants.lazy import LAZY
from tests.mutants.mutant import Mutant
from tests.mutants.segments import SEGMENTS
from tests.mutants.source import SOURCE
from tests.mutants.switching import SWITCHING
from tests.mutants.verification import VERIFICATION

_EARLY_ROW = """\
    def started(task: RewriteTask) -> None:
        from migrate.receipt import Scanned, Written
        scanned = tuple(Scanned(family=lane.source, records=0, size=0, digest="") for lane in task.lanes)
        nothing = {"file": None, "file_size": 0, "records": 0, "size": 0, "first_key": None, "last_key": None}
        written = tuple(Written(family=lane.target, digest="", **nothing) for lane in task.lanes)
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
        name="chunk-file-not-synced",
        claim="I1",
        file="migrate/rewriting.py",
        old="            writer.finish()\n            fsync_file(file)\n",
        new="            writer.finish()\n",
        tests=("tests/migrate/test_rewriting.py::test_file_and_name_are_synced_before_the_receipt",),
    ),
    Mutant(
        name="chunk-name-not-synced",
        claim="I1",
        file="migrate/rewriting.py",
        old="    fsync_directory(folder)\n    write_durably(",
        new="    write_durably(",
        tests=("tests/migrate/test_rewriting.py::test_file_and_name_are_synced_before_the_receipt",),
    ),
    Mutant(
        name="ledger-not-synced",
        claim="I1",
        file="migrate/ledger.py",
        old="        self._sync()\n        self.rows += stamped",
        new="        self.rows += stamped",
        tests=("tests/migrate/test_ledger.py::test_a_commit_is_synced_before_it_counts",),
    ),
    Mutant(
        name="found-ledger-not-synced",
        claim="I1",
        file="migrate/ledger.py",
        old="        self._sync()  # whoever wrote",
        new="        # whoever wrote",
        tests=("tests/migrate/test_ledger.py::test_what_is_found_is_synced_before_anything_follows_it",),
    ),
    Mutant(
        name="commit-before-data",
        claim="I1",
        file="migrate/steps/rewrite.py",
        old='    started = lambda task: context.notify("chunk.started", task=task)'
        "  # noqa: E731 - one line, used once\n",
        new=_EARLY_ROW,
        tests=("tests/migrate/test_resume.py::test_a_run_that_stopped_is_finished_by_the_next[chunk.started-1]",),
    ),
    Mutant(
        name="commit-without-receipt",
        claim="I1",
        file="migrate/rewriting.py",
        old="        write_receipt(Path(task.home), receipt)\n",
        new="",
        tests=("tests/migrate/test_rewriting.py::test_the_receipt_lies_beside_its_files",),
    ),
    Mutant(
        name="published-before-renamed",
        claim="I1",
        file="migrate/steps/publish.py",
        old="            _rename(temporary, target)\n",
        new='            ledger.commit(ledger.row(Step.PUBLISHED, detail={"path": str(target)}))\n'
        "            _rename(temporary, target)\n",
        tests=("tests/migrate/test_resume.py::test_the_intent_to_publish_is_recorded_before_the_rename",),
    ),
    Mutant(
        name="lost-files-count-as-done",
        claim="I1",
        file="migrate/progress_state.py",
        old="recorded_receipts(rows) if has_files(receipt, home)])",
        new="recorded_receipts(rows)])",
        tests=("tests/migrate/test_progress_state.py::test_a_chunk_whose_file_is_gone_is_not_done",),
    ),
    Mutant(
        name="overlapping-receipts-adopted",
        claim="I1",
        file="migrate/steps/reconcile.py",
        old="has_files(receipt, home) and _is_free(receipt, taken)",
        new="has_files(receipt, home)",
        tests=("tests/migrate/test_reconcile.py::test_what_reaches_into_a_committed_interval_is_not_taken_over",),
    ),
    Mutant(
        name="live-attempts-collected",
        claim="I1",
        file="migrate/steps/reconcile.py",
        old="if _run_of(file) in older and _attempt_of(file) not in attempts:",
        new="if _attempt_of(file) not in attempts:",
        tests=("tests/migrate/test_reconcile.py::test_what_a_run_that_the_ledger_does_not_know_makes_is_left_alone",),
    ),
    Mutant(
        name="live-new-stores-collected",
        claim="I1",
        file="migrate/steps/reconcile.py",
        old="        if run.name not in older:\n            continue\n",
        new="",
        tests=("tests/migrate/test_reconcile.py::test_what_a_run_that_the_ledger_does_not_know_makes_is_left_alone",),
    ),
    Mutant(
        name="attempts-share-a-name",
        claim="I1",
        file="migrate/rewriting.py",
        old='return f"{run_id}-{number:06d}-{uuid.uuid4().hex[:8]}"',
        new='return f"{run_id}-{number:06d}"',
        tests=("tests/migrate/test_rewriting.py::test_two_attempts_at_one_chunk_share_no_file",),
    ),
    Mutant(
        name="impure-functions-pass",
        claim="I2",
        file="migrate/trying.py",
        old="    if first != second:\n",
        new="    if first is None and second is not None:\n",
        tests=("tests/bad_input/test_functions.py::test_a_function_that_is_not_pure_is_refused[random]",),
    ),
    Mutant(
        name="digest-without-lengths",
        claim="I2",
        file="migrate/digest.py",
        old="        self._lengths.update(batch.lengths)\n",
        new="",
        tests=("tests/migrate/test_digest.py::test_lengths_tell_where_a_key_ends",),
    ),
    Mutant(
        name="inclusive-upper-bound",
        claim="I3",
        file="migrate/stores/rocksdb.py",
        old="if inside := bisect_left(batch.keys, keys.end):",
        new='if inside := bisect_left(batch.keys, keys.end + b"\\0"):',
        tests=("tests/migrate/stores/test_rocksdb_reading.py::test_ranges_that_tile_give_every_record_once",),
    ),
    Mutant(
        name="two-keys-become-one",
        claim="I3",
        file="migrate/assembling.py",
        old="if before.last_key >= written.first_key:",
        new="if before.last_key > written.first_key:",
        tests=(
            "tests/bad_input/test_functions.py::"
            "test_keys_that_clash_between_two_chunks_fail_before_anything_is_assembled",
        ),
    ),
    Mutant(
        name="extra-keys-ignored",
        claim="I3",
        file="migrate/gaps.py",
        old="    if not next_one or next_one[0] not in keys:",
        new="    if next_one is not None:",
        tests=("tests/migrate/test_verification.py::test_an_extra_key[at the end of a chunk-full]",),
    ),
    Mutant(
        name="first-keys-belong-to-nobody",
        claim="I3",
        file="migrate/verification.py",
        old="    edges = [None, *(starts",
        new="    edges = [starts[filled[0]], *(starts",
        tests=("tests/migrate/test_verification.py::test_an_extra_key[before the first-digest]",),
    ),
    Mutant(
        name="no-status-check",
        claim="I4",
        file="migrate/stores/rocksdb.py",
        old="            check_end(self.column(family).iter(streaming()), at, where, ",
        new="            return\n            check_end(self.column(family).iter(streaming()), at, where, ",
        tests=("tests/migrate/stores/test_rocksdb_reading.py::test_a_damaged_block_is_an_error_that_names_a_key",),
    ),
    Mutant(
        name="foreign-ledger-accepted",
        claim="I5",
        file="migrate/ledger.py",
        old="        if foreign:\n",
        new="        if foreign and self._synced < 0:\n",
        tests=("tests/migrate/test_ledger.py::test_another_migrations_ledger_is_refused_and_unchanged",),
    ),
    Mutant(
        name="no-fencing",
        claim="I5",
        file="migrate/ledger.py",
        old=", app_transactions=[Transaction(APPLICATION, number)])",
        new=")",
        tests=("tests/migrate/test_ledger.py::test_a_second_run_fences_the_first_one_off",),
    ),
    Mutant(
        name="fenced-commit-retried",
        claim="I5",
        file="migrate/ledger.py",
        old="            raise _fenced(self._folder) from error\n",
        new="            self._table = _open(self._folder)\n            return self.commit(*rows)\n",
        tests=("tests/migrate/test_ledger.py::test_a_second_run_fences_the_first_one_off",),
    ),
    Mutant(
        name="torn-entry-freed",
        claim="I5",
        file="migrate/delta_log.py",
        old="    write_durably(entry.file, text.encode())\n",
        new="    entry.file.unlink(missing_ok=True)\n",
        tests=("tests/migrate/test_ledger.py::test_the_number_of_a_torn_commit_stays_taken",),
    ),
    Mutant(
        name="torn-transaction-freed",
        claim="I5",
        file="migrate/delta_log.py",
        old='    actions.append({"txn": {"appId": contents.application, "version": entry.number}})\n',
        new="",
        tests=("tests/migrate/test_ledger.py::test_the_number_of_a_torn_commit_stays_taken",),
    ),
    Mutant(
        name="two-runs-at-a-time",
        claim="I5",
        file="migrate/stores/lock.py",
        old="            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        new="",
        tests=("tests/migrate/test_second_invocations.py::test_a_second_run_is_refused_while_the_first_is_at_work",),
    ),
    Mutant(
        name="held-source-accepted",
        claim="I6",
        file="migrate/source.py",
        old="        check_unlocked(self.system.lock_files(self.path, self.partitions))\n",
        new="",
        tests=("tests/migrate/test_run_refusals.py::test_a_store_that_a_process_holds_is_refused",),
    ),
    Mutant(
        name="source-written-while-publishing",
        claim="I6",
        file="migrate/steps/publish.py",
        old='    check_unchanged(context, plan)\n    context.notify("publish.built"',
        new='    context.notify("publish.built"',
        tests=("tests/migrate/test_second_invocations.py::test_a_write_while_the_new_directory_is_built_is_refused",),
    ),
    Mutant(
        name="metadata-left-behind",
        claim="I7",
        file="migrate/assembling.py",
        old="    create_database(directory, families, files, carried_entries(plan, snapshots))\n",
        new="    create_database(directory, families, files, {})\n",
        tests=("tests/migrate/test_run.py::test_the_systems_own_family_is_carried_as_it_is",),
    ),
    Mutant(
        name="source-opened-in-place",
        claim="I8",
        file="migrate/stores/rocksdb.py",
        old="            return _open_links(view, all_files=all_files)\n",
        new="            return _open_links(directory, all_files=all_files)\n",
        tests=("tests/migrate/stores/test_rocksdb_reading.py::test_opening_and_scanning_touch_nothing",),
    ),
    Mutant(
        name="owners-log-linked",
        claim="I8",
        file="migrate/snapshots.py",
        old="    for path in files.mutable:\n        copy_file(",
        new="    for path in files.mutable:\n        link_file(",
        tests=("tests/migrate/test_snapshots.py::test_what_an_owner_changes_in_place_is_copied",),
    ),
    Mutant(
        name="old-store-collected",
        claim="I8",
        file="migrate/steps/reconcile.py",
        old="if folder not in kept and not retired.may_hold(run.name, partition, plan):",
        new="if folder not in kept:",
        tests=("tests/migrate/test_reconcile.py::test_an_old_store_is_not_removed_wherever_it_stands",),
    ),
    Mutant(
        name="interrupted-exits-0",
        claim="I9",
        file="migrate/cli/errors.py",
        old="        return error.exit_code\n",
        new="        return ExitCode.DONE if error.exit_code is ExitCode.INTERRUPTED else error.exit_code\n",
        tests=("tests/cli/test_exit_codes.py::test_an_interruption_is_5",),
    ),
    Mutant(
        name="chunks-start-after-a-stop",
        claim="I9",
        file="migrate/executor.py",
        old="is_closed = bool(failures) or stop.is_requested or _is_past(deadline)",
        new="is_closed = bool(failures) or _is_past(deadline)",
        tests=("tests/migrate/test_executor.py::test_a_stop_lets_running_tasks_end_and_starts_no_more",),
    ),
    Mutant(
        name="mismatch-published",
        claim="I9",
        file="migrate/steps/verify.py",
        old="    if not found.ok:\n        raise mismatch_error(found, hint=_KEEP)\n    return found\n",
        new="    return found\n",
        tests=("tests/migrate/test_run_refusals.py::test_a_new_store_that_was_damaged_is_not_published",),
    ),
    Mutant(
        name="migrated-twice",
        claim="I10",
        file="migrate/runner.py",
        old="report = _run(context, open_executor) if done is None else done",
        new="report = _run(context, open_executor)",
        tests=("tests/switching/test_cutover.py::test_a_migration_that_is_cut_over_says_so",),
    ),
    Mutant(
        name="published-by-its-path-alone",
        claim="I10",
        file="migrate/steps/publish.py",
        old="return target.is_dir() and (str(target), _identities(plan, target)) in intents",
        new="return target.is_dir() and str(target) in [path for path, _ in intents]",
        tests=(
            "tests/migrate/test_second_invocations.py::"
            "test_another_directory_at_the_targets_path_is_never_taken_for_ours",
        ),
    ),
)

MUTANTS = (
    *_RUN,
    *VERIFICATION,
    *SEGMENTS,
    *SOURCE,
    *SWITCHING,
    *LAZY,
    *DRY_RUN,
    *AVRO,
    *FUNCTIONS,
    *DAMAGE,
)
