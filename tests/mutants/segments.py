"""Mutants of what a windowed store's segments, an unfinished upgrade and another owner's version ask for."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_STORES = "tests/migrate/test_segmented_stores.py"
_VERSIONS = "tests/migrate/test_owner_versions.py"
_MOVED = f"{_STORES}::test_records_move_to_where_another_retention_looks_for_them[10-None]"

SEGMENTS: tuple[Mutant, ...] = (
    Mutant(
        name="segment-holds-its-end",
        claim="I3",
        file="migrate/inputs.py",
        old="mask = ((times >= wanted.start_ms) & (times < wanted.end_ms)).tolist()",
        new="mask = ((times >= wanted.start_ms) & (times <= wanted.end_ms)).tolist()",
        tests=("tests/migrate/test_inputs.py::test_records_of_these_times_alone_are_read[0-1-even keys]",),
    ),
    Mutant(
        name="segment-lacks-its-start",
        claim="I3",
        file="migrate/inputs.py",
        old="mask = ((times >= wanted.start_ms)",
        new="mask = ((times > wanted.start_ms)",
        tests=("tests/migrate/test_inputs.py::test_records_of_these_times_alone_are_read[99-101-uneven keys]",),
    ),
    Mutant(
        name="misplaced-records-left-out",
        claim="I3",
        file="migrate/inputs.py",
        old="    if own is not None and (times.min()",
        new="    if own is None and (times.min()",
        tests=("tests/migrate/test_inputs.py::test_a_record_in_a_segment_of_another_time_is_never_left_out[200]",),
    ),
    Mutant(
        name="stores-that-emit-on-close-converted",
        claim="I10",
        file="migrate/segment_keys.py",
        old="    if all(emitting) and any(",
        new="    if not emitting and any(",
        tests=("tests/migrate/test_segment_keys.py::test_sessions_that_are_emitted_on_close_are_named",),
    ),
    Mutant(
        name="converted-twice-by-a-serde",
        claim="I10",
        file="migrate/trying.py",
        old="    if sample.decoded == sample.sampled:",
        new="    if sample.decoded > sample.sampled:",
        tests=("tests/migrate/test_looks_converted.py::test_numbers_that_may_have_been_swapped_before_are_refused",),
    ),
    Mutant(
        name="misplaced-newest-records-left-out",
        claim="I3",
        file="migrate/new_layout.py",
        old="if not own.start_ms <= max(times) < own.end_ms:",
        new="if not max(times) < own.end_ms:",
        tests=(f"{_STORES}::test_a_segment_of_old_records_that_is_named_as_the_newest_loses_none",),
    ),
    Mutant(
        name="expired-records-kept",
        claim="I6",
        file="migrate/segments.py",
        old="_floor(max(reached_ms - new.retention_ms, 0), new.segment_ms))",
        new="0)",
        tests=(_MOVED,),
    ),
    Mutant(
        name="live-segment-expires",
        claim="I6",
        file="migrate/segments.py",
        old="_floor(max(reached_ms - new.retention_ms, 0), new.segment_ms))",
        new="_floor(max(reached_ms - new.retention_ms, 0) + new.segment_ms, new.segment_ms))",
        tests=(_MOVED,),
    ),
    Mutant(
        name="segments-under-one-name",
        claim="I3",
        file="migrate/systems/base.py",
        old="            if start_ms in found:\n",
        new="            if -start_ms in found:\n",
        tests=(f"{_STORES}::test_two_names_of_one_segment_are_refused[moved]",),
    ),
    Mutant(
        name="outdated-record-wins",
        claim="I6",
        file="migrate/inputs.py",
        old="for family in (lane.source, *lane.older) if",
        new="for family in (*lane.older, lane.source) if",
        tests=(
            "tests/migrate/test_unfinished_upgrades.py::"
            "test_plain_records_that_nobody_wrote_since_have_no_time[digest]",
        ),
    ),
    Mutant(
        name="key-comes-twice",
        claim="I6",
        file="migrate/merged_scan.py",
        old="        if len(set(keys)) < len(keys):",
        new="        if len(set(keys)) > len(keys):",
        tests=("tests/migrate/test_inputs.py::test_of_one_key_in_several_inputs_the_first_one_counts",),
    ),
    Mutant(
        name="merge-goes-too-far",
        claim="I3",
        file="migrate/merged_scan.py",
        old="border = min(batch.keys[-1] for batch, _ in self._heads)",
        new="border = max(batch.keys[-1] for batch, _ in self._heads)",
        tests=("tests/migrate/test_merged_scan.py::test_it_is_a_dictionary_of_all_where_the_first_wins",),
    ),
    Mutant(
        name="oldest-offset-carried",
        claim="I7",
        file="migrate/assembling.py",
        old="carried[family] = entries | carried[family]",
        new="carried[family] = carried[family] | entries",
        tests=(f"{_VERSIONS}::test_every_new_segment_knows_what_the_newest_old_ones_knew[20-published]",),
    ),
    Mutant(
        name="oldest-offset-told",
        claim="I7",
        file="migrate/systems/kafka_streams.py",
        old="lines.setdefault((topic, number), (topic, number, offset))",
        new="lines[topic, number] = (topic, number, offset)",
        tests=(f"{_VERSIONS}::test_of_segments_the_newest_one_that_knows_the_offset_tells_it[owns0-7-published]",),
    ),
    Mutant(
        name="newer-family-stays",
        claim="I7",
        file="migrate/target_version.py",
        old="in_order(version) >= in_order(since[family])",
        new="in_order(version) >= (4,)",
        tests=(f"{_VERSIONS}::test_an_older_version_finds_files_in_place_of_the_family[4.2-published]",),
    ),
    Mutant(
        name="segment-that-came-is-lost",
        claim="I6",
        file="migrate/switching/intent.py",
        old='        if moved := ", ".join(sorted({*partition.databases} ^ {*planned[partition.id].databases})):\n',
        new='        if moved := "":\n',
        tests=("tests/switching/test_segments.py::test_a_segment_that_came_since_is_not_lost_by_a_cutover",),
    ),
    Mutant(
        name="new-segment-rolled-back",
        claim="I6",
        file="migrate/switching/migration.py",
        old="return partition.is_all_of(root) and store_state(",
        new="return store_state(",
        tests=("tests/switching/test_segments.py::test_a_segment_that_came_since_is_not_lost_by_a_rollback",),
    ),
)
