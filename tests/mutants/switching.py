"""The mutants of a switch: cut-over, rollback, finalize, abandon."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_UNVERIFIED = """\
    if refuted_folders(rows, home) & set(folders.values()):
        raise RefusedError(f"the new stores of {spec.name!r} were found wrong", hint=f"{_RUN} makes them again")
    if spec.run.verify != "off" and verified_folders(rows, home) != set(folders.values()):
        raise RefusedError(f"the new stores of {spec.name!r} are not verified", hint=f"{_RUN} verifies them")
"""

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
        name="unverified-cut-over",
        claim="switch",
        file="migrate/switching/intent.py",
        old=_UNVERIFIED,
        new="",
        tests=(
            "tests/switching/test_claims.py::test_what_did_not_stand_the_verification_is_not_cut_over",
            "tests/switching/test_claims.py::test_what_is_not_verified_is_not_cut_over",
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
        file="migrate/home.py",
        old="    _remove_made(folder, _never if name in (NEW, OLD) else _is_made)\n",
        new="    _remove_made(folder, _never if name in (NEW, OLD) else _is_made)\n"
        "    _remove_made(home / LEDGER, _is_of_a_table)\n",
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
        old='    if any(path.is_file() for path in (spec.home / OLD).rglob("*")):\n',
        new="    if spec.source_path == spec.home:\n",
        tests=(
            "tests/switching/test_finalize_and_abandon.py::"
            "test_old_stores_are_not_removed_even_where_the_ledger_is_gone",
        ),
    ),
    Mutant(
        name="folder-of-somebody-else-taken",
        claim="I11",
        file="migrate/preflight.py",
        old="    check_ours(spec.home)\n",
        new="",
        tests=(
            "tests/bad_input/test_own_folder.py::test_a_folder_of_somebody_else_is_refused_by_every_verb[abandon-git]",
        ),
    ),
    Mutant(
        name="folder-of-somebody-else-switched",
        claim="I11",
        file="migrate/switching/migration.py",
        old="    check_ours(spec.home)\n",
        new="",
        tests=("tests/bad_input/test_own_folder.py::test_a_link_to_another_migration_is_refused",),
    ),
    Mutant(
        name="no-marker",
        claim="I11",
        file="migrate/marker.py",
        old="    write_durably(home / MARKER, json.dumps(marker).encode())\n",
        new="    assert marker\n",
        tests=("tests/bad_input/test_own_folder.py::test_a_work_dir_may_be_a_link_and_an_empty_folder_is_taken",),
    ),
    Mutant(
        name="files-removed-by-any-name",
        claim="I11",
        file="migrate/home.py",
        old="        for name in filter(is_made, names):\n",
        new="        for name in names:\n",
        tests=(
            "tests/bad_input/test_own_folder.py::test_what_is_not_ours_in_our_folder_stays_and_is_named",
            "tests/switching/test_seen.py::test_what_is_not_ours_is_left_by_finalize_and_named",
        ),
    ),
    Mutant(
        name="finalized-unseen",
        claim="I11",
        file="migrate/switching/finalize.py",
        old="    if unseen and len(unseen) == len(seen):\n",
        new="    if not seen:\n",
        tests=("tests/switching/test_seen.py::test_nothing_is_freed_where_no_new_store_is_seen",),
    ),
    Mutant(
        name="moved-away-unasked",
        claim="I11",
        file="migrate/switching/finalize.py",
        old="    if unseen and not moved_away:\n",
        new="    if not seen:\n",
        tests=("tests/switching/test_seen.py::test_stores_of_tasks_that_moved_away_are_named_and_need_a_word",),
    ),
    Mutant(
        name="only-copy-abandoned",
        claim="I11",
        file="migrate/switching/abandon.py",
        old="    _check_no_old_store(spec, rows, journal)\n    if",
        new="    if",
        tests=("tests/switching/test_seen.py::test_the_only_copy_of_an_old_store_is_never_abandoned",),
    ),
    Mutant(
        name="only-copy-collected",
        claim="I11",
        file="migrate/retired.py",
        old="        return taken.isdisjoint(rocksdb_identities(self.application / partition.path))\n",
        new="        return False\n",
        tests=("tests/switching/test_seen.py::test_the_only_copy_of_an_old_store_is_never_abandoned",),
    ),
)
