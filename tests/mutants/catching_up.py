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
)
