"""The mutants of the plan, and of the verification that stands apart from it."""

from __future__ import annotations

from tests.mutants.catching_up import CATCHING_UP
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
        name="bytes-of-compared-ranges-not-looked-at",
        claim="I4",
        definition="_digests",
        old=", subject.tables.get(partition.id)))",
        new="))",
        tests=("test_ranges_of_a_table_that_was_damaged_since_are_compared_again",),
    ),
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
        tests=("test_a_plan_that_does_not_cover_the_store_is_neither_stored_nor_loaded[a gap]",),
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
        old="        for keys in ranges_between(points, done.get(place, ())):\n",
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
        name="families-of-one-directory-compared",
        claim="I7",
        definition="_tasks",
        old="        if database.is_kept:\n",
        new="        if database is subject.databases[0]:\n",
        tests=("test_a_family_too_many_in_the_last_store_is_found[full]",),
    ),
    Mutant(
        name="unchanged-by-name",
        claim="I5",
        definition="present_identity",
        old="is_same = is_known and files_of(directory) == files_of(taken[database])",
        new="is_same = is_known",
        tests=("test_a_source_that_was_written_to_is_not_published",),
    ),
    Mutant(
        name="assembled-and-not-said",
        claim="I1",
        definition="assemble",
        old="            waiting.commit()\n",
        new="",
        tests=("test_what_an_interrupted_run_has_assembled_is_kept",),
    ),
    Mutant(
        name="another-assembly-counted",
        claim="I3",
        definition="EqualRanges.committed",
        old="            if comparison.subject == self._subjects.get(str(row.store_partition)):\n",
        new="            if comparison.subject:\n",
        tests=(
            "test_ranges_of_other_files_do_not_count[_rewrite_a_value-True]",
            "test_another_conversion_compares_from_the_start",
        ),
    ),
    Mutant(
        name="gap-between-committed-ranges",
        claim="I3",
        definition="ranges_between",
        old="    for gap in subtract(KeyRange(), done):\n",
        new="    for gap in subtract(KeyRange(), done)[-1:]:\n",
        tests=("test_a_gap_among_the_committed_ranges_is_compared",),
    ),
    Mutant(
        name="committed-gap-verified",
        claim="I3",
        definition="FullVerification._check_whole",
        old="                if (flaw :=",
        new="                if not self.before and (flaw :=",
        tests=("test_a_resume_that_leaves_a_gap_counts_for_nothing",),
    ),
    Mutant(
        name="differing-range-committed",
        claim="I3",
        definition="EqualRanges.add",
        old="        if found.mismatches or not isinstance(task, CompareTask):\n",
        new="        if not isinstance(task, CompareTask):\n",
        tests=("test_a_range_with_a_difference_is_compared_again",),
    ),
    Mutant(
        name="ended-verification-resumed",
        claim="I3",
        definition="Standing.compared_so_far",
        old="not in (Step.RUN, Step.CHUNK):\n",
        new="not in (Step.RUN, Step.CHUNK, Step.VERIFIED):\n",
        tests=("test_a_verification_that_has_ended_is_not_resumed",),
    ),
    Mutant(
        name="searched-by-the-first-family",
        claim="I3",
        definition="FullVerification._between",
        old="if len(self._compared[place]) > 1]\n",
        new="if len(self._compared[next(_places(plan))]) > 1]\n",
        tests=("test_families_that_were_cut_differently_are_searched_for_extra_keys",),
    ),
    Mutant(
        name="verified-by-the-planned-families",
        claim="I3",
        definition="compare",
        old="    databases = expected_databases(context)\n",
        new="    databases = context.plan.databases\n",
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
        definition="Database.proven_records",
        old="is_plain and newest ==",
        new="is_plain or newest ==",
        tests=("test_what_metadata_does_not_prove_is_scanned[_rewritten]",),
    ),
    Mutant(
        name="changelog-recorded-before-it-is-confirmed",
        claim="I1",
        definition="write_records",
        old="        last_offset = writer.finish()\n",
        new="        last_offset = records\n",
        tests=("test_a_restore_gives_the_new_store",),
    ),
    Mutant(
        name="changelog-part-skipped",
        claim="I3",
        definition="ChangelogStanding.pending",
        old="if done.get(part) != content]",
        new="if done.get(part) != content][1:]",
        tests=("test_a_restore_gives_the_new_store",),
    ),
    *CATCHING_UP,
)
