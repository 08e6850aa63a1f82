"""The mutants of the dry run: what it claims of the old store and of our own code."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DRY_RUN: tuple[Mutant, ...] = (
    Mutant(
        name="paths-not-compared",
        claim="I2",
        definition="SampleConverter._compare_paths",
        old="if (found.keys, found.values) == (expected.keys, expected.values):",
        new="if True:",
        tests=("test_a_wrong_key_is_a_difference_too",),
    ),
    Mutant(
        name="estimate-called-exact",
        claim="I9",
        definition="_family_inventory",
        old="exact=at_most == 0,",
        new="exact=at_least == at_most,",
        tests=("test_a_snapshot_that_was_held_while_the_owner_wrote_never_makes_a_count_exact",),
    ),
    Mutant(
        name="sample-end-not-checked",
        claim="I4",
        definition="Database.sample",
        old="        if len(keys) < count and max_bytes > 0:\n",
        new="        if count < 0:\n",
        tests=("test_a_sample_that_meets_a_damaged_block_is_an_error_too",),
    ),
    Mutant(
        name="page-not-escaped",
        claim="I9",
        definition="_environment",
        old="autoescape=True,",
        new="autoescape=False,",
        tests=("test_dry_run_page::test_hostile_text_is_shown_and_nothing_of_it_is_markup",),
    ),
)
