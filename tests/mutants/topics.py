"""The mutants of what is written to topics and read from them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TOPICS: tuple[Mutant, ...] = (
    Mutant(
        name="records-not-confirmed",
        claim="I1",
        definition="Writer.finish",
        old="            self._commit()\n",
        new="            pass\n",
        tests=("test_what_the_broker_refuses_is_not_taken_for_written",),
    ),
    Mutant(
        name="aborted-records-read",
        claim="I4",
        definition="read",
        old='"read_committed"',
        new='"read_uncommitted"',
        tests=("test_ranges_end_in_markers_and_in_aborted_records",),
    ),
    Mutant(
        name="unknown-group-taken-for-empty",
        claim="I6",
        definition="Cluster.group",
        old=" and self._is_listed(name)",
        new=" and not name",
        tests=("test_a_group_of_a_protocol_that_cannot_be_asked_for_is_not_taken_for_an_empty_one",),
    ),
    Mutant(
        name="members-not-found-out",
        claim="I12",
        definition="Cluster.has_members",
        old="                        return True\n",
        new="                        continue\n",
        tests=("test_members_that_cannot_be_asked_about_are_found_out_by_those_that_write",),
    ),
    Mutant(
        name="an-offset-is-changed-to-find-out-about-members",
        claim="I12",
        definition="Cluster._commit",
        old=", each.metadata, each.leader_epoch)",
        new=")",
        tests=("test_members_of_a_group_are_named_and_keep_its_offsets",),
    ),
    Mutant(
        name="any-topic-of-the-name-deleted",
        claim="I11",
        definition="Cluster.delete_topic",
        old="str(now.topic_id) != topic.id",
        new="not now.topic_id",
        tests=("test_only_the_very_topic_is_deleted",),
    ),
    Mutant(
        name="adopted-without-being-equal",
        claim="I4",
        definition="_compared",
        old=" if each.ok",
        new="",
        tests=("test_a_copy_that_is_behind_writes_nothing",),
    ),
    Mutant(
        name="records-of-nobody-taken-for-ours",
        claim="I11",
        definition="_claimed",
        old="_has_any(cluster, each)",
        new="not each.topic",
        tests=("test_records_without_a_claim_are_left_alone",),
    ),
    Mutant(
        name="topic-of-copies-deleted",
        claim="I11",
        definition="is_of_others",
        old="    if topic.name in fleet.shared(claims):\n        return True\n",
        new="",
        tests=("test_a_copy_goes_on_from_what_the_other_host_has_written",),
    ),
    Mutant(
        name="appended-behind-records-that-the-store-lacks",
        claim="I12",
        definition="AtBroker.position",
        old="if self.is_behind:",
        new="if found.ahead:",
        tests=("test_nothing_is_appended_to_a_changelog_that_has_records_which_the_store_lacks",),
    ),
    Mutant(
        name="tail-not-written-and-cut-over",
        claim="I12",
        definition="_unwritten",
        old="tails[-1].number > written.last_tail(each)",
        new="not tails",
        tests=("test_a_tail_that_the_new_changelog_lacks_is_said_and_keeps_the_stores_from_going_live",),
    ),
)
