"""The mutants of the plan, and of the verification that stands apart from it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

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
        definition="cut",
        old="    edges = [None, *bounds, None]\n",
        new="    edges = [*bounds, None] if len(bounds) > 1 else [None, *bounds, None]\n",
        tests=("test_a_lost_chunk_file_is_made_again",),
    ),
    Mutant(
        name="planned-gap-stored",
        claim="I3",
        definition="store_plan",
        old='        raise ValueError(f"the plan does not cover the store: {flaw}")',
        new="        pass",
        tests=("test_a_plan_that_does_not_cover_the_store_is_neither_stored_nor_loaded[a gap]",),
    ),
    Mutant(
        name="planned-gap-loaded",
        claim="I3",
        definition="load_plan",
        old="        raise _damaged(file, flaw)",
        new="        pass",
        tests=("test_a_flipped_bit_in_a_bound_is_refused_by_the_next_run[of the release before]",),
    ),
    Mutant(
        name="seal-ignored",
        claim="I3",
        definition="load_plan",
        old="    if not is_whole:\n",
        new="    if not content:\n",
        tests=("test_every_flipped_bit_of_a_stored_plan_is_refused_or_harmless",),
    ),
    Mutant(
        name="verified-as-planned",
        claim="I3",
        definition="compare_tasks",
        old="            for keys in ranges:\n",
        new=_AS_PLANNED,
        tests=("test_a_planned_gap_is_found[end-second-full]",),
    ),
    Mutant(
        name="verified-in-part",
        claim="I3",
        definition="FullVerification.end",
        old="        self._check_whole()\n",
        new="",
        tests=("test_a_verification_that_did_not_read_everything_counts_for_nothing",),
    ),
    Mutant(
        name="verified-by-the-planned-families",
        claim="I3",
        definition="compare",
        old="    databases = expected_databases(context, plan)\n",
        new="    databases = plan.databases\n",
        tests=("test_an_owners_family_that_the_plan_lacks_is_missed[full]",),
    ),
    Mutant(
        name="left-over-families-ignored",
        claim="I3",
        definition="unread_records",
        old="            if unread:\n",
        new="            if not directory:\n",
        tests=("test_records_that_planning_overlooks_are_found_in_the_snapshot[full]",),
    ),
    Mutant(
        name="overlooked-times-ignored",
        claim="I3",
        definition="FullVerification.end",
        old="        yield from map(as_verified, self._unused())\n",
        new="",
        tests=("test_times_that_planning_overlooks_are_found[full]",),
    ),
    Mutant(
        name="receipts-not-counted",
        claim="I3",
        definition="DigestVerification.end",
        old="            if expected != actual:\n",
        new="            if not expected:\n",
        tests=(
            "test_digests_are_held_against_the_number_of_old_records",
            "test_times_that_planning_overlooks_are_found[digest]",
        ),
    ),
    Mutant(
        name="several-versions-counted",
        claim="I3",
        definition="proven_records",
        old="is_plain and newest ==",
        new="is_plain or newest ==",
        tests=("test_what_metadata_does_not_prove_is_scanned[_rewritten]",),
    ),
)
