"""The mutants of databases that stay open from one task to the next."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

OPENINGS: tuple[Mutant, ...] = (
    Mutant(
        name="failed-database-left-open",
        claim="I1",
        definition="_ingest",
        old="    finally:\n        del column\n",
        new="",
        tests=("test_a_failed_creation_leaves_no_open_database_behind",),
    ),
    Mutant(
        name="any-directory-of-that-path-is-the-same",
        claim="I4",
        definition="_Openings.take",
        old="            if kept[0].is_current():\n",
        new="            if kept[0].directory.exists():\n",
        tests=("test_a_directory_that_changed_is_opened_again",),
    ),
    Mutant(
        name="restored-times-make-it-the-same",
        claim="I4",
        definition="_stamp",
        old="(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)",
        new="0, 0, status.st_size, status.st_mtime_ns",
        tests=("test_a_directory_that_changed_is_opened_again[_restore_another]",),
    ),
    Mutant(
        name="new-names-go-unnoticed",
        claim="I4",
        definition="_open_view",
        old="            stamps = {directory: _stamp(directory)}",
        new="            stamps: dict[Path, _Stamp] = {}",
        tests=("test_what_is_gone_is_missed",),
    ),
    Mutant(
        name="a-fork-shares-what-is-open",
        claim="I4",
        definition="_Openings.forget",
        old="        self._reset()\n",
        new="",
        tests=("test_a_forked_process_opens_its_own",),
    ),
    Mutant(
        name="scans-fill-the-cache",
        claim="I4",
        definition="streaming",
        old="    options.fill_cache(False)",
        new="    options.fill_cache(True)",
        tests=("test_damage_after_a_scan_is_found_by_the_next_one",),
    ),
)
