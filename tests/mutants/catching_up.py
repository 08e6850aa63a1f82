"""Mutants of changelogs: tails that are lost, writers that outlive their command, and the way back."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CATCHING_UP = (
    Mutant(
        name="catch-up-vouches-for-damage",
        claim="I8",
        definition="_lay_over",
        old="table_digests(subject.folders, verified)",
        new="table_digests(subject.folders)",
        tests=("test_a_table_that_was_damaged_before_a_catch_up_is_not_vouched_for_by_it",),
    ),
    Mutant(
        name="tail-without-deletes",
        claim="I2",
        definition="write_changes",
        old="                writer.write_changes(entries.keys, entries.values)\n",
        new="                puts = entries.where([value is not None for value in entries.values])\n"
        "                writer.write_changes(puts.keys, puts.values)\n",
        tests=("test_tails_are_laid_over_the_stores_and_their_changelogs",),
    ),
    Mutant(
        name="tail-not-compared",
        claim="I2",
        definition="Subject.overlay_tasks",
        old="        for database in self.databases:\n",
        new="        for database in ():\n",
        tests=("test_changes_that_did_not_arrive_are_found",),
    ),
    Mutant(
        name="tail-rejects-not-counted",
        claim="I2",
        definition="Standing.totals",
        old="totals_of(self.receipts, self.every_tail)",
        new="totals_of(self.receipts)",
        tests=("test_records_of_tails_that_cannot_be_converted_hold_a_cut_over_back",),
    ),
    Mutant(
        name="tail-damage-not-noticed",
        claim="I2",
        definition="is_as_written",
        old="    return (digest.records, str(digest)) == (written.records, written.digest)\n",
        new="    return True\n",
        tests=("test_a_damaged_tail_is_made_again",),
    ),
    Mutant(
        name="permit-not-looked-for",
        claim="I8",
        definition="write_records",
        old="        _check_permit(permit, changelog)\n",
        new="",
        tests=("test_attempts_that_were_lost_write_nothing_once_the_stores_are_cut_over",),
    ),
    Mutant(
        name="begun-attempts-left-to-live",
        claim="I8",
        definition="end_writing",
        old=".splitlines()):",
        new=".splitlines()[:0]):",
        tests=("test_an_attempt_that_has_begun_ends_with_its_command",),
    ),
    Mutant(
        name="appended-records-forgotten",
        claim="I8",
        definition="open_topics",
        old='    if wanted.way == "new-topic" or known is None:',
        new="    if wanted:",
        tests=("test_a_half_written_changelog_is_given_up_with_its_old_values_and_times",),
    ),
    Mutant(
        name="undone-without-times",
        claim="I8",
        definition="_old_store",
        old="None if has_timestamp else",
        new="None if spec else",
        tests=("test_a_half_written_changelog_is_given_up_with_its_old_values_and_times",),
    ),
    Mutant(
        name="replay-behind-appended-records",
        claim="I5",
        definition="_revision",
        old="if half_written(standing.changelogs) is not None:",
        new="if False:",
        tests=("test_a_half_written_changelog_is_given_up_with_its_old_values_and_times",),
    ),
    Mutant(
        name="own-transaction-taken-for-the-applications",
        claim="I5",
        definition="open_transactions",
        old="min(ends.end, ours.get(each.store_partition, ends.end))",
        new="ends.end",
        tests=("test_what_a_killed_run_left_open_is_not_taken_for_the_applications",),
    ),
)
