"""The mutants of queries: of views, requests, handles, and the service's cursors and token."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CHECK = "            part.partition.check()\n"

_OLD_FIRST = """\
    old_database = open_held(old_directory)
    database = old_database if is_shared else open_held(directory)
"""
_NEW_FIRST = """\
    database = open_held(directory)
    old_database = database if is_shared else open_held(old_directory)
"""

QUERIES: tuple[Mutant, ...] = (
    Mutant(
        name="get-without-a-check-after-it",
        claim="I13",
        definition="KeyValueView.get",
        old="                    check()\n                    return",
        new="                    return",
        tests=("test_an_answer_read_while_the_store_is_replaced_is_none[key-value]",),
    ),
    Mutant(
        name="absent-without-a-check-after-it",
        claim="I13",
        definition="KeyValueView.get",
        old="            check()\n        return None\n",
        new="        return None\n",
        tests=("test_an_answer_read_while_the_store_is_replaced_is_none[absent]",),
    ),
    Mutant(
        name="window-without-a-check-after-it",
        claim="I13",
        definition="value_at",
        old="        part.partition.check()\n",
        new="",
        tests=("test_an_answer_read_while_the_store_is_replaced_is_none[window]",),
    ),
    Mutant(
        name="version-without-a-check-after-it",
        claim="I13",
        definition="VersionedView.get",
        old=_CHECK,
        new="",
        tests=("test_an_answer_read_while_the_store_is_replaced_is_none[former]",),
    ),
    Mutant(
        name="scan-without-checks",
        claim="I13",
        definition="_checked",
        old=_CHECK,
        new="",
        tests=("test_an_iterator_gives_nothing_more_once_the_store_is_replaced[1]",),
    ),
    Mutant(
        name="any-store-in-its-place-will-do",
        claim="I13",
        definition="PinnedPartition.check",
        old="        if not is_there:\n            raise self._migrated()\n",
        new="",
        tests=("test_a_replaced_store_is_noticed_at_the_next_use_and_resolved_again",),
    ),
    Mutant(
        name="new-store-opened-before-the-old-one",
        claim="I13",
        definition="_open_half_converged",
        old=_OLD_FIRST,
        new=_NEW_FIRST,
        tests=("test_of_two_databases_the_old_one_is_opened_first",),
    ),
    Mutant(
        name="old-record-hides-the-new-one",
        claim="I13",
        definition="MergedEntries.get",
        old="        value = self.new.get(key)\n",
        new="        value = None\n",
        tests=("test_records_from_before_an_upgrade_have_no_timestamp_yet",),
    ),
    Mutant(
        name="expired-windows-kept",
        claim="I13",
        definition="_SegmentedView._found",
        old="max(asked.time_from, oldest_kept(opened, self.definition))",
        new="asked.time_from",
        tests=("test_what_is_as_old_as_the_retention_has_expired",),
    ),
    Mutant(
        name="expired-session-kept",
        claim="I13",
        definition="value_at",
        old="0 if time < oldest_kept(opened, definition) else ",
        new="",
        tests=("test_session::test_a_session_expires_by_its_end",),
    ),
    Mutant(
        name="versions-of-dropped-segments",
        claim="I13",
        definition="VersionedView._versions",
        old="min(end, self._end_of(segment))",
        new="end",
        tests=("test_former_versions_go_with_their_segment",),
    ),
    Mutant(
        name="expired-version-known",
        claim="I13",
        definition="VersionedView._get",
        old="if found is None or self._has_expired(read, as_of) else found",
        new="if found is None else found",
        tests=("test_no_former_version_is_known_of_times_beyond_the_retention",),
    ),
    Mutant(
        name="segments-the-other-way-round",
        claim="I13",
        definition="found_in",
        old="reversed(segments) if backward else segments",
        new="segments",
        tests=("test_all_windows_of_a_time_come_by_segment_and_then_by_key",),
    ),
    Mutant(
        name="upper-bound-left-out",
        claim="I13",
        definition="_range",
        old='None if last is None else last + b"\\x00"',
        new="last",
        tests=("test_a_range_has_both_its_ends",),
    ),
    Mutant(
        name="a-session-that-touches-is-left-out",
        claim="I13",
        definition="Asked.includes",
        old="end >= self.time_from and",
        new="end > self.time_from and",
        tests=("test_both_bounds_touch_a_session",),
    ),
    Mutant(
        name="behind-the-bound-and-answers",
        claim="I13",
        definition="PositionBound.permits",
        old="position.offsets.get(place, -1) >= bound",
        new="position.offsets.get(place, bound) >= bound",
        tests=("test_a_bound_is_met_in_every_topic_of_the_partition",),
    ),
    Mutant(
        name="cursor-of-another-store",
        claim="I13",
        definition="PageCursors._sign",
        old='asked.encode() + b"\\x00" + payload',
        new="payload",
        tests=("test_a_cursor_of_another_store_or_process_is_refused",),
    ),
    Mutant(
        name="cursor-of-a-replaced-store",
        claim="I13",
        definition="PageCursors.unseal",
        old="        if was_made_of != made_of:\n",
        new="        if was_made_of > made_of:\n",
        tests=("test_a_cursor_of_a_replaced_store_is_a_conflict",),
    ),
    Mutant(
        name="whatever-partitions-it-has-active",
        claim="I13",
        definition="ServeContext.placed",
        old="expected != listed(own)",
        new="not expected",
        tests=("test_a_list_of_hosts_that_know_different_hosts_is_not_whole",),
    ),
    Mutant(
        name="cursor-of-other-hosts",
        claim="I13",
        definition="_Page._made_of",
        old=" {self.placed.text}",
        new="",
        tests=("test_pages_do_not_go_on_once_partitions_went_to_another_host",),
    ),
    Mutant(
        name="any-token-will-do",
        claim="I13",
        definition="Service._check",
        old="not hmac.compare_digest(shown, self._token)",
        new="not shown",
        tests=("test_without_the_token_nothing_is_told",),
    ),
    Mutant(
        name="any-target-is-forwarded",
        claim="I13",
        definition="_check_head",
        old='if not raw.startswith(b"/"):',
        new="if False:",
        tests=("test_no_request_leads_to_another_host",),
    ),
    Mutant(
        name="any-json-is-an-answer",
        claim="I13",
        definition="_document",
        old="shape.model_validate(found)",
        new="dict(found)",
        tests=("test_what_another_program_answers_is_a_503_that_says_so[no-value]",),
    ),
)
