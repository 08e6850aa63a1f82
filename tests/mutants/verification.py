"""The mutants of the plan, and of the verification that stands apart from it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_APART = "tests/migrate/test_independent_verification.py::"
_AS_PLANNED = """\
            for keys in [
                chunk.keys
                for chunk in subject.plan.chunks
                if (chunk.store_partition, chunk.database) == (database.store_partition, database.database)
            ]:
"""

VERIFICATION: tuple[Mutant, ...] = (
    Mutant(
        name="planned-gap",
        claim="I3",
        file="migrate/chunking.py",
        old="    edges = [None, *bounds, None]\n    ranges = tuple(",
        new="    edges = [*bounds, None] if len(bounds) > 1 else [None, *bounds, None]\n    ranges = tuple(",
        tests=("tests/migrate/test_resume.py::test_a_lost_chunk_file_is_made_again",),
    ),
    Mutant(
        name="planned-gap-stored",
        claim="I3",
        file="migrate/plan_model.py",
        old='        raise ValueError(f"the plan does not cover the store: {flaw}")',
        new="        pass",
        tests=(
            "tests/migrate/test_damaged_plans.py::"
            "test_a_plan_that_does_not_cover_the_store_is_neither_stored_nor_loaded[a gap]",
        ),
    ),
    Mutant(
        name="planned-gap-loaded",
        claim="I3",
        file="migrate/plan_model.py",
        old='        raise RefusedError(f"{file} is damaged: {flaw}", hint=_WAY_OUT)',
        new="        pass",
        tests=(
            "tests/migrate/test_damaged_plans.py::"
            "test_a_flipped_bit_in_a_bound_is_refused_by_the_next_run[of the release before]",
        ),
    ),
    Mutant(
        name="seal-ignored",
        claim="I3",
        file="migrate/plan_model.py",
        old="    if not is_whole:\n",
        new="    if not content:\n",
        tests=("tests/migrate/test_damaged_plans.py::test_every_flipped_bit_of_a_stored_plan_is_refused_or_harmless",),
    ),
    Mutant(
        name="verified-as-planned",
        claim="I3",
        file="migrate/verify_tasks.py",
        old="            for keys in _between(points):\n                yield CompareTask(",
        new=_AS_PLANNED + "                yield CompareTask(",
        tests=(_APART + "test_a_planned_gap_is_found[end-second-full]",),
    ),
    Mutant(
        name="verified-in-part",
        claim="I3",
        file="migrate/coverage.py",
        old="        self._check_whole()\n",
        new="",
        tests=(_APART + "test_a_verification_that_did_not_read_everything_counts_for_nothing",),
    ),
    Mutant(
        name="verified-by-the-planned-families",
        claim="I3",
        file="migrate/steps/verify.py",
        old="    databases = expected_databases(context, plan)\n",
        new="    databases = plan.databases\n",
        tests=(_APART + "test_an_owners_family_that_the_plan_lacks_is_missed[full]",),
    ),
    Mutant(
        name="left-over-families-ignored",
        claim="I3",
        file="migrate/family_check.py",
        old="            if left:\n",
        new="            if not directory:\n",
        tests=(_APART + "test_records_that_planning_overlooks_are_found_in_the_snapshot[full]",),
    ),
    Mutant(
        name="overlooked-times-ignored",
        claim="I3",
        file="migrate/coverage.py",
        old="        yield from map(as_verified, self._unused())\n",
        new="",
        tests=(_APART + "test_times_that_planning_overlooks_are_found[full]",),
    ),
    Mutant(
        name="receipts-not-counted",
        claim="I3",
        file="migrate/source_count.py",
        old="            if expected != actual:\n                yield as_verified(",
        new="            if not expected:\n                yield as_verified(",
        tests=(
            _APART + "test_digests_are_held_against_the_number_of_old_records",
            _APART + "test_times_that_planning_overlooks_are_found[digest]",
        ),
    ),
    Mutant(
        name="several-versions-counted",
        claim="I3",
        file="migrate/stores/record_count.py",
        old="is_plain and newest ==",
        new="is_plain or newest ==",
        tests=("tests/migrate/stores/test_record_count.py::test_what_metadata_does_not_prove_is_scanned[_rewritten]",),
    ),
)
