"""The mutants of what a run finds: the old store as its owner left it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SOURCE: tuple[Mutant, ...] = (
    Mutant(
        name="pipes-taken-for-files",
        claim="I4",
        file="migrate/stores/regular_files.py",
        old="    if not stat.S_ISREG(mode):\n",
        new="    if stat.S_ISLNK(mode):\n",
        tests=(
            "tests/bad_input/test_strange_entries.py::"
            "test_what_bears_the_name_of_a_file_and_is_none_is_named[000099.sst-make_pipe-a named pipe-plan]",
        ),
    ),
    Mutant(
        name="prepared-taken-for-committed",
        claim="I4",
        file="migrate/stores/transactions.py",
        old="        if tag == _PREPARED:\n",
        new="        if tag == _COMMITTED:\n",
        tests=(
            "tests/migrate/stores/test_unreadable.py::"
            "test_what_was_prepared_and_not_committed_is_refused[prepared-prepared-flushed]",
        ),
    ),
)
