"""Mutants of a catch-up: tails that are not laid over the new stores as they are, or not compared."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CATCHING_UP = (
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
)
