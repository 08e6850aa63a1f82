"""The mutants of what a run finds: the old store as its owner left it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SOURCE: tuple[Mutant, ...] = (
    Mutant(
        name="pipes-taken-for-files",
        claim="I4",
        definition="check_regular",
        old="    if not stat.S_ISREG(mode):\n",
        new="    if stat.S_ISLNK(mode):\n",
        tests=("test_what_bears_the_name_of_a_file_and_is_none_is_named[000099.sst-make_pipe-a named pipe-plan]",),
    ),
    Mutant(
        name="prepared-taken-for-committed",
        claim="I4",
        definition="_follow",
        old="        if tag == _PREPARED:\n",
        new="        if tag == _COMMITTED:\n",
        tests=("test_what_was_prepared_and_not_committed_is_refused[prepared-prepared-flushed]",),
    ),
    Mutant(
        name="locks-above-not-probed",
        claim="I6",
        definition="locks_above",
        old="for folder in (guarded, *guarded.parents[:2])",
        new="for folder in (guarded,)",
        tests=("test_no_switch_is_made_while_the_application_holds_it[a named topology]",),
    ),
    Mutant(
        name="adapter-opened-beside-its-application",
        claim="I6",
        definition="open_stores",
        old="    _check_application_stopped(*places.directories)\n",
        new="",
        tests=("test_an_adapter_or_a_store_is_not_opened_for_writing_while_another_process_holds_it[0_0]",),
    ),
    Mutant(
        name="clean-stop-taken-for-the-end",
        claim="I6",
        definition="check_clean",
        old="    return check_ends(source, ends)\n",
        new='    return check_ends(source, ends) if ends else ""\n',
        tests=("test_a_clean_stop_is_not_taken_for_the_end_of_a_changelog_that_no_longer_fits",),
    ),
    Mutant(
        name="killed-since-and-cut-over",
        claim="I6",
        definition="check_not_opened_since",
        old="    if not is_snapshot_current(source, spec.home, mode=spec.run.snapshot):\n",
        new="    if not source.partitions:\n",
        tests=("test_an_application_that_was_killed_after_the_run_keeps_the_store_from_being_cut_over",),
    ),
    Mutant(
        name="any-snapshot-is-of-the-checked-state",
        claim="I5",
        definition="check_snapshot",
        old="(known if has_same_files else read_store(taken)).content",
        new="known.content",
        tests=("test_a_snapshot_that_was_refused_is_never_run",),
    ),
    Mutant(
        name="files-of-another-moment",
        claim="I5",
        definition="read_store",
        old="files if opened.is_current() else None",
        new="files",
        tests=("test_files_that_changed_since_the_opening_do_not_stand_for_its_content",),
    ),
    Mutant(
        name="owners-key-converted",
        claim="I7",
        definition="Conversion.convert_counting",
        old="        if key.startswith(self.source.metadata_keys):\n",
        new="        if key.startswith(()):\n",
        tests=("test_toy_system::test_a_new_directory_is_published",),
    ),
    Mutant(
        name="owners-key-through-a-program",
        claim="I7",
        definition="Converter.__call__",
        old="if self._compiled is not None and not self._holds_metadata(batch):",
        new="if self._compiled is not None:",
        tests=("test_toy_system::test_a_new_directory_is_published",),
    ),
    Mutant(
        name="task-left-behind-migrated-too",
        claim="I6",
        definition="check_tasks",
        old="if len(each) > 1",
        new="if not each",
        tests=("test_two_directories_of_one_changelog_partition_are_refused",),
    ),
    Mutant(
        name="left-out-tasks-migrated",
        claim="I6",
        definition="find_partitions",
        old="if each.task not in left_out",
        new="if each.task",
        tests=("test_what_is_left_out_is_not_touched_by_any_verb",),
    ),
)
