"""The mutants of the lazy adapter: one rule of its order each."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_HOOK = """\
        if self._on_migrated is not None and new_value is not None:
            self._on_migrated(key, value, new_value)
"""
_MOVE = "        self.pair.put_moved(key, old_key, new_value)\n"

_BELONG = """\
        if self.old is None or self.new_token is None:
            return False
        is_same = self.new is not None and (self.old.token, self.old.manifest) == (self.new.token, self.new.manifest)
        return is_same or self.old.previous_token == self.new_token
"""

LAZY: tuple[Mutant, ...] = (
    Mutant(
        name="dropped-by-the-adapter-unasked",
        claim="I14",
        definition="LazyConversion._reference",
        old="        if dropped and (not self._may_drop):\n",
        new="        if dropped < 0:\n",
        tests=("test_a_dropped_record_is_one_that_cannot_be_converted[one-database]",),
    ),
    Mutant(
        name="put-leaves-the-old-copy",
        claim="I6",
        definition="SharedDatabase.put",
        old="        batch.delete(old_key, self.old.handle)\n",
        new="",
        tests=("test_in_one_database_a_key_is_never_in_both_families",),
    ),
    Mutant(
        name="move-leaves-the-old-copy",
        claim="I6",
        definition="SharedDatabase.put_moved",
        old="        batch.delete(old_key, self.old.handle)\n",
        new="",
        tests=("test_in_one_database_a_key_is_never_in_both_families",),
    ),
    Mutant(
        name="delete-forgets-the-old-copy",
        claim="I6",
        definition="SeparateDatabases.delete",
        old="        gone = self._remove([] if old_key is None else [old_key])\n",
        new="        gone = 0\n",
        tests=("test_a_deleted_key_is_gone_from_both_stores",),
    ),
    Mutant(
        name="moves-go-without-a-log",
        claim="I6",
        definition="LiveDatabase.write_logged",
        old="        self._open.write(batch, self._logged)\n",
        new="        self._open.write(batch, self._plain)\n",
        tests=("test_without_a_log_what_is_moved_is_logged_all_the_same",),
    ),
    Mutant(
        name="old-record-wins-a-tie",
        claim="I6",
        definition="MergedScan.pull",
        old="dict(old_records) | dict(new_records)",
        new="dict(new_records) | dict(old_records)",
        tests=("test_the_new_record_wins_over_an_old_copy_that_was_left",),
    ),
    Mutant(
        name="sweep-overwrites-the-new-record",
        claim="I6",
        definition="Sweep._move",
        old="        todo = self._not_yet_new(converted)\n",
        new="        todo = converted\n",
        tests=("test_the_new_record_wins_over_an_old_copy_that_was_left",),
    ),
    Mutant(
        name="no-second-look-at-new",
        claim="I6",
        definition="DualReadStore.get",
        old="return self._family.get(key) if value is None else value",
        new="return value",
        tests=("test_a_reader_finds_a_record_that_moves_between_its_two_reads",),
    ),
    Mutant(
        name="moved-without-another-look",
        claim="I6",
        definition="DualAccess.move",
        old="        if current is not None:\n            return current\n",
        new="",
        tests=("test_a_read_that_would_move_a_key_reads_again_under_the_lock",),
    ),
    Mutant(
        name="cursor-not-voided",
        claim="I6",
        definition="AdapterCursor.is_in_force",
        old="self.manifest == database.manifest_found and",
        new="",
        tests=("test_the_cursor_is_in_force_for_the_next_opening_alone",),
    ),
    Mutant(
        name="cursor-trusted-by-manifest-alone",
        claim="I6",
        definition="Cursors.belong_together",
        old=_BELONG,
        new="        if self.old is None and self.new is None:\n            return False\n        return True\n",
        tests=("test_a_copy_from_between_two_sessions",),
    ),
    Mutant(
        name="foreign-writes-not-asked-about",
        claim="I6",
        definition="_foreign_writes",
        old="        if cursors.old.is_untouched(pair.old_database) or pair.old.first() is None:\n",
        new="        if True:\n",
        tests=(
            "test_what_the_old_code_wrote_to_the_store_that_the_adapter_left",
            "test_what_the_old_code_put_between_two_sessions_is_found",
        ),
    ),
    Mutant(
        name="new-directory-has-the-token-first",
        claim="I6",
        definition="write_cursor",
        old="    for directory in directories if previous_token is None else reversed(directories):\n",
        new="    for directory in directories:\n",
        tests=("test_a_store_is_accepted_after_a_kill_between_the_two_files",),
    ),
    Mutant(
        name="old-directory-has-the-token-of-an-answer-first",
        claim="I6",
        definition="write_cursor",
        old="    for directory in directories if previous_token is None else reversed(directories):\n",
        new="    for directory in reversed(directories):\n",
        tests=("test_a_copy_from_before_an_answer_that_was_killed",),
    ),
    Mutant(
        name="cursor-written-by-converge-alone",
        claim="I6",
        definition="DualAccess._find_first",
        old="        self.settle()\n",
        new="        self.pair.settle()\n",
        tests=("test_a_copy_from_within_a_session_that_was_killed",),
    ),
    Mutant(
        name="large-keys-remembered",
        claim="I6",
        definition="StorePair.note_absent",
        old="            if len(key) <= _MAX_KNOWN_KEY:\n                self._absent.add(key)\n",
        new="            self._absent.add(key)\n",
        tests=("test_large_keys_do_not_stay_in_memory",),
    ),
    Mutant(
        name="sequence-number-not-noted-before-an-opening",
        claim="I6",
        definition="open_stores",
        old="    note_sequence_number(places.old_directory)\n",
        new="",
        tests=("test_a_store_is_accepted_after_killed_openings",),
    ),
    Mutant(
        name="old-wins-nothing",
        claim="I6",
        definition="settle_foreign_writes",
        old="    if policy == OLD_WINS:\n        _let_old_win(pair, conversion)\n",
        new="",
        tests=("test_a_copy_from_before_the_adapter_that_the_old_code_wrote_to",),
    ),
    Mutant(
        name="empty-in-spite-of-rejects",
        claim="I6",
        definition="DualAccess.slice",
        old="self.sweep.has_ended and (not self.sweep.rejects)",
        new="self.sweep.has_ended",
        tests=("test_what_cannot_be_converted_stays_in_quarantine_over_restarts",),
    ),
    Mutant(
        name="low-water-above-a-reject",
        claim="I6",
        definition="Sweep.low_water",
        old="return min([*self.rejects, self.next_key]) if",
        new="return self.next_key if",
        tests=("test_what_cannot_be_converted_stays_in_quarantine_over_restarts",),
    ),
    Mutant(
        name="moved-before-the-hook",
        claim="I6",
        definition="DualAccess.move",
        old=_HOOK + _MOVE,
        new=_MOVE + _HOOK,
        tests=("test_a_key_stays_old_where_the_hook_raises",),
    ),
    Mutant(
        name="half-converged-opened",
        claim="I10",
        definition="open_store",
        old="    check_not_half_converged(directory)\n",
        new="",
        tests=("test_a_plain_opening_is_refused_with_a_hint",),
    ),
)
