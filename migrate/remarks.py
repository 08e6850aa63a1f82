"""What an operator should know of a migration before it begins: defects of the owning system, and risks."""

from __future__ import annotations

from formats.kafka_streams.unsupported import perhaps_unsupported
from migrate.functions import ConversionRef
from migrate.new_layout import is_another_system
from migrate.publishing import left_out
from migrate.spec import Spec
from migrate.systems.discovery import store_names
from migrate.systems.task_tree import TREES
from migrate.target_version import families_to_carry


def spec_warnings(spec: Spec, ref: ConversionRef) -> list[str]:
    """Each a sentence; none of it keeps a run from starting."""
    source, target = spec.source_format, spec.target_format
    found = [
        f"{store!r} has a name like {kind.name}, which is not to be converted: {kind.reason}"
        for store in spec.source.store_names
        if source.system == "kafka-streams" and (kind := perhaps_unsupported(store)) is not None
    ]
    if target.kind == "versioned":
        found.append(
            "Kafka Streams 3.9 to 4.3 finds former values only in segments of time that were written to since its "
            "start: they are in the new store, and reads as of a former time find them once something is written there"
        )
        if source.kind != "versioned":
            found.append(
                "the changelog topic of a versioned store needs min.compaction.lag.ms of its history retention: set it "
                "before the application starts"
            )
    carried = families_to_carry(target, spec.target.version, target.metadata_families)
    if source.system == target.system and len(carried) < len(target.metadata_families):
        found.append(
            f"version {spec.target.version} opens a task only where none of its stores has the column family "
            f"{target.metadata_families[0]!r}: migrate every store that the application has opened with a newer one"
        )
    if source.is_segmented and spec.source.store_names and spec.source.retention_ms is None:
        found.append(
            "every segment keeps its records: the application must open the new store with the retention that the old "
            "one has; give retention_ms in [source] and [target] to change it"
        )
    found += _directory_warnings(spec)
    if ref.key is not None or ref.value is not None:
        from migrate.payload_checks import payload_warnings  # brings the Avro parser

        found += payload_warnings(ref.key, ref.value)
    return found


def _directory_warnings(spec: Spec) -> list[str]:
    """What the new state directory lacks of the old one."""
    if is_another_system(spec):
        left = _left_behind(spec)
        sentence = (
            f"stores that the spec does not name stay behind: {', '.join(left)}; the application finds the new "
            "directory without them, and without their changelog positions"
        )
        return [sentence] if left else []
    if spec.target_path is None or not spec.source_path.is_dir():
        return []
    return [
        f"{path} is {kind}: it is no state, and the new state directory goes without it"
        for path, kind in left_out(spec.source_path)
    ]


def _left_behind(spec: Spec) -> list[str]:
    """Another system's directory is made of the stores that are converted, and of nothing else."""
    tree = next(tree for tree in TREES if tree.system == spec.source_format.system)
    tasks = list(tree.task_directories(spec.source_path)) if spec.source_path.is_dir() else []
    return sorted({name for names in store_names(tree, tasks).values() for name in names} - {*spec.source.store_names})
