"""Mutants of what is done about damage in our own files, workers that die, and chunks that wait for a shared commit."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DAMAGE: tuple[Mutant, ...] = (
    Mutant(
        name="damaged-times-kept",
        claim="I4",
        definition="_is_as_written",
        old="    return str(digest) == known.digest\n",
        new="    return True\n",
        tests=("test_a_damaged_run_is_noticed_and_made_again",),
    ),
    Mutant(
        name="times-not-synced",
        claim="I1",
        definition="make_times",
        old="        fsync_tree(folder)\n",
        new="",
        tests=("test_a_run_is_durable_before_its_row_is_written",),
    ),
    Mutant(
        name="times-of-other-keys",
        claim="I4",
        definition="TimesColumn.__call__",
        old="            if known == keys:\n",
        new="            if len(known) == len(keys):\n",
        tests=("test_each_key_gets_its_own_time_and_others_the_default",),
    ),
    Mutant(
        name="chunks-of-two-times",
        claim="I3",
        definition="take_times",
        old="made.digest != before.digest and",
        new="False and",
        tests=("test_chunks_do_not_get_other_times_than_those_before",),
    ),
    Mutant(
        name="ledger-row-without-digest",
        claim="I5",
        definition="_as_row",
        old="    if not (fits or is_older or is_newer):\n",
        new="    if False:\n",
        tests=("test_a_row_that_is_lost_in_both_its_copies_is_not_read",),
    ),
    Mutant(
        name="damaged-chunk-kept",
        claim="I1",
        definition="is_as_written",
        old="        return False\n",
        new="        return True\n",
        tests=("test_a_damaged_chunk_is_set_aside_and_rewritten",),
    ),
    Mutant(
        name="damage-counted-per-run",
        claim="I9",
        definition="Repairs.discard_damaged",
        old="            if times[receipt.attempt] >= MOST_TIMES:\n",
        new="            if False:\n",
        tests=("test_the_third_time_a_chunk_is_damaged_points_at_the_disk_whatever_run_it_was",),
    ),
    Mutant(
        name="damaged-receipt-adopted",
        claim="I3",
        definition="read_receipt",
        old="if is_whole else None\n",
        new="if text else None\n",
        tests=("test_a_damaged_receipt_is_not_adopted",),
    ),
    Mutant(
        name="waiting-chunks-left-out",
        claim="I1",
        definition="SharedCommits.commit",
        old="        self._ledger.commit(*self._waiting)\n",
        new="        self._ledger.commit(*self._waiting[:1])\n",
        tests=("test_they_are_committed_at_once_on_a_stop", "test_what_waits_is_committed_on_request"),
    ),
    Mutant(
        name="waiting-chunks-not-committed-on-failure",
        claim="I5",
        definition="_reporting_failures",
        old="        rewritten.commit()\n",
        new="",
        tests=("test_they_are_committed_before_a_failure_is_told",),
    ),
    Mutant(
        name="far-number-taken-for-the-newest",
        claim="I5",
        definition="newest_version",
        old="newest + 1 - len(files)) > _MOST_MISSING",
        new="newest + 1 - len(files)) > 100 * _MOST_MISSING",
        tests=("test_a_file_with_a_far_number_is_named_and_the_gap_before_it_is_not_filled",),
    ),
    Mutant(
        name="lost-bundle-forgotten",
        claim="I3",
        definition="_Calls._finished",
        old="            self._bundles.split(bundle)\n",
        new="",
        tests=("test_what_a_dead_worker_had_finished_is_made_again_and_counts_once",),
    ),
)
