"""The mutants of a switch: cut-over, rollback, finalize, abandon."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SWITCHING: tuple[Mutant, ...] = (
    Mutant(
        name="two-renames-for-an-exchange",
        claim="switch",
        file="migrate/switching/places.py",
        old="                exchange(self.slot, self.live)\n",
        new="                raise ExchangeUnsupportedError\n",
        tests=("tests/switching/test_claims.py::test_between_two_renames_no_store_partition_is_without_a_store",),
    ),
    Mutant(
        name="exchange-not-synced",
        claim="switch",
        file="migrate/switching/places.py",
        old="        fsync_directory(folder)\n",
        new="        pass\n",
        tests=("tests/switching/test_claims.py::test_every_move_is_synced_before_it_is_said_to_be_done",),
    ),
    Mutant(
        name="position-not-lowered-first",
        claim="switch",
        file="migrate/switching/migration.py",
        old="            return first.lowest(second)\n",
        new="            return first\n",
        tests=(
            "tests/switching/test_short_downtime.py::test_the_position_is_never_ahead_of_the_store_that_stands_there",
        ),
    ),
    Mutant(
        name="position-raised-first",
        claim="switch",
        file="migrate/switching/migration.py",
        old="            return first.lowest(second)\n",
        new="            return second\n",
        tests=("tests/switching/test_claims.py::test_a_rollback_lowers_positions_before_it_exchanges",),
    ),
    Mutant(
        name="cut-over-without-intent",
        claim="switch",
        file="migrate/switching/cutover.py",
        old="migration.record(Step.CUTTING_OVER, journal)",
        new="pass",
        tests=("tests/switching/test_claims.py::test_a_switch_that_was_killed_half_way_can_be_taken_back",),
    ),
    Mutant(
        name="locks-not-held-meanwhile",
        claim="I6",
        file="migrate/switching/migration.py",
        old="        return holding_locks(dict.fromkeys([*locks, *ours]))\n",
        new="        return holding_locks([])\n",
        tests=("tests/switching/test_claims.py::test_nobody_can_open_the_stores_meanwhile[cutover.exchanged]",),
    ),
    Mutant(
        name="cut-over-held-back-by-nothing",
        claim="switch",
        file="migrate/switching/intent.py",
        old='    hold_back(concerns, "nothing was cut over")\n',
        new="",
        tests=(
            "tests/switching/test_claims.py::test_what_did_not_stand_the_verification_is_not_cut_over",
            "tests/switching/test_claims.py::test_what_is_not_verified_is_not_cut_over",
            "tests/migrate/test_going_live.py::test_rejects_are_cut_over_only_once_they_are_accepted",
        ),
    ),
    Mutant(
        name="published-held-back-by-nothing",
        claim="switch",
        file="migrate/steps/publish.py",
        old='        hold_back(concerns, "nothing was published, and the new stores are kept")\n',
        new="",
        tests=(
            "tests/migrate/test_found_wrong.py::"
            "test_a_mismatch_holds_back_whatever_verify_says_later[full-off-published]",
            "tests/migrate/test_going_live.py::test_a_run_that_is_held_back_keeps_its_stores",
            "tests/migrate/test_going_live.py::test_rejects_are_published_only_once_they_are_accepted",
        ),
    ),
    Mutant(
        name="mismatch-settled-by-a-weaker-verification",
        claim="switch",
        file="migrate/gates.py",
        old="row.step is Step.VERIFIED and _strength(row) >= _strength(mismatch) and",
        new="row.step is Step.VERIFIED and",
        tests=("tests/migrate/test_found_wrong.py::test_a_weaker_verify_settles_nothing",),
    ),
    Mutant(
        name="mismatch-settled-without-assembling",
        claim="switch",
        file="migrate/gates.py",
        old=" and compared(row) <= assembled_since:\n",
        new=":\n",
        tests=("tests/migrate/test_found_wrong.py::test_stores_that_were_not_assembled_again_stay_refuted",),
    ),
    Mutant(
        name="verify-keeps-a-mismatch-to-itself",
        claim="switch",
        file="migrate/checking.py",
        old="        record(context, Ledger(context.home, self.plan.migration_id, context.run_id), found)\n",
        new="",
        tests=("tests/migrate/test_found_wrong.py::test_what_verify_found_goes_to_the_ledger_and_holds_back",),
    ),
    Mutant(
        name="verify-fences-a-run-off",
        claim="I5",
        file="migrate/checking.py",
        old="    with one_run_at_a_time(spec.home):\n",
        new="    if spec.home.is_dir():\n",
        tests=("tests/migrate/test_found_wrong.py::test_a_run_at_work_is_not_fenced_off_by_verify",),
    ),
    Mutant(
        name="mismatch-finalized",
        claim="I8",
        file="migrate/switching/finalize.py",
        old='            migration.check_not_refuted("nothing is given up without --accept-mismatch")\n',
        new="            pass\n",
        tests=(
            "tests/migrate/test_found_wrong.py::"
            "test_a_mismatch_in_use_is_told_and_keeps_what_the_way_back_needs[in place]",
        ),
    ),
    Mutant(
        name="changed-source-cut-over",
        claim="I6",
        file="migrate/switching/intent.py",
        old="state.content != then.content and not isinstance(source, SnapshotSource):\n",
        new="state.content != then.content and isinstance(source, SnapshotSource):\n",
        tests=("tests/switching/test_claims.py::test_an_old_store_that_was_written_to_since_is_not_replaced",),
    ),
    Mutant(
        name="new-writes-lost-unasked",
        claim="I6",
        file="migrate/switching/rollback.py",
        old="    written = [places for places in every if places.is_switched and _is_written(places)]\n",
        new="    written: list[Places] = []\n",
        tests=("tests/switching/test_rollback.py::test_writes_to_a_new_store_are_given_up_only_when_told_to",),
    ),
    Mutant(
        name="finalized-before-the-cut-over",
        claim="switch",
        file="migrate/switching/finalize.py",
        old="        if step not in (Step.CUT_OVER, Step.FINALIZING) and",
        new="        if step is Step.FINALIZED and",
        tests=("tests/switching/test_finalize_and_abandon.py::test_finalizing_before_the_cutover_is_refused",),
    ),
    Mutant(
        name="ledger-finalized-away",
        claim="I10",
        file="migrate/switching/finalize.py",
        old='FREED = ("old", "new", "chunks", "snapshot")',
        new='FREED = ("old", "new", "chunks", "snapshot", "ledger")',
        tests=("tests/switching/test_finalize_and_abandon.py::test_a_finalized_migration_says_so_for_good",),
    ),
    Mutant(
        name="old-store-in-use-finalized",
        claim="I8",
        file="migrate/switching/finalize.py",
        old='        if places.at(places.live) == "old":\n',
        new='        if places.at(places.live) == "other":\n',
        tests=("tests/switching/test_guards.py::test_old_stores_are_kept_while_one_is_in_use_again",),
    ),
    Mutant(
        name="old-stores-abandoned",
        claim="I8",
        file="migrate/switching/abandon.py",
        old="    if _holds_old_stores(spec):\n",
        new="    if spec.source_path == home:\n",
        tests=(
            "tests/switching/test_finalize_and_abandon.py::"
            "test_old_stores_are_not_removed_even_where_the_ledger_is_gone",
        ),
    ),
)
