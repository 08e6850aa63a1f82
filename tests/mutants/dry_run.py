"""The mutants of the dry run: what it claims of the old store and of our own code."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DRY_RUN: tuple[Mutant, ...] = (
    Mutant(
        name="paths-not-compared",
        claim="I2",
        file="migrate/dry_run/trial.py",
        old="if (found.keys, found.values) == (expected.keys, expected.values):",
        new="if True:",
        tests=("tests/dry_run/test_two_paths.py::test_a_wrong_key_is_a_difference_too",),
    ),
    Mutant(
        name="estimate-called-exact",
        claim="I9",
        file="migrate/dry_run/finding.py",
        old="        exact=at_most == 0,\n",
        new="        exact=at_least == at_most,\n",
        tests=(
            "tests/dry_run/test_exactness.py::"
            "test_a_snapshot_that_was_held_while_the_owner_wrote_never_makes_a_count_exact",
        ),
    ),
    Mutant(
        name="sample-end-not-checked",
        claim="I4",
        file="migrate/stores/rocksdb.py",
        old="        if len(keys) < count and max_bytes > 0:\n",
        new="        if count < 0:\n",
        tests=(
            "tests/migrate/stores/test_rocksdb_reading.py::test_a_sample_that_meets_a_damaged_block_is_an_error_too",
        ),
    ),
    Mutant(
        name="page-not-escaped",
        claim="I9",
        file="migrate/page/rendering.py",
        old="        autoescape=True,\n",
        new="        autoescape=False,\n",
        tests=("tests/page/test_dry_run_page.py::test_hostile_text_is_shown_and_nothing_of_it_is_markup",),
    ),
)
